//! Resources at the level of a pod: defaults, QoS class, validation and resize.

use serde_json::{Value, json};

use super::{FullResponse, Server};

const PODS: &str = "/api/v1/namespaces/default/pods";

impl Server {
    /// Creates a pod with these resources of its own, and containers and init containers with
    /// these.
    async fn pod_with(&self, name: &str, own: Value, containers: &[Value], init: &[Value]) -> FullResponse {
        let list = |prefix: &str, all: &[Value]| -> Vec<Value> {
            let one = |(index, resources)| json!({ "name": format!("{prefix}{index}"), "image": "i", "resources": resources });
            all.iter().enumerate().map(one).collect()
        };
        let spec = json!({ "resources": own, "containers": list("c", containers), "initContainers": list("i", init) });
        self.post(PODS, json!({ "metadata": { "name": name }, "spec": spec })).await
    }
}

fn requests(cpu: &str) -> Value {
    json!({ "requests": { "cpu": cpu } })
}

fn all(cpu: &str, memory: &str) -> Value {
    json!({ "cpu": cpu, "memory": memory })
}

#[tokio::test]
async fn pod_level_requests_default_to_those_of_the_containers_and_then_to_the_limits() {
    let server = Server::start().await;
    let limits = json!({ "limits": all("4", "1Gi") });
    for (name, containers, init, expected) in [
        ("none", vec![json!({})], vec![], all("4", "1Gi")),
        ("sum", vec![requests("500m"), requests("700m")], vec![], all("1200m", "1Gi")),
        ("init", vec![requests("500m")], vec![requests("2")], all("2", "1Gi")),
    ] {
        let made = server.pod_with(name, limits.clone(), &containers, &init).await;
        assert_eq!(made.code, 201, "{made:?}");
        assert_eq!(made.json()["spec"]["resources"]["requests"], expected, "{name}");
    }
    let own = json!({ "limits": { "cpu": "4" }, "requests": { "cpu": "3" } });
    let made = server.pod_with("own", own.clone(), &[requests("1")], &[]).await;
    assert_eq!(made.json()["spec"]["resources"], own, "what is set stays");
    let huge = json!({ "limits": { "hugepages-2Mi": "4Mi", "cpu": "1" } });
    let made = server.pod_with("huge", json!({ "limits": { "cpu": "2" } }), &[huge], &[]).await;
    let expected = json!({ "limits": { "cpu": "2", "hugepages-2Mi": "4Mi" }, "requests": { "cpu": "1", "hugepages-2Mi": "4Mi" } });
    assert_eq!(made.json()["spec"]["resources"], expected);
}

#[tokio::test]
async fn pod_level_resources_determine_the_qos_class() {
    let server = Server::start().await;
    let equal = json!({ "limits": all("1", "1Gi"), "requests": all("1", "1Gi") });
    for (name, own, container, expected) in [
        ("guaranteed", json!({ "limits": all("1", "1Gi") }), json!({}), "Guaranteed"),
        ("burstable", json!({ "requests": { "cpu": "1" } }), json!({}), "Burstable"),
        ("one-limit", json!({ "limits": { "cpu": "1" } }), json!({}), "Burstable"),
        (
            "own-first",
            json!({ "limits": all("2", "2Gi"), "requests": all("1", "1Gi") }),
            equal.clone(),
            "Burstable",
        ),
        ("empty", json!({}), equal.clone(), "BestEffort"),
        ("none", Value::Null, equal, "Guaranteed"),
        ("zero", Value::Null, json!({ "limits": all("1", "1Gi"), "requests": all("0", "1Gi") }), "Burstable"),
    ] {
        let made = server.pod_with(name, own, &[container], &[]).await;
        assert_eq!(made.json()["status"]["qosClass"], expected, "{made:?}");
    }
}

#[tokio::test]
async fn pod_level_resources_are_validated_against_those_of_the_containers() {
    let server = Server::start().await;
    for (own, container, expected) in [
        (
            json!({ "requests": { "cpu": "1" } }),
            requests("2"),
            r#"spec.resources.requests[cpu]: Invalid value: "1": must be greater than or equal to aggregate container requests of 2"#,
        ),
        (
            json!({ "limits": { "cpu": "1" }, "requests": { "cpu": "1" } }),
            json!({ "limits": { "cpu": "2" }, "requests": { "cpu": "1" } }),
            r#"spec.resources.containers[0][cpu].limits: Invalid value: "2": must be less than or equal to pod limits of 1"#,
        ),
        (
            json!({ "limits": { "cpu": "1" }, "requests": { "cpu": "2" } }),
            json!({}),
            r#"spec.resources.requests: Invalid value: "2": must be less than or equal to cpu limit of 1"#,
        ),
        (
            json!({ "requests": { "ephemeral-storage": "1" } }),
            json!({}),
            r#"spec.resources.requests[ephemeral-storage]: Unsupported value: "ephemeral-storage": supported values: "cpu", "hugepages-", "memory""#,
        ),
    ] {
        let refused = server.pod_with("p", own, &[container], &[]).await;
        assert_eq!(refused.error(), (422, format!("Pod \"p\" is invalid: {expected}")));
    }
}

#[tokio::test]
async fn a_resize_changes_pod_level_resources_but_removes_none() {
    let server = Server::start().await;
    let own = json!({ "limits": all("4", "1Gi"), "requests": all("2", "512Mi") });
    assert_eq!(server.pod_with("p", own, &[requests("1")], &[]).await.code, 201);
    let resize = format!("{PODS}/p/resize");
    let patch = |resources: Value| json!({ "spec": { "resources": resources } });
    let resized = server.merge(&resize, patch(json!({ "requests": { "cpu": "3" } }))).await;
    assert_eq!(resized.code, 200, "{resized:?}");
    assert_eq!(resized.json()["spec"]["resources"]["requests"], all("3", "512Mi"));
    assert_eq!(resized.json()["metadata"]["generation"], 2);
    for (resources, expected) in [
        (Value::Null, "spec.resources: Forbidden: pod-level resources cannot be removed"),
        (
            json!({ "requests": { "memory": null }, "limits": { "memory": null } }),
            "spec.resources.limits: Forbidden: pod-level resource limits cannot be removed",
        ),
        (json!({ "requests": all("4", "1Gi") }), "Pod QOS Class may not change as a result of resizing"),
        (
            json!({ "requests": { "hugepages-2Mi": "2Mi" }, "limits": { "hugepages-2Mi": "2Mi" } }),
            "spec: Forbidden: only cpu and memory resources are mutable at pod-level",
        ),
    ] {
        let refused = server.merge(&resize, patch(resources)).await;
        assert!(refused.code == 422 && refused.text().contains(expected), "{refused:?}");
    }
}
