//! The resources that pods request, and those that the pods of each node have been given.

use std::collections::{BTreeMap, HashMap};

use dogwatch_informer::{Change, EventHandler};
use parking_lot::Mutex;
use serde_json::Value;
use std::sync::Arc;

use crate::json_access::{entries, items, number, text};
use crate::object::Pod;
use crate::quantity::parse;

/// The begin of the names of ports of nodes, of which each node has one.
const HOST_PORT: &str = "host port ";

/// Amounts of resources by name, in thousandths.
pub(super) type Amounts = BTreeMap<String, i128>;

/// The pods of all nodes, with their requests: those that the cache shows, and those that were
/// assigned and are not shown yet.
#[derive(Debug, Default)]
pub(super) struct Usage {
    pods: HashMap<String, Assigned>,
    nodes: HashMap<String, OnNode>,
    /// The number of pods that were assigned and are not shown yet.
    assumed: usize,
}

#[derive(Clone, Debug)]
struct Assigned {
    node: String,
    requests: Amounts,
    priority: i64,
    is_assumed: bool,
}

/// The sum of the requests of the pods of a node.
#[derive(Clone, Debug, Default)]
struct OnNode {
    requests: Amounts,
    pods: i128,
    /// The number of pods of each priority.
    priorities: BTreeMap<i64, usize>,
}

impl Usage {
    /// Records that a pod has a node, or is about to have it.
    pub(super) fn assign(
        &mut self,
        uid: &str,
        node: &str,
        requests: Amounts,
        priority: i64,
        is_assumed: bool,
    ) {
        self.remove(uid);
        let on_node = self.nodes.entry(node.to_owned()).or_default();
        on_node.pods = on_node.pods.saturating_add(1);
        let count = on_node.priorities.entry(priority).or_default();
        *count = count.saturating_add(1);
        for (name, amount) in &requests {
            let sum = on_node.requests.entry(name.clone()).or_default();
            *sum = sum.saturating_add(*amount);
        }
        self.assumed = self.assumed.saturating_add(usize::from(is_assumed));
        let assigned = Assigned { node: node.to_owned(), requests, priority, is_assumed };
        self.pods.insert(uid.to_owned(), assigned);
    }

    /// Records that pods have a node.
    pub(super) fn assign_all(&mut self, node: &str, pods: &[Arc<Pod>]) {
        for pod in pods {
            self.assign(text(pod, "/metadata/uid"), node, requests(pod), priority(pod), false);
        }
    }

    /// Returns the usage of one node without some of its pods.
    pub(super) fn without<'a>(&self, node: &str, uids: impl Iterator<Item = &'a str>) -> Self {
        let mut rest = Self::default();
        rest.nodes.extend(self.nodes.get(node).map(|it| (node.to_owned(), it.clone())));
        for uid in uids {
            if let Some(known) = self.pods.get(uid).filter(|it| it.node == node) {
                rest.pods.insert(uid.to_owned(), known.clone());
                rest.remove(uid);
            }
        }
        rest
    }

    /// Returns true if a node has a pod of a lower priority.
    pub(super) fn has_below(&self, node: &str, priority: i64) -> bool {
        let lowest = self.nodes.get(node).and_then(|it| it.priorities.first_key_value());
        lowest.is_some_and(|(it, _)| *it < priority)
    }

    /// Removes a pod.
    pub(super) fn remove(&mut self, uid: &str) {
        let Some(known) = self.pods.remove(uid) else { return };
        self.assumed = self.assumed.saturating_sub(usize::from(known.is_assumed));
        let Some(on_node) = self.nodes.get_mut(&known.node) else { return };
        on_node.pods = on_node.pods.saturating_sub(1);
        if let Some(count) = on_node.priorities.get_mut(&known.priority) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                on_node.priorities.remove(&known.priority);
            }
        }
        for (name, amount) in &known.requests {
            if let Some(sum) = on_node.requests.get_mut(name) {
                *sum = sum.saturating_sub(*amount);
            }
        }
        if on_node.pods <= 0 {
            self.nodes.remove(&known.node);
        }
    }

    /// Returns true if the cache shows all pods that were assigned.
    pub(super) fn is_shown(&self) -> bool {
        self.assumed == 0
    }

    /// Returns the reason why a node has no room for a pod, if it has none.
    pub(super) fn lack(&self, node: &Value, requests: &Amounts) -> Option<String> {
        let used = self.nodes.get(text(node, "/metadata/name"));
        let allocatable = |name: &str| {
            let amount = entries(node, "/status/allocatable").find(|(it, _)| *it == name);
            amount.and_then(|(_, it)| parse(it.as_str()?)).unwrap_or(0)
        };
        let pods = used.map_or(0, |it| it.pods).saturating_add(1).saturating_mul(1000);
        if allocatable("pods") < pods {
            return Some("Too many pods".to_owned());
        }
        let lacking = requests.iter().filter(|(_, amount)| **amount > 0).find(|(name, amount)| {
            let sum = used.and_then(|it| it.requests.get(*name)).copied().unwrap_or(0);
            let room = if name.starts_with(HOST_PORT) { **amount } else { allocatable(name) };
            sum.saturating_add(**amount) > room
        });
        lacking.map(|(name, _)| match name.starts_with(HOST_PORT) {
            true => "node(s) didn't have free ports for the requested pod ports".to_owned(),
            false => format!("Insufficient {name}"),
        })
    }
}

/// Returns the priority of a pod.
pub(super) fn priority(pod: &Value) -> i64 {
    number(pod, "/spec/priority").unwrap_or(0)
}

/// Returns the resources that a pod requests: what its containers need at the same time.
pub(super) fn requests(pod: &Value) -> Amounts {
    let of = |container: &Value| amounts(container, "/resources/requests");
    let mut sum = Amounts::new();
    for container in items(pod, "/spec/containers") {
        add(&mut sum, &of(container));
    }
    let (mut sidecars, mut largest) = (Amounts::new(), Amounts::new());
    for container in items(pod, "/spec/initContainers") {
        let mut needs = of(container);
        if text(container, "/restartPolicy") == "Always" {
            add(&mut sum, &needs);
            add(&mut sidecars, &needs);
            needs = sidecars.clone();
        } else {
            add(&mut needs, &sidecars);
        }
        raise(&mut largest, needs);
    }
    raise(&mut sum, largest);
    // What the pod asks for as a whole replaces the sums.
    for (name, amount) in amounts(pod, "/spec/resources/requests") {
        sum.insert(name, amount);
    }
    add(&mut sum, &amounts(pod, "/spec/overhead"));
    // Sidecars run beside the other containers; other init containers are gone by then.
    let sidecars = items(pod, "/spec/initContainers").iter();
    let sidecars = sidecars.filter(|it| text(it, "/restartPolicy") == "Always");
    for container in items(pod, "/spec/containers").iter().chain(sidecars) {
        for port in items(container, "/ports") {
            if let Some(number) = number(port, "/hostPort").filter(|it| *it > 0) {
                let protocol = Some(text(port, "/protocol")).filter(|it| !it.is_empty()).unwrap_or("TCP");
                sum.insert(format!("{HOST_PORT}{protocol}/{number}"), 1000);
            }
        }
    }
    sum
}

fn amounts(of: &Value, pointer: &str) -> Amounts {
    let all = entries(of, pointer).filter_map(|(name, it)| Some((name.to_owned(), parse(it.as_str()?)?)));
    all.collect()
}

fn add(sum: &mut Amounts, more: &Amounts) {
    for (name, amount) in more {
        let sum = sum.entry(name.clone()).or_default();
        *sum = sum.saturating_add(*amount);
    }
}

fn raise(least: &mut Amounts, to: Amounts) {
    for (name, amount) in to {
        let least = least.entry(name).or_default();
        *least = amount.max(*least);
    }
}

/// Keeps the usage of nodes up to date.
pub(super) struct UsageTracker(pub(super) Arc<Mutex<Usage>>);

impl EventHandler<Pod> for UsageTracker {
    fn on_change(&mut self, change: &Change<Pod>) {
        let pod = change.object();
        let uid = text(pod, "/metadata/uid");
        match change {
            Change::Deleted(_) => self.0.lock().remove(uid),
            _ if pod.has_ended => self.0.lock().remove(uid),
            _ if pod.node().is_empty() => {}
            _ => {
                let requests = requests(pod);
                self.0.lock().assign(uid, pod.node(), requests, priority(pod), false);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_pod_requests_what_its_containers_need_at_the_same_time() {
        let container = |cpu: &str| json!({ "resources": { "requests": { "cpu": cpu } } });
        let sidecar = json!({ "restartPolicy": "Always", "resources": { "requests": { "cpu": "100m" } } });
        for (spec, expected) in [
            (json!({ "containers": [container("1"), container("500m")] }), 1500),
            (json!({ "containers": [container("1")], "initContainers": [container("3")] }), 3000),
            (json!({ "containers": [container("1")], "initContainers": [sidecar, container("3")] }), 3100),
            (json!({ "containers": [container("1")], "initContainers": [container("1"), sidecar] }), 1100),
            (json!({ "containers": [container("1")], "overhead": { "cpu": "50m" } }), 1050),
            (json!({ "containers": [container("1")], "resources": { "requests": { "cpu": "2" } } }), 2000),
        ] {
            assert_eq!(requests(&json!({ "spec": spec }))["cpu"], expected, "{spec}");
        }
    }

    #[test]
    fn a_port_of_a_node_is_for_one_pod() {
        let node = json!({ "metadata": { "name": "a" }, "status": { "allocatable": { "pods": "9" } } });
        let pod = |port: u32, protocol: &str| json!({ "spec": { "containers": [{ "ports": [{ "hostPort": port, "protocol": protocol }] }] } });
        let mut usage = Usage::default();
        usage.assign("p", "a", requests(&pod(80, "TCP")), 0, false);
        for (port, protocol, expected) in [(80, "TCP", true), (80, "UDP", false), (81, "TCP", false)] {
            let lack = usage.lack(&node, &requests(&pod(port, protocol)));
            assert_eq!(lack.is_some_and(|it| it.contains("free ports")), expected, "{port} {protocol}");
        }
    }

    #[test]
    fn a_node_has_room_until_its_resources_are_given_away() {
        let node =
            json!({ "metadata": { "name": "a" }, "status": { "allocatable": { "cpu": "2", "pods": "2" } } });
        let cpu = |amount: i128| Amounts::from([("cpu".to_owned(), amount)]);
        let mut usage = Usage::default();
        usage.assign("p", "a", cpu(1500), 0, true);
        assert_eq!((usage.lack(&node, &cpu(500)), usage.is_shown()), (None, false));
        assert_eq!(usage.lack(&node, &cpu(501)).as_deref(), Some("Insufficient cpu"));
        let gpu = Amounts::from([("example.com/gpu".to_owned(), 1000)]);
        assert_eq!(usage.lack(&node, &gpu).as_deref(), Some("Insufficient example.com/gpu"));
        usage.assign("p", "a", cpu(1000), 7, false);
        assert!(usage.has_below("a", 8) && !usage.has_below("a", 7) && !usage.has_below("b", 8));
        assert_eq!(usage.without("a", ["p"].into_iter()).lack(&node, &cpu(2000)), None);
        assert_eq!((usage.lack(&node, &cpu(1000)), usage.is_shown()), (None, true));
        usage.assign("q", "a", Amounts::new(), 0, false);
        assert_eq!(usage.lack(&node, &Amounts::new()).as_deref(), Some("Too many pods"));
        usage.remove("p");
        usage.remove("q");
        assert!(usage.nodes.is_empty() && usage.pods.is_empty());
    }
}
