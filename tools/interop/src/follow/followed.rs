//! What is followed: where it is, what an object looks like, and how long anybody may take.

use std::time::Duration;

use hyper::body::Bytes;
use serde_json::json;

/// The namespace that is followed.
pub(super) const NAMESPACE: &str = "followed";
/// The object that says that it is over.
pub(super) const END: &str = "the-end";
/// How long a follower may take to get its first copy, and its last change.
pub(super) const PATIENCE: Duration = Duration::from_secs(120);

/// A ConfigMap to be followed.
pub(super) fn object(name: &str, change: usize) -> Bytes {
    let map = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name },
        "data": { "change": change.to_string(), "text": "äöü \u{1f436} \\ \" \n".repeat(10) },
    });
    Bytes::from(map.to_string())
}
