//! One call of a webhook: a POST with a JSON response, within a timeout.

use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, HOST, USER_AGENT};
use http::{Request, StatusCode};
use http_body_util::Full;
use serde_json::Value;

use super::connections::Connections;
use super::target::Target;
use crate::patch::json_mistake;
use crate::request::json;

/// Calls a webhook with a review as JSON, and returns its response.
///
/// # Errors
/// The reason why there is no response, with messages like those of kube-apiserver.
pub(crate) async fn post(
    connections: &Connections,
    target: &Target,
    question: Bytes,
    limit: Duration,
) -> Result<Value, String> {
    let path = format!("{}?timeout={}s", target.path, limit.as_secs());
    let failed =
        |why: String| format!("Post {:?}: {why}", format!("https://{}{path}", target.host.authority));
    let request = Request::post(&path)
        .header(HOST, &target.host.authority)
        .header(USER_AGENT, "kube-apiserver-admission")
        .header(ACCEPT, "application/json, */*")
        .header(CONTENT_TYPE, "application/json")
        .body(Full::new(question))
        .map_err(|why| failed(why.to_string()))?;
    let (code, body) = match tokio::time::timeout(limit, connections.send(&target.host, &request)).await {
        Err(_) => return Err(failed("context deadline exceeded".to_owned())),
        Ok(Err(why)) => return Err(failed(why)),
        Ok(Ok(answered)) => answered,
    };
    match code {
        code if code.is_success() => {
            let (text, answer) = json::parse(&body);
            let why = |it: serde_json::Error| json_mistake(&text).unwrap_or_else(|| it.to_string());
            answer.map_err(|it| format!("couldn't get version/kind; json parse error: {}", why(it)))
        }
        StatusCode::NOT_FOUND => Err("the server could not find the requested resource".to_owned()),
        code if code.is_server_error() => {
            let said = String::from_utf8_lossy(&body);
            Err(format!(
                "an error on the server ({:?}) has prevented the request from succeeding",
                said.trim()
            ))
        }
        _ => Err("the server rejected our request for an unknown reason".to_owned()),
    }
}
