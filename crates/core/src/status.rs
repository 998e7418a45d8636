//! How a server says no: the `Status` object, its reasons, and what a caller may conclude from them.
//!
//! Rules RQ-12 and RQ-13.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::null::null_as_default;

/// The answer of a server that refused a request, or that confirmed one without an object to show.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Status {
    /// `Success` or `Failure`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    /// What happened, for people.
    #[serde(deserialize_with = "null_as_default", skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// Why, for programs.
    #[serde(deserialize_with = "null_as_default", skip_serializing_if = "Reason::is_unknown")]
    pub reason: Reason,
    /// Which object, which fields, and how long to wait.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub details: Option<Details>,
    /// The HTTP status code; 0 when the server did not say.
    #[serde(deserialize_with = "null_as_default", skip_serializing_if = "is_zero")]
    pub code: u16,
}

/// What a [`Status`] is about.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Details {
    /// The name of the object.
    #[serde(deserialize_with = "null_as_default", skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// The API group of the object.
    #[serde(deserialize_with = "null_as_default", skip_serializing_if = "String::is_empty")]
    pub group: String,
    /// The kind, or more often the plural resource name.
    #[serde(deserialize_with = "null_as_default", skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// The uid of the object.
    #[serde(deserialize_with = "null_as_default", skip_serializing_if = "String::is_empty")]
    pub uid: String,
    /// One entry for each thing that was wrong.
    #[serde(deserialize_with = "null_as_default", skip_serializing_if = "Vec::is_empty")]
    pub causes: Vec<Cause>,
    /// How long to wait before the next try; 0 when the server did not say.
    #[serde(deserialize_with = "null_as_default", skip_serializing_if = "is_zero_seconds")]
    pub retry_after_seconds: u32,
}

/// One thing that was wrong.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Cause {
    /// The kind of cause, for example `FieldValueInvalid`.
    #[serde(deserialize_with = "null_as_default", skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// What is wrong, for people.
    #[serde(deserialize_with = "null_as_default", skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// The field, as a path inside the object that was sent.
    #[serde(deserialize_with = "null_as_default", skip_serializing_if = "String::is_empty")]
    pub field: String,
}

macro_rules! reasons {
    ($($(#[$doc:meta])* $name:ident = $code:literal,)*) => {
        /// Why a server refused, in the words of the API.
        #[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Reason {
            /// The server gave no reason.
            #[default]
            Unknown,
            $($(#[$doc])* $name,)*
            /// A reason this version of dogwatch does not know.
            Other(Box<str>),
        }

        impl Reason {
            /// The word the API uses; empty for [`Reason::Unknown`].
            pub fn as_str(&self) -> &str {
                match self {
                    Self::Unknown => "",
                    $(Self::$name => stringify!($name),)*
                    Self::Other(word) => word,
                }
            }

            /// The HTTP status code that goes with the reason; 0 when it goes with none.
            pub fn code(&self) -> u16 {
                match self {
                    Self::Unknown | Self::Other(_) => 0,
                    $(Self::$name => $code,)*
                }
            }
        }

        impl From<&str> for Reason {
            fn from(word: &str) -> Self {
                match word {
                    "" => Self::Unknown,
                    $(stringify!($name) => Self::$name,)*
                    _ => Self::Other(word.into()),
                }
            }
        }
    };
}

reasons! {
    /// The request had no usable credentials.
    Unauthorized = 401,
    /// The credentials do not allow this.
    Forbidden = 403,
    /// There is no such object, or no such resource.
    NotFound = 404,
    /// An object of that name is there already.
    AlreadyExists = 409,
    /// The object changed since it was read, or its state forbids the request.
    Conflict = 409,
    /// The object is gone and its old address does not forward.
    Gone = 410,
    /// The object was refused by validation; the causes name the fields.
    Invalid = 422,
    /// The server cannot answer in time; try again after the delay.
    ServerTimeout = 500,
    /// The server could not read the object from its storage.
    StorageReadError = 500,
    /// The request could not be completed within the time given.
    Timeout = 504,
    /// Too many requests; try again after the delay.
    TooManyRequests = 429,
    /// The request made no sense to the server.
    BadRequest = 400,
    /// The resource does not support the verb.
    MethodNotAllowed = 405,
    /// None of the content types asked for can be served.
    NotAcceptable = 406,
    /// The body was larger than the server takes.
    RequestEntityTooLarge = 413,
    /// The content type of the body is not understood.
    UnsupportedMediaType = 415,
    /// Something broke inside the server.
    InternalError = 500,
    /// The version or the continue token asked for is no longer kept; list again.
    Expired = 410,
    /// The server is not up.
    ServiceUnavailable = 503,
}

/// The cause a server attaches when a watch or list asks for a version it has not reached yet.
const TOO_LARGE_RESOURCE_VERSION: &str = "ResourceVersionTooLarge";
/// The cause of an answer that was no `Status` at all.
const UNEXPECTED_SERVER_RESPONSE: &str = "UnexpectedServerResponse";

impl Status {
    /// A refusal with the code that goes with its reason.
    pub fn failure(reason: Reason, message: impl Into<String>) -> Self {
        Self {
            status: Some("Failure".to_owned()),
            message: message.into(),
            code: reason.code(),
            reason,
            details: None,
        }
    }

    /// True when the server says it refused.
    pub fn is_failure(&self) -> bool {
        self.status.as_deref() == Some("Failure")
    }

    /// No such object or resource.
    pub fn is_not_found(&self) -> bool {
        self.is(&Reason::NotFound)
    }

    /// An object of that name is there already.
    pub fn is_already_exists(&self) -> bool {
        self.reason == Reason::AlreadyExists
    }

    /// The object changed since it was read, or another manager owns the field.
    pub fn is_conflict(&self) -> bool {
        self.is(&Reason::Conflict)
    }

    /// No usable credentials.
    pub fn is_unauthorized(&self) -> bool {
        self.is(&Reason::Unauthorized)
    }

    /// Not allowed.
    pub fn is_forbidden(&self) -> bool {
        self.is(&Reason::Forbidden)
    }

    /// Refused by validation.
    pub fn is_invalid(&self) -> bool {
        self.is(&Reason::Invalid)
    }

    /// The request made no sense to the server.
    pub fn is_bad_request(&self) -> bool {
        self.is(&Reason::BadRequest)
    }

    /// The verb is not supported by the resource.
    pub fn is_method_not_allowed(&self) -> bool {
        self.is(&Reason::MethodNotAllowed)
    }

    /// No acceptable content type.
    pub fn is_not_acceptable(&self) -> bool {
        self.is(&Reason::NotAcceptable)
    }

    /// The content type of the body is not understood.
    pub fn is_unsupported_media_type(&self) -> bool {
        self.is(&Reason::UnsupportedMediaType)
    }

    /// The body was too large.
    pub fn is_request_entity_too_large(&self) -> bool {
        self.is(&Reason::RequestEntityTooLarge)
    }

    /// The version or the continue token is no longer kept. Distinct from [`Self::is_gone`].
    pub fn is_expired(&self) -> bool {
        self.reason == Reason::Expired
    }

    /// The object is gone for good. Distinct from [`Self::is_expired`].
    pub fn is_gone(&self) -> bool {
        self.is(&Reason::Gone)
    }

    /// The request could not be completed within the time given.
    pub fn is_timeout(&self) -> bool {
        self.is(&Reason::Timeout)
    }

    /// The server asks to try again later.
    pub fn is_server_timeout(&self) -> bool {
        self.reason == Reason::ServerTimeout
    }

    /// Something broke inside the server.
    pub fn is_internal_error(&self) -> bool {
        self.is(&Reason::InternalError)
    }

    /// The server is not up.
    pub fn is_service_unavailable(&self) -> bool {
        self.is(&Reason::ServiceUnavailable)
    }

    /// Too many requests; a 429 counts whatever its reason says.
    pub fn is_too_many_requests(&self) -> bool {
        self.reason == Reason::TooManyRequests || self.code == 429
    }

    /// The server has not reached the version asked for yet.
    ///
    /// Servers say so by a cause; older ones by a timeout with one of two messages (rule REF-3).
    pub fn is_too_large_resource_version(&self) -> bool {
        self.has_cause(TOO_LARGE_RESOURCE_VERSION)
            || (self.is_timeout()
                && ["Too large resource version", "Too large resourceVersion"]
                    .iter()
                    .any(|it| self.message.contains(it)))
            || self.causes().iter().any(|it| it.message.contains("Too large resource version"))
    }

    /// The answer was no `Status` at all; the message holds what there was of text.
    pub fn is_unexpected_server_response(&self) -> bool {
        self.has_cause(UNEXPECTED_SERVER_RESPONSE)
    }

    /// True when one of the causes is of this kind.
    pub fn has_cause(&self, reason: &str) -> bool {
        self.causes().iter().any(|it| it.reason == reason)
    }

    /// Everything that was wrong, field by field.
    pub fn causes(&self) -> &[Cause] {
        self.details.as_ref().map_or(&[], |it| &it.causes)
    }

    /// How long the server asks to wait, where it asks at all.
    pub fn suggested_delay(&self) -> Option<Duration> {
        let seconds = self.details.as_ref().map_or(0, |it| it.retry_after_seconds);
        (seconds > 0 || self.is_server_timeout()).then(|| Duration::from_secs(seconds.into()))
    }

    /// The reason counts; only a missing or unknown one lets the code speak (RQ-13).
    fn is(&self, reason: &Reason) -> bool {
        match &self.reason {
            Reason::Unknown | Reason::Other(_) => self.code == reason.code(),
            known => known == reason,
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.message.is_empty(), self.reason.as_str()) {
            (false, "") => f.write_str(&self.message),
            (false, reason) => write!(f, "{} ({reason})", self.message),
            (true, "") => write!(f, "the server answered with code {}", self.code),
            (true, reason) => f.write_str(reason),
        }
    }
}

impl std::error::Error for Status {}

impl Reason {
    /// True when the server gave no reason.
    pub fn is_unknown(&self) -> bool {
        *self == Self::Unknown
    }
}

impl Serialize for Reason {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for Reason {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let word = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        Ok(Self::from(word.as_ref()))
    }
}

fn is_zero(code: &u16) -> bool {
    *code == 0
}

fn is_zero_seconds(seconds: &u32) -> bool {
    *seconds == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(reason: &str, code: u16) -> Status {
        Status { reason: reason.into(), code, ..Status::default() }
    }

    #[test]
    fn rq_13_the_reason_counts_and_the_code_only_without_a_known_reason() {
        for (reason, code, expected) in [
            ("NotFound", 404, true),
            ("NotFound", 200, true),
            ("", 404, true),
            ("SomethingNew", 404, true),
            ("Conflict", 404, false),
            ("", 409, false),
        ] {
            assert_eq!(status(reason, code).is_not_found(), expected, "{reason:?} {code}");
        }
    }

    #[test]
    fn rq_13_a_429_is_too_many_requests_whatever_its_reason() {
        assert!(status("Conflict", 429).is_too_many_requests());
        assert!(status("TooManyRequests", 0).is_too_many_requests());
    }

    #[test]
    fn rq_13_gone_and_expired_are_two_things() {
        assert!(status("Expired", 410).is_expired() && !status("Expired", 410).is_gone());
        assert!(status("Gone", 410).is_gone() && !status("Gone", 410).is_expired());
        assert!(status("", 410).is_gone() && !status("", 410).is_expired());
    }

    #[test]
    fn rq_13_a_server_timeout_or_a_number_of_seconds_suggests_a_delay() {
        assert_eq!(status("ServerTimeout", 500).suggested_delay(), Some(Duration::ZERO));
        assert_eq!(status("NotFound", 404).suggested_delay(), None);
        let details = Some(Details { retry_after_seconds: 3, ..Details::default() });
        assert_eq!(Status { details, ..Status::default() }.suggested_delay(), Some(Duration::from_secs(3)));
    }

    #[test]
    fn ref_3_three_shapes_of_too_large_resource_version() {
        let with_cause = |cause| Status {
            details: Some(Details { causes: vec![cause], ..Details::default() }),
            ..status("Timeout", 504)
        };
        let reason = Cause { reason: "ResourceVersionTooLarge".to_owned(), ..Cause::default() };
        let message = Cause { message: "Too large resource version".to_owned(), ..Cause::default() };
        assert!(with_cause(reason).is_too_large_resource_version());
        assert!(with_cause(message).is_too_large_resource_version());
        let plain = Status {
            message: "Too large resource version: 9, current: 3".to_owned(),
            ..status("Timeout", 504)
        };
        assert!(plain.is_too_large_resource_version());
        assert!(!status("Timeout", 504).is_too_large_resource_version());
    }

    #[test]
    fn a_real_status_decodes_and_encodes() {
        let text = r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"pods \"x\" not found","reason":"NotFound","details":{"name":"x","kind":"pods"},"code":404}"#;
        let status: Status = serde_json::from_str(text).expect("a status");
        assert!(status.is_failure() && status.is_not_found());
        assert_eq!(status.to_string(), "pods \"x\" not found (NotFound)");
        let again: Status =
            serde_json::from_value(serde_json::to_value(&status).expect("serializes")).expect("a status");
        assert_eq!(again, status);
    }

    #[test]
    fn a_null_field_is_an_empty_one() {
        let text = r#"{"kind":"Status","status":null,"message":null,"reason":"Expired","code":410,
            "details":{"name":null,"group":null,"kind":null,"uid":null,"causes":null,"retryAfterSeconds":null}}"#;
        let status: Status = serde_json::from_str(text).expect("a status");
        assert!(status.is_expired());
        assert_eq!((status.code, status.message.as_str()), (410, ""));
        let nulls = r#"{"reason":null,"code":null,"details":{"causes":[{"reason":null,"message":null,"field":null}]}}"#;
        let status: Status = serde_json::from_str(nulls).expect("a status");
        assert_eq!((status.code, &status.reason, status.causes().len()), (0, &Reason::Unknown, 1));
    }

    #[test]
    fn every_reason_prints_and_parses_to_itself() {
        for word in ["Unauthorized", "StorageReadError", "Expired", "SomethingNew", ""] {
            assert_eq!(Reason::from(word).as_str(), word);
        }
    }
}
