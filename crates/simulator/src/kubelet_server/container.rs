//! A container of a pod: its specification, its status, and its current or previous run.

use std::collections::HashMap;

use jiff::Timestamp;
use serde_json::Value;

use crate::json_access::{at, items, number, text};

/// The lists of a pod with containers, and those with their statuses, in the order in which the
/// kubelet looks for a name.
const LISTS: [(&str, &str); 3] = [
    ("/spec/containers", "/status/containerStatuses"),
    ("/spec/initContainers", "/status/initContainerStatuses"),
    ("/spec/ephemeralContainers", "/status/ephemeralContainerStatuses"),
];

/// A container of a pod.
#[derive(Clone, Copy, Debug)]
pub(super) struct Container<'a> {
    pub(super) pod: &'a Value,
    pub(super) spec: &'a Value,
    pub(super) status: Option<&'a Value>,
    /// True for a container that makes the pod ready: not an init or ephemeral container.
    pub(super) is_main: bool,
}

/// One run of a container.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run<'a> {
    pub(super) container: Container<'a>,
    /// The id of the container, which each run has of its own.
    pub(super) id: &'a str,
    /// The number of runs before this one.
    pub(super) restarts: i64,
    pub(super) started: Timestamp,
    /// The terminated state, if the run has ended.
    pub(super) end: Option<&'a Value>,
}

impl<'a> Container<'a> {
    /// Returns the container of this name in a pod.
    pub(super) fn find(pod: &'a Value, name: &str) -> Option<Self> {
        LISTS.iter().find_map(|(specs, statuses)| {
            let named = |list: &str| items(pod, list).iter().find(|it| text(it, "/name") == name);
            let (spec, status) = (named(specs)?, named(statuses));
            Some(Self { pod, spec, status, is_main: *specs == "/spec/containers" })
        })
    }

    /// Returns all containers of a pod that run.
    pub(super) fn running(pod: &'a Value) -> Vec<Self> {
        let mut found = Vec::new();
        for (specs, statuses) in LISTS {
            let statuses: HashMap<&str, &Value> =
                items(pod, statuses).iter().map(|it| (text(it, "/name"), it)).collect();
            found.extend(items(pod, specs).iter().map(|spec| {
                let status = statuses.get(text(spec, "/name")).copied();
                Self { pod, spec, status, is_main: specs == "/spec/containers" }
            }));
        }
        found.retain(Self::runs);
        found
    }

    pub(super) fn name(&self) -> &'a str {
        text(self.spec, "/name")
    }

    /// Returns true if the container runs.
    pub(super) fn runs(&self) -> bool {
        self.status.is_some_and(|it| at(it, "/state/running").is_some())
    }

    /// Returns the run whose log a client gets: the last one that has ended before the current one
    /// if `previous`, or else the current one, or the last one if the container waits.
    ///
    /// # Errors
    /// Returns the message of `validateContainerLogStatus` in k8s.io/kubernetes v1.36.4
    /// pkg/kubelet/kubelet_pods.go if there is no such run.
    pub(super) fn logged_run(&self, previous: bool) -> Result<Run<'a>, String> {
        let subject = format!("container {:?} in pod {:?}", self.name(), text(self.pod, "/metadata/name"));
        let Some(status) = self.status else { return Err(format!("{subject} is not available")) };
        let last = self.last_run().filter(|it| !it.id.is_empty());
        if previous {
            return last.ok_or_else(|| format!("previous terminated {subject} not found"));
        }
        let current = self.current_run();
        if let Some(run) = current.filter(|it| it.end.is_none() || !it.id.is_empty()) {
            return Ok(run);
        }
        if current.is_some() || at(status, "/lastState/terminated").is_some() {
            return last.ok_or_else(|| format!("{subject} is terminated"));
        }
        Err(match at(status, "/state/waiting").map(|it| text(it, "/reason")) {
            Some("ErrImagePull") => format!("{subject} is waiting to start: image can't be pulled"),
            Some("ImagePullBackOff") => {
                format!("{subject} is waiting to start: trying and failing to pull image")
            }
            Some(reason) => format!("{subject} is waiting to start: {reason}"),
            None => format!("{subject} is waiting to start - no logs yet"),
        })
    }

    /// Returns the run with this id, if the status still has it.
    pub(super) fn run_with_id(&self, id: &str) -> Option<Run<'a>> {
        [self.current_run(), self.last_run()].into_iter().flatten().find(|it| it.id == id)
    }

    /// Returns the run that the state is about.
    fn current_run(&self) -> Option<Run<'a>> {
        let status = self.status?;
        let restarts = number(status, "/restartCount").unwrap_or(0);
        if let Some(end) = at(status, "/state/terminated") {
            return Some(self.ended_run(end, restarts));
        }
        let running = at(status, "/state/running")?;
        let (id, started) = (text(status, "/containerID"), moment(running, "/startedAt"));
        Some(Run { container: *self, id, restarts, started, end: None })
    }

    /// Returns the run before that.
    fn last_run(&self) -> Option<Run<'a>> {
        let status = self.status?;
        let end = at(status, "/lastState/terminated")?;
        let restarts = number(status, "/restartCount").unwrap_or(0);
        // A container that waits has not been counted as restarted yet.
        let waits = at(status, "/state/waiting").is_some();
        Some(self.ended_run(end, if waits { restarts } else { restarts.saturating_sub(1) }))
    }

    fn ended_run(&self, end: &'a Value, restarts: i64) -> Run<'a> {
        let (id, started) = (text(end, "/containerID"), moment(end, "/startedAt"));
        Run { container: *self, id, restarts, started, end: Some(end) }
    }
}

impl Run<'_> {
    /// Returns the time at which the run has ended.
    pub(super) fn ended(&self) -> Option<Timestamp> {
        self.end.map(|it| moment(it, "/finishedAt").max(self.started))
    }
}

/// Returns the time at a pointer. One that cannot be read is long ago.
fn moment(value: &Value, pointer: &str) -> Timestamp {
    text(value, pointer).parse().unwrap_or(Timestamp::UNIX_EPOCH)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(status: Value) -> Value {
        json!({ "metadata": { "name": "p" }, "spec": { "containers": [{ "name": "c" }] },
            "status": { "containerStatuses": [status] } })
    }

    fn ended(id: &str) -> Value {
        json!({ "terminated": { "containerID": id, "startedAt": "2026-01-02T03:04:05Z", "exitCode": 1,
            "finishedAt": "2026-01-02T03:04:07Z" } })
    }

    #[test]
    fn the_state_of_a_container_decides_which_run_is_logged() {
        let running = json!({ "running": { "startedAt": "2026-01-02T03:04:09Z" } });
        let waiting = |reason: &str| json!({ "waiting": { "reason": reason } });
        let (one, none) = (ended("one"), ended(""));
        for (state, last, previous, expected) in [
            (&running, &json!({}), false, Ok(("now", 2, false))),
            (&running, &one, true, Ok(("one", 1, true))),
            (&running, &json!({}), true, Err("previous terminated container \"c\" in pod \"p\" not found")),
            (&one, &json!({}), false, Ok(("one", 2, true))),
            (&waiting("CrashLoopBackOff"), &one, false, Ok(("one", 2, true))),
            (&waiting("CrashLoopBackOff"), &one, true, Ok(("one", 2, true))),
            (&none, &one, false, Ok(("one", 1, true))),
            (&none, &json!({}), false, Err("container \"c\" in pod \"p\" is terminated")),
            (
                &waiting("ContainerCreating"),
                &json!({}),
                false,
                Err("container \"c\" in pod \"p\" is waiting to start: ContainerCreating"),
            ),
            (
                &waiting("ErrImagePull"),
                &json!({}),
                false,
                Err("container \"c\" in pod \"p\" is waiting to start: image can't be pulled"),
            ),
            (
                &json!({}),
                &json!({}),
                false,
                Err("container \"c\" in pod \"p\" is waiting to start - no logs yet"),
            ),
        ] {
            let status = json!({ "name": "c", "containerID": "now", "restartCount": 2, "state": state,
                "lastState": last });
            let pod = pod(status);
            let container = Container::find(&pod, "c").unwrap();
            let found = container.logged_run(previous);
            let found = found.as_ref().map(|it| (it.id, it.restarts, it.end.is_some()));
            assert_eq!(found.map_err(String::as_str), expected, "{state} {last} {previous}");
        }
    }

    #[test]
    fn a_container_without_a_status_is_not_available() {
        let mut pod = pod(json!({}));
        let found = Container::find(&pod, "c").unwrap().logged_run(false);
        assert_eq!(found.err().as_deref(), Some("container \"c\" in pod \"p\" is not available"));
        assert!(Container::find(&pod, "d").is_none());
        pod["spec"]["ephemeralContainers"] = json!([{ "name": "d" }]);
        pod["status"]["ephemeralContainerStatuses"] = json!([{ "name": "d", "state": { "running": {} } }]);
        let names: Vec<_> = Container::running(&pod).iter().map(Container::name).collect();
        assert_eq!(names, ["d"]);
    }
}
