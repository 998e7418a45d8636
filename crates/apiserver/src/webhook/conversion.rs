//! ConversionReviews, which convert objects between versions of a custom kind, with the messages of
//! k8s.io/apiextensions-apiserver v0.36.4 pkg/apiserver/conversion/webhook_converter.go.

use bytes::Bytes;
use serde::Serialize;
use serde_json::{Value, json};

use crate::kinds::json_access::{items, text};
use crate::kinds::validate;
use crate::object_limits;

const GROUP: &str = "apiextensions.k8s.io";
/// The versions of a review that can be sent, the preferred one first.
const VERSIONS: [&str; 2] = ["v1", "v1beta1"];

/// Returns the version of a review that a webhook accepts, by its `conversionReviewVersions`.
pub(crate) fn version_for(webhook: &Value) -> Option<&'static str> {
    let understood = items(webhook, "/conversionReviewVersions");
    VERSIONS.into_iter().find(|it| understood.iter().any(|said| said == it))
}

/// A review. It borrows the objects, which may be large.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Review<'a> {
    kind: &'static str,
    api_version: String,
    request: ReviewRequest<'a>,
}

#[derive(Serialize)]
struct ReviewRequest<'a> {
    uid: &'a str,
    #[serde(rename = "desiredAPIVersion")]
    desired: &'a str,
    objects: &'a [Value],
}

/// Returns the JSON of a review that requests these objects in the version `desired`, such as
/// `example.com/v2`.
pub(crate) fn question(version: &str, uid: &str, desired: &str, objects: &[Value]) -> Bytes {
    let request = ReviewRequest { uid, desired, objects };
    let review = Review { kind: "ConversionReview", api_version: format!("{GROUP}/{version}"), request };
    Bytes::from(serde_json::to_vec(&review).expect("writing JSON to memory does not fail"))
}

/// Reads the response to such a review: an object for each that was sent, in order.
///
/// # Errors
/// The error of the webhook, or the problem of its response.
pub(crate) fn read(
    answer: &Value,
    uid: &str,
    desired: &str,
    objects: &[Value],
) -> Result<Vec<Value>, String> {
    let said = text(answer, "/response/uid");
    if said != uid {
        return Err(format!("expected response.uid={uid:?}, got {said:?}"));
    }
    match (text(answer, "/response/result/status"), text(answer, "/response/result/message")) {
        ("Success", _) => {}
        (_, "") => return Err("<no message>".to_owned()),
        (_, message) => return Err(message.to_owned()),
    }
    let converted = items(answer, "/response/convertedObjects");
    if converted.len() != objects.len() {
        let (got, sent) = (converted.len(), objects.len());
        return Err(format!("webhook returned {got} objects, expected {sent}"));
    }
    let pairs = objects.iter().zip(converted).enumerate();
    pairs.map(|(index, (from, to))| accepted(index, from, to, desired)).collect()
}

/// Returns a converted object, with the metadata that a webhook may not change.
fn accepted(index: usize, from: &Value, to: &Value, desired: &str) -> Result<Value, String> {
    let wrong = |why: String| format!("webhook returned invalid converted object at index {index}: {why}");
    let (version, kind) = (text(to, "/apiVersion"), text(to, "/kind"));
    if version != desired {
        return Err(wrong(format!("invalid groupVersion (expected {desired}, received {version})")));
    }
    if let Some(why) = object_limits::violation(to) {
        return Err(wrong(why));
    }
    if kind != text(from, "/kind") {
        return Err(wrong(format!("invalid kind (expected {}, received {kind})", text(from, "/kind"))));
    }
    for field in ["/metadata/name", "/metadata/namespace", "/metadata/uid"] {
        if text(to, field) != text(from, field) {
            let name = field.rsplit('/').next().unwrap_or_default();
            return Err(wrong(format!("metadata.{name} may not change")));
        }
    }
    let mut object = to.clone();
    let mut metadata = from["metadata"].clone();
    if let Some(fields) = metadata.as_object_mut() {
        for field in ["labels", "annotations"] {
            match to["metadata"].get(field).filter(|it| !it.is_null()) {
                Some(said) => {
                    if from["metadata"].get(field) != Some(said) {
                        check_field(field, said).map_err(wrong)?;
                    }
                    fields.insert(field.to_owned(), said.clone())
                }
                None => fields.remove(field),
            };
        }
    }
    object["metadata"] = metadata;
    Ok(object)
}

/// Checks labels or annotations that a webhook has changed (`restoreObjectMeta` in
/// k8s.io/apiextensions-apiserver v0.36.4 pkg/apiserver/conversion/webhook_converter.go).
fn check_field(field: &str, said: &Value) -> Result<(), String> {
    let Some(entries) = said.as_object() else {
        return Err(format!("metadata.{field} must be an object in the converted object"));
    };
    if let Some((key, _)) = entries.iter().find(|(_, it)| !it.is_string()) {
        return Err(format!("metadata.{field}[{key}] must be a string in the converted object"));
    }
    let problems = validate::metadata::labels_and_annotations(&json!({ "metadata": { field: said } }));
    problems.first().map_or(Ok(()), |it| Err(it.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(version: &str, metadata: Value) -> Value {
        json!({ "apiVersion": format!("e.test/{version}"), "kind": "A", "metadata": metadata })
    }

    fn answer(result: Value, converted: Value) -> Value {
        json!({ "response": { "uid": "u", "result": result, "convertedObjects": converted } })
    }

    #[test]
    fn a_webhook_changes_labels_and_annotations_and_no_other_metadata() {
        let from = object("v1", json!({ "name": "a", "uid": "1", "generation": 3, "labels": { "a": "b" } }));
        let to =
            object("v2", json!({ "name": "a", "uid": "1", "generation": 9, "annotations": { "c": "d" } }));
        let read = read(&answer(json!({ "status": "Success" }), json!([to])), "u", "e.test/v2", &[from]);
        let metadata = json!({ "name": "a", "uid": "1", "generation": 3, "annotations": { "c": "d" } });
        assert_eq!(read, Ok(vec![object("v2", metadata)]));
    }

    #[test]
    fn an_invalid_response_is_an_error_with_a_reason() {
        let from = [object("v1", json!({ "name": "a" }))];
        let why = |answer: Value| read(&answer, "u", "e.test/v2", &from).unwrap_err();
        let fine = json!({ "status": "Success" });
        assert_eq!(why(answer(json!({ "status": "Failure", "message": "no" }), json!([]))), "no");
        assert_eq!(why(answer(fine.clone(), json!([]))), "webhook returned 0 objects, expected 1");
        assert_eq!(why(json!({ "response": {} })), r#"expected response.uid="u", got """#);
        let same = json!([object("v1", json!({ "name": "a" }))]);
        assert!(
            why(answer(fine.clone(), same))
                .contains("invalid groupVersion (expected e.test/v2, received e.test/v1)")
        );
        let renamed = json!([object("v2", json!({ "name": "b" }))]);
        assert!(why(answer(fine, renamed)).contains("metadata.name may not change"));
    }
}
