//! The three types of patch: JSON patch, merge patch and strategic merge patch, as pure functions
//! over JSON values.
//!
//! A [`Patch`] is decoded once and may be applied several times, when the object changes
//! concurrently. The result is not yet a valid object: it may contain nulls, unknown fields
//! (including directives of a strategic patch) and values of the wrong type. The caller decodes it,
//! and rejects it with [`Patch::unfit`].
//!
//! The `mod` lines below are in layer order.

mod go_format;
mod unstructured;
mod syntax;
mod json;
mod explained;
mod merge;
mod schema_node;
mod list;
mod strategic;

pub use go_format::json_name;
pub use syntax::mistake as json_mistake;

use serde_json::{Map, Value};

use crate::builtin;
use crate::depth;
use crate::memory;
use crate::plain_json;
use crate::request::json as request_json;
use crate::schema::{Definitions, Schema};
use crate::{ApiError, FieldError, FieldErrorKind, strconv};

/// The type of a patch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PatchKind {
    /// A list of operations (RFC 6902).
    Json,
    /// A part of an object; null removes (RFC 7386).
    Merge,
    /// A part of an object; lists merge as the schema declares. Not supported for custom resources.
    Strategic,
}

impl PatchKind {
    /// Returns the type for a `Content-Type` header; parameters after a semicolon are ignored.
    /// Returns `None` for all other media types, including server-side apply.
    pub fn from_content_type(header: &str) -> Option<Self> {
        match header.split(';').next()? {
            "application/json-patch+json" => Some(Self::Json),
            "application/merge-patch+json" => Some(Self::Merge),
            "application/strategic-merge-patch+json" => Some(Self::Strategic),
            _ => None,
        }
    }
}

/// A decoded patch.
#[derive(Clone, Debug)]
pub struct Patch {
    kind: PatchKind,
    body: Body,
    strict_errors: Vec<String>,
}

#[derive(Clone, Debug)]
enum Body {
    Operations(Vec<Value>),
    Object(Map<String, Value>),
    /// A merge patch that is a list: it replaces the object.
    List(Value),
}

impl Patch {
    /// Decodes the body of a request. `checked` is true if unknown fields matter (`fieldValidation`
    /// is `Warn` or `Strict`); kube-apiserver then decodes the patch in another way, with other
    /// error messages (`applyJSPatch` in k8s.io/apiserver v0.36.4 pkg/endpoints/handlers/patch.go).
    ///
    /// kube-apiserver looks up the object first: a patch of a missing object is 404 even if it is
    /// malformed.
    ///
    /// # Errors
    /// 400 if the body cannot be decoded, 413 for a JSON patch with too many operations.
    pub fn decode(kind: PatchKind, body: &[u8], checked: bool) -> Result<Self, ApiError> {
        let mut strict_errors = Vec::new();
        let decoded = match (kind, parse(body)) {
            (PatchKind::Json, value) => {
                let operations = value
                    .and_then(|value| operations(value, checked))
                    .map_err(|why| ApiError::bad_request(decoding(&why, checked)))?;
                json::check_length(&operations)?;
                if checked {
                    strict_errors = unknown_operation_fields(&operations);
                }
                Body::Operations(operations)
            }
            (_, Ok(Value::Object(fields))) => {
                if checked {
                    strict_errors = builtin::duplicate_fields(body);
                }
                Body::Object(fields)
            }
            (PatchKind::Merge, Ok(list @ Value::Array(_))) if !checked => Body::List(list),
            (PatchKind::Merge, Ok(Value::Null)) => return Err(ApiError::bad_request("Invalid JSON Patch")),
            (PatchKind::Merge, _) if !checked => return Err(ApiError::bad_request("Invalid JSON Patch")),
            (PatchKind::Strategic, Ok(Value::Null)) => Body::Object(Map::new()),
            (_, unfit) => {
                let why = unfit.map_or_else(|why| why, |value| cannot_be(&value, go_format::MAP));
                let merge = kind == PatchKind::Merge;
                return Err(ApiError::bad_request(decoding(&why, merge)));
            }
        };
        Ok(Self { kind, body: decoded, strict_errors })
    }

    /// Returns the type of the patch.
    pub fn kind(&self) -> PatchKind {
        self.kind
    }

    /// Returns the strict decoding errors of the patch itself, such as
    /// `json patch unknown field "[0].extra"`. Empty unless it was decoded as checked. In
    /// kube-apiserver's messages these precede those of the patched object.
    pub fn strict_errors(&self) -> &[String] {
        &self.strict_errors
    }

    /// Applies the patch to an object. `schema` and `definitions` describe the object; only a
    /// strategic patch uses them. The result is an object if `original` is one.
    ///
    /// # Errors
    /// 422 if a JSON patch does not apply; 400 or 500 if the directives or list items of a
    /// strategic patch are invalid (`interpretStrategicMergePatchError` in k8s.io/apiserver v0.36.4
    /// pkg/endpoints/handlers/patch.go).
    pub fn apply(
        &self,
        original: &Value,
        schema: &Schema,
        definitions: &dyn Definitions,
    ) -> Result<Value, ApiError> {
        let patched = match &self.body {
            Body::Operations(operations) => json::apply(original, operations)?,
            Body::List(list) => merge::without_nulls(list),
            Body::Object(patch) => {
                let mut object = original.as_object().cloned().unwrap_or_default();
                if self.kind == PatchKind::Merge {
                    merge::merge(&mut object, patch);
                } else {
                    let node = schema_node::SchemaNode::new(schema, definitions);
                    object = strategic::merge(object, patch.clone(), &node)?;
                }
                Value::Object(object)
            }
        };
        if patched.is_array() {
            return Err(self.unfit(&patched.to_string(), NO_OBJECT));
        }
        if depth::is_exceeded_by(&patched) {
            return Err(self.unfit(&patched.to_string(), &depth::exceeded()));
        }
        // Defaults may have taken an object beyond the limit: it can still shrink.
        let size = memory::without_managed_fields;
        if memory::is_exceeded_by(&patched) && size(&patched) > size(original) {
            let problem = FieldError::new("patch", FieldErrorKind::Invalid, &memory::exceeded());
            return Err(ApiError::invalid("", "", "", &[problem]));
        }
        Ok(patched)
    }

    /// Applies a JSON patch to an object, as policies do: a patch whose `test` fails changes
    /// nothing, and the error has the reason.
    ///
    /// # Errors
    /// The reason why an operation does not apply.
    pub fn apply_operations(
        &self,
        original: &Value,
        schema: &Schema,
        definitions: &dyn Definitions,
    ) -> Result<Value, String> {
        if let Body::Operations(operations) = &self.body
            && let Err(failed) = json::apply_all(original, operations)
        {
            return match explained::explain(failed) {
                explained::Reason::TestFailed => Ok(original.clone()),
                explained::Reason::Message(why) => Err(format!("JSON Patch: {why}")),
            };
        }
        self.apply(original, schema, definitions).map_err(|it| it.0.message)
    }

    /// Creates a 422: the patch applied, but its result, given as JSON, cannot be decoded. `why` is
    /// the reason, for example `strict decoding error: unknown field "foo"`.
    pub fn unfit(&self, patched: &str, why: &str) -> ApiError {
        let (shown, why) = match (&self.body, self.kind) {
            (Body::Object(patch), PatchKind::Strategic) => {
                let shown = go_format::GoValue(&Value::Object(patch.clone())).to_string();
                (shown, unstructured::conversion_error(why))
            }
            _ => (patched.to_owned(), why.to_owned()),
        };
        let problem = FieldError::with_value("patch", FieldErrorKind::Invalid, strconv::quote(&shown), &why);
        ApiError::invalid("", "", "", &[problem])
    }
}

/// The error for a patch that replaces the object with a list: `SimpleMetaFactory.Interpret` in
/// k8s.io/apimachinery v0.36.4 pkg/runtime/serializer/json/meta.go.
const NO_OBJECT: &str = "couldn't get version/kind; json parse error: json: cannot unmarshal array into Go value of type \
     struct { APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }";

fn decoding(why: &str, prefixed: bool) -> String {
    if prefixed { format!("error decoding patch: {why}") } else { why.to_owned() }
}

/// Parses a body, or returns the syntax error. Invalid UTF-8 is replaced, not rejected.
fn parse(body: &[u8]) -> Result<Value, String> {
    let text = request_json::readable(body);
    let value = plain_json::from_str(&text)
        .map_err(|error| syntax::mistake(text.as_bytes()).unwrap_or_else(|| error.to_string()))?;
    match () {
        () if depth::of(&value) > depth::TEXT => Err(depth::exceeded()),
        // The patched object is measured again; nulls only remove fields.
        () if memory::as_it_is(&value) > memory::OBJECT => Err(memory::exceeded()),
        () => Ok(value),
    }
}

/// Returns the operations of a JSON patch, or the decoding error.
fn operations(value: Value, checked: bool) -> Result<Vec<Value>, String> {
    let (list, item) = if checked {
        ("[]handlers.jsonPatchOp", "handlers.jsonPatchOp")
    } else {
        ("jsonpatch.Patch", "jsonpatch.Operation")
    };
    let operations = match value {
        Value::Null => Vec::new(),
        Value::Array(operations) => operations,
        other => return Err(cannot_be(&other, list)),
    };
    for operation in &operations {
        match operation {
            Value::Null => {}
            Value::Object(fields) if checked => {
                fields.iter().try_for_each(|(key, value)| check_text(key, value))?
            }
            Value::Object(_) => {}
            other => return Err(cannot_be(other, item)),
        }
    }
    Ok(operations)
}

fn check_text(key: &str, value: &Value) -> Result<(), String> {
    if !matches!(key, "op" | "path" | "from") || value.is_string() || value.is_null() {
        return Ok(());
    }
    let found = go_format::json_name(value);
    Err(format!("json: cannot unmarshal {found} into Go struct field jsonPatchOp.{key} of type string"))
}

fn cannot_be(value: &Value, wanted: &str) -> String {
    format!("json: cannot unmarshal {} into Go value of type {wanted}", go_format::json_name(value))
}

/// The number of unknown fields that are reported at most, as in sigs.k8s.io/json
/// internal/golang/encoding/json/kubernetes_patch.go.
const MAX_STRICT_ERRORS: usize = 100;

/// Returns the strict errors for unknown fields of operations.
fn unknown_operation_fields(operations: &[Value]) -> Vec<String> {
    let known = ["op", "path", "from", "value"];
    let mut errors = Vec::new();
    for (i, operation) in operations.iter().enumerate() {
        let keys = operation.as_object().into_iter().flat_map(Map::keys);
        for key in keys.filter(|key| !known.contains(&key.as_str())) {
            if errors.len() < MAX_STRICT_ERRORS {
                errors.push(format!("json patch unknown field \"[{i}].{key}\""));
            }
        }
    }
    errors
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::NoDefinitions;
    use serde_json::json;

    fn decode_error(kind: PatchKind, body: &str, checked: bool) -> (u16, String) {
        let status = Patch::decode(kind, body.as_bytes(), checked).expect_err("the body is rejected").0;
        (status.code, status.message)
    }

    /// Recorded from kube-apiserver 1.36.
    #[test]
    fn undecodable_bodies_get_the_messages_of_kube_apiserver() {
        use PatchKind::{Json, Merge, Strategic};
        for (kind, body, checked, message) in [
            (
                Json,
                "{}",
                true,
                "error decoding patch: json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp",
            ),
            (
                Json,
                "[1]",
                true,
                "error decoding patch: json: cannot unmarshal number into Go value of type handlers.jsonPatchOp",
            ),
            (
                Json,
                r#"[{"op":1}]"#,
                true,
                "error decoding patch: json: cannot unmarshal number into Go struct field jsonPatchOp.op of type string",
            ),
            (Json, "[{", true, "error decoding patch: unexpected end of JSON input"),
            (Json, "{}", false, "json: cannot unmarshal object into Go value of type jsonpatch.Patch"),
            (Json, "[5]", false, "json: cannot unmarshal number into Go value of type jsonpatch.Operation"),
            (Json, "[{", false, "unexpected end of JSON input"),
            (
                Merge,
                "[]",
                true,
                "error decoding patch: json: cannot unmarshal array into Go value of type map[string]interface {}",
            ),
            (Merge, "{", true, "error decoding patch: unexpected end of JSON input"),
            (Merge, "null", true, "Invalid JSON Patch"),
            (Merge, "null", false, "Invalid JSON Patch"),
            (Merge, "{", false, "Invalid JSON Patch"),
            (Merge, "5", false, "Invalid JSON Patch"),
            (
                Strategic,
                "[]",
                true,
                "json: cannot unmarshal array into Go value of type map[string]interface {}",
            ),
            (
                Strategic,
                "5",
                false,
                "json: cannot unmarshal number into Go value of type map[string]interface {}",
            ),
            (Strategic, "{", true, "unexpected end of JSON input"),
        ] {
            assert_eq!(decode_error(kind, body, checked), (400, message.to_owned()), "{kind:?} {body}");
        }
    }

    #[test]
    fn empty_patches_change_nothing() {
        let original = json!({"a": {"b": [1]}});
        for (kind, body) in [
            (PatchKind::Json, "null"),
            (PatchKind::Json, "[]"),
            (PatchKind::Merge, "{}"),
            (PatchKind::Strategic, "null"),
            (PatchKind::Strategic, "{}"),
        ] {
            let patch = Patch::decode(kind, body.as_bytes(), true).expect("a patch");
            assert_eq!(patch.apply(&original, &Schema::Any, &NoDefinitions), Ok(original.clone()), "{body}");
        }
    }

    #[test]
    fn a_patch_that_replaces_the_object_with_a_list_is_rejected() {
        for (kind, body) in
            [(PatchKind::Json, r#"[{"op":"replace","path":"","value":[]}]"#), (PatchKind::Merge, "[]")]
        {
            let patch = Patch::decode(kind, body.as_bytes(), false).expect("a patch");
            let refusal =
                patch.apply(&json!({}), &Schema::Any, &NoDefinitions).expect_err("a list is not an object");
            assert_eq!(
                refusal.0.message,
                r#" "" is invalid: patch: Invalid value: "[]": couldn't get version/kind; json parse error: json: cannot unmarshal array into Go value of type struct { APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" }"#
            );
            assert_eq!((refusal.0.code, refusal.0.causes()[0].field.as_str()), (422, "patch"));
        }
    }

    #[test]
    fn an_undecodable_result_shows_the_object_or_for_a_strategic_patch_the_patch() {
        let why = r#"strict decoding error: unknown field "foo""#;
        for (kind, shown) in
            [(PatchKind::Merge, r#""{\"a\":1,\"foo\":1}""#), (PatchKind::Strategic, r#""map[foo:1]""#)]
        {
            let patch = Patch::decode(kind, br#"{"foo":1}"#, true).expect("a patch");
            let refusal = patch.unfit(r#"{"a":1,"foo":1}"#, why);
            assert_eq!(refusal.0.causes()[0].message, format!("Invalid value: {shown}: {why}"));
        }
    }

    #[test]
    fn unknown_fields_of_operations_are_reported_only_when_checked() {
        let body = br#"[{"op":"add","path":"/data/k","value":"x","extra":1}]"#;
        let found = |checked| {
            Patch::decode(PatchKind::Json, body, checked).expect("a patch").strict_errors().to_vec()
        };
        assert_eq!(found(true), [r#"json patch unknown field "[0].extra""#]);
        assert!(found(false).is_empty());
    }

    #[test]
    fn the_content_type_selects_the_patch_type() {
        let kind = PatchKind::from_content_type;
        assert_eq!(kind("application/json-patch+json"), Some(PatchKind::Json));
        assert_eq!(kind("application/merge-patch+json; charset=utf-8"), Some(PatchKind::Merge));
        assert_eq!(kind("application/strategic-merge-patch+json"), Some(PatchKind::Strategic));
        assert_eq!(kind("application/apply-patch+yaml"), None);
        assert_eq!(kind("application/json"), None);
    }
}
