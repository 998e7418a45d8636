//! The status that the kubelet reports of a pod at each stage.

use std::collections::{HashMap, HashSet};

use serde_json::{Value, json};

use crate::condition;
use crate::json_access::{at, items, number, text};

/// The inputs of a report apart from the pod.
#[derive(Clone, Copy, Debug)]
pub(super) struct Facts<'a> {
    pub(super) now: &'a str,
    pub(super) host: &'a str,
    pub(super) address: &'a str,
    /// The uid of the pod, which makes the ids of its containers unique.
    pub(super) uid: &'a str,
    /// True if the deadline of the pod has passed.
    pub(super) over: bool,
}

/// Returns the status of an accepted pod, whose containers are being created.
pub(super) fn starting(pod: &Value, facts: Facts<'_>) -> Value {
    let mut status = common(pod, facts);
    let waiting = |reason: &str| json!({ "waiting": { "reason": reason } });
    let inits = !items(pod, "/spec/initContainers").is_empty();
    let reason = if inits { "PodInitializing" } else { "ContainerCreating" };
    status["phase"] = "Pending".into();
    status["containerStatuses"] =
        containers(pod, "containers").map(|it| container(it, facts, waiting(reason), false)).collect();
    if inits {
        let waiting = waiting("PodInitializing");
        let inits = containers(pod, "initContainers").map(|it| container(it, facts, waiting.clone(), false));
        status["initContainerStatuses"] = inits.collect();
    }
    set_conditions(&mut status, pod, !inits, false, facts.now);
    status
}

/// Returns the status of a running pod, which is ready unless a readiness gate is closed.
pub(super) fn running(pod: &Value, facts: Facts<'_>) -> Value {
    let mut status = common(pod, facts);
    status["phase"] = "Running".into();
    if !facts.address.is_empty() {
        status["podIP"] = facts.address.into();
        status["podIPs"] = json!([{ "ip": facts.address }]);
    }
    let state = json!({ "running": { "startedAt": facts.now } });
    status["containerStatuses"] =
        containers(pod, "containers").map(|it| container(it, facts, state.clone(), true)).collect();
    if !items(pod, "/spec/initContainers").is_empty() {
        let inits = containers(pod, "initContainers").map(|it| {
            // A sidecar container keeps running.
            let stays = text(it, "/restartPolicy") == "Always";
            let state = if stays { state.clone() } else { ended(it, facts) };
            container(it, facts, state, true)
        });
        status["initContainerStatuses"] = inits.collect();
    }
    set_conditions(&mut status, pod, true, true, facts.now);
    status
}

/// Returns the status of a pod that has completed.
pub(super) fn completed(pod: &Value, facts: Facts<'_>) -> Value {
    let mut status = pod["status"].clone();
    status["phase"] = "Succeeded".into();
    let ended = containers(pod, "containers").map(|it| container(it, facts, ended(it, facts), false));
    status["containerStatuses"] = ended.collect();
    let mut conditions = items(pod, "/status/conditions").to_vec();
    for kind in ["Ready", "ContainersReady"] {
        condition::set(&mut conditions, kind, "False", "PodCompleted", "", facts.now);
    }
    condition::set(&mut conditions, "PodReadyToStartContainers", "False", "", "", facts.now);
    condition::set(&mut conditions, "Initialized", "True", "PodCompleted", "", facts.now);
    status["conditions"] = conditions.into();
    status
}

/// Returns the status of a pod whose deadline has passed.
pub(super) fn expired(pod: &Value, facts: Facts<'_>) -> Value {
    let mut status = pod["status"].clone();
    status["phase"] = "Failed".into();
    status["reason"] = "DeadlineExceeded".into();
    status["message"] = "Pod was active on the node longer than the specified deadline".into();
    let killed = |it: &Value| {
        let mut state = ended(it, facts);
        state["terminated"]["exitCode"] = 137.into();
        state["terminated"]["reason"] = "Error".into();
        container(it, facts, state, false)
    };
    status["containerStatuses"] = containers(pod, "containers").map(killed).collect();
    let mut conditions = items(pod, "/status/conditions").to_vec();
    for kind in ["Ready", "ContainersReady"] {
        condition::set(&mut conditions, kind, "False", "PodFailed", "", facts.now);
    }
    status["conditions"] = conditions.into();
    status
}

/// Updates the status of a running pod for changes by other clients: readiness gates and ephemeral
/// containers. Returns `None` if it is up to date.
pub(super) fn refreshed(pod: &Value, facts: Facts<'_>) -> Option<Value> {
    let mut status = pod["status"].clone();
    set_conditions(&mut status, pod, true, true, facts.now);
    let mut later = items(&status, "/ephemeralContainerStatuses").to_vec();
    let mut known: HashSet<String> = later.iter().map(|it| text(it, "/name").to_owned()).collect();
    for it in containers(pod, "ephemeralContainers") {
        if known.insert(text(it, "/name").to_owned()) {
            later.push(container(it, facts, json!({ "running": { "startedAt": facts.now } }), false));
        }
    }
    if !later.is_empty() {
        status["ephemeralContainerStatuses"] = later.into();
    }
    if let Some(generation) = number(pod, "/metadata/generation") {
        status["observedGeneration"] = generation.into();
    }
    (status != pod["status"]).then_some(status)
}

fn common(pod: &Value, facts: Facts<'_>) -> Value {
    let mut status = pod["status"].clone();
    status["hostIP"] = facts.host.into();
    status["hostIPs"] = json!([{ "ip": facts.host }]);
    if at(&status, "/startTime").is_none() {
        status["startTime"] = facts.now.into();
    }
    if let Some(generation) = number(pod, "/metadata/generation") {
        status["observedGeneration"] = generation.into();
    }
    status
}

fn containers<'a>(pod: &'a Value, list: &str) -> impl Iterator<Item = &'a Value> + use<'a> {
    items(pod, &format!("/spec/{list}")).iter()
}

fn ended(container: &Value, facts: Facts<'_>) -> Value {
    let (now, id) = (facts.now, container_id(container, facts));
    json!({ "terminated": { "exitCode": 0, "reason": "Completed", "startedAt": now, "finishedAt": now, "containerID": id } })
}

fn container(container: &Value, facts: Facts<'_>, state: Value, ready: bool) -> Value {
    let image = text(container, "/image");
    let runs = state.get("running").is_some();
    let mut status = json!({
        "name": container["name"], "image": image, "imageID": "", "restartCount": 0, "lastState": {},
        "ready": ready, "started": runs, "state": state,
    });
    if status["state"].get("waiting").is_none() {
        status["imageID"] = image.into();
        status["containerID"] = container_id(container, facts).into();
    }
    status
}

/// Returns a container id, which is the same in each run.
fn container_id(container: &Value, facts: Facts<'_>) -> String {
    use sha2::{Digest, Sha256};
    let digest = Sha256::digest(format!("{}/{}", facts.uid, text(container, "/name")));
    let hex: String = digest.iter().map(|it| format!("{it:02x}")).collect();
    format!("simulated://{hex}")
}

fn set_conditions(status: &mut Value, pod: &Value, initialized: bool, containers_ready: bool, now: &str) {
    let mut list = items(status, "/conditions").to_vec();
    let word = |it: bool| if it { "True" } else { "False" };
    let names = |pointer: &str| {
        let names = items(pod, pointer).iter().map(|it| text(it, "/name"));
        format!("[{}]", names.collect::<Vec<_>>().join(" "))
    };
    condition::set(&mut list, "PodReadyToStartContainers", word(containers_ready), "", "", now);
    if initialized {
        condition::set(&mut list, "Initialized", "True", "", "", now);
    } else {
        let message = format!("containers with incomplete status: {}", names("/spec/initContainers"));
        condition::set(&mut list, "Initialized", "False", "ContainersNotInitialized", &message, now);
    }
    let mut conditions = HashMap::new();
    for it in items(pod, "/status/conditions") {
        conditions.entry(text(it, "/type")).or_insert_with(|| text(it, "/status"));
    }
    let mut gates = items(pod, "/spec/readinessGates").iter().map(|it| text(it, "/conditionType"));
    let is_closed = gates.any(|it| conditions.get(it).is_none_or(|it| *it != "True"));
    if !containers_ready {
        let message = format!("containers with unready status: {}", names("/spec/containers"));
        for kind in ["Ready", "ContainersReady"] {
            condition::set(&mut list, kind, "False", "ContainersNotReady", &message, now);
        }
    } else if is_closed {
        let message = "the status of pod readiness gate is not \"True\", but False";
        condition::set(&mut list, "Ready", "False", "ReadinessGatesNotReady", message, now);
        condition::set(&mut list, "ContainersReady", "True", "", "", now);
    } else {
        for kind in ["Ready", "ContainersReady"] {
            condition::set(&mut list, kind, "True", "", "", now);
        }
    }
    condition::set(&mut list, "PodScheduled", "True", "", "", now);
    status["conditions"] = list.into();
}

#[cfg(test)]
mod tests {
    use super::*;

    const FACTS: Facts<'static> =
        Facts { now: "t2", host: "172.18.0.2", address: "10.244.1.2", uid: "u", over: false };

    fn pod(spec: Value) -> Value {
        json!({ "metadata": { "name": "p", "generation": 1 }, "spec": spec,
            "status": { "phase": "Pending", "qosClass": "BestEffort",
                "conditions": [{ "type": "PodScheduled", "status": "True", "lastTransitionTime": "t1" }] } })
    }

    fn with(mut pod: Value, status: Value) -> Value {
        pod["status"] = status;
        pod
    }

    #[test]
    fn a_pod_starts_runs_and_completes() {
        let fresh =
            pod(json!({ "containers": [{ "name": "a", "image": "i" }, { "name": "b", "image": "j" }] }));
        let started = with(fresh.clone(), starting(&fresh, FACTS));
        assert_eq!(
            started["status"]["containerStatuses"][0]["state"]["waiting"]["reason"],
            "ContainerCreating"
        );
        assert_eq!(
            condition::find(&started, "Ready").unwrap()["message"],
            "containers with unready status: [a b]"
        );
        assert_eq!(condition::find(&started, "PodScheduled").unwrap()["lastTransitionTime"], "t1");
        assert!(started["status"].get("podIP").is_none() && started["status"]["startTime"] == "t2");
        let runs = with(started.clone(), running(&started, Facts { now: "t3", ..FACTS }));
        assert_eq!(
            (&runs["status"]["phase"], &runs["status"]["podIP"]),
            (&json!("Running"), &json!("10.244.1.2"))
        );
        assert!(condition::is_true(&runs, "Ready") && condition::is_true(&runs, "ContainersReady"));
        assert_eq!(runs["status"]["startTime"], "t2", "startTime does not change");
        assert_eq!(runs["status"]["qosClass"], "BestEffort", "fields of other clients are kept");
        let ids: Vec<_> =
            items(&runs, "/status/containerStatuses").iter().map(|it| &it["containerID"]).collect();
        assert_ne!(ids[0], ids[1]);
        assert_eq!(refreshed(&runs, Facts { now: "t4", ..FACTS }), None);
        let done = with(runs.clone(), completed(&runs, FACTS));
        assert_eq!(done["status"]["phase"], "Succeeded");
        assert_eq!(done["status"]["containerStatuses"][0]["state"]["terminated"]["reason"], "Completed");
        assert_eq!(condition::find(&done, "Ready").unwrap()["reason"], "PodCompleted");
    }

    #[test]
    fn ephemeral_containers_run_and_the_deadline_ends_all_containers() {
        let fresh = pod(json!({ "containers": [{ "name": "a" }] }));
        let mut runs = with(fresh.clone(), running(&fresh, FACTS));
        runs["spec"]["ephemeralContainers"] = json!([{ "name": "debug", "image": "i" }]);
        let runs = with(runs.clone(), refreshed(&runs, FACTS).expect("a container was added"));
        let later = &runs["status"]["ephemeralContainerStatuses"][0];
        assert!(later["name"] == "debug" && later["state"].get("running").is_some());
        assert_eq!(refreshed(&runs, FACTS), None);
        let over = expired(&runs, FACTS);
        assert_eq!((&over["phase"], &over["reason"]), (&json!("Failed"), &json!("DeadlineExceeded")));
        assert_eq!(over["containerStatuses"][0]["state"]["terminated"]["exitCode"], 137);
    }

    #[test]
    fn many_ephemeral_containers_and_readiness_gates_take_little_time() {
        // A search in all statuses for each of them is quadratic.
        const COUNT: usize = 20_000;
        let named: Vec<_> = (0..COUNT).map(|it| json!({ "name": format!("e{it}"), "image": "i" })).collect();
        let gates: Vec<_> = (0..COUNT).map(|it| json!({ "conditionType": format!("g{it}") })).collect();
        let open: Vec<_> =
            (0..COUNT).map(|it| json!({ "type": format!("g{it}"), "status": "True" })).collect();
        let mut pod = pod(json!({ "containers": [], "ephemeralContainers": named, "readinessGates": gates }));
        pod["status"]["conditions"] = open.into();
        let status = refreshed(&pod, FACTS).unwrap();
        assert_eq!(items(&status, "/ephemeralContainerStatuses").len(), COUNT);
        assert!(condition::is_true(&with(pod, status), "Ready"));
    }

    #[test]
    fn a_pod_is_ready_only_with_open_readiness_gates() {
        let gated = pod(
            json!({ "containers": [{ "name": "a" }], "readinessGates": [{ "conditionType": "x.io/y" }] }),
        );
        let mut runs = with(gated.clone(), running(&gated, FACTS));
        assert!(!condition::is_true(&runs, "Ready") && condition::is_true(&runs, "ContainersReady"));
        let conditions = runs["status"]["conditions"].as_array_mut().unwrap();
        conditions.push(json!({ "type": "x.io/y", "status": "True" }));
        let runs =
            with(runs.clone(), refreshed(&runs, Facts { now: "t5", ..FACTS }).expect("a gate was opened"));
        assert!(condition::is_true(&runs, "Ready"));
    }

    #[test]
    fn init_containers_end_unless_they_are_sidecars() {
        let spec = json!({ "containers": [{ "name": "a" }],
            "initContainers": [{ "name": "first" }, { "name": "side", "restartPolicy": "Always" }] });
        let fresh = pod(spec);
        let started = with(fresh.clone(), starting(&fresh, FACTS));
        assert_eq!(
            condition::find(&started, "Initialized").unwrap()["message"],
            "containers with incomplete status: [first side]"
        );
        assert_eq!(
            started["status"]["containerStatuses"][0]["state"]["waiting"]["reason"],
            "PodInitializing"
        );
        let runs = running(&started, FACTS);
        let states: Vec<_> =
            items(&runs, "/initContainerStatuses").iter().map(|it| it["state"].clone()).collect();
        assert!(states[0].get("terminated").is_some() && states[1].get("running").is_some());
    }
}
