//! The status of a DaemonSet.

use serde_json::{Value, json};

use super::placement::Wanted;
use super::plan::ByNode;
use crate::json_access::number;

/// Returns the status.
pub(super) fn status(set: &Value, by_node: &ByNode<'_>, collisions: i64) -> Value {
    let (mut current, mut misplaced, mut ready, mut updated, mut available) =
        (0_i64, 0_i64, 0_i64, 0_i64, 0_i64);
    for (node, wanted) in by_node.wanted() {
        match (by_node.on(node).first(), wanted) {
            (Some(pod), Wanted::Yes) => {
                current += 1;
                ready += i64::from(pod.ready.is_some());
                available += i64::from(by_node.is_available(pod));
                updated += i64::from(by_node.is_updated(pod));
            }
            (Some(_), _) => misplaced += 1,
            (None, _) => {}
        }
    }
    let desired = i64::try_from(by_node.desired()).unwrap_or(i64::MAX);
    let mut status = json!({ "desiredNumberScheduled": desired, "currentNumberScheduled": current,
        "numberMisscheduled": misplaced, "numberReady": ready });
    for (field, count) in [
        ("observedGeneration", number(set, "/metadata/generation").unwrap_or(0)),
        ("updatedNumberScheduled", updated),
        ("numberAvailable", available),
        ("numberUnavailable", desired.saturating_sub(available)),
        ("collisionCount", collisions),
    ] {
        if count != 0 {
            status[field] = count.into();
        }
    }
    if let Some(conditions) = set["status"].get("conditions") {
        status["conditions"] = conditions.clone();
    }
    status
}
