//! Preconditions of writes: the uid and the version that a request names, and the disruption budget
//! of an eviction.

use serde_json::{Value, json};

use super::{FullResponse, JSON, Server};

const PODS: &str = "/api/v1/namespaces/default/pods";
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/default/leases";
const BUDGETS: &str = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";

impl Server {
    async fn put(&self, path: &str, object: &Value) -> FullResponse {
        self.send("PUT", path, &[JSON], &object.to_string()).await
    }

    pub(super) async fn delete(&self, path: &str) -> FullResponse {
        self.send("DELETE", path, &[], "").await
    }

    /// Creates a pod and returns it.
    async fn pod(&self, name: &str) -> Value {
        let pod = json!({ "metadata": { "name": name, "labels": { "app": "a" } },
            "spec": { "containers": [{ "name": "c", "image": "i" }] } });
        let made = self.post(PODS, pod).await;
        assert_eq!(made.code, 201, "{made:?}");
        made.json()
    }

    /// Creates a pod on a node that runs and is ready, or not, and returns it.
    async fn running_pod(&self, name: &str, ready: bool) -> Value {
        self.pod(name).await;
        let binding = json!({ "metadata": { "name": name }, "target": { "kind": "Node", "name": "n" } });
        assert_eq!(self.post(&format!("{PODS}/{name}/binding"), binding).await.code, 201);
        let ready = if ready { "True" } else { "False" };
        let status =
            json!({ "status": { "phase": "Running", "conditions": [{ "type": "Ready", "status": ready }] } });
        let changed = self.merge(&format!("{PODS}/{name}/status"), status).await;
        assert_eq!(changed.code, 200, "{changed:?}");
        changed.json()
    }

    /// Creates a budget for the pods with this status.
    async fn budget(&self, status: Value) {
        let budget = json!({ "metadata": { "name": "b" },
            "spec": { "minAvailable": 1, "selector": { "matchLabels": { "app": "a" } } } });
        assert_eq!(self.post(BUDGETS, budget).await.code, 201);
        let changed = self.merge(&format!("{BUDGETS}/b/status"), json!({ "status": status })).await;
        assert_eq!(changed.code, 200, "{changed:?}");
    }

    async fn disruptions_allowed(&self) -> Value {
        self.get(&format!("{BUDGETS}/b")).await.json()["status"]["disruptionsAllowed"].clone()
    }

    async fn evict(&self, name: &str, options: Value) -> FullResponse {
        let eviction = json!({ "apiVersion": "policy/v1", "kind": "Eviction", "metadata": { "name": name },
            "deleteOptions": options });
        self.post(&format!("{PODS}/{name}/eviction"), eviction).await
    }
}

fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap()
}

fn budget_status(allowed: i64) -> Value {
    json!({ "disruptionsAllowed": allowed, "currentHealthy": 2, "desiredHealthy": 1, "expectedPods": 2,
        "observedGeneration": 1 })
}

/// A client that renews a lease it has read must not create it anew after another has deleted it.
#[tokio::test]
async fn an_update_with_a_uid_does_not_recreate_a_deleted_object() {
    let server = Server::start().await;
    let mut lease = server.post(LEASES, json!({ "metadata": { "name": "l" } })).await.json();
    let path = format!("{LEASES}/l");
    assert_eq!(server.delete(&path).await.code, 200);
    let uid = text(&lease, "/metadata/uid").to_owned();
    let why = format!(
        "Operation cannot be fulfilled on leases.coordination.k8s.io \"l\": StorageError: invalid object, \
         Code: 4, Key: /registry/leases/default/l, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: \
         UID in precondition: {uid}, UID in object meta: "
    );
    for query in ["", "?dryRun=All"] {
        assert_eq!(server.put(&format!("{path}{query}"), &lease).await.error(), (409, why.clone()));
        assert_eq!(server.get(&path).await.code, 404);
    }
    lease["metadata"].as_object_mut().unwrap().remove("uid");
    assert_eq!(server.put(&path, &lease).await.code, 201, "without a uid it is created");
}

#[tokio::test]
async fn an_update_of_the_scale_of_a_former_object_is_rejected() {
    let server = Server::start().await;
    let sets = "/apis/apps/v1/namespaces/default/replicasets";
    let set = json!({ "metadata": { "name": "s" }, "spec": { "replicas": 1,
        "selector": { "matchLabels": { "app": "a" } }, "template": {
            "metadata": { "labels": { "app": "a" } }, "spec": { "containers": [{ "name": "c", "image": "i" }] } } } });
    assert_eq!(server.post(sets, set).await.code, 201);
    let path = format!("{sets}/s/scale");
    let mut scale = server.get(&path).await.json();
    scale["metadata"]["uid"] = json!("another");
    scale["metadata"].as_object_mut().unwrap().remove("resourceVersion");
    scale["spec"]["replicas"] = json!(0);
    let rejected = server.put(&path, &scale).await.error();
    assert!(rejected.0 == 409 && rejected.1.contains("UID in precondition: another"), "{rejected:?}");
    let patch = json!({ "metadata": { "uid": "another" }, "spec": { "replicas": 0 } });
    assert_eq!(server.merge(&path, patch).await.code, 409);
    assert_eq!(server.get(&path).await.json()["spec"]["replicas"], 1);
}

/// A scheduler that decides slowly must not bind a pod of the same name that was created meanwhile.
#[tokio::test]
async fn a_binding_to_another_uid_or_version_is_rejected() {
    let server = Server::start().await;
    let pod = server.pod("p").await;
    let (uid, version) = (text(&pod, "/metadata/uid"), text(&pod, "/metadata/resourceVersion"));
    let bind = |metadata: Value| {
        let binding = json!({ "metadata": metadata, "target": { "kind": "Node", "name": "n" } });
        let server = &server;
        async move { server.post(&format!("{PODS}/p/binding"), binding).await }
    };
    let failed = |problem: String| {
        let why = format!(
            "Operation cannot be fulfilled on pods \"p\": StorageError: invalid object, Code: 4, \
             Key: /registry/pods/default/p, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: {problem}"
        );
        (409, why)
    };
    let problem = format!("UID in precondition: former, UID in object meta: {uid}");
    assert_eq!(bind(json!({ "name": "p", "uid": "former" })).await.error(), failed(problem));
    let problem = format!("ResourceVersion in precondition: 1, ResourceVersion in object meta: {version}");
    assert_eq!(bind(json!({ "name": "p", "resourceVersion": "1" })).await.error(), failed(problem.clone()));
    // The older form of the request takes the version, but not the uid.
    let legacy = json!({ "metadata": { "name": "p", "uid": "former", "resourceVersion": "1" },
        "target": { "kind": "Node", "name": "n" } });
    assert_eq!(server.post("/api/v1/namespaces/default/bindings", legacy).await.error(), failed(problem));
    assert_eq!(server.get(&format!("{PODS}/p")).await.json()["spec"].get("nodeName"), None);
    let bound = bind(json!({ "name": "p", "uid": uid, "resourceVersion": version })).await;
    assert_eq!(bound.code, 201, "{bound:?}");
    assert_eq!(bind(json!({ "name": "q", "uid": uid })).await.code, 400, "another name");
}

#[tokio::test]
async fn a_binding_goes_to_a_node() {
    let server = Server::start().await;
    server.pod("p").await;
    let binding = json!({ "metadata": { "name": "p" }, "target": { "kind": "Pod", "name": "n" } });
    let rejected = server.post(&format!("{PODS}/p/binding"), binding).await;
    let why = r#"target.kind: Unsupported value: "Pod": supported values: "Node", "<empty>""#;
    assert_eq!(rejected.error(), (500, why.to_owned()));
}

#[tokio::test]
async fn an_eviction_may_name_the_version_of_the_pod() {
    let server = Server::start().await;
    for (name, pending) in [("pending", true), ("running", false)] {
        let pod = if pending { server.pod(name).await } else { server.running_pod(name, true).await };
        let old = json!({ "preconditions": { "resourceVersion": "1" } });
        let rejected = server.evict(name, old).await.error();
        let version = text(&pod, "/metadata/resourceVersion");
        let why = format!(
            "Operation cannot be fulfilled on Pod \"{name}\": the ResourceVersion in the precondition (1) does not \
             match the ResourceVersion in record ({version}). The object might have been modified"
        );
        assert_eq!(rejected, (409, why));
        assert_eq!(server.get(&format!("{PODS}/{name}")).await.version().to_string(), version, "unchanged");
        let current = json!({ "preconditions": { "resourceVersion": version, "uid": pod["metadata"]["uid"] },
            "gracePeriodSeconds": 0 });
        let evicted = server.evict(name, current).await;
        assert_eq!(evicted.code, 201, "{evicted:?}");
        assert_eq!(server.get(&format!("{PODS}/{name}")).await.code, 404);
    }
}

#[tokio::test]
async fn an_eviction_of_a_former_pod_is_rejected() {
    let server = Server::start().await;
    let pod = server.running_pod("p", true).await;
    let rejected = server.evict("p", json!({ "preconditions": { "uid": "former" } })).await.error();
    assert!(rejected.0 == 409 && rejected.1.contains("the UID in the precondition (former)"), "{rejected:?}");
    assert_eq!(server.get(&format!("{PODS}/p")).await.json(), pod, "unchanged");
}

#[tokio::test]
async fn a_dry_run_of_an_eviction_spends_no_budget_and_reports_an_exhausted_one() {
    let server = Server::start().await;
    let pod = server.running_pod("p", true).await;
    server.budget(budget_status(1)).await;
    let eviction = json!({ "apiVersion": "policy/v1", "kind": "Eviction", "metadata": { "name": "p" } });
    let path = format!("{PODS}/p/eviction");
    assert_eq!(server.evict("p", json!({ "dryRun": ["All"] })).await.code, 201);
    assert_eq!(server.post(&format!("{path}?dryRun=All"), eviction.clone()).await.code, 201);
    assert_eq!(server.disruptions_allowed().await, 1);
    assert_eq!(server.get(&format!("{PODS}/p")).await.json(), pod, "unchanged");
    assert_eq!(server.evict("p", json!({})).await.code, 201);
    assert_eq!(server.disruptions_allowed().await, 0);
    server.running_pod("q", true).await;
    assert_eq!(server.evict("q", json!({ "dryRun": ["All"] })).await.code, 429);
    assert_eq!(server.evict("q", json!({})).await.code, 429);
}

/// k8s.io/kubernetes v1.36.4 pkg/registry/core/pod/storage/eviction.go: a pod that is not ready
/// does not count as healthy, so its eviction disrupts nothing while enough others are healthy.
#[tokio::test]
async fn an_unready_pod_is_evicted_without_spending_the_budget() {
    let server = Server::start().await;
    server.budget(budget_status(0)).await;
    server.running_pod("ready", true).await;
    server.running_pod("unready", false).await;
    assert_eq!(server.evict("ready", json!({})).await.code, 429);
    let evicted = server.evict("unready", json!({ "gracePeriodSeconds": 0 })).await;
    assert_eq!(evicted.code, 201, "{evicted:?}");
    assert_eq!(server.get(&format!("{PODS}/unready")).await.code, 404);
    assert_eq!(server.disruptions_allowed().await, 0);
    // Too few healthy pods: the budget decides, unless its policy allows it always.
    let few = json!({ "status": { "currentHealthy": 0 } });
    assert_eq!(server.merge(&format!("{BUDGETS}/b/status"), few).await.code, 200);
    server.running_pod("other", false).await;
    assert_eq!(server.evict("other", json!({})).await.code, 429);
    let always = json!({ "spec": { "unhealthyPodEvictionPolicy": "AlwaysAllow" } });
    assert_eq!(server.merge(&format!("{BUDGETS}/b"), always).await.code, 200);
    assert_eq!(server.evict("other", json!({})).await.code, 201);
}

#[tokio::test]
async fn static_and_windows_pods_cannot_be_resized() {
    let server = Server::start().await;
    let mirror = json!({ "kubernetes.io/config.mirror": "hash" });
    let containers = json!([{ "name": "c", "image": "i" }]);
    for (name, annotations, os, parts) in [
        (
            "static",
            mirror,
            "linux",
            ["static pods cannot be resized", "static pods do not support ephemeral containers"],
        ),
        ("windows", json!({}), "windows", ["windows pods cannot be resized", ""]),
    ] {
        let pod = json!({ "metadata": { "name": name, "annotations": annotations },
            "spec": { "nodeName": "n", "os": { "name": os }, "containers": containers } });
        assert_eq!(server.post(PODS, pod).await.code, 201);
        let patches = [
            (
                "resize",
                json!({ "containers": [{ "name": "c", "image": "i", "resources": { "requests": { "cpu": "1" } } }] }),
            ),
            ("ephemeralcontainers", json!({ "ephemeralContainers": [{ "name": "e", "image": "i" }] })),
        ];
        for ((part, patch), why) in patches.into_iter().zip(parts) {
            let answer = server.merge(&format!("{PODS}/{name}/{part}"), json!({ "spec": patch })).await;
            if why.is_empty() {
                assert_eq!(answer.code, 200, "{name} {part}");
            } else {
                assert_eq!(answer.error(), (422, format!("Pod {name:?} is invalid: : Forbidden: {why}")));
            }
        }
    }
}

#[tokio::test]
async fn the_endpoints_of_a_deleted_service_are_deleted() {
    let server = Server::start().await;
    let path = |plural: &str, name: &str| format!("/api/v1/namespaces/default/{plural}{name}");
    for finalizers in [json!([]), json!(["example.com/hold"])] {
        let endpoints = json!({ "metadata": { "name": "s" },
            "subsets": [{ "addresses": [{ "ip": "192.0.2.1" }], "ports": [{ "port": 80 }] }] });
        assert_eq!(server.post(&path("endpoints", ""), endpoints).await.code, 201);
        let service = json!({ "metadata": { "name": "s", "finalizers": finalizers },
            "spec": { "ports": [{ "port": 80 }] } });
        assert_eq!(server.post(&path("services", ""), service).await.code, 201);
        let dry = format!("{}?dryRun=All", path("services", "/s"));
        assert_eq!(server.delete(&dry).await.code, 200);
        assert_eq!(server.delete(&path("services", "/s")).await.code, 200);
        if finalizers != json!([]) {
            assert_eq!(server.get(&path("endpoints", "/s")).await.code, 200, "the service exists");
            let freed = json!({ "metadata": { "finalizers": null } });
            assert_eq!(server.merge(&path("services", "/s"), freed).await.code, 200);
        }
        assert_eq!(server.get(&path("services", "/s")).await.code, 404);
        assert_eq!(server.get(&path("endpoints", "/s")).await.code, 404);
    }
}

#[tokio::test]
async fn the_priority_classes_of_the_system_cannot_be_deleted_by_name() {
    let server = Server::start().await;
    let path = "/apis/scheduling.k8s.io/v1/priorityclasses";
    for name in ["system-node-critical", "system-cluster-critical"] {
        let why = "this is a system priority class and cannot be deleted";
        let message = format!("priorityclasses.scheduling.k8s.io {name:?} is forbidden: {why}");
        assert_eq!(server.delete(&format!("{path}/{name}")).await.error(), (403, message));
    }
    assert_eq!(server.delete(path).await.code, 200, "as in kube-apiserver");
}

#[tokio::test]
async fn a_service_loses_the_load_balancer_that_its_type_no_longer_has() {
    let server = Server::start().await;
    let path = "/api/v1/namespaces/default/services";
    let service = json!({ "metadata": { "name": "s" }, "spec": { "type": "LoadBalancer",
        "loadBalancerClass": "example.com/lb", "ports": [{ "port": 80 }] } });
    assert_eq!(server.post(path, service).await.code, 201);
    let one = format!("{path}/s");
    let status = json!({ "status": { "loadBalancer": { "ingress": [{ "ip": "192.0.2.1" }] } } });
    assert_eq!(server.merge(&format!("{one}/status"), status).await.code, 200);
    let changed = server.merge(&one, json!({ "spec": { "type": "NodePort" } })).await;
    assert_eq!(changed.code, 200, "{changed:?}");
    let changed = changed.json();
    assert_eq!(changed["status"], json!({ "loadBalancer": {} }));
    for field in ["loadBalancerClass", "allocateLoadBalancerNodePorts"] {
        assert_eq!(changed["spec"].get(field), None, "{field}");
    }
    assert!(changed["spec"]["ports"][0]["nodePort"].is_i64());
}

/// The QoS class of a running pod is fixed: the kubelet has set up its cgroups for it.
#[tokio::test]
async fn a_resize_changes_cpu_and_memory_only() {
    let server = Server::start().await;
    let container =
        |name: &str, resources: Value| json!({ "name": name, "image": "i", "resources": resources });
    let amounts =
        json!({ "requests": { "cpu": "1", "example.com/gpu": "1" }, "limits": { "example.com/gpu": "1" } });
    let pod = json!({ "metadata": { "name": "p" },
        "spec": { "containers": [container("a", amounts.clone()), container("b", json!({}))] } });
    assert_eq!(server.post(PODS, pod).await.code, 201);
    let resize = |containers: Value| {
        let server = &server;
        let patch = json!({ "spec": { "containers": containers } });
        async move { server.merge(&format!("{PODS}/p/resize"), patch).await }
    };
    let invalid = |why: &str| (422, format!("Pod \"p\" is invalid: {why}"));
    let b = container("b", json!({}));
    let with = |cpu: Value, gpu: &str| {
        let mut amounts =
            json!({ "requests": { "example.com/gpu": gpu }, "limits": { "example.com/gpu": gpu } });
        if !cpu.is_null() {
            amounts["requests"]["cpu"] = cpu;
        }
        container("a", amounts)
    };
    let removed = resize(json!([with(Value::Null, "1"), b])).await.error();
    assert!(
        removed.1.contains(
            "spec.containers[0].resources.requests: Forbidden: resource requests cannot be removed"
        ),
        "{removed:?}"
    );
    assert!(
        removed.1.contains(r#"spec: Invalid value: "Burstable": Pod QOS Class may not change"#),
        "{removed:?}"
    );
    let other = resize(json!([with(json!("2"), "2"), b])).await.error();
    assert_eq!(other, invalid("spec: Forbidden: only cpu and memory resources are mutable"));
    let moved = resize(json!([b, with(json!("2"), "1")])).await.error();
    assert!(
        moved.1.contains("spec.containers[0].name: Forbidden: containers may not be renamed or reordered"),
        "{moved:?}"
    );
    let fewer = resize(json!([with(json!("2"), "1")])).await.error();
    assert_eq!(
        fewer,
        invalid("spec.containers: Forbidden: containers may not be added or removed on resize")
    );
    let resized = resize(json!([with(json!("2"), "1"), b])).await;
    assert_eq!(
        (resized.code.as_u16(), &resized.json()["spec"]["containers"][0]["resources"]["requests"]["cpu"]),
        (200, &json!("2"))
    );
}

/// A signer issues a certificate for the user and the request that were approved.
#[tokio::test]
async fn the_spec_of_a_signing_request_cannot_be_changed() {
    let server = Server::start().await;
    let path = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
    let request = "-----BEGIN CERTIFICATE REQUEST-----\nMIHcMIGDAgEAMCExDjAMBgNVBAoMBWFkbWluMQ8wDQYDVQQDDAZhbGljZTEwWTAT\n-----END CERTIFICATE REQUEST-----\n";
    let request = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, request);
    let object = json!({ "metadata": { "name": "r" }, "spec": { "request": request, "username": "root",
        "signerName": "example.com/signer", "usages": ["client auth"] } });
    let made = server.post(path, object).await;
    assert_eq!((made.code.as_u16(), &made.json()["spec"]["username"]), (201, &json!("admin")), "{made:?}");
    let mut changed = made.json();
    changed["spec"]["username"] = json!("root");
    changed["spec"]["groups"] = json!(["system:masters"]);
    changed["metadata"]["labels"] = json!({ "a": "b" });
    let put = server.put(&format!("{path}/r"), &changed).await;
    assert_eq!((put.code.as_u16(), &put.json()["spec"]), (200, &made.json()["spec"]));
    let patch = json!({ "spec": { "username": "root", "signerName": "example.com/other" } });
    let patched = server.merge(&format!("{path}/r"), patch).await;
    assert_eq!((patched.code.as_u16(), &patched.json()["spec"]), (200, &made.json()["spec"]));
}

#[tokio::test]
async fn a_token_is_requested_for_the_account_and_the_pods_that_use_it() {
    let server = Server::start().await;
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    for name in ["a", "b"] {
        assert_eq!(server.post(accounts, json!({ "metadata": { "name": name } })).await.code, 201);
    }
    let pod = json!({ "metadata": { "name": "p" },
        "spec": { "serviceAccountName": "a", "containers": [{ "name": "c", "image": "i" }] } });
    assert_eq!(server.post(PODS, pod).await.code, 201);
    let request = |account: &'static str, metadata: Value| {
        let spec =
            json!({ "audiences": [], "boundObjectRef": { "apiVersion": "v1", "kind": "Pod", "name": "p" } });
        let server = &server;
        let object = json!({ "metadata": metadata, "spec": spec });
        async move { server.post(&format!("{accounts}/{account}/token"), object).await }
    };
    let account = server.get(&format!("{accounts}/a")).await.json();
    let uid = text(&account, "/metadata/uid");
    let made = request("a", json!({ "name": "a", "namespace": "default", "uid": uid })).await;
    assert_eq!(made.code, 201, "{made:?}");
    let why =
        r#"cannot bind token for serviceaccount "b" to pod running with different serviceaccount name."#;
    assert_eq!(request("b", json!({})).await.error(), (400, why.to_owned()));
    let why = format!(
        "Operation cannot be fulfilled on TokenRequest.authentication.k8s.io \"a\": the UID in the token request (former) \
         does not match the UID of the service account ({uid})"
    );
    assert_eq!(request("a", json!({ "uid": "former" })).await.error(), (409, why));
    let why = "TokenRequest.authentication.k8s.io \"a\" is invalid: metadata.name: Invalid value: \"b\": must match the \
               service account name if specified";
    assert_eq!(request("a", json!({ "name": "b" })).await.error(), (422, why.to_owned()));
    assert_eq!(request("a", json!({ "namespace": "kube-system" })).await.code, 400);
}

#[tokio::test]
async fn every_port_of_a_service_gets_a_node_port_of_its_own() {
    const SERVICES: &str = "/api/v1/namespaces/default/services";
    let server = Server::start().await;
    let port = |name: &str, number: u16, protocol: &str| json!({ "name": name, "port": number, "protocol": protocol });
    let service = |name: &str, kind: &str, ports: Value| json!({ "metadata": { "name": name }, "spec": { "type": kind, "ports": ports } });
    let node_ports = |made: &FullResponse| -> Vec<i64> {
        let object = made.json();
        let ports = object["spec"]["ports"].as_array().cloned().unwrap_or_default();
        ports.iter().map(|it| it["nodePort"].as_i64().unwrap_or_default()).collect()
    };
    for kind in ["NodePort", "LoadBalancer"] {
        let ports = json!([port("http", 80, "TCP"), port("https", 443, "TCP")]);
        let made = server.post(SERVICES, service(&kind.to_lowercase(), kind, ports)).await;
        let numbers = node_ports(&made);
        assert!(made.code == 201 && numbers.len() == 2 && numbers[0] != numbers[1], "{made:?}");
    }
    let dns = json!([port("tcp", 53, "TCP"), port("udp", 53, "UDP")]);
    let numbers = node_ports(&server.post(SERVICES, service("dns", "NodePort", dns)).await);
    assert!(numbers[0] != 0 && numbers[0] == numbers[1], "{numbers:?}");
    let mut fixed = json!([port("a", 1, "TCP"), port("b", 2, "TCP")]);
    for index in [0, 1] {
        fixed[index]["nodePort"] = 31_000.into();
    }
    let refused = server.post(SERVICES, service("equal", "NodePort", fixed)).await;
    assert_eq!(refused.code, 422, "{refused:?}");
    assert!(refused.text().contains("spec.ports[1].nodePort: Duplicate value: 31000"), "{refused:?}");
    // The first free port is the one that the other port of the service asks for.
    let next =
        node_ports(&server.post(SERVICES, service("next", "NodePort", json!([port("a", 1, "TCP")]))).await)
            [0]
            + 1;
    let mut mixed = json!([port("a", 1, "TCP"), port("b", 2, "TCP")]);
    mixed[1]["nodePort"] = next.into();
    let made = server.post(SERVICES, service("mixed", "NodePort", mixed)).await;
    let numbers = node_ports(&made);
    assert!(made.code == 201 && numbers[0] != numbers[1] && numbers[1] == next, "{made:?}");
    let mut own = json!([port("a", 1, "TCP")]);
    own[0]["nodePort"] = 32_111.into();
    let mut balanced = service("one", "LoadBalancer", own);
    balanced["spec"]["allocateLoadBalancerNodePorts"] = false.into();
    assert_eq!(server.post(SERVICES, balanced.clone()).await.code, 201);
    balanced["metadata"]["name"] = "two".into();
    assert_eq!(server.post(SERVICES, balanced).await.code, 422, "the port is taken");
}

#[tokio::test]
async fn a_service_with_local_traffic_gets_keeps_and_releases_a_port_for_health_checks() {
    const SERVICES: &str = "/api/v1/namespaces/default/services";
    let server = Server::start().await;
    let service = |name: &str| {
        json!({ "metadata": { "name": name }, "spec": { "type": "LoadBalancer",
        "externalTrafficPolicy": "Local", "ports": [{ "port": 80 }] } })
    };
    let health = |it: &FullResponse| it.json()["spec"]["healthCheckNodePort"].as_i64();
    let made = server.post(SERVICES, service("a")).await;
    let (port, node_port) = (health(&made), made.json()["spec"]["ports"][0]["nodePort"].as_i64());
    assert!(port.is_some_and(|it| it >= 30_000) && port != node_port, "{made:?}");
    let mut wanted = service("b");
    wanted["spec"]["healthCheckNodePort"] = port.into();
    let refused = server.post(SERVICES, wanted.clone()).await;
    let why = format!(
        "Internal error occurred: failed to allocate requested HealthCheck NodePort {}: provided port is already allocated",
        port.expect("allocated")
    );
    assert_eq!(refused.error(), (500, why));
    let mut equal = service("c");
    equal["spec"]["healthCheckNodePort"] = 31_500.into();
    equal["spec"]["ports"][0]["nodePort"] = 31_500.into();
    assert_eq!(server.post(SERVICES, equal).await.code, 500, "a port has one purpose");
    let one = format!("{SERVICES}/a");
    let kept = server.put(&one, &service("a")).await;
    assert!(kept.code == 200 && health(&kept) == port, "an update may leave it out: {kept:?}");
    let mut moved = service("a");
    moved["spec"]["healthCheckNodePort"] = 31_999.into();
    let refused = server.put(&one, &moved).await;
    assert!(
        refused.text().contains("spec.healthCheckNodePort: Forbidden: field is immutable"),
        "{refused:?}"
    );
    let mut open = kept.json();
    open["metadata"] = json!({ "name": "a" });
    open["spec"]["externalTrafficPolicy"] = "Cluster".into();
    let released = server.put(&one, &open).await;
    assert!(released.code == 200 && health(&released).is_none(), "{released:?}");
    let second = server.post(SERVICES, wanted).await;
    assert!(second.code == 201 && health(&second) == port, "the port is free again: {second:?}");
    open["spec"]["externalTrafficPolicy"] = "Local".into();
    open["spec"]["healthCheckNodePort"] = 31_999.into();
    let chosen = server.put(&one, &open).await;
    assert!(chosen.code == 200 && health(&chosen) == Some(31_999), "{chosen:?}");
    let mut inner = chosen.json();
    inner["spec"]["type"] = "ClusterIP".into();
    let inner = server.put(&one, &inner).await;
    assert!(inner.code == 200 && health(&inner).is_none(), "{inner:?}");
}

#[tokio::test]
async fn a_deletion_keeps_finalizers_that_are_the_wanted_ones_in_any_order_and_number() {
    const MAPS: &str = "/api/v1/namespaces/default/configmaps";
    let server = Server::start().await;
    for (name, finalizers, options, expected) in [
        ("same", json!(["orphan", "orphan", "a.b/c"]), json!({}), json!(["orphan", "orphan", "a.b/c"])),
        (
            "other",
            json!(["orphan", "a.b/c"]),
            json!({ "propagationPolicy": "Foreground" }),
            json!(["a.b/c", "foregroundDeletion"]),
        ),
    ] {
        let made = server.post(MAPS, json!({ "metadata": { "name": name, "finalizers": finalizers } })).await;
        assert_eq!(made.code, 201, "{made:?}");
        let path = format!("{MAPS}/{name}");
        assert_eq!(server.send("DELETE", &path, &[JSON], &options.to_string()).await.code, 200);
        assert_eq!(server.get(&path).await.json()["metadata"]["finalizers"], expected, "{name}");
    }
}
