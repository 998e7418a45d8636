//! The deletion of a pod by the cluster, which is reported first, so that a Job does not take it
//! for a failure.

use dogwatch_client::Error;
use dogwatch_core::{DeleteParams, ObjectKey, Preconditions};
use serde_json::Value;

use crate::collection::{Collection, Writer, code};
use crate::condition;
use crate::json_access::{items, text};
use crate::object::Pod;

/// The reason and the message of the condition `DisruptionTarget`.
pub(crate) type Cause = (&'static str, &'static str);

/// Sets the condition `DisruptionTarget` of a pod, and deletes it with its grace period, unless
/// another pod has its name now.
pub(crate) async fn disrupt(
    pods: &Collection<Pod>,
    key: &ObjectKey,
    pod: &Pod,
    (reason, message): Cause,
    now: &str,
    writer: Writer<'_>,
) -> Result<(), Error> {
    let uid = text(pod, "/metadata/uid");
    let mark = |it: &mut Value| {
        if text(it, "/metadata/uid") != uid || condition::is_true(it, "DisruptionTarget") {
            return false;
        }
        let mut conditions = items(it, "/status/conditions").to_vec();
        condition::set(&mut conditions, "DisruptionTarget", "True", reason, message, now);
        it["status"]["conditions"] = conditions.into();
        true
    };
    pods.change(key, "status", writer, mark).await?;
    let this_pod = Preconditions { uid: Some(uid.to_owned()), ..Preconditions::default() };
    let params = DeleteParams::default().preconditions(this_pod);
    match pods.delete(key, &params, writer).await {
        Err(error) if code(&error) != 409 => Err(error),
        _ => Ok(()),
    }
}
