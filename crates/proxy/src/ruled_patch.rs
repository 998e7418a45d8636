//! Patches (PATCH) of objects that rules may change: one that writes a place that a rule has
//! changed for its caller is refused, and any other is passed on for the version of the object that
//! was checked.

use std::sync::Arc;

use dogwatch_apimachinery::patch::PatchKind;
use dogwatch_client::{RequestBody, ResponseBody, boxed};
use http::StatusCode;
use http::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE};
use http::request::Parts;
use serde_json::{Value, json};

use crate::answer::{self, Answer};
use crate::ruled_update::{MAX_REQUEST, collected};
use crate::rules::{PatchForm, RefusedWrite, Rule, check_patch};

const APPLY: &str = "application/apply-patch+yaml";

/// The place of the version that a patch is for.
const VERSION: &str = "/metadata/resourceVersion";

/// A patch as its caller has sent it.
#[derive(Clone, Debug)]
pub(crate) struct WrittenPatch {
    form: PatchForm,
    value: Value,
}

/// A patch for one version of the object.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct VersionedPatch {
    pub(crate) value: Value,
    /// Set if the caller has asked for this version; otherwise the patch is for any.
    pub(crate) is_required: bool,
}

impl WrittenPatch {
    /// Reads a patch. The error is the answer.
    pub(crate) async fn read(parts: &Parts, body: ResponseBody) -> Result<Self, Answer> {
        let media = parts.headers.get(CONTENT_TYPE).and_then(|it| it.to_str().ok()).unwrap_or_default();
        let form = match PatchKind::from_content_type(media) {
            Some(PatchKind::Json) => Some(PatchForm::Json),
            Some(PatchKind::Merge) => Some(PatchForm::Merge),
            Some(PatchKind::Strategic) => Some(PatchForm::Strategic),
            None if media.split(';').next() == Some(APPLY) => Some(PatchForm::Apply),
            None => None,
        };
        let Some(form) = form.filter(|_| !parts.headers.contains_key(CONTENT_ENCODING)) else {
            let message = "the proxy has rules for this resource, and reads its patches in JSON only";
            return Err(answer::error(StatusCode::UNSUPPORTED_MEDIA_TYPE, "UnsupportedMediaType", message));
        };
        let Some(bytes) = collected(body, MAX_REQUEST).await else {
            let message = "the patch is too large, or broke off";
            return Err(answer::error(StatusCode::PAYLOAD_TOO_LARGE, "RequestEntityTooLarge", message));
        };
        // Upstream might understand more of it: it gets what was read here.
        let value = serde_json::from_slice(&bytes).map_err(|error| {
            let message =
                format!("the proxy has rules for this resource, and reads its patches in JSON only: {error}");
            answer::error(StatusCode::BAD_REQUEST, "BadRequest", &message)
        })?;
        Ok(Self { form, value })
    }

    /// Returns the patch for the stored object. Upstream refuses it for any other version, in which
    /// the rules could change other places.
    pub(crate) fn versioned(
        &self,
        rules: &[Arc<Rule>],
        stored: &Value,
    ) -> Result<VersionedPatch, RefusedWrite> {
        check_patch(rules, self.form, &self.value, stored)?;
        let version = &stored["metadata"]["resourceVersion"];
        let mut value = self.value.clone();
        let is_required = match &mut value {
            Value::Array(operations) => {
                let is_required = requires_version(operations, version)?;
                operations.push(json!({ "op": "add", "path": VERSION, "value": version }));
                is_required
            }
            Value::Object(fields) => {
                let metadata = fields.entry("metadata").or_insert_with(|| json!({}));
                let Value::Object(metadata) = metadata else {
                    return Err(RefusedWrite::Malformed("its metadata is not an object"));
                };
                match metadata.insert("resourceVersion".to_owned(), version.clone()) {
                    None | Some(Value::Null) => false,
                    Some(given) if given == "" => false,
                    Some(given) if given == *version => true,
                    Some(_) => return Err(RefusedWrite::Changed),
                }
            }
            _ => return Err(RefusedWrite::Malformed("it is neither an object nor a list")),
        };
        Ok(VersionedPatch { value, is_required })
    }

    /// Returns the patch as it was sent, for an object that does not exist.
    pub(crate) fn unversioned(self) -> Value {
        self.value
    }
}

/// Returns true if an operation tests or sets the version that the object has.
fn requires_version(operations: &[Value], version: &Value) -> Result<bool, RefusedWrite> {
    let mut is_required = false;
    for operation in operations.iter().filter(|it| it["path"] == VERSION) {
        match operation["op"].as_str() {
            Some("test" | "add" | "replace") if operation["value"] == *version => is_required = true,
            Some("test" | "add" | "replace") => return Err(RefusedWrite::Changed),
            _ => return Err(RefusedWrite::Malformed("it moves the version of the object")),
        }
    }
    Ok(is_required)
}

/// Returns the body of a request with this patch.
pub(crate) fn body(parts: &mut Parts, patch: &Value) -> ResponseBody {
    let text = bytes::Bytes::from(patch.to_string());
    parts.headers.insert(CONTENT_LENGTH, text.len().into());
    boxed(RequestBody::new(text))
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    async fn read(media: &str, body: &str) -> Result<WrittenPatch, StatusCode> {
        let (mut parts, ()) = http::Request::new(()).into_parts();
        parts.headers.insert(CONTENT_TYPE, media.parse().unwrap());
        let body = boxed(RequestBody::new(Bytes::copy_from_slice(body.as_bytes())));
        WrittenPatch::read(&parts, body).await.map_err(|it| it.status())
    }

    #[tokio::test]
    async fn a_patch_in_another_encoding_is_refused() {
        let merge = "application/merge-patch+json";
        for (media, body, code) in [
            ("application/apply-patch+cbor", "{}", 415),
            ("application/json", "{}", 415),
            (merge, "{", 400),
            (merge, r#"{"a":"\ud800"}"#, 400),
            (APPLY, "a: b", 400),
        ] {
            assert_eq!(read(media, body).await.unwrap_err().as_u16(), code, "{media} {body}");
        }
        assert_eq!(read(merge, &" ".repeat(MAX_REQUEST + 1)).await.unwrap_err().as_u16(), 413);
        assert_eq!(read(&format!("{APPLY}; charset=utf-8"), "{}").await.unwrap().form, PatchForm::Apply);
    }

    #[tokio::test]
    async fn a_patch_is_for_the_version_that_was_checked() {
        let stored = json!({ "metadata": { "name": "a", "resourceVersion": "7" } });
        let versioned = async |media: &str, body: Value| {
            read(media, &body.to_string()).await.unwrap().versioned(&[], &stored)
        };
        let merge = "application/merge-patch+json";
        for (metadata, is_required) in [
            (json!({}), false),
            (json!({ "resourceVersion": null }), false),
            (json!({ "resourceVersion": "" }), false),
            (json!({ "resourceVersion": "7" }), true),
        ] {
            let found = versioned(merge, json!({ "metadata": metadata })).await.unwrap();
            let value = json!({ "metadata": { "resourceVersion": "7" } });
            assert_eq!(found, VersionedPatch { value, is_required });
        }
        let other = versioned(merge, json!({ "metadata": { "resourceVersion": "6" } })).await;
        assert_eq!(other, Err(RefusedWrite::Changed));
        let malformed = versioned(merge, json!({ "metadata": null })).await;
        assert!(matches!(malformed, Err(RefusedWrite::Malformed(_))));

        let json_patch = "application/json-patch+json";
        let added = json!({ "op": "add", "path": VERSION, "value": "7" });
        let found = versioned(json_patch, json!([])).await.unwrap();
        assert_eq!(found, VersionedPatch { value: json!([added]), is_required: false });
        let test = json!({ "op": "test", "path": VERSION, "value": "7" });
        let found = versioned(json_patch, json!([test])).await.unwrap();
        assert_eq!(found, VersionedPatch { value: json!([test, added]), is_required: true });
        let old = json!([{ "op": "test", "path": VERSION, "value": "6" }]);
        assert_eq!(versioned(json_patch, old).await, Err(RefusedWrite::Changed));
        let removed = versioned(json_patch, json!([{ "op": "remove", "path": VERSION }])).await;
        assert!(matches!(removed, Err(RefusedWrite::Malformed(_))));
    }
}
