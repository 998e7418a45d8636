//! The followed objects: their names and content, and the timeout of a follower.

use std::time::Duration;

use hyper::body::Bytes;
use serde_json::json;

/// The object that marks the end of the run.
pub(super) const END: &str = "the-end";
/// The time within which a follower has to get its initial list, and its last change.
pub(super) const TIMEOUT: Duration = Duration::from_secs(120);

/// Returns a ConfigMap to follow.
pub(super) fn object(name: &str, change: usize) -> Bytes {
    let map = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name },
        "data": { "change": change.to_string(), "text": "äöü \u{1f436} \\ \" \n".repeat(10) },
    });
    Bytes::from(map.to_string())
}
