//! The `Status` object with which a server reports an error, its reasons, and predicates over them.
//!
//! Rules RQ-12 and RQ-13.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::null::null_as_default;

/// The answer of a server that rejected a request, or that confirmed one without returning an
/// object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Status {
    /// `Success` or `Failure`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    /// A description for people.
    #[serde(deserialize_with = "null_as_default", skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// The reason, for programs.
    #[serde(deserialize_with = "null_as_default", skip_serializing_if = "Reason::is_unknown")]
    pub reason: Reason,
    /// The object, the fields and the suggested delay.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub details: Option<Details>,
    /// The HTTP status code; 0 if the server did not set it.
    #[serde(deserialize_with = "null_as_default", skip_serializing_if = "is_zero")]
    pub code: u16,
}

/// The details of a [`Status`].
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
    /// One entry for each problem.
    #[serde(deserialize_with = "null_as_default", skip_serializing_if = "Vec::is_empty")]
    pub causes: Vec<Cause>,
    /// The suggested delay before a retry; 0 if the server did not set it.
    #[serde(deserialize_with = "null_as_default", skip_serializing_if = "is_zero_seconds")]
    pub retry_after_seconds: u32,
}

/// One problem of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Cause {
    /// The kind of cause, for example `FieldValueInvalid`.
    #[serde(deserialize_with = "null_as_default", skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// A description for people.
    #[serde(deserialize_with = "null_as_default", skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// The field, as a path inside the object of the request.
    #[serde(deserialize_with = "null_as_default", skip_serializing_if = "String::is_empty")]
    pub field: String,
}

macro_rules! reasons {
    ($($(#[$doc:meta])* $name:ident = $code:literal,)*) => {
        /// The reason for which a server rejected a request, as defined by the API.
        #[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Reason {
            /// The server gave no reason.
            #[default]
            Unknown,
            $($(#[$doc])* $name,)*
            /// A reason that this version of dogwatch does not know.
            Other(Box<str>),
        }

        impl Reason {
            /// Returns the API's name of the reason; empty for [`Reason::Unknown`].
            pub fn as_str(&self) -> &str {
                match self {
                    Self::Unknown => "",
                    $(Self::$name => stringify!($name),)*
                    Self::Other(word) => word,
                }
            }

            /// Returns the HTTP status code of the reason; 0 if it has none.
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
    /// The request had no valid credentials.
    Unauthorized = 401,
    /// The user is not authorized for the request.
    Forbidden = 403,
    /// The object or the resource does not exist.
    NotFound = 404,
    /// An object of that name already exists.
    AlreadyExists = 409,
    /// The object changed since it was read, or its state does not allow the request.
    Conflict = 409,
    /// The object is gone, and no forwarding address is known.
    Gone = 410,
    /// The object failed validation; the causes name the fields.
    Invalid = 422,
    /// The server cannot answer in time; retry after the delay.
    ServerTimeout = 500,
    /// The server could not read the object from its storage.
    StorageReadError = 500,
    /// The request could not be completed within the given time.
    Timeout = 504,
    /// Too many requests; retry after the delay.
    TooManyRequests = 429,
    /// The request was malformed.
    BadRequest = 400,
    /// The resource does not support the verb.
    MethodNotAllowed = 405,
    /// The server cannot produce any of the accepted content types.
    NotAcceptable = 406,
    /// The body was larger than the server accepts.
    RequestEntityTooLarge = 413,
    /// The server does not support the content type of the body.
    UnsupportedMediaType = 415,
    /// An internal error of the server.
    InternalError = 500,
    /// The requested version or continue token has expired; list again.
    Expired = 410,
    /// The server is unavailable.
    ServiceUnavailable = 503,
}

/// The cause that a server adds if a watch or list requests a version that it has not reached yet.
const TOO_LARGE_RESOURCE_VERSION: &str = "ResourceVersionTooLarge";
/// The cause of a response that was not a `Status`.
const UNEXPECTED_SERVER_RESPONSE: &str = "UnexpectedServerResponse";

impl Status {
    /// Creates a failure with the code of its reason.
    pub fn failure(reason: Reason, message: impl Into<String>) -> Self {
        Self {
            status: Some("Failure".to_owned()),
            message: message.into(),
            code: reason.code(),
            reason,
            details: None,
        }
    }

    /// Returns true if the status is a failure.
    pub fn is_failure(&self) -> bool {
        self.status.as_deref() == Some("Failure")
    }

    /// Returns true if the object or the resource does not exist.
    pub fn is_not_found(&self) -> bool {
        self.is(&Reason::NotFound)
    }

    /// Returns true if an object of that name already exists.
    pub fn is_already_exists(&self) -> bool {
        self.reason == Reason::AlreadyExists
    }

    /// Returns true if the object changed since it was read, or another manager owns the field.
    pub fn is_conflict(&self) -> bool {
        self.is(&Reason::Conflict)
    }

    /// Returns true if the request had no valid credentials.
    pub fn is_unauthorized(&self) -> bool {
        self.is(&Reason::Unauthorized)
    }

    /// Returns true if the user is not authorized.
    pub fn is_forbidden(&self) -> bool {
        self.is(&Reason::Forbidden)
    }

    /// Returns true if the object failed validation.
    pub fn is_invalid(&self) -> bool {
        self.is(&Reason::Invalid)
    }

    /// Returns true if the request was malformed.
    pub fn is_bad_request(&self) -> bool {
        self.is(&Reason::BadRequest)
    }

    /// Returns true if the resource does not support the verb.
    pub fn is_method_not_allowed(&self) -> bool {
        self.is(&Reason::MethodNotAllowed)
    }

    /// Returns true if the server cannot produce an accepted content type.
    pub fn is_not_acceptable(&self) -> bool {
        self.is(&Reason::NotAcceptable)
    }

    /// Returns true if the server does not support the content type of the body.
    pub fn is_unsupported_media_type(&self) -> bool {
        self.is(&Reason::UnsupportedMediaType)
    }

    /// Returns true if the body was too large.
    pub fn is_request_entity_too_large(&self) -> bool {
        self.is(&Reason::RequestEntityTooLarge)
    }

    /// Returns true if the version or the continue token has expired. Distinct from
    /// [`Self::is_gone`].
    pub fn is_expired(&self) -> bool {
        self.reason == Reason::Expired
    }

    /// Returns true if the object is gone for good. Distinct from [`Self::is_expired`].
    pub fn is_gone(&self) -> bool {
        self.is(&Reason::Gone)
    }

    /// Returns true if the request could not be completed within the given time.
    pub fn is_timeout(&self) -> bool {
        self.is(&Reason::Timeout)
    }

    /// Returns true if the server asks to retry later.
    pub fn is_server_timeout(&self) -> bool {
        self.reason == Reason::ServerTimeout
    }

    /// Returns true for an internal error of the server.
    pub fn is_internal_error(&self) -> bool {
        self.is(&Reason::InternalError)
    }

    /// Returns true if the server is unavailable.
    pub fn is_service_unavailable(&self) -> bool {
        self.is(&Reason::ServiceUnavailable)
    }

    /// Returns true if there were too many requests. Any 429 counts, whatever its reason is.
    pub fn is_too_many_requests(&self) -> bool {
        self.reason == Reason::TooManyRequests || self.code == 429
    }

    /// Returns true if the server has not reached the requested version yet.
    ///
    /// Servers report this with a cause; older ones with a timeout and one of two messages (rule
    /// REF-3).
    pub fn is_too_large_resource_version(&self) -> bool {
        self.has_cause(TOO_LARGE_RESOURCE_VERSION)
            || (self.is_timeout()
                && ["Too large resource version", "Too large resourceVersion"]
                    .iter()
                    .any(|it| self.message.contains(it)))
            || self.causes().iter().any(|it| it.message.contains("Too large resource version"))
    }

    /// Returns true if the response was not a `Status`; the message contains its text.
    pub fn is_unexpected_server_response(&self) -> bool {
        self.has_cause(UNEXPECTED_SERVER_RESPONSE)
    }

    /// Returns true if one of the causes has this reason.
    pub fn has_cause(&self, reason: &str) -> bool {
        self.causes().iter().any(|it| it.reason == reason)
    }

    /// Returns all causes, field by field.
    pub fn causes(&self) -> &[Cause] {
        self.details.as_ref().map_or(&[], |it| &it.causes)
    }

    /// Returns the delay that the server asks for, if any.
    pub fn suggested_delay(&self) -> Option<Duration> {
        let seconds = self.details.as_ref().map_or(0, |it| it.retry_after_seconds);
        (seconds > 0 || self.is_server_timeout()).then(|| Duration::from_secs(seconds.into()))
    }

    /// Compares the reason. The code is used only if the reason is missing or unknown (RQ-13).
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
            // The message of kube-apiserver for a request without valid credentials is its reason.
            (false, reason) if reason == self.message => f.write_str(reason),
            (false, reason) => write!(f, "{} ({reason})", self.message),
            (true, "") => write!(f, "the server answered with code {}", self.code),
            (true, reason) => f.write_str(reason),
        }
    }
}

impl std::error::Error for Status {}

impl Reason {
    /// Returns true if the server gave no reason.
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
    fn rq_13_gone_and_expired_are_distinct() {
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
