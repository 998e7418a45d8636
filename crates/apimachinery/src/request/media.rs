//! Media types: the representation that a client accepts, and the format of its body.

use dogwatch_core::{Reason, Status};

use crate::api_error::ApiError;

/// The encoding of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// `application/json`.
    Json,
    /// `application/yaml`.
    Yaml,
    /// `application/vnd.kubernetes.protobuf`, for built-in kinds and metadata.
    Protobuf,
}

/// The transformation of the objects in a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObjectForm {
    /// The complete objects.
    Whole,
    /// A table with one row for each object.
    Table,
    /// Only metadata.
    Metadata,
    /// A list of only metadata.
    MetadataList,
    /// The aggregated discovery documents.
    Discovery,
}

/// The format of a request body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyForm {
    /// JSON, which is also the default.
    Json,
    /// YAML.
    Yaml,
    /// Protobuf, for built-in kinds only.
    Protobuf,
}

/// One clause of an `Accept` header.
struct Clause<'a> {
    media: &'a str,
    parameters: Vec<(&'a str, &'a str)>,
    quality: f32,
}

/// Negotiates the representation of a response: the first clause of the highest quality that the
/// endpoint serves. `serves` is the set of representations that it has.
///
/// # Errors
///
/// Returns 406 if no clause can be served.
pub fn negotiate(
    accept: Option<&str>,
    serves: impl Fn(Encoding, ObjectForm) -> bool,
) -> Result<(Encoding, ObjectForm), ApiError> {
    let Some(accept) = accept.map(str::trim).filter(|it| !it.is_empty()) else {
        return Ok((Encoding::Json, ObjectForm::Whole));
    };
    let clauses = clauses(accept);
    let mut known = false;
    for clause in &clauses {
        let encoding = match clause.media {
            "application/json" | "*/*" => Encoding::Json,
            "application/yaml" => Encoding::Yaml,
            "application/vnd.kubernetes.protobuf" => Encoding::Protobuf,
            _ => continue,
        };
        known = true;
        if let Some(form) = form(clause, encoding).filter(|it| serves(encoding, *it)) {
            return Ok((encoding, form));
        }
    }
    Err(not_acceptable(known))
}

/// Returns the media types of an `Accept` header without their parameters, in order of preference.
pub fn media_types(accept: &str) -> Vec<&str> {
    clauses(accept).into_iter().map(|it| it.media).collect()
}

fn clauses(accept: &str) -> Vec<Clause<'_>> {
    let mut clauses: Vec<_> = accept.split(',').map(clause).collect();
    // Of the same quality, a wildcard is the last choice, as in goautoneg.
    let is_wildcard = |it: &Clause<'_>| it.media.starts_with('*');
    clauses.sort_by(|left, right| {
        right.quality.total_cmp(&left.quality).then(is_wildcard(left).cmp(&is_wildcard(right)))
    });
    clauses
}

impl BodyForm {
    /// Parses a `Content-Type`.
    ///
    /// # Errors
    ///
    /// Returns 415 for an unsupported type.
    pub fn of(content_type: Option<&str>) -> Result<Self, ApiError> {
        let media = content_type.unwrap_or_default().split(';').next().unwrap_or_default().trim();
        match media.to_ascii_lowercase().as_str() {
            "" | "application/json" => Ok(Self::Json),
            "application/yaml" => Ok(Self::Yaml),
            "application/vnd.kubernetes.protobuf" => Ok(Self::Protobuf),
            _ => {
                let accepted = "application/json, application/yaml, application/vnd.kubernetes.protobuf";
                let message = format!(
                    "the body of the request was in an unknown format - accepted media types include: {accepted}"
                );
                Err(ApiError::new(Reason::UnsupportedMediaType, message))
            }
        }
    }
}

fn clause(text: &str) -> Clause<'_> {
    let mut parts = text.split(';').map(str::trim);
    let media = parts.next().unwrap_or_default();
    let parameters = parts.filter_map(|it| it.split_once('='));
    let parameters: Vec<_> = parameters.filter(|(_, value)| !value.is_empty()).collect();
    let quality = parameters.iter().find(|(key, _)| *key == "q");
    // One that is not a number is zero, as in goautoneg.
    let quality = quality.map_or(1.0, |(_, value)| value.parse().unwrap_or(0.0));
    Clause { media, parameters, quality }
}

/// Returns the form that a clause asks for, or `None` if there is no such form.
fn form(clause: &Clause<'_>, encoding: Encoding) -> Option<ObjectForm> {
    let parameter = |key: &str| clause.parameters.iter().find(|(it, _)| *it == key).map(|(_, value)| *value);
    // YAML cannot be framed, so it has no stream.
    let has_stream = |it: &str| it == "watch" && encoding != Encoding::Yaml;
    if parameter("stream").is_some_and(|it| !it.is_empty() && !has_stream(it)) {
        return None;
    }
    match (parameter("as"), parameter("g"), parameter("v")) {
        (None, None, None) => Some(ObjectForm::Whole),
        (Some("Table"), Some("meta.k8s.io"), Some("v1")) => Some(ObjectForm::Table),
        (Some("PartialObjectMetadata"), Some("meta.k8s.io"), Some("v1")) => Some(ObjectForm::Metadata),
        (Some("PartialObjectMetadataList"), Some("meta.k8s.io"), Some("v1")) => {
            Some(ObjectForm::MetadataList)
        }
        (Some("APIGroupDiscoveryList"), Some("apidiscovery.k8s.io"), Some("v2")) => {
            Some(ObjectForm::Discovery)
        }
        _ => None,
    }
}

/// Returns 406 with one of two messages: for an unknown type, and for a known type in an unknown
/// form.
fn not_acceptable(known: bool) -> ApiError {
    let available = "application/json, application/yaml, application/vnd.kubernetes.protobuf";
    let message = if known {
        format!("only the following media types are accepted: {available}")
    } else {
        format!("406: Not Acceptable\n\nAvailable representations: {available}")
    };
    ApiError(Box::new(Status::failure(Reason::NotAcceptable, message)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn serves(encoding: Encoding, form: ObjectForm) -> bool {
        (encoding, form) != (Encoding::Protobuf, ObjectForm::Table)
    }

    #[test]
    fn the_best_clause_that_can_be_served_wins() {
        use Encoding::{Json, Protobuf, Yaml};
        use ObjectForm::{Discovery, Metadata, Table, Whole};
        for (accept, expected) in [
            ("", (Json, Whole)),
            ("*/*", (Json, Whole)),
            ("text/html, application/json;q=0.5", (Json, Whole)),
            ("application/json;q=0.2, application/yaml;q=0.9", (Yaml, Whole)),
            ("*/*, application/yaml", (Yaml, Whole)),
            ("application/vnd.kubernetes.protobuf,application/json", (Protobuf, Whole)),
            ("application/vnd.kubernetes.protobuf;q=0.3,application/json", (Json, Whole)),
            ("text/html,application/vnd.kubernetes.protobuf;q=0.3,application/json;q=0.2", (Protobuf, Whole)),
            ("application/vnd.kubernetes.protobuf;type=Pod", (Protobuf, Whole)),
            ("application/vnd.kubernetes.protobuf;stream=watch", (Protobuf, Whole)),
            ("application/vnd.kubernetes.protobuf;stream=other,application/json", (Json, Whole)),
            ("application/yaml;stream=watch,application/json", (Json, Whole)),
            ("application/json;g=meta.k8s.io,application/yaml", (Yaml, Whole)),
            (
                "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
                (Protobuf, Metadata),
            ),
            (
                "application/vnd.kubernetes.protobuf;as=Table;g=meta.k8s.io;v=v1,\
                 application/json;as=Table;g=meta.k8s.io;v=v1",
                (Json, Table),
            ),
            ("application/json;as=Table;v=v1;g=meta.k8s.io,application/json", (Json, Table)),
            (
                "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json",
                (Json, Metadata),
            ),
            ("application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json", (Json, Whole)),
            (
                "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json",
                (Json, Discovery),
            ),
        ] {
            assert_eq!(negotiate(Some(accept), serves), Ok(expected), "{accept}");
        }
        assert_eq!(negotiate(None, serves), Ok((Json, Whole)));
    }

    #[test]
    fn unsupported_types_and_forms_have_different_406_messages() {
        for (accept, words) in [
            ("text/html", "406: Not Acceptable\n\nAvailable representations: application/json"),
            ("application/*", "406: Not Acceptable\n\nAvailable representations: application/json"),
            (
                "application/json;as=Nothing;v=v1;g=meta.k8s.io",
                "only the following media types are accepted: ",
            ),
        ] {
            let refusal = negotiate(Some(accept), serves).expect_err(accept);
            assert!(refusal.0.code == 406 && refusal.0.message.starts_with(words), "{accept}: {refusal}");
        }
    }

    #[test]
    fn bodies_default_to_json() {
        assert_eq!(BodyForm::of(None), Ok(BodyForm::Json));
        assert_eq!(BodyForm::of(Some("application/json; charset=utf-8")), Ok(BodyForm::Json));
        assert_eq!(BodyForm::of(Some("application/yaml")), Ok(BodyForm::Yaml));
        assert_eq!(BodyForm::of(Some("text/plain")).expect_err("not supported").0.code, 415);
    }
}
