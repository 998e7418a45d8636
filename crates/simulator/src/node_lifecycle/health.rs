//! The health of a node: its kubelet renews a lease, and is lost if it does not.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::json_access::{items, text};

/// The time without a renewal after which a node is lost: the default of
/// `--node-monitor-grace-period`.
const GRACE_PERIOD: SignedDuration = SignedDuration::from_secs(50);

/// The conditions that only the kubelet knows.
const OF_KUBELET: [&str; 4] = ["Ready", "MemoryPressure", "DiskPressure", "PIDPressure"];

/// The health of a node by its lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Health {
    /// The lease has been renewed; the time that is left for the next renewal.
    Renewed(Duration),
    /// The lease has not been renewed in time.
    Lost,
    /// There is no lease.
    NotKnown,
}

/// Returns the health of a node with this lease, which has been known for some time: after a break
/// of the whole cluster, each node gets the time for a renewal. A node without a lease is not lost:
/// by default, the simulator renews none.
pub(super) fn health(lease: Option<&Value>, known_for: Duration, now: Timestamp) -> Health {
    let renewed = lease.and_then(|it| text(it, "/spec/renewTime").parse::<Timestamp>().ok());
    let Some(renewed) = renewed else { return Health::NotKnown };
    let known_for = SignedDuration::try_from(known_for).unwrap_or(SignedDuration::MAX);
    let rest = GRACE_PERIOD.saturating_sub(now.duration_since(renewed).min(known_for));
    match Duration::try_from(rest) {
        Ok(rest) if !rest.is_zero() => Health::Renewed(rest),
        _ => Health::Lost,
    }
}

/// Sets the conditions that are not known any more. Returns true if that changed anything.
pub(super) fn lose(node: &mut Value, now: &str) -> bool {
    let (mut changed, created) = (false, text(node, "/metadata/creationTimestamp").to_owned());
    let mut conditions = items(node, "/status/conditions").to_vec();
    for kind in OF_KUBELET {
        match conditions.iter_mut().find(|it| text(it, "/type") == kind) {
            Some(known) if text(known, "/status") == "Unknown" => continue,
            Some(known) => {
                known["status"] = "Unknown".into();
                known["reason"] = "NodeStatusUnknown".into();
                known["message"] = "Kubelet stopped posting node status.".into();
                known["lastTransitionTime"] = now.into();
            }
            None => conditions.push(json!({ "type": kind, "status": "Unknown",
                "reason": "NodeStatusNeverUpdated", "message": "Kubelet never posted node status.",
                "lastHeartbeatTime": created, "lastTransitionTime": now })),
        }
        changed = true;
    }
    if changed {
        node["status"]["conditions"] = conditions.into();
    }
    changed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_lost_when_its_lease_is_not_renewed_in_time() {
        let lease = json!({ "spec": { "renewTime": "2026-01-01T00:00:00.000000Z" } });
        let at = |text: &str| text.parse::<Timestamp>().unwrap();
        for (known_for, now, expected) in [
            (900, "2026-01-01T00:00:00Z", Health::Renewed(Duration::from_secs(50))),
            (900, "2026-01-01T00:00:49Z", Health::Renewed(Duration::from_secs(1))),
            (900, "2026-01-01T00:00:50Z", Health::Lost),
            (900, "2026-01-01T01:00:00Z", Health::Lost),
            (20, "2026-01-01T01:00:00Z", Health::Renewed(Duration::from_secs(30))),
        ] {
            let known_for = Duration::from_secs(known_for);
            assert_eq!(health(Some(&lease), known_for, at(now)), expected, "{known_for:?} {now}");
        }
        let (start, long) = (at("2026-01-01T00:00:00Z"), Duration::MAX);
        assert_eq!(health(None, long, start), Health::NotKnown);
        assert_eq!(health(Some(&json!({})), long, start), Health::NotKnown);
        assert_eq!(health(Some(&lease), long, at("2026-01-01T01:00:00Z")), Health::Lost);
    }

    #[test]
    fn the_conditions_of_a_lost_node_are_unknown() {
        let mut node = json!({ "metadata": { "creationTimestamp": "t0" }, "status": { "conditions": [
            { "type": "Ready", "status": "True", "reason": "KubeletReady", "lastTransitionTime": "t1" },
            { "type": "NetworkUnavailable", "status": "False" }] } });
        assert!(lose(&mut node, "t2") && !lose(&mut node, "t3"));
        let conditions = items(&node, "/status/conditions");
        let found: Vec<_> = conditions
            .iter()
            .map(|it| (text(it, "/type"), text(it, "/status"), text(it, "/reason")))
            .collect();
        assert_eq!(
            found,
            [
                ("Ready", "Unknown", "NodeStatusUnknown"),
                ("NetworkUnavailable", "False", ""),
                ("MemoryPressure", "Unknown", "NodeStatusNeverUpdated"),
                ("DiskPressure", "Unknown", "NodeStatusNeverUpdated"),
                ("PIDPressure", "Unknown", "NodeStatusNeverUpdated"),
            ]
        );
        assert_eq!(
            (&conditions[0]["lastTransitionTime"], &conditions[2]["lastHeartbeatTime"]),
            (&json!("t2"), &json!("t0"))
        );
    }
}
