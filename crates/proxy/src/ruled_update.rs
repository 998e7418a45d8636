//! Updates (PUT) of objects that rules change: the object to store is the stored one, with the
//! changes that the caller has made to the one that it sees.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use dogwatch_apiserver::mirror::MirrorObject;
use dogwatch_client::{RequestBody, ResponseBody, boxed};
use http::StatusCode;
use http::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, HeaderValue};
use http::request::Parts;
use http_body_util::BodyExt;
use serde_json::Value;

use crate::answer::{self, Answer};
use crate::rules::{RefusedWrite, Rule, restored};

/// The maximum size of a request: `MaxRequestBodyBytes` in k8s.io/apiserver v0.36.4
/// pkg/server/config.go.
pub(crate) const MAX_REQUEST: usize = 3 * 1024 * 1024;

/// Reads the object of an update. The error is the answer.
pub(crate) async fn written(parts: &Parts, body: ResponseBody) -> Result<Value, Answer> {
    let media = parts.headers.get(CONTENT_TYPE).and_then(|it| it.to_str().ok()).unwrap_or("application/json");
    let media = media.split(';').next().unwrap_or_default().trim();
    let is_plain = !parts.headers.contains_key(CONTENT_ENCODING);
    let (is_json, is_protobuf) =
        (media == "application/json", media == "application/vnd.kubernetes.protobuf");
    if !is_plain || !(is_json || is_protobuf) {
        let message =
            "the proxy has rules for this resource, and reads its updates in JSON and protobuf only";
        return Err(answer::error(StatusCode::UNSUPPORTED_MEDIA_TYPE, "UnsupportedMediaType", message));
    }
    let Some(bytes) = collected(body, MAX_REQUEST).await else {
        let message = "the object is too large, or broke off";
        return Err(answer::error(StatusCode::PAYLOAD_TOO_LARGE, "RequestEntityTooLarge", message));
    };
    let object = if is_json { MirrorObject::json(bytes) } else { MirrorObject::protobuf(bytes) };
    // Upstream might understand more of it, and store it without the values that are not shown.
    object.to_value().map_err(|error| {
        let message = format!("the proxy has rules for this resource, and cannot read the object: {error}");
        answer::error(StatusCode::BAD_REQUEST, "BadRequest", &message)
    })
}

/// Returns the object to store; the written one if none is stored.
pub(crate) fn merged(
    rules: &[Arc<Rule>],
    mut written: Value,
    stored: Option<&Value>,
) -> Result<Value, RefusedWrite> {
    let Some(metadata) = written.get_mut("metadata").and_then(Value::as_object_mut) else {
        return Err(RefusedWrite::Malformed("it has no metadata"));
    };
    let Some(stored) = stored else { return Ok(written) };
    let version = &stored["metadata"]["resourceVersion"];
    match metadata.get("resourceVersion") {
        // The values that are put back are those of this version.
        None | Some(Value::Null) => drop(metadata.insert("resourceVersion".to_owned(), version.clone())),
        Some(given) if given == "" => drop(metadata.insert("resourceVersion".to_owned(), version.clone())),
        Some(given) if given != version => return Err(RefusedWrite::Changed),
        Some(_) => {}
    }
    restored(rules, written, stored)
}

/// Returns the body of an update with this object.
pub(crate) fn body(parts: &mut Parts, object: &Value) -> ResponseBody {
    let text = Bytes::from(object.to_string());
    parts.headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    parts.headers.insert(CONTENT_LENGTH, text.len().into());
    boxed(RequestBody::new(text))
}

/// Reads a whole body; `None` if it is larger than the limit or breaks off.
pub(crate) async fn collected(mut body: ResponseBody, limit: usize) -> Option<Bytes> {
    let mut bytes = BytesMut::new();
    while let Some(frame) = body.frame().await {
        if let Ok(data) = frame.ok()?.into_data() {
            if bytes.len() + data.len() > limit {
                return None;
            }
            bytes.extend_from_slice(&data);
        }
    }
    Some(bytes.freeze())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_update_is_of_the_version_that_was_read() {
        let stored = json!({ "metadata": { "name": "a", "resourceVersion": "7" } });
        let merge = |metadata: Value| merged(&[], json!({ "metadata": metadata }), Some(&stored));
        let version =
            |it: Result<Value, RefusedWrite>| it.map(|it| it["metadata"]["resourceVersion"].clone());
        for metadata in [json!({}), json!({ "resourceVersion": "" }), json!({ "resourceVersion": "7" })] {
            assert_eq!(version(merge(metadata)), Ok("7".into()));
        }
        assert_eq!(merge(json!({ "resourceVersion": "6" })), Err(RefusedWrite::Changed));
        assert!(matches!(merge(json!([])), Err(RefusedWrite::Malformed(_))));
        assert_eq!(version(merged(&[], json!({ "metadata": {} }), None)), Ok(Value::Null));
    }

    #[tokio::test]
    async fn a_body_that_upstream_might_understand_better_is_refused() {
        let (parts, ()) = http::Request::new(()).into_parts();
        for body in
            [&br#"{"metadata":{},"data":{"a":"\ud800"}}"#[..], b"{\"a\":\"\xff\"}", br#"{"a":1e999}"#, b"{"]
        {
            let body = boxed(RequestBody::new(Bytes::copy_from_slice(body)));
            let refused = written(&parts, body).await.unwrap_err();
            assert_eq!(refused.status(), StatusCode::BAD_REQUEST);
        }
        let large = boxed(RequestBody::new(Bytes::from(vec![b' '; MAX_REQUEST + 1])));
        assert_eq!(written(&parts, large).await.unwrap_err().status(), StatusCode::PAYLOAD_TOO_LARGE);
    }
}
