//! The status that the kubelet reports of a pod at each stage.

use std::collections::{HashMap, HashSet};

use serde_json::{Value, json};

use crate::condition;
use crate::json_access::{at, items, number, text};

/// The exit codes of a program that a signal has ended: SIGKILL, or SIGTERM, which the kubelet
/// sends first.
const KILLED: u8 = 128 + 9;
const TERMINATED: u8 = 128 + 15;

/// The inputs of a report apart from the pod.
#[derive(Clone, Copy, Debug)]
pub(super) struct Facts<'a> {
    pub(super) now: &'a str,
    /// The addresses of the node, at most one of each family.
    pub(super) hosts: &'a [&'a str],
    /// The addresses of the pod, if it gets them at this stage.
    pub(super) addresses: &'a [&'a str],
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
        containers(pod, "containers").map(|it| status_of(it, facts, waiting(reason), false)).collect();
    if inits {
        let waiting = waiting("PodInitializing");
        let inits = containers(pod, "initContainers").map(|it| status_of(it, facts, waiting.clone(), false));
        status["initContainerStatuses"] = inits.collect();
    }
    set_conditions(&mut status, pod, !inits, false, facts.now);
    status
}

/// Returns the status of a running pod, which is ready unless a readiness gate is closed.
pub(super) fn running(pod: &Value, facts: Facts<'_>) -> Value {
    let mut status = common(pod, facts);
    status["phase"] = "Running".into();
    set_addresses(&mut status, "podIP", "podIPs", facts.addresses);
    let state = json!({ "running": { "startedAt": facts.now } });
    status["containerStatuses"] =
        containers(pod, "containers").map(|it| status_of(it, facts, state.clone(), true)).collect();
    if !items(pod, "/spec/initContainers").is_empty() {
        let inits = containers(pod, "initContainers").map(|it| {
            // A sidecar container keeps running.
            let stays = text(it, "/restartPolicy") == "Always";
            let state = if stays { state.clone() } else { terminated(it, facts, facts.now, 0) };
            status_of(it, facts, state, true)
        });
        status["initContainerStatuses"] = inits.collect();
    }
    set_conditions(&mut status, pod, true, true, facts.now);
    status
}

/// Returns the status of a pod whose containers have ended for good.
pub(super) fn completed(pod: &Value, facts: Facts<'_>, exit_code: u8) -> Value {
    ended(pod, facts, exit_code)
}

/// Returns the status of a pod whose containers have ended, and wait to be restarted.
pub(super) fn crashed(pod: &Value, facts: Facts<'_>, exit_code: u8, delay: &str) -> Value {
    let mut status = common(pod, facts);
    let full_name = full_name(pod);
    let known = by_name(pod, "containerStatuses");
    let crashed = containers(pod, "containers").map(|it| {
        let name = text(it, "/name");
        let mut ended =
            ended_container(pod, it, known.get(name).copied(), facts, exit_code).unwrap_or_default();
        let message = format!("back-off {delay} restarting failed container={name} pod={full_name}");
        ended["lastState"] = ended["state"].take();
        ended["state"] = json!({ "waiting": { "reason": "CrashLoopBackOff", "message": message } });
        ended
    });
    status["containerStatuses"] = crashed.collect();
    set_conditions_with(&mut status, pod, true, false, true, facts.now);
    status
}

/// Returns the status of a pod whose containers run again.
pub(super) fn restarted(pod: &Value, facts: Facts<'_>) -> Value {
    let mut status = common(pod, facts);
    let known = by_name(pod, "containerStatuses");
    let state = json!({ "running": { "startedAt": facts.now } });
    let restarted = containers(pod, "containers").map(|it| {
        let mut new = status_of(it, facts, state.clone(), true);
        if let Some(known) = known.get(text(it, "/name")) {
            let restarts = number(known, "/restartCount").unwrap_or(0).saturating_add(1);
            new["restartCount"] = restarts.into();
            new["lastState"] = known["lastState"].clone();
            new["containerID"] = container_id(it, facts, restarts).into();
        }
        new
    });
    status["containerStatuses"] = restarted.collect();
    set_conditions(&mut status, pod, true, true, facts.now);
    status
}

/// Returns true if containers of a pod wait to be restarted.
pub(super) fn waits_for_restart(pod: &Value) -> bool {
    let mut all = items(pod, "/status/containerStatuses").iter();
    all.any(|it| text(it, "/state/waiting/reason") == "CrashLoopBackOff")
}

/// Returns the status of a pod whose images cannot be pulled. Returns `None` if it is up to date.
pub(super) fn unpulled(pod: &Value, reason: &str, now: &str) -> Option<Value> {
    let mut status = pod["status"].clone();
    let images: HashMap<&str, &Value> =
        containers(pod, "containers").map(|it| (text(it, "/name"), it)).collect();
    for container in status.get_mut("containerStatuses").and_then(Value::as_array_mut).into_iter().flatten() {
        let message = images.get(text(container, "/name")).map(|it| pull_message(it, reason));
        container["state"] = json!({ "waiting": { "reason": reason, "message": message } });
    }
    let initialized = items(pod, "/spec/initContainers").is_empty();
    set_conditions_with(&mut status, pod, initialized, false, true, now);
    (status != pod["status"]).then_some(status)
}

/// Returns the message about an image that cannot be pulled.
pub(super) fn pull_message(container: &Value, reason: &str) -> String {
    let image = text(container, "/image");
    match reason {
        "ErrImagePull" => format!("Failed to pull image {image:?}: a simulated failure"),
        _ => format!("Back-off pulling image {image:?}"),
    }
}

/// Returns the name of a pod as the kubelet writes it in messages.
pub(super) fn full_name(pod: &Value) -> String {
    let field = |it: &str| text(pod, it).to_owned();
    format!("{}_{}({})", field("/metadata/name"), field("/metadata/namespace"), field("/metadata/uid"))
}

/// Returns the statuses of the containers of a list, by name.
fn by_name<'a>(pod: &'a Value, field: &str) -> HashMap<&'a str, &'a Value> {
    items(&pod["status"], &format!("/{field}")).iter().map(|it| (text(it, "/name"), it)).collect()
}

/// Returns the status of a pod whose deadline has passed.
pub(super) fn expired(pod: &Value, facts: Facts<'_>) -> Value {
    let mut status = ended(pod, facts, KILLED);
    status["reason"] = "DeadlineExceeded".into();
    status["message"] = "Pod was active on the node longer than the specified deadline".into();
    status
}

/// Returns the status of a pod that was stopped because it is deleted. It has failed, unlike the
/// pod of a program that handles SIGTERM and exits with 0: otherwise the deletion of a pod would
/// complete its Job (`getPhase` in k8s.io/kubernetes v1.36.4 pkg/kubelet/kubelet_pods.go).
pub(super) fn stopped(pod: &Value, facts: Facts<'_>) -> Value {
    ended(pod, facts, TERMINATED)
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
            later.push(status_of(it, facts, json!({ "running": { "startedAt": facts.now } }), false));
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
    set_addresses(&mut status, "hostIP", "hostIPs", facts.hosts);
    if at(&status, "/startTime").is_none() {
        status["startTime"] = facts.now.into();
    }
    if let Some(generation) = number(pod, "/metadata/generation") {
        status["observedGeneration"] = generation.into();
    }
    status
}

/// Sets a list of addresses and the field for its first one. kube-apiserver rejects empty
/// addresses.
fn set_addresses(status: &mut Value, first: &str, all: &str, addresses: &[&str]) {
    let list: Vec<Value> =
        addresses.iter().filter(|it| !it.is_empty()).map(|it| json!({ "ip": it })).collect();
    if let Some(address) = list.first() {
        status[first] = address["ip"].clone();
        status[all] = list.into();
    }
}

fn containers<'a>(pod: &'a Value, list: &str) -> impl Iterator<Item = &'a Value> + use<'a> {
    items(pod, &format!("/spec/{list}")).iter()
}

/// Returns the status of a pod whose containers have ended with this exit code.
fn ended(pod: &Value, facts: Facts<'_>, exit_code: u8) -> Value {
    let mut status = pod["status"].clone();
    for (list, field) in [
        ("initContainers", "initContainerStatuses"),
        ("containers", "containerStatuses"),
        ("ephemeralContainers", "ephemeralContainerStatuses"),
    ] {
        let known = by_name(pod, field);
        let end = |it| ended_container(pod, it, known.get(text(it, "/name")).copied(), facts, exit_code);
        let list: Vec<Value> = containers(pod, list).filter_map(end).collect();
        if !list.is_empty() {
            status[field] = list.into();
        }
    }
    let (phase, reason) =
        if exit_code == 0 { ("Succeeded", "PodCompleted") } else { ("Failed", "PodFailed") };
    status["phase"] = phase.into();
    let mut conditions = items(pod, "/status/conditions").to_vec();
    for kind in ["Ready", "ContainersReady"] {
        condition::set(&mut conditions, kind, "False", reason, "", facts.now);
    }
    condition::set(&mut conditions, "PodReadyToStartContainers", "False", "", "", facts.now);
    if exit_code == 0 {
        condition::set(&mut conditions, "Initialized", "True", reason, "", facts.now);
    }
    status["conditions"] = conditions.into();
    if let Some(generation) = number(pod, "/metadata/generation") {
        status["observedGeneration"] = generation.into();
    }
    status
}

/// Returns the status of a container of a pod that has ended, if the container has one. `known` is
/// the status before.
fn ended_container(
    pod: &Value,
    container: &Value,
    known: Option<&Value>,
    facts: Facts<'_>,
    exit_code: u8,
) -> Option<Value> {
    if known.is_some_and(|it| at(it, "/state/terminated").is_some()) {
        return known.cloned();
    }
    if text(pod, "/status/phase") == "Running" {
        let started = known.map(|it| text(it, "/state/running/startedAt")).filter(|it| !it.is_empty());
        let state = terminated(container, facts, started.unwrap_or(facts.now), exit_code);
        let mut status = status_of(container, facts, state, false);
        if let Some(id) = known.and_then(|it| it.get("containerID")) {
            status["containerID"] = id.clone();
            status["state"]["terminated"]["containerID"] = id.clone();
        }
        for field in ["restartCount", "lastState"] {
            if let Some(value) = known.and_then(|it| it.get(field)) {
                status[field] = value.clone();
            }
        }
        return Some(status);
    }
    // The container has never run. `TerminatePod` in k8s.io/kubernetes v1.36.4
    // pkg/kubelet/status/status_manager.go reports that it was not found, unless the pod was not
    // initialized.
    let mut status = known?.clone();
    if items(pod, "/spec/initContainers").is_empty() {
        let message = "The container could not be located when the pod was terminated";
        status["state"] = json!({ "terminated": {
            "exitCode": KILLED, "reason": "ContainerStatusUnknown", "message": message } });
    }
    Some(status)
}

/// Returns the state of a container that has ended.
fn terminated(container: &Value, facts: Facts<'_>, started: &str, exit_code: u8) -> Value {
    let reason = if exit_code == 0 { "Completed" } else { "Error" };
    json!({ "terminated": { "exitCode": exit_code, "reason": reason, "startedAt": started,
        "finishedAt": facts.now, "containerID": container_id(container, facts, 0) } })
}

fn status_of(container: &Value, facts: Facts<'_>, state: Value, ready: bool) -> Value {
    let image = text(container, "/image");
    let runs = state.get("running").is_some();
    let mut status = json!({
        "name": container["name"], "image": image, "imageID": "", "restartCount": 0, "lastState": {},
        "ready": ready, "started": runs, "state": state,
    });
    if status["state"].get("waiting").is_none() {
        status["imageID"] = image.into();
        status["containerID"] = container_id(container, facts, 0).into();
    }
    status
}

/// Returns a container id, which is the same in each run.
fn container_id(container: &Value, facts: Facts<'_>, restarts: i64) -> String {
    use sha2::{Digest, Sha256};
    let digest = Sha256::digest(format!("{}/{}/{restarts}", facts.uid, text(container, "/name")));
    let hex: String = digest.iter().map(|it| format!("{it:02x}")).collect();
    format!("simulated://{hex}")
}

fn set_conditions(status: &mut Value, pod: &Value, initialized: bool, containers_ready: bool, now: &str) {
    set_conditions_with(status, pod, initialized, containers_ready, containers_ready, now);
}

/// Sets the conditions. `has_network` is true if containers can be started.
fn set_conditions_with(
    status: &mut Value,
    pod: &Value,
    initialized: bool,
    containers_ready: bool,
    has_network: bool,
    now: &str,
) {
    let mut list = items(status, "/conditions").to_vec();
    let word = |it: bool| if it { "True" } else { "False" };
    let names = |pointer: &str| {
        let names = items(pod, pointer).iter().map(|it| text(it, "/name"));
        format!("[{}]", names.collect::<Vec<_>>().join(" "))
    };
    condition::set(&mut list, "PodReadyToStartContainers", word(has_network), "", "", now);
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
        Facts { now: "t2", hosts: &["172.18.0.2"], addresses: &["10.244.1.2"], uid: "u", over: false };

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
        let done = with(runs.clone(), completed(&runs, FACTS, 0));
        assert_eq!(done["status"]["phase"], "Succeeded");
        assert_eq!(done["status"]["containerStatuses"][0]["state"]["terminated"]["reason"], "Completed");
        assert_eq!(condition::find(&done, "Ready").unwrap()["reason"], "PodCompleted");
    }

    #[test]
    fn a_container_that_crashes_waits_and_runs_again_with_a_new_id() {
        let fresh = pod(json!({ "containers": [{ "name": "a", "image": "i" }] }));
        let runs = with(fresh.clone(), running(&fresh, FACTS));
        let down = with(runs.clone(), crashed(&runs, Facts { now: "t5", ..FACTS }, 3, "10s"));
        let container = &down["status"]["containerStatuses"][0];
        assert_eq!(container["state"]["waiting"]["reason"], "CrashLoopBackOff");
        assert_eq!(
            container["state"]["waiting"]["message"],
            "back-off 10s restarting failed container=a pod=p_()"
        );
        let last = &container["lastState"]["terminated"];
        assert_eq!(
            (&last["exitCode"], &last["startedAt"], &last["finishedAt"]),
            (&json!(3), &json!("t2"), &json!("t5"))
        );
        assert_eq!((&container["ready"], &container["restartCount"]), (&json!(false), &json!(0)));
        assert_eq!(down["status"]["phase"], "Running");
        assert!(waits_for_restart(&down) && !condition::is_true(&down, "Ready"));
        assert!(condition::is_true(&down, "PodReadyToStartContainers"));
        let again = with(down.clone(), restarted(&down, Facts { now: "t9", ..FACTS }));
        let restarted = &again["status"]["containerStatuses"][0];
        assert_eq!(
            (&restarted["restartCount"], &restarted["lastState"]),
            (&json!(1), &container["lastState"])
        );
        assert_ne!(restarted["containerID"], runs["status"]["containerStatuses"][0]["containerID"]);
        assert!(condition::is_true(&again, "Ready") && !waits_for_restart(&again));
    }

    #[test]
    fn an_image_that_cannot_be_pulled_keeps_its_container_waiting() {
        let fresh = pod(json!({ "containers": [{ "name": "a", "image": "i" }] }));
        let started = with(fresh.clone(), starting(&fresh, FACTS));
        let failed = with(started.clone(), unpulled(&started, "ErrImagePull", "t3").expect("a change"));
        let waiting = &failed["status"]["containerStatuses"][0]["state"]["waiting"];
        assert_eq!(
            (&waiting["reason"], &waiting["message"]),
            (&json!("ErrImagePull"), &json!("Failed to pull image \"i\": a simulated failure"))
        );
        assert_eq!(unpulled(&failed, "ErrImagePull", "t4"), None);
        assert_eq!(failed["status"]["phase"], "Pending");
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
    fn a_deleted_pod_fails_with_all_containers_that_run() {
        let spec = json!({ "containers": [{ "name": "a" }], "ephemeralContainers": [{ "name": "debug" }],
            "initContainers": [{ "name": "first" }, { "name": "side", "restartPolicy": "Always" }] });
        let fresh = pod(spec);
        let runs = with(fresh.clone(), running(&fresh, FACTS));
        let runs = with(runs.clone(), refreshed(&runs, FACTS).expect("a container was added"));
        let mut deleted = runs.clone();
        deleted["metadata"]["generation"] = 2.into();
        deleted["status"]["containerStatuses"][0]["restartCount"] = 3.into();
        let gone = with(deleted.clone(), stopped(&deleted, Facts { now: "t9", ..FACTS }));
        let status = &gone["status"];
        assert_eq!((&status["phase"], &status["observedGeneration"]), (&json!("Failed"), &json!(2)));
        let container = &status["containerStatuses"][0];
        let state = &container["state"]["terminated"];
        assert_eq!((&state["exitCode"], &state["reason"]), (&json!(143), &json!("Error")));
        assert_eq!((&state["startedAt"], &state["finishedAt"]), (&json!("t2"), &json!("t9")));
        assert_eq!((&container["ready"], &container["restartCount"]), (&json!(false), &json!(3)));
        let codes = [
            ("/initContainerStatuses/0", 0),
            ("/initContainerStatuses/1", 143),
            ("/ephemeralContainerStatuses/0", 143),
        ];
        for (pointer, code) in codes {
            assert_eq!(
                number(status, &format!("{pointer}/state/terminated/exitCode")),
                Some(code),
                "{pointer}"
            );
        }
        for kind in ["Ready", "ContainersReady", "PodReadyToStartContainers"] {
            assert_eq!(condition::find(&gone, kind).unwrap()["status"], "False", "{kind}");
        }
        assert!(condition::is_true(&gone, "PodScheduled") && condition::is_true(&gone, "Initialized"));
        assert_eq!(status["podIP"], "10.244.1.2", "addresses stay");
    }

    #[test]
    fn a_deleted_pod_that_never_ran_fails_too() {
        let fresh = pod(json!({ "containers": [{ "name": "a" }] }));
        assert_eq!(stopped(&fresh, FACTS)["phase"], "Failed", "not accepted yet");
        let started = with(fresh.clone(), starting(&fresh, FACTS));
        let gone = stopped(&started, FACTS);
        let state = &gone["containerStatuses"][0]["state"]["terminated"];
        assert_eq!((&state["exitCode"], &state["reason"]), (&json!(137), &json!("ContainerStatusUnknown")));
        let fresh = pod(json!({ "containers": [{ "name": "a" }], "initContainers": [{ "name": "first" }] }));
        let started = with(fresh.clone(), starting(&fresh, FACTS));
        let gone = stopped(&started, FACTS);
        assert_eq!(gone["phase"], "Failed");
        assert!(gone["containerStatuses"][0]["state"].get("waiting").is_some(), "it was not initialized");
    }

    #[test]
    fn a_node_without_an_address_gives_none_to_its_pods() {
        let fresh = pod(json!({ "containers": [{ "name": "a" }] }));
        let runs = running(&fresh, Facts { hosts: &[], addresses: &[""], ..FACTS });
        for field in ["hostIP", "hostIPs", "podIP", "podIPs"] {
            assert_eq!(runs.get(field), None, "{field}");
        }
        let dual = Facts { hosts: &["2001:db8::1", "10.0.0.1"], ..FACTS };
        let runs = running(&fresh, dual);
        assert_eq!(runs["hostIP"], "2001:db8::1");
        assert_eq!(runs["hostIPs"], json!([{ "ip": "2001:db8::1" }, { "ip": "10.0.0.1" }]));
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
