//! The options of a deletion, from the body if there is one and otherwise from the query, validated
//! with kube-apiserver's messages (k8s.io/apimachinery v0.36.4
//! pkg/apis/meta/v1/validation/validation.go).

use bytes::Bytes;
use serde::Deserialize;
use serde_json::Value;

use super::query::Query;
use super::write_options::dry_run_problem;
use crate::cluster::{DeleteOptions, Propagation};
use crate::patch::json_mistake;
use crate::protobuf;
use crate::request::{BodyForm, json, yaml};
use crate::{ApiError, FieldError, FieldErrorKind};

/// The validated options of a deletion.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Deletion {
    /// The delete options.
    pub(super) options: DeleteOptions,
    /// Set for a dry run: everything is done except the commit.
    pub(super) dry_run: bool,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RawDeleteOptions {
    grace_period_seconds: Option<i64>,
    propagation_policy: Option<String>,
    orphan_dependents: Option<bool>,
    preconditions: Option<Preconditions>,
    dry_run: Option<Vec<String>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Preconditions {
    uid: Option<String>,
    resource_version: Option<String>,
}

impl Deletion {
    /// Reads the options. If there is a body, the query is ignored.
    ///
    /// # Errors
    ///
    /// Returns 400 for options that cannot be parsed, 422 for invalid ones.
    pub(super) fn read(
        body: &Bytes,
        form: impl FnOnce() -> Result<BodyForm, ApiError>,
        query: &Query,
    ) -> Result<Self, ApiError> {
        let raw = if body.is_empty() { from_query(query)? } else { from_body(body, form()?)? };
        raw.check()
    }
}

impl RawDeleteOptions {
    fn check(self) -> Result<Deletion, ApiError> {
        let mut problems = Vec::new();
        let propagation = match self.propagation_policy.as_deref() {
            None => None,
            Some(given) if self.orphan_dependents.is_some() => {
                let detail = "orphanDependents and deletionPropagation cannot be both set";
                let value = format_args!("{given:?}");
                problems.push(FieldError::with_value(
                    "propagationPolicy",
                    FieldErrorKind::Invalid,
                    value,
                    detail,
                ));
                None
            }
            Some("Foreground") => Some(Propagation::Foreground),
            Some("Background") => Some(Propagation::Background),
            Some("Orphan") => Some(Propagation::Orphan),
            Some(other) => {
                let detail = r#"supported values: "Foreground", "Background", "Orphan", "nil""#;
                let value = format_args!("{other:?}");
                problems.push(FieldError::with_value(
                    "propagationPolicy",
                    FieldErrorKind::NotSupported,
                    value,
                    detail,
                ));
                None
            }
        };
        let dry_run = self.dry_run.unwrap_or_default();
        let listed: Vec<&str> = dry_run.iter().map(String::as_str).collect();
        problems.extend(dry_run_problem(&listed));
        if !problems.is_empty() {
            return Err(ApiError::invalid("meta.k8s.io", "DeleteOptions", "", &problems));
        }
        let preconditions = self.preconditions.unwrap_or_default();
        let options = DeleteOptions {
            grace: self.grace_period_seconds,
            propagation,
            orphan_dependents: self.orphan_dependents,
            uid: preconditions.uid,
            version: preconditions.resource_version,
        };
        Ok(Deletion { options, dry_run: !dry_run.is_empty() })
    }
}

fn from_query(query: &Query) -> Result<RawDeleteOptions, ApiError> {
    let dry_run: Vec<String> = query.all("dryRun").map(str::to_owned).collect();
    Ok(RawDeleteOptions {
        grace_period_seconds: query.integer("gracePeriodSeconds")?,
        propagation_policy: query.first("propagationPolicy").map(str::to_owned),
        orphan_dependents: query.flag("orphanDependents"),
        preconditions: Some(Preconditions {
            uid: query.get("uid").map(str::to_owned),
            resource_version: query.get("resourceVersion").map(str::to_owned),
        }),
        dry_run: (!dry_run.is_empty()).then_some(dry_run),
    })
}

fn from_body(body: &Bytes, form: BodyForm) -> Result<RawDeleteOptions, ApiError> {
    let value: Value = match form {
        BodyForm::Json => {
            let (text, value) = json::parse(body);
            let why = |it: serde_json::Error| json_mistake(&text).unwrap_or_else(|| it.to_string());
            value.map_err(|it| unreadable(&why(it)))?
        }
        BodyForm::Protobuf => {
            protobuf::decode(body).map_err(|it| ApiError::bad_request(it.to_string()))?.value
        }
        BodyForm::Yaml => yaml::parse(body).map_err(ApiError::bad_request)?.value,
    };
    if !value.is_object() {
        let kind = match &value {
            Value::Array(_) => "array",
            Value::String(_) => "string",
            Value::Bool(_) => "bool",
            _ => "number",
        };
        return Err(unreadable(&format!(
            "json: cannot unmarshal {kind} into Go value of type struct {{ APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; \
             Kind string \"json:\\\"kind,omitempty\\\"\" }}"
        )));
    }
    let text = |key: &str| value.get(key).and_then(Value::as_str).unwrap_or_default();
    if !matches!(text("kind"), "" | "DeleteOptions") {
        return Err(ApiError::bad_request(format!(
            "no kind {:?} is registered for version {:?} in scheme \"pkg/runtime/scheme.go:111\"",
            text("kind"),
            text("apiVersion")
        )));
    }
    let refuse = |_| ApiError::bad_request(wrong_type(&value));
    RawDeleteOptions::deserialize(&value).map_err(refuse)
}

fn unreadable(why: &str) -> ApiError {
    ApiError::bad_request(format!("couldn't get version/kind; json parse error: {why}"))
}

/// Returns the error message for the first field of the wrong type.
fn wrong_type(value: &Value) -> String {
    let found = |field: &Value| match field {
        Value::String(_) => "string",
        Value::Number(_) => "number",
        Value::Bool(_) => "bool",
        Value::Array(_) => "array",
        _ => "object",
    };
    for (name, kind) in [
        ("gracePeriodSeconds", "int64"),
        ("propagationPolicy", "v1.DeletionPropagation"),
        ("orphanDependents", "bool"),
        ("preconditions", "v1.Preconditions"),
        ("dryRun", "[]string"),
    ] {
        let Some(field) = value.get(name).filter(|it| !it.is_null()) else { continue };
        let fits = match kind {
            "int64" => field.is_i64(),
            "bool" => field.is_boolean(),
            "v1.Preconditions" => field.is_object(),
            "[]string" => field.is_array(),
            _ => field.is_string(),
        };
        if !fits {
            let found = found(field);
            return format!(
                "json: cannot unmarshal {found} into Go struct field DeleteOptions.{name} of type {kind}"
            );
        }
    }
    "json: cannot unmarshal DeleteOptions".to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(body: &'static str, query: &str) -> Result<Deletion, (u16, String)> {
        let form = || Ok(BodyForm::Json);
        let read = Deletion::read(&Bytes::from(body), form, &Query::parse(Some(query)));
        read.map_err(|it| (it.0.code, it.0.message.clone()))
    }

    #[test]
    fn a_body_overrides_the_query() {
        let options = |it: Result<Deletion, _>| it.map(|it| it.options).expect("valid");
        let from_query = options(read("", "propagationPolicy=Orphan&gracePeriodSeconds=-5"));
        assert_eq!((from_query.propagation, from_query.grace), (Some(Propagation::Orphan), Some(-5)));
        assert_eq!(options(read("{}", "gracePeriodSeconds=abc")), DeleteOptions::default());
        let body = r#"{"kind":"DeleteOptions","apiVersion":"apps/v1","preconditions":{"uid":"u","resourceVersion":"7"},"nope":1}"#;
        let from_body = options(read(body, ""));
        assert_eq!((from_body.uid.as_deref(), from_body.version.as_deref()), (Some("u"), Some("7")));
        assert_eq!(options(read("", "orphanDependents=false")).orphan_dependents, Some(false));
        assert!(read(r#"{"dryRun":["All"]}"#, "").expect("valid").dry_run);
    }

    #[test]
    fn errors_have_the_messages_of_kube_apiserver() {
        let invalid = |problem: &str| (422, format!("DeleteOptions.meta.k8s.io \"\" is invalid: {problem}"));
        let bad = |message: &str| (400, message.to_owned());
        let policy = r#"propagationPolicy: Unsupported value: "X": supported values: "Foreground", "Background", "Orphan", "nil""#;
        let dry_run = r#"dryRun: Unsupported value: ["Some"]: supported values: "All""#;
        for (body, query, expected) in [
            (r#"{"propagationPolicy":"X"}"#, "", invalid(policy)),
            ("", "propagationPolicy=X", invalid(policy)),
            (
                r#"{"propagationPolicy":"X","dryRun":["Some"]}"#,
                "",
                invalid(&format!("[{policy}, {dry_run}]")),
            ),
            (
                r#"{"propagationPolicy":"Foreground","orphanDependents":true}"#,
                "",
                invalid(
                    "propagationPolicy: Invalid value: \"Foreground\": orphanDependents and deletionPropagation cannot be both set",
                ),
            ),
            ("{", "", bad("couldn't get version/kind; json parse error: unexpected end of JSON input")),
            (
                r#"{"kind":"Deployment","apiVersion":"apps/v1"}"#,
                "",
                bad(
                    "no kind \"Deployment\" is registered for version \"apps/v1\" in scheme \"pkg/runtime/scheme.go:111\"",
                ),
            ),
            (
                r#"{"gracePeriodSeconds":"a"}"#,
                "",
                bad(
                    "json: cannot unmarshal string into Go struct field DeleteOptions.gracePeriodSeconds of type int64",
                ),
            ),
            ("", "gracePeriodSeconds=abc", bad("strconv.ParseInt: parsing \"abc\": invalid syntax")),
        ] {
            assert_eq!(read(body, query), Err(expected), "{body} {query}");
        }
    }
}
