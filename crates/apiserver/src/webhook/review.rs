//! AdmissionReviews: the response of a webhook, and the errors that follow from it. The messages
//! are those of k8s.io/apiserver v0.36.4 pkg/admission/plugin/webhook, in
//! request/admissionreview.go and errors/statuserror.go.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use dogwatch_core::Status;
use serde::Serialize;
use serde_json::Value;

use crate::ApiError;
use crate::kinds::json_access::{at, flag, items, text};

const GROUP: &str = "admission.k8s.io";
/// The versions of a review that can be sent.
const VERSIONS: [&str; 2] = ["v1", "v1beta1"];

/// The response of a webhook.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Verdict {
    pub(crate) allowed: bool,
    /// The reason of a denial, if the webhook gives one.
    pub(crate) status: Option<Value>,
    /// A JSON patch.
    pub(crate) patch: Option<Vec<u8>>,
    /// Warnings for the client.
    pub(crate) warnings: Vec<String>,
}

/// Returns the version of the reviews for a webhook: the first known one of those it accepts.
pub(crate) fn version_for(webhook: &Value) -> Option<&'static str> {
    let mut understood = items(webhook, "/admissionReviewVersions").iter();
    understood.find_map(|said| VERSIONS.into_iter().find(|it| said == it))
}

/// The request of a review. It borrows the objects, which may be large.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ReviewRequest<'a> {
    /// An object with all other fields.
    #[serde(flatten)]
    pub(crate) attributes: Value,
    pub(crate) object: Option<&'a Value>,
    pub(crate) old_object: Option<&'a Value>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Review<'a> {
    kind: &'static str,
    api_version: String,
    request: &'a ReviewRequest<'a>,
}

/// Returns the JSON of a review with this request.
pub(crate) fn question(version: &str, request: &ReviewRequest<'_>) -> Bytes {
    let review = Review { kind: "AdmissionReview", api_version: format!("{GROUP}/{version}"), request };
    Bytes::from(serde_json::to_vec(&review).expect("writing JSON to memory does not fail"))
}

/// The purpose for which a webhook is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// It may change the object.
    Mutate,
    /// It may only accept or deny the request.
    Validate,
}

/// Reads the response to a review of that version, for the request with that uid.
///
/// # Errors
/// The problem of the response.
pub(crate) fn read(answer: &Value, version: &str, uid: &str, purpose: Purpose) -> Result<Verdict, String> {
    let api_version = format!("{GROUP}/{version}");
    let (said_version, said_kind) = (text(answer, "/apiVersion"), text(answer, "/kind"));
    // Only v1 requires responses to name their type and their request (`VerifyAdmissionResponse` in
    // request/admissionreview.go). Another type than that of the review cannot be decoded.
    let is_v1 = version == "v1";
    let is_type = |said: &str, wanted: &str| said == wanted || (said.is_empty() && !is_v1);
    if !is_type(said_version, &api_version) || !is_type(said_kind, "AdmissionReview") {
        return Err(format!(
            "expected webhook response of {GROUP}/{version}, Kind=AdmissionReview, got {said_version}, Kind={said_kind}"
        ));
    }
    let response = at(answer, "/response")
        .filter(|it| it.is_object())
        .ok_or_else(|| "webhook response was absent".to_owned())?;
    let said = text(response, "/uid");
    if is_v1 && said != uid {
        return Err(format!("expected response.uid={uid:?}, got {said:?}"));
    }
    let encoded = text(response, "/patch");
    let patch_type = at(response, "/patchType").filter(|it| !it.is_null());
    if is_v1 {
        verify_patch(encoded, patch_type, purpose)?;
    }
    let patch = match purpose {
        Purpose::Mutate if !encoded.is_empty() => {
            Some(STANDARD.decode(encoded).map_err(|why| why.to_string())?)
        }
        // A patch of a validating webhook has no effect in v1beta1.
        _ => None,
    };
    let warnings = items(response, "/warnings").iter().filter_map(Value::as_str);
    Ok(Verdict {
        allowed: flag(response, "/allowed"),
        status: at(response, "/status").filter(|it| it.is_object()).cloned(),
        patch,
        warnings: warnings.map(str::to_owned).collect(),
    })
}

/// Checks the patch and its type in a response of version v1, as `VerifyAdmissionResponse` does.
fn verify_patch(encoded: &str, patch_type: Option<&Value>, purpose: Purpose) -> Result<(), String> {
    let problem = match (purpose, encoded.is_empty(), patch_type) {
        (_, true, None) => return Ok(()),
        (Purpose::Mutate, false, Some(it)) if it == "JSONPatch" => return Ok(()),
        (Purpose::Mutate, false, Some(it)) => {
            return Err(format!("invalid response.patchType, expected \"JSONPatch\", got {it}"));
        }
        (Purpose::Mutate, false, None) => "webhook returned response.patch but not response.patchType",
        (Purpose::Mutate, true, Some(_)) => "webhook returned response.patchType but not response.patch",
        (Purpose::Validate, false, _) => "validating webhook may not return response.patch",
        (Purpose::Validate, true, Some(_)) => "validating webhook may not return response.patchType",
    };
    Err(problem.to_owned())
}

/// Returns the error of a request that a webhook denies, for the reason it gives.
pub(crate) fn denied(webhook: &str, status: Option<&Value>) -> ApiError {
    let mut said: Status = status.and_then(|it| serde_json::from_value(it.clone()).ok()).unwrap_or_default();
    if said.code < 400 {
        said.code = 400;
    }
    said.status = Some("Failure".to_owned());
    let denied = format!("admission webhook {webhook:?} denied the request");
    said.message = match (said.message.as_str(), said.reason.as_str()) {
        ("", "") => format!("{denied} without explanation"),
        ("", reason) => format!("{denied}: {reason}"),
        (message, _) => format!("{denied}: {message}"),
    };
    ApiError(Box::new(said))
}

/// Returns the error of a request whose webhook could not be called.
pub(crate) fn unanswered(webhook: &str, why: &str) -> ApiError {
    broken(&format!("failed calling webhook {webhook:?}: failed to call webhook: {why}"))
}

/// Returns the error of a request whose webhook gave an unusable response.
pub(crate) fn broken(why: &str) -> ApiError {
    ApiError::internal_failure(why)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_review_has_the_attributes_and_both_objects() {
        let attributes = json!({ "uid": "u", "dryRun": false });
        let old = json!({ "k": [1.5] });
        let question = question("v1", &ReviewRequest { attributes, object: None, old_object: Some(&old) });
        let expected = json!({ "kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1",
            "request": { "uid": "u", "dryRun": false, "object": null, "oldObject": old } });
        assert_eq!(serde_json::from_slice::<Value>(&question).unwrap(), expected);
    }

    fn answer(response: Value) -> Value {
        json!({ "kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "response": response })
    }

    #[test]
    fn the_first_known_version_that_the_webhook_lists_is_used() {
        let understood = |versions: &[&str]| version_for(&json!({ "admissionReviewVersions": versions }));
        assert_eq!(understood(&["v1", "v1beta1"]), Some("v1"));
        assert_eq!(understood(&["v1beta1", "v1"]), Some("v1beta1"));
        assert_eq!(understood(&["v2", "v1beta1"]), Some("v1beta1"));
        assert_eq!(understood(&["v2"]), None);
    }

    /// Regression test: responses of version v1beta1 were held to the rules of v1.
    #[test]
    fn a_v1beta1_response_needs_neither_a_type_nor_a_uid_nor_a_patch_type() {
        let read = |answer: Value| read(&answer, "v1beta1", "u", Purpose::Mutate);
        let response = json!({ "allowed": true, "patch": "W10=" });
        let typed =
            |version: &str, kind: &str| json!({ "apiVersion": version, "kind": kind, "response": response });
        for answer in [
            json!({ "response": response }),
            typed("", ""),
            typed("admission.k8s.io/v1beta1", "AdmissionReview"),
        ] {
            let verdict = read(answer.clone()).unwrap_or_else(|why| panic!("{answer}: {why}"));
            assert_eq!((verdict.allowed, verdict.patch), (true, Some(b"[]".to_vec())));
        }
        assert_eq!(read(json!({})).unwrap_err(), "webhook response was absent");
        for answer in [typed("admission.k8s.io/v1", "AdmissionReview"), typed("v1", "Status")] {
            assert!(read(answer.clone()).is_err(), "{answer} cannot be decoded as a review of v1beta1");
        }
    }

    #[test]
    fn a_response_to_another_request_is_an_error() {
        let read = |answer: Value| read(&answer, "v1", "u", Purpose::Mutate);
        let fine = read(answer(json!({ "uid": "u", "allowed": true, "warnings": ["w"] }))).unwrap();
        assert_eq!((fine.allowed, fine.patch, fine.warnings), (true, None, vec!["w".to_owned()]));
        let patched = json!({ "uid": "u", "allowed": true, "patchType": "JSONPatch", "patch": "W10=" });
        assert_eq!(read(answer(patched)).unwrap().patch, Some(b"[]".to_vec()));
        let why = |it: Value| read(it).unwrap_err();
        assert_eq!(why(answer(json!({ "uid": "x" }))), r#"expected response.uid="u", got "x""#);
        assert_eq!(why(answer(Value::Null)), "webhook response was absent");
        assert_eq!(
            why(json!({ "kind": "Status", "apiVersion": "v1" })),
            "expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, got v1, Kind=Status"
        );
    }

    #[test]
    fn only_mutating_webhooks_return_patches_and_each_with_its_type() {
        let (patch, json_patch) = (Some("W10="), Some("JSONPatch"));
        for (purpose, patch, patch_type, problem) in [
            (Purpose::Mutate, patch, None, "webhook returned response.patch but not response.patchType"),
            (Purpose::Mutate, patch, Some("Merge"), "invalid response.patchType, expected"),
            (Purpose::Mutate, None, json_patch, "webhook returned response.patchType but not response.patch"),
            (Purpose::Validate, patch, json_patch, "validating webhook may not return response.patch"),
            (Purpose::Validate, None, json_patch, "validating webhook may not return response.patchType"),
        ] {
            let response = json!({ "uid": "u", "allowed": true, "patch": patch, "patchType": patch_type });
            let why = read(&answer(response), "v1", "u", purpose).unwrap_err();
            assert!(why.starts_with(problem), "{why}");
        }
        let old = json!({ "response": { "allowed": true, "patch": "W10=" } });
        assert_eq!(read(&old, "v1beta1", "u", Purpose::Validate).unwrap().patch, None);
    }

    #[test]
    fn a_denial_names_the_webhook_and_the_reason_and_is_never_a_success() {
        for (status, code, message) in [
            (json!({ "message": "no", "code": 403, "reason": "Forbidden" }), 403, ": no"),
            (json!({}), 400, " without explanation"),
            (json!({ "reason": "Why" }), 400, ": Why"),
            (json!({ "code": 200, "status": "Success", "message": "m" }), 400, ": m"),
        ] {
            let refusal = denied("h.test", Some(&status)).0;
            let whole = format!("admission webhook \"h.test\" denied the request{message}");
            assert_eq!((refusal.code, refusal.message.as_str()), (code, whole.as_str()));
            assert_eq!(refusal.status.as_deref(), Some("Failure"));
        }
        assert_eq!(denied("h.test", None).0.code, 400);
    }
}
