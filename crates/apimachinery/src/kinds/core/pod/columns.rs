//! The row of a pod, whose status summarizes the states of its containers.

use std::collections::{HashMap, HashSet};

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::kinds::age;
use crate::kinds::cells;
use crate::kinds::json_access::{at, flag, items, number, text};

/// Returns the cells of a pod.
pub(super) fn cells(pod: &Value, now: Timestamp) -> Vec<Value> {
    let summary = Summary::of(pod);
    let restarts = match &summary.last_restart {
        Some(time) if summary.restarts != 0 => {
            format!("{} ({} ago)", summary.restarts, age::since(time, now))
        }
        _ => summary.restarts.to_string(),
    };
    let total = items(pod, "/spec/containers").len()
        + items(pod, "/spec/initContainers").iter().filter(|container| is_sidecar(container)).count();
    let address = items(pod, "/status/podIPs").first().map_or("", |ip| text(ip, "/ip"));
    vec![
        cells::name(pod),
        format!("{}/{total}", summary.ready).into(),
        summary.reason.into(),
        restarts.into(),
        age::since_creation(pod, now),
        cells::non_empty_or(address, "<none>").into(),
        cells::non_empty_or(text(pod, "/spec/nodeName"), "<none>").into(),
        cells::non_empty_or(text(pod, "/status/nominatedNodeName"), "<none>").into(),
        readiness_gates(pod).into(),
    ]
}

/// Returns the conditions in the row of a pod that has ended.
pub(super) fn row_conditions(object: &Value) -> Option<Value> {
    let (reason, message) = match text(object, "/status/phase") {
        "Succeeded" => ("Succeeded", "The pod has completed successfully."),
        "Failed" => ("Failed", "The pod failed."),
        _ => return None,
    };
    Some(json!([{"type": "Completed", "status": "True", "reason": reason, "message": message}]))
}

fn is_sidecar(container: &Value) -> bool {
    text(container, "/restartPolicy") == "Always"
}

/// The summary of the containers of a pod, read in the order of `printPod` in k8s.io/kubernetes
/// v1.36.4 pkg/printers/internalversion/printers.go.
#[derive(Default)]
struct Summary {
    reason: String,
    ready: usize,
    restarts: i64,
    last_restart: Option<String>,
}

impl Summary {
    fn of(pod: &Value) -> Self {
        let mut summary = Self { reason: first_reason(pod), ..Self::default() };
        let mut sidecars = Self::default();
        let initializing = summary.read_init(pod, &mut sidecars);
        if !initializing || cells::condition(pod, "Initialized") {
            summary.restarts = sidecars.restarts;
            summary.last_restart = sidecars.last_restart;
            summary.read_containers(pod);
        }
        if at(pod, "/metadata/deletionTimestamp").is_some() {
            let ended = matches!(text(pod, "/status/phase"), "Succeeded" | "Failed");
            if text(pod, "/status/reason") == "NodeLost" {
                summary.reason = "Unknown".to_owned();
            } else if !ended {
                summary.reason = "Terminating".to_owned();
            }
        }
        summary
    }

    fn count_restarts(&mut self, status: &Value) {
        self.restarts += number(status, "/restartCount").unwrap_or(0);
        let ended = text(status, "/lastState/terminated/finishedAt");
        if !ended.is_empty() && self.last_restart.as_deref().is_none_or(|last| last < ended) {
            self.last_restart = Some(ended.to_owned());
        }
    }

    /// Reads the init containers. Returns true if one of them has not finished or, for a sidecar,
    /// not started.
    fn read_init(&mut self, pod: &Value, sidecars: &mut Self) -> bool {
        let all: HashMap<&str, &Value> =
            items(pod, "/spec/initContainers").iter().map(|it| (text(it, "/name"), it)).collect();
        for (index, status) in items(pod, "/status/initContainerStatuses").iter().enumerate() {
            let sidecar = all.get(text(status, "/name")).is_some_and(|it| is_sidecar(it));
            self.count_restarts(status);
            if sidecar {
                sidecars.count_restarts(status);
            }
            let terminated = at(status, "/state/terminated");
            if terminated.is_some_and(|end| number(end, "/exitCode").unwrap_or(0) == 0) {
                continue;
            }
            if sidecar && flag(status, "/started") {
                self.ready += usize::from(flag(status, "/ready"));
                continue;
            }
            let waiting = text(status, "/state/waiting/reason");
            self.reason = match terminated {
                Some(end) => format!("Init:{}", end_reason(end)),
                None if !matches!(waiting, "" | "PodInitializing") => format!("Init:{waiting}"),
                None => format!("Init:{index}/{}", all.len()),
            };
            return true;
        }
        false
    }

    fn read_containers(&mut self, pod: &Value) {
        let mut running = false;
        let mut failed = None;
        for status in items(pod, "/status/containerStatuses").iter().rev() {
            self.count_restarts(status);
            let waiting = text(status, "/state/waiting/reason");
            if !waiting.is_empty() {
                self.reason = waiting.to_owned();
            } else if let Some(end) = at(status, "/state/terminated") {
                self.reason = end_reason(end);
                if number(end, "/exitCode").unwrap_or(0) != 0 {
                    failed = Some(self.reason.clone());
                }
            } else if flag(status, "/ready") && at(status, "/state/running").is_some() {
                running = true;
                self.ready += 1;
            }
        }
        if self.reason == "Completed" {
            if running && cells::condition(pod, "Ready") {
                self.reason = "Running".to_owned();
            } else if let Some(failed) = failed {
                self.reason = failed;
            } else if running {
                self.reason = "NotReady".to_owned();
            }
        }
    }
}

fn first_reason(pod: &Value) -> String {
    let gated = items(pod, "/status/conditions").iter().any(|condition| {
        text(condition, "/type") == "PodScheduled" && text(condition, "/reason") == "SchedulingGated"
    });
    if gated {
        return "SchedulingGated".to_owned();
    }
    cells::non_empty_or(text(pod, "/status/reason"), text(pod, "/status/phase")).to_owned()
}

fn end_reason(end: &Value) -> String {
    let reason = text(end, "/reason");
    let signal = number(end, "/signal").unwrap_or(0);
    if !reason.is_empty() {
        reason.to_owned()
    } else if signal != 0 {
        format!("Signal:{signal}")
    } else {
        format!("ExitCode:{}", number(end, "/exitCode").unwrap_or(0))
    }
}

fn readiness_gates(pod: &Value) -> String {
    let gates = items(pod, "/spec/readinessGates");
    if gates.is_empty() {
        return "<none>".to_owned();
    }
    let conditions = items(pod, "/status/conditions").iter();
    let met: HashSet<&str> =
        conditions.filter(|it| text(it, "/status") == "True").map(|it| text(it, "/type")).collect();
    let open = gates.iter().filter(|gate| met.contains(text(gate, "/conditionType"))).count();
    format!("{open}/{}", gates.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_that_is_being_deleted_is_terminating_unless_it_has_ended() {
        for (phase, reason, word) in
            [("Running", "", "Terminating"), ("Failed", "", "Failed"), ("Running", "NodeLost", "Unknown")]
        {
            let pod = json!({"metadata": {"deletionTimestamp": "2020-01-01T00:00:00Z"},
                "status": {"phase": phase, "reason": reason}});
            assert_eq!(Summary::of(&pod).reason, word);
        }
    }

    #[test]
    fn only_a_pod_that_has_ended_has_a_condition_in_its_row() {
        let pod = |phase: &str| json!({"kind": "Pod", "apiVersion": "v1", "status": {"phase": phase}});
        assert_eq!(row_conditions(&pod("Running")), None);
        assert_eq!(row_conditions(&pod("Failed")).expect("a condition")[0]["reason"], "Failed");
    }
}
