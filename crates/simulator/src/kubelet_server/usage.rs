//! The resource usage of containers: numbers that follow from their requests and stay the same, so
//! that metrics-server and autoscalers have something to read.

use std::fmt::Write as _;

use jiff::Timestamp;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::container::Container;
use crate::json_access::{items, text};
use crate::quantity;

/// The usage of a container without a request: a thousandth of a core, and 16 MiB.
const IDLE_MILLICORES: u64 = 1;
const IDLE_BYTES: u64 = 16 << 20;

/// The share of a request that is used, in percent: at least this, and up to a quarter more.
const SHARE: u64 = 50;
const SPREAD: u64 = 25;

/// The usage of a container that runs.
#[derive(Clone, Debug)]
struct ContainerUsage<'a> {
    name: &'a str,
    started: Timestamp,
    usage: Usage,
}

/// An amount of CPU time and memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Usage {
    nano_cores: u64,
    /// The CPU time since the start.
    core_nanoseconds: u64,
    bytes: u64,
}

impl Usage {
    fn plus(self, other: Self) -> Self {
        Self {
            nano_cores: self.nano_cores.saturating_add(other.nano_cores),
            core_nanoseconds: self.core_nanoseconds.saturating_add(other.core_nanoseconds),
            bytes: self.bytes.saturating_add(other.bytes),
        }
    }

    fn cpu(self, now: &str) -> Value {
        json!({ "time": now, "usageNanoCores": self.nano_cores, "usageCoreNanoSeconds": self.core_nanoseconds })
    }

    fn memory(self, now: &str) -> Value {
        json!({ "time": now, "workingSetBytes": self.bytes, "usageBytes": self.bytes, "rssBytes": self.bytes,
            "pageFaults": 0, "majorPageFaults": 0 })
    }
}

fn of_pod(pod: &Value, now: Timestamp) -> Vec<ContainerUsage<'_>> {
    let runs = Container::running(pod).into_iter().filter_map(|it| Some((it, it.logged_run(false).ok()?)));
    runs.map(|(container, run)| {
        let request = |resource: &str| {
            quantity::parse(text(container.spec, &format!("/resources/requests/{resource}")))
                .and_then(|it| u64::try_from(it).ok())
        };
        let digest = Sha256::digest(run.id);
        let share = SHARE.saturating_add(u64::from(digest[0]) % SPREAD);
        let used = |amount: u64| amount.saturating_mul(share) / 100;
        let millicores = request("cpu").map_or(IDLE_MILLICORES, used).max(1);
        // Amounts are in thousandths.
        let bytes = request("memory").map_or(IDLE_BYTES, |it| used(it / 1000));
        let nano_cores = millicores.saturating_mul(1_000_000);
        let seconds = now.as_second().saturating_sub(run.started.as_second()).max(0).unsigned_abs();
        let core_nanoseconds = nano_cores.saturating_mul(seconds);
        let usage = Usage { nano_cores, core_nanoseconds, bytes };
        ContainerUsage { name: container.name(), started: run.started, usage }
    })
    .collect()
}

fn total(containers: &[ContainerUsage<'_>]) -> Usage {
    containers.iter().fold(Usage::default(), |sum, it| sum.plus(it.usage))
}

/// Returns the response of `/stats/summary`. One server is the kubelet of all simulated nodes, so
/// the numbers of the node are those of all pods.
pub(super) fn summary<'a>(node: &str, pods: impl Iterator<Item = &'a Value>, now: Timestamp) -> Value {
    let stamp = written(now);
    let mut node_usage = Usage::default();
    let pods: Vec<Value> = pods
        .map(|pod| {
            let containers = of_pod(pod, now);
            let usage = total(&containers);
            node_usage = node_usage.plus(usage);
            let containers: Vec<Value> = containers
                .iter()
                .map(|it| {
                    json!({ "name": it.name, "startTime": written(it.started), "cpu": it.usage.cpu(&stamp),
                        "memory": it.usage.memory(&stamp) })
                })
                .collect();
            json!({
                "podRef": { "name": pod["metadata"]["name"], "namespace": pod["metadata"]["namespace"],
                    "uid": pod["metadata"]["uid"] },
                "startTime": pod["status"]["startTime"], "containers": containers, "cpu": usage.cpu(&stamp),
                "memory": usage.memory(&stamp),
            })
        })
        .collect();
    json!({ "node": { "nodeName": node, "startTime": stamp, "cpu": node_usage.cpu(&stamp),
        "memory": node_usage.memory(&stamp) }, "pods": pods })
}

/// Returns the response of `/metrics/resource`: the metrics of k8s.io/kubernetes v1.36.4
/// pkg/kubelet/metrics/collectors/resource_metrics.go in the text format of Prometheus.
pub(super) fn metrics<'a>(pods: impl Iterator<Item = &'a Value>, now: Timestamp) -> String {
    let mut families = [
        Family::new(
            "container_cpu_usage_seconds_total",
            "counter",
            "CPU time of the container in core-seconds",
        ),
        Family::new("container_memory_working_set_bytes", "gauge", "Working set of the container in bytes"),
        Family::new("container_start_time_seconds", "gauge", "Start of the container since 1970 in seconds"),
        Family::new("pod_cpu_usage_seconds_total", "counter", "CPU time of the pod in core-seconds"),
        Family::new("pod_memory_working_set_bytes", "gauge", "Working set of the pod in bytes"),
        Family::new("node_cpu_usage_seconds_total", "counter", "CPU time of the node in core-seconds"),
        Family::new("node_memory_working_set_bytes", "gauge", "Working set of the node in bytes"),
        Family::new("resource_scrape_error", "gauge", "1 if there was an error, 0 otherwise"),
    ];
    let millis = now.as_millisecond();
    let mut all = Usage::default();
    let seconds = |usage: Usage| std::time::Duration::from_nanos(usage.core_nanoseconds).as_secs_f64();
    let [cpu, memory, start, pod_cpu, pod_memory, node_cpu, node_memory, error] = &mut families;
    for pod in pods {
        let containers = of_pod(pod, now);
        if containers.is_empty() {
            continue;
        }
        let of_pod =
            format!("namespace={:?},pod={:?}", text(pod, "/metadata/namespace"), text(pod, "/metadata/name"));
        for it in &containers {
            let labels = format!("{{container={:?},{of_pod}}}", it.name);
            cpu.add(&labels, seconds(it.usage), Some(millis));
            memory.add(&labels, it.usage.bytes, Some(millis));
            start.add(&labels, it.started.as_second(), None);
        }
        let (usage, labels) = (total(&containers), format!("{{{of_pod}}}"));
        all = all.plus(usage);
        pod_cpu.add(&labels, seconds(usage), Some(millis));
        pod_memory.add(&labels, usage.bytes, Some(millis));
    }
    node_cpu.add("", seconds(all), Some(millis));
    node_memory.add("", all.bytes, Some(millis));
    error.add("", 0, None);
    families.map(|it| it.text).concat()
}

/// The lines of one metric.
struct Family {
    name: &'static str,
    text: String,
}

impl Family {
    fn new(name: &'static str, kind: &str, help: &str) -> Self {
        Self { name, text: format!("# HELP {name} {help}\n# TYPE {name} {kind}\n") }
    }

    fn add(&mut self, labels: &str, value: impl std::fmt::Display, millis: Option<i64>) {
        let time = millis.map_or_else(String::new, |it| format!(" {it}"));
        let written = writeln!(self.text, "{}{labels} {value}{time}", self.name);
        written.expect("a text can be written to");
    }
}

fn written(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// Returns the name of the node in a summary: that of the only one, or a word for all of them.
pub(super) fn node_name(nodes: &[&Value]) -> String {
    match nodes {
        [node] => text(node, "/metadata/name").to_owned(),
        _ => "all-nodes".to_owned(),
    }
}

/// Returns true if a pod runs on a node.
pub(super) fn is_assigned(pod: &Value) -> bool {
    !text(pod, "/spec/nodeName").is_empty() && !items(pod, "/spec/containers").is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod() -> Value {
        json!({ "metadata": { "name": "web-0", "namespace": "shop", "uid": "u" },
            "spec": { "nodeName": "node-1", "containers": [
                { "name": "web", "resources": { "requests": { "cpu": "200m", "memory": "100Mi" } } },
                { "name": "side" }, { "name": "down" }] },
            "status": { "startTime": "2026-01-02T03:04:00Z", "containerStatuses": [
                { "name": "web", "containerID": "1", "state": { "running": { "startedAt": "2026-01-02T03:04:00Z" } } },
                { "name": "side", "containerID": "2", "state": { "running": { "startedAt": "2026-01-02T03:04:05Z" } } },
                { "name": "down", "state": { "waiting": { "reason": "ErrImagePull" } } }] } })
    }

    fn now() -> Timestamp {
        "2026-01-02T03:04:10Z".parse().unwrap()
    }

    #[test]
    fn usage_follows_from_requests_and_the_time_that_a_container_runs() {
        let pod = pod();
        let [web, side] = &of_pod(&pod, now())[..] else { panic!("two containers run") };
        assert!((100..150).contains(&(web.usage.nano_cores / 1_000_000)), "{web:?}");
        assert_eq!(web.usage.core_nanoseconds, web.usage.nano_cores * 10);
        assert!((50..75).contains(&(web.usage.bytes >> 20)), "{web:?}");
        assert_eq!((side.usage.nano_cores, side.usage.bytes), (1_000_000, IDLE_BYTES));
        let later = of_pod(&pod, "2026-01-02T04:04:10Z".parse().unwrap());
        assert_eq!(later[0].usage.nano_cores, web.usage.nano_cores, "the numbers are stable");
    }

    #[test]
    fn the_metrics_have_a_line_for_each_container_and_pod() {
        let pod = pod();
        let text = metrics([&pod].into_iter(), now());
        for expected in [
            "# TYPE container_cpu_usage_seconds_total counter\n",
            "container_cpu_usage_seconds_total{container=\"side\",namespace=\"shop\",pod=\"web-0\"} 0.005 1767323050000\n",
            "container_memory_working_set_bytes{container=\"side\",namespace=\"shop\",pod=\"web-0\"} 16777216 1767323050000\n",
            "container_start_time_seconds{container=\"side\",namespace=\"shop\",pod=\"web-0\"} 1767323045\n",
            "\nresource_scrape_error 0\n",
        ] {
            assert!(text.contains(expected), "{expected}: {text}");
        }
        let node = text.lines().find(|it| it.starts_with("node_cpu_usage_seconds_total ")).unwrap();
        let pod = text.lines().find(|it| it.starts_with("pod_cpu_usage_seconds_total{")).unwrap();
        assert_eq!(node.split(' ').nth(1), pod.split(' ').nth(1));
    }

    #[test]
    fn the_summary_adds_up_containers() {
        let pod = pod();
        let summary =
            summary(&node_name(&[&json!({ "metadata": { "name": "node-1" } })]), [&pod].into_iter(), now());
        assert_eq!(summary["node"]["nodeName"], "node-1");
        let of_pod = &summary["pods"][0];
        assert_eq!(
            (&of_pod["podRef"]["uid"], &of_pod["containers"][1]["name"]),
            (&json!("u"), &json!("side"))
        );
        assert_eq!(summary["node"]["memory"]["workingSetBytes"], of_pod["memory"]["workingSetBytes"]);
        assert_eq!(node_name(&[]), "all-nodes");
    }
}
