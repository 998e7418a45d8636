//! Objects of built-in kinds with many parts.

use serde_json::{Value, json};

use crate::measure::{Sent, TOKEN, assert_proportional, list, map};

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
const PODS: &str = "/api/v1/namespaces/default/pods";
const SERVICES: &str = "/api/v1/namespaces/default/services";
const SIGNING: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";

fn config_map(fields: Value) -> Vec<Sent> {
    let mut object = json!({ "metadata": { "name": "a" } });
    merge(&mut object, fields);
    vec![Sent::post(CONFIG_MAPS, &object)]
}

fn metadata(fields: Value) -> Vec<Sent> {
    config_map(json!({ "metadata": fields }))
}

fn merge(into: &mut Value, from: Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (key, value) in from {
                merge(into.entry(key).or_insert(Value::Null), value);
            }
        }
        (into, from) => *into = from,
    }
}

fn pod_with(spec: Value) -> Value {
    let mut pod =
        json!({ "metadata": { "name": "a" }, "spec": { "containers": [{ "name": "c", "image": "i" }] } });
    merge(&mut pod["spec"], spec);
    pod
}

fn pod(spec: Value) -> Vec<Sent> {
    vec![Sent::post(PODS, &pod_with(spec))]
}

fn container(fields: Value) -> Vec<Sent> {
    let mut container = json!({ "name": "c", "image": "i" });
    merge(&mut container, fields);
    pod(json!({ "containers": [container] }))
}

fn service(spec: Value) -> Vec<Sent> {
    let mut object = json!({ "metadata": { "name": "a" }, "spec": { "ports": [{ "port": 1 }] } });
    merge(&mut object["spec"], spec);
    vec![Sent::post(SERVICES, &object)]
}

fn workload(group: &str, plural: &str, spec: Value) -> Vec<Sent> {
    let mut object = json!({ "metadata": { "name": "a" }, "spec": {
        "selector": { "matchLabels": { "a": "b" } },
        "template": { "metadata": { "labels": { "a": "b" } },
            "spec": { "restartPolicy": if plural == "jobs" { "Never" } else { "Always" }, "containers": [{ "name": "c", "image": "i" }] } } } });
    if plural == "jobs" {
        object["spec"].as_object_mut().unwrap().remove("selector");
    }
    merge(&mut object["spec"], spec);
    vec![Sent::post(format!("/apis/{group}/v1/namespaces/default/{plural}"), &object)]
}

fn cluster_wide(path: &str, fields: Value) -> Vec<Sent> {
    let mut object = json!({ "metadata": { "name": "a" } });
    merge(&mut object, fields);
    vec![Sent::post(path, &object)]
}

fn then(mut first: Vec<Sent>, next: Sent) -> Vec<Sent> {
    first.push(next);
    first
}

/// Returns the request that creates a limit range, and the one that creates a pod.
fn limited_pod(limit: Value, spec: Value) -> Vec<Sent> {
    let range = json!({ "metadata": { "name": "r" }, "spec": { "limits": [limit] } });
    vec![Sent::post("/api/v1/namespaces/default/limitranges", &range), Sent::post(PODS, &pod_with(spec))]
}

/// Returns `n` extended resources.
fn extended(n: usize) -> Value {
    map(n, |i| (format!("a.b/r{i}"), json!("1")))
}

/// Returns a sidecar that uses a resource of its own.
fn sidecar(i: usize) -> Value {
    let amounts = json!({ (format!("a.b/r{i}")): "1" });
    json!({ "name": format!("s{i}"), "image": "i", "restartPolicy": "Always",
        "resources": { "limits": amounts, "requests": amounts } })
}

fn owner(i: usize) -> Value {
    json!({ "apiVersion": "v1", "kind": "Pod", "name": format!("p{i}"), "uid": format!("u{i}"), "controller": true })
}

#[test]
fn metadata_costs_in_proportion_to_its_size() {
    assert_proportional(&[
        ("labels", 250, |n| metadata(json!({ "labels": map(n, |i| (format!("k{i}"), json!("v"))) })), 201),
        (
            "invalid labels",
            250,
            |n| metadata(json!({ "labels": map(n, |i| (format!("k {i}"), json!("v v"))) })),
            422,
        ),
        (
            "annotations",
            250,
            |n| metadata(json!({ "annotations": map(n, |i| (format!("k{i}"), json!("v"))) })),
            201,
        ),
        (
            "invalid annotations",
            250,
            |n| metadata(json!({ "annotations": map(n, |i| (format!("k {i}"), json!(""))) })),
            422,
        ),
        (
            "finalizers",
            250,
            |n| metadata(json!({ "finalizers": list(n, |i| json!(format!("a.b/f{i}"))) })),
            201,
        ),
        (
            "invalid finalizers",
            250,
            |n| metadata(json!({ "finalizers": list(n, |i| json!(format!("f {i}"))) })),
            422,
        ),
        (
            "finalizers of a deleted object",
            250,
            |n| {
                let now = json!({ "finalizers": list(n, |i| json!(format!("a.b/f{i}"))) });
                let other = json!({ "metadata": { "finalizers": list(n, |i| json!(format!("a.b/g{i}"))) } });
                let path = format!("{CONFIG_MAPS}/a");
                then(then(metadata(now), Sent::delete(path.clone(), &json!({}))), Sent::merge(path, &other))
            },
            422,
        ),
        (
            "deletion of an object with finalizers",
            1_000,
            |n| {
                let now = json!({ "finalizers": list(n, |i| json!(format!("a.b/f{i}"))) });
                then(metadata(now), Sent::delete(format!("{CONFIG_MAPS}/a"), &json!({})))
            },
            200,
        ),
        (
            "changed finalizers",
            250,
            |n| {
                let now = json!({ "finalizers": list(n, |i| json!(format!("a.b/f{i}"))) });
                let other = json!({ "metadata": { "finalizers": list(n, |i| json!(format!("a.b/g{i}"))) } });
                then(metadata(now), Sent::merge(format!("{CONFIG_MAPS}/a"), &other))
            },
            200,
        ),
        (
            "owners",
            100,
            |n| {
                metadata(
                    json!({ "ownerReferences": list(n, |i| { let mut it = owner(i); it["controller"] = json!(false); it }) }),
                )
            },
            201,
        ),
        ("controllers", 50, |n| metadata(json!({ "ownerReferences": list(n, owner) })), 422),
        (
            "owners of a wrong kind",
            100,
            |n| {
                metadata(
                    json!({ "ownerReferences": list(n, |i| json!({ "apiVersion": "v1", "kind": "Event", "name": format!("e{i}"), "uid": "u" })) }),
                )
            },
            422,
        ),
        ("empty owners", 250, |n| metadata(json!({ "ownerReferences": list(n, |_| json!({})) })), 422),
        ("unknown fields", 500, |n| config_map(map(n, |i| (format!("f{i}"), json!(1)))), 201),
        (
            "unknown fields below a long key",
            2_000,
            |n| {
                let wide = map(n, |i| (format!("{i}"), json!(1)));
                let spec = json!({ "data": { "k".repeat(n): "" }, "metadata": { "labels": { "l".repeat(n): wide } } });
                config_map(spec)
            },
            400,
        ),
        (
            "duplicate fields",
            1_000,
            |n| {
                let body = format!(
                    r#"{{"metadata":{{"name":"a"}},"data":{{{}}}}}"#,
                    vec![r#""k":"v""#; n].join(",")
                );
                vec![Sent::of(
                    "POST",
                    format!("{CONFIG_MAPS}?fieldValidation=Strict"),
                    "application/json",
                    body,
                )]
            },
            400,
        ),
    ]);
}

#[test]
fn ownership_costs_in_proportion_to_the_size_of_managed_fields() {
    fn managed(fields: Value) -> Value {
        json!({ "manager": "m", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": fields })
    }
    fn one(fields: Value) -> Vec<Sent> {
        metadata(json!({ "managedFields": [managed(fields)] }))
    }
    assert_proportional(&[
        (
            "many managers",
            150,
            |n| {
                metadata(
                    json!({ "managedFields": list(n, |i| { let mut it = managed(json!({ "f:data": {} })); it["manager"] = json!(format!("m{i}")); it }) }),
                )
            },
            201,
        ),
        (
            "many managers and one with a long name",
            300,
            |n| {
                let named = |name: String| {
                    let mut it = managed(json!({ "f:x": {} }));
                    it["manager"] = json!(name);
                    it
                };
                let mut managers = vec![named("a".repeat(100 * n))];
                managers.extend((0..n).map(|i| named(format!("b{i}"))));
                metadata(json!({ "managedFields": managers }))
            },
            201,
        ),
        (
            "many managers of many versions",
            50,
            |n| {
                metadata(
                    json!({ "managedFields": list(n, |i| { let mut it = managed(json!({ "f:data": {} })); it["apiVersion"] = json!(format!("v{i}")); it }) }),
                )
            },
            201,
        ),
        ("fields", 500, |n| one(json!({ "f:data": map(n, |i| (format!("f:k{i}"), json!({}))) })), 201),
        (
            "unsorted indexes",
            2_000,
            |n| one(json!({ "f:data": map(n, |i| (format!("i:-{i:06}"), json!({}))) })),
            201,
        ),
        (
            "unsorted values",
            2_000,
            |n| one(json!({ "f:data": map(n, |i| (format!("v:-1{i:06}"), json!({}))) })),
            201,
        ),
        (
            "unsorted keys",
            500,
            |n| one(json!({ "f:data": map(n, |i| (format!("k:{{\"a\":{}}}", n - i), json!({}))) })),
            201,
        ),
        (
            "one element in many spellings",
            1_000,
            |n| {
                one(
                    json!({ "f:data": map(n, |i| (format!("v:{}1", " ".repeat(i % 100)) + &" ".repeat(i / 100), json!({ "f:a": {}, (format!("f:{i}")): {} }))) }),
                )
            },
            201,
        ),
        (
            "fields in one absorbed set",
            250,
            |n| {
                let wide = |from: usize| map(n, |i| (format!("f:k{}", from + 2 * i), json!({})));
                let entry = |i: usize| {
                    let mut it = managed(json!({ "f:data": wide(i % 2) }));
                    it["manager"] = json!(format!("m{i}"));
                    it["time"] = json!("2020-01-01T00:00:00Z");
                    it
                };
                metadata(json!({ "managedFields": list(12, entry) }))
            },
            201,
        ),
    ]);
}

#[test]
fn core_objects_cost_in_proportion_to_their_size() {
    assert_proportional(&[
        ("data", 1_000, |n| config_map(json!({ "data": map(n, |i| (format!("k{i}"), json!(""))) })), 201),
        (
            "data and binary data",
            500,
            |n| {
                config_map(
                    json!({ "data": map(n, |i| (format!("k{i}"), json!(""))), "binaryData": map(n, |i| (format!("b{i}"), json!(""))) }),
                )
            },
            201,
        ),
        (
            "data in binary data",
            500,
            |n| {
                config_map(
                    json!({ "data": map(n, |i| (format!("k{i}"), json!(""))), "binaryData": map(n, |i| (format!("k{i}"), json!(""))) }),
                )
            },
            422,
        ),
        (
            "invalid keys of data",
            500,
            |n| config_map(json!({ "data": map(n, |i| (format!("k {i}"), json!(""))) })),
            422,
        ),
        ("long key of data", 10_000, |n| config_map(json!({ "data": { "k".repeat(n): "" } })), 422),
        ("long value", 25_000, |n| config_map(json!({ "data": { "k": "v".repeat(n) } })), 201),
        (
            "secret",
            500,
            |n| {
                vec![Sent::post(
                    "/api/v1/namespaces/default/secrets",
                    &json!({ "metadata": { "name": "a" }, "type": "kubernetes.io/tls", "data": map(n, |i| (format!("k{i}"), json!(""))), "stringData": map(n, |i| (format!("s{i}"), json!(""))) }),
                )]
            },
            422,
        ),
        (
            "quota",
            100,
            |n| {
                let scopes = list(n, |i| json!(["BestEffort", "Terminating"][i % 2]));
                vec![Sent::post(
                    "/api/v1/namespaces/default/resourcequotas",
                    &json!({ "metadata": { "name": "a" }, "spec": { "scopes": scopes, "hard": map(n, |i| (format!("hugepages-{i}"), json!("1"))) } }),
                )]
            },
            422,
        ),
        (
            "quota of unknown scopes",
            250,
            |n| {
                vec![Sent::post(
                    "/api/v1/namespaces/default/resourcequotas",
                    &json!({ "metadata": { "name": "a" }, "spec": { "scopes": list(n, |i| json!(format!("s{i}"))) } }),
                )]
            },
            422,
        ),
        (
            "limit range",
            50,
            |n| {
                vec![Sent::post(
                    "/api/v1/namespaces/default/limitranges",
                    &json!({ "metadata": { "name": "a" }, "spec": { "limits": list(n, |_| json!({ "type": "Container", "min": { "cpu": "2" }, "max": { "cpu": "1" } })) } }),
                )]
            },
            422,
        ),
        (
            "limits of a limit range",
            150,
            |n| {
                let amounts = |amount: &str| map(n, |i| (format!("a.b/r{i}"), json!(amount)));
                vec![Sent::post(
                    "/api/v1/namespaces/default/limitranges",
                    &json!({ "metadata": { "name": "a" }, "spec": { "limits": [{ "type": "Container", "min": amounts("2"), "max": amounts("1"), "default": amounts("3"), "defaultRequest": amounts("4") }] } }),
                )]
            },
            422,
        ),
        (
            "endpoints",
            150,
            |n| {
                vec![Sent::post(
                    "/api/v1/namespaces/default/endpoints",
                    &json!({ "metadata": { "name": "a" }, "subsets": [{ "addresses": list(n, |i| json!({ "ip": format!("10.0.{}.{}", i / 250, i % 250 + 1) })), "ports": list(n, |i| json!({ "name": format!("p{i}"), "port": i % 60_000 + 1 })) }] }),
                )]
            },
            201,
        ),
        (
            "subsets",
            100,
            |n| {
                vec![Sent::post(
                    "/api/v1/namespaces/default/endpoints",
                    &json!({ "metadata": { "name": "a" }, "subsets": list(n, |i| json!({ "addresses": [{ "ip": format!("10.0.{}.{}", i / 250, i % 250 + 1) }], "ports": [{ "port": 1 }] })) }),
                )]
            },
            201,
        ),
        (
            "endpoint slice",
            150,
            |n| {
                vec![Sent::post(
                    "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices",
                    &json!({ "metadata": { "name": "a" }, "addressType": "IPv4", "endpoints": list(n, |i| json!({ "addresses": [format!("10.0.{}.{}", i / 250, i % 250 + 1)] })), "ports": list(n, |i| json!({ "name": format!("p{i}"), "port": 1 })) }),
                )]
            },
            201,
        ),
        (
            "node",
            150,
            |n| {
                cluster_wide(
                    "/api/v1/nodes",
                    json!({ "spec": { "podCIDRs": list(n, |_| json!("10.0.0.0/24")), "taints": list(n, |i| json!({ "key": format!("k{i}"), "effect": "NoSchedule" })) } }),
                )
            },
            201,
        ),
        (
            "taints",
            150,
            |n| {
                cluster_wide(
                    "/api/v1/nodes",
                    json!({ "spec": { "taints": list(n, |i| json!({ "key": format!("k{i}"), "effect": "NoSchedule" })) } }),
                )
            },
            201,
        ),
        (
            "equal taints",
            150,
            |n| {
                cluster_wide(
                    "/api/v1/nodes",
                    json!({ "spec": { "taints": list(n, |_| json!({ "key": "k", "effect": "NoSchedule" })) } }),
                )
            },
            201,
        ),
        (
            "node status",
            150,
            |n| {
                let status = json!({ "conditions": list(n, |i| json!({ "type": format!("t{i}"), "status": "True" })), "addresses": list(n, |i| json!({ "type": "InternalIP", "address": format!("10.0.0.{i}") })), "images": list(n, |i| json!({ "names": [format!("i{i}")] })) });
                then(
                    cluster_wide("/api/v1/nodes", json!({})),
                    Sent::merge("/api/v1/nodes/a/status", &json!({ "status": status })),
                )
            },
            200,
        ),
        (
            "namespace finalizers",
            250,
            |n| {
                cluster_wide(
                    "/api/v1/namespaces",
                    json!({ "spec": { "finalizers": list(n, |i| json!(format!("f{i}"))) } }),
                )
            },
            422,
        ),
        (
            "volume",
            250,
            |n| {
                cluster_wide(
                    "/api/v1/persistentvolumes",
                    json!({ "spec": { "capacity": { "storage": "1" }, "accessModes": list(n, |_| json!("x")), "mountOptions": list(n, |_| json!("x")), "hostPath": { "path": "/a" } } }),
                )
            },
            422,
        ),
        (
            "claim",
            250,
            |n| {
                vec![Sent::post(
                    "/api/v1/namespaces/default/persistentvolumeclaims",
                    &json!({ "metadata": { "name": "a" }, "spec": { "resources": { "requests": { "storage": "1" } }, "accessModes": list(n, |_| json!("x")) } }),
                )]
            },
            422,
        ),
        (
            "event",
            10_000,
            |n| {
                vec![Sent::post(
                    "/api/v1/namespaces/default/events",
                    &json!({ "metadata": { "name": "a" }, "involvedObject": { "namespace": "default" }, "message": "m".repeat(n), "reason": "r".repeat(n) }),
                )]
            },
            201,
        ),
        (
            "service account",
            250,
            |n| {
                vec![Sent::post(
                    "/api/v1/namespaces/default/serviceaccounts",
                    &json!({ "metadata": { "name": "a" }, "secrets": list(n, |i| json!({ "name": format!("s{i}") })), "imagePullSecrets": list(n, |i| json!({ "name": format!("s{i}") })) }),
                )]
            },
            201,
        ),
        (
            "token audiences",
            250,
            |n| {
                vec![Sent::post(
                    "/api/v1/namespaces/default/serviceaccounts/default/token",
                    &json!({ "spec": { "audiences": list(n, |i| json!(format!("a{i}"))) } }),
                )]
            },
            404,
        ),
    ]);
}

#[test]
fn services_cost_in_proportion_to_their_size() {
    assert_proportional(&[
        (
            "ports",
            50,
            |n| service(json!({ "ports": list(n, |i| json!({ "name": format!("p{i}"), "port": i + 1 })) })),
            201,
        ),
        (
            "equal ports",
            50,
            |n| service(json!({ "ports": list(n, |_| json!({ "name": "p", "port": 1 })) })),
            422,
        ),
        (
            "IPv6 addresses",
            50,
            |n| {
                service(
                    json!({ "clusterIP": "fd00::1", "clusterIPs": list(n, |i| json!(format!("fd00::{i:x}"))) }),
                )
            },
            422,
        ),
        (
            "IPv4 addresses",
            50,
            |n| {
                service(
                    json!({ "clusterIP": "10.96.0.5", "clusterIPs": list(n, |i| json!(if i == 0 { "10.96.0.5".to_owned() } else { format!("10.97.{}.{}", i / 256, i % 256) })) }),
                )
            },
            422,
        ),
        (
            "invalid addresses",
            50,
            |n| service(json!({ "clusterIP": "x0", "clusterIPs": list(n, |i| json!(format!("x{i}"))) })),
            422,
        ),
        (
            "equal addresses",
            50,
            |n| service(json!({ "clusterIP": "10.96.0.5", "clusterIPs": list(n, |_| json!("10.96.0.5")) })),
            422,
        ),
        ("families", 75, |n| service(json!({ "ipFamilies": list(n, |_| json!("IPv6")) })), 422),
        ("IPv4 families", 75, |n| service(json!({ "ipFamilies": list(n, |_| json!("IPv4")) })), 422),
        (
            "external addresses",
            75,
            |n| service(json!({ "externalIPs": list(n, |_| json!("127.0.0.1")) })),
            422,
        ),
        (
            "source ranges",
            75,
            |n| {
                service(
                    json!({ "type": "LoadBalancer", "loadBalancerSourceRanges": list(n, |_| json!("x")) }),
                )
            },
            201,
        ),
        (
            "node ports",
            25,
            |n| {
                service(
                    json!({ "type": "NodePort", "ports": list(n, |i| json!({ "name": format!("p{i}"), "port": i + 1 })) }),
                )
            },
            201,
        ),
        (
            "equal node ports",
            25,
            |n| {
                service(
                    json!({ "type": "NodePort", "ports": list(n, |i| json!({ "name": format!("p{i}"), "port": i + 1, "nodePort": 30_001 })) }),
                )
            },
            422,
        ),
        (
            "changed node ports",
            25,
            |n| {
                let ports =
                    |prefix: &str| list(n, |i| json!({ "name": format!("{prefix}{i}"), "port": i + 1 }));
                then(
                    service(json!({ "type": "NodePort", "ports": ports("p") })),
                    Sent::merge(format!("{SERVICES}/a"), &json!({ "spec": { "ports": ports("q") } })),
                )
            },
            200,
        ),
        (
            "selector",
            125,
            |n| service(json!({ "selector": map(n, |i| (format!("k {i}"), json!("v"))) })),
            422,
        ),
        (
            "ingresses of a load balancer",
            75,
            |n| {
                then(
                    service(json!({})),
                    Sent::merge(
                        format!("{SERVICES}/a/status"),
                        &json!({ "status": { "loadBalancer": { "ingress": list(n, |_| json!({ "ip": "x" })) } } }),
                    ),
                )
            },
            422,
        ),
        (
            "conditions of a service",
            75,
            |n| {
                then(
                    service(json!({})),
                    Sent::merge(
                        format!("{SERVICES}/a/status"),
                        &json!({ "status": { "conditions": list(n, |i| json!({ "type": format!("T{i}"), "status": "True", "reason": "R", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z" })) } }),
                    ),
                )
            },
            200,
        ),
    ]);
}

#[test]
fn pods_cost_in_proportion_to_their_size() {
    assert_proportional(&[
        (
            "containers",
            12,
            |n| pod(json!({ "containers": list(n, |i| json!({ "name": format!("c{i}"), "image": "i" })) })),
            201,
        ),
        (
            "equal containers",
            12,
            |n| pod(json!({ "containers": list(n, |_| json!({ "name": "c", "image": "i" })) })),
            422,
        ),
        (
            "init containers",
            12,
            |n| {
                pod(
                    json!({ "initContainers": list(n, |i| json!({ "name": format!("i{i}"), "image": "i" })) }),
                )
            },
            201,
        ),
        ("invalid containers", 50, |n| pod(json!({ "containers": list(n, |_| json!({})) })), 422),
        (
            "ports",
            50,
            |n| {
                container(
                    json!({ "ports": list(n, |i| json!({ "name": format!("p{i}"), "containerPort": i + 1, "hostPort": i + 1 })) }),
                )
            },
            201,
        ),
        (
            "equal ports",
            50,
            |n| {
                container(
                    json!({ "ports": list(n, |_| json!({ "name": "p", "containerPort": 1, "hostPort": 1 })) }),
                )
            },
            422,
        ),
        (
            "variables",
            75,
            |n| container(json!({ "env": list(n, |i| json!({ "name": format!("V{i}"), "value": "" })) })),
            201,
        ),
        ("equal variables", 75, |n| container(json!({ "env": list(n, |_| json!({ "name": "V" })) })), 201),
        ("invalid variables", 75, |n| container(json!({ "env": list(n, |_| json!({ "name": "=" })) })), 422),
        ("sources of variables", 75, |n| container(json!({ "envFrom": list(n, |_| json!({})) })), 422),
        (
            "volumes",
            25,
            |n| pod(json!({ "volumes": list(n, |i| json!({ "name": format!("v{i}"), "emptyDir": {} })) })),
            201,
        ),
        (
            "equal volumes",
            25,
            |n| pod(json!({ "volumes": list(n, |_| json!({ "name": "v", "emptyDir": {} })) })),
            422,
        ),
        (
            "mounts",
            25,
            |n| {
                let mounts = list(n, |i| json!({ "name": format!("v{i}"), "mountPath": format!("/m{i}") }));
                pod(
                    json!({ "volumes": list(n, |i| json!({ "name": format!("v{i}"), "emptyDir": {} })), "containers": [{ "name": "c", "image": "i", "volumeMounts": mounts }] }),
                )
            },
            201,
        ),
        (
            "mounts of unknown volumes",
            50,
            |n| {
                container(
                    json!({ "volumeMounts": list(n, |i| json!({ "name": format!("v{i}"), "mountPath": "/m" })) }),
                )
            },
            422,
        ),
        (
            "devices",
            50,
            |n| {
                container(
                    json!({ "volumeDevices": list(n, |i| json!({ "name": format!("v{i}"), "devicePath": "/m" })) }),
                )
            },
            201,
        ),
        (
            "tolerations",
            50,
            |n| {
                pod(
                    json!({ "tolerations": list(n, |i| json!({ "key": format!("k{i}"), "operator": "Exists" })) }),
                )
            },
            201,
        ),
        (
            "changed tolerations",
            25,
            |n| {
                let all = |n: usize| list(n, |i| json!({ "key": format!("k{i}"), "operator": "Exists" }));
                let mut more = all(2 * n + 2);
                more.as_array_mut().unwrap().extend([json!({"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}), json!({"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300})]);
                then(
                    pod(json!({ "tolerations": all(n) })),
                    Sent::merge(format!("{PODS}/a"), &json!({ "spec": { "tolerations": more } })),
                )
            },
            200,
        ),
        (
            "changed images",
            12,
            |n| {
                let all = |image: &str| list(n, |i| json!({ "name": format!("c{i}"), "image": image }));
                then(
                    pod(json!({ "containers": all("i") })),
                    Sent::strategic(format!("{PODS}/a"), &json!({ "spec": { "containers": all("j") } })),
                )
            },
            200,
        ),
        (
            "ephemeral containers",
            12,
            |n| {
                let all = list(n, |i| json!({ "name": format!("e{i}"), "image": "i" }));
                then(
                    pod(json!({})),
                    Sent::strategic(
                        format!("{PODS}/a/ephemeralcontainers"),
                        &json!({ "spec": { "ephemeralContainers": all } }),
                    ),
                )
            },
            200,
        ),
        (
            "more ephemeral containers",
            12,
            |n| {
                let all = |n: usize| list(n, |i| json!({ "name": format!("e{i}"), "image": "i" }));
                let send = |n: usize| {
                    Sent::strategic(
                        format!("{PODS}/a/ephemeralcontainers"),
                        &json!({ "spec": { "ephemeralContainers": all(n) } }),
                    )
                };
                then(then(pod(json!({})), send(n)), send(2 * n))
            },
            200,
        ),
        (
            "resize",
            12,
            |n| {
                let all = |cpu: &str| {
                    list(
                        n,
                        |i| json!({ "name": format!("c{i}"), "image": "i", "resources": { "requests": { "cpu": cpu } } }),
                    )
                };
                then(
                    pod(json!({ "containers": all("1") })),
                    Sent::strategic(
                        format!("{PODS}/a/resize"),
                        &json!({ "spec": { "containers": all("2") } }),
                    ),
                )
            },
            200,
        ),
        (
            "status of containers",
            25,
            |n| {
                let statuses = list(
                    n,
                    |i| json!({ "name": format!("c{i}"), "image": "i", "imageID": "", "ready": true, "restartCount": 0, "state": { "running": {} } }),
                );
                then(
                    pod(json!({})),
                    Sent::merge(
                        format!("{PODS}/a/status"),
                        &json!({ "status": { "containerStatuses": statuses } }),
                    ),
                )
            },
            200,
        ),
        (
            "conditions",
            50,
            |n| {
                then(
                    pod(json!({})),
                    Sent::merge(
                        format!("{PODS}/a/status"),
                        &json!({ "status": { "conditions": list(n, |i| json!({ "type": format!("T{i}"), "status": "True" })) } }),
                    ),
                )
            },
            200,
        ),
        (
            "addresses",
            50,
            |n| {
                then(
                    pod(json!({})),
                    Sent::merge(
                        format!("{PODS}/a/status"),
                        &json!({ "status": { "podIPs": list(n, |i| json!({ "ip": format!("10.0.0.{i}") })) } }),
                    ),
                )
            },
            200,
        ),
        (
            "gates",
            50,
            |n| {
                pod(
                    json!({ "schedulingGates": list(n, |i| json!({ "name": format!("g{i}") })), "readinessGates": list(n, |i| json!({ "conditionType": format!("g{i}") })) }),
                )
            },
            201,
        ),
        (
            "removed gates",
            50,
            |n| {
                let gates = |n: usize| list(n, |i| json!({ "name": format!("g{i}") }));
                then(
                    pod(json!({ "schedulingGates": gates(n) })),
                    Sent::merge(format!("{PODS}/a"), &json!({ "spec": { "schedulingGates": gates(n - 1) } })),
                )
            },
            200,
        ),
        (
            "affinity",
            25,
            |n| {
                pod(
                    json!({ "affinity": { "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": { "nodeSelectorTerms": list(n, |_| json!({ "matchExpressions": [{ "key": "k", "operator": "In" }] })) } } } }),
                )
            },
            422,
        ),
        (
            "affinity to pods",
            25,
            |n| {
                pod(
                    json!({ "affinity": { "podAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": list(n, |_| json!({ "labelSelector": { "matchExpressions": [{ "key": "k", "operator": "In" }] } })) } } }),
                )
            },
            422,
        ),
        (
            "spread constraints",
            25,
            |n| {
                pod(
                    json!({ "topologySpreadConstraints": list(n, |i| json!({ "maxSkew": 1, "topologyKey": format!("k{i}"), "whenUnsatisfiable": "DoNotSchedule" })) }),
                )
            },
            201,
        ),
        (
            "equal spread constraints",
            25,
            |n| {
                pod(
                    json!({ "topologySpreadConstraints": list(n, |_| json!({ "maxSkew": 1, "topologyKey": "k", "whenUnsatisfiable": "DoNotSchedule" })) }),
                )
            },
            201,
        ),
        (
            "host aliases",
            50,
            |n| pod(json!({ "hostAliases": list(n, |_| json!({ "ip": "x", "hostnames": ["a_"] })) })),
            422,
        ),
        (
            "sysctls",
            50,
            |n| {
                pod(
                    json!({ "securityContext": { "sysctls": list(n, |i| json!({ "name": format!("a.b{i}"), "value": "" })) } }),
                )
            },
            201,
        ),
        (
            "equal sysctls",
            50,
            |n| {
                pod(
                    json!({ "securityContext": { "sysctls": list(n, |_| json!({ "name": "a.b", "value": "" })) } }),
                )
            },
            422,
        ),
        (
            "name servers",
            50,
            |n| {
                pod(
                    json!({ "dnsPolicy": "None", "dnsConfig": { "nameservers": list(n, |_| json!("x")), "searches": list(n, |_| json!("x_")), "options": list(n, |_| json!({ "name": "" })) } }),
                )
            },
            201,
        ),
        (
            "resources",
            150,
            |n| {
                let amounts = |amount: &str| map(n, |i| (format!("a.b/r{i}"), json!(amount)));
                container(json!({ "resources": { "limits": amounts("1"), "requests": amounts("2") } }))
            },
            422,
        ),
        (
            "resource claims",
            50,
            |n| {
                pod(
                    json!({ "resourceClaims": list(n, |i| json!({ "name": format!("c{i}"), "resourceClaimName": "x" })) }),
                )
            },
            201,
        ),
        (
            "commands",
            250,
            |n| container(json!({ "command": list(n, |_| json!("x")), "args": list(n, |_| json!("$(X)")) })),
            201,
        ),
        (
            "node selector",
            125,
            |n| pod(json!({ "nodeSelector": map(n, |i| (format!("k {i}"), json!("v"))) })),
            422,
        ),
        (
            "projected volume",
            25,
            |n| {
                pod(
                    json!({ "volumes": [{ "name": "v", "projected": { "sources": list(n, |i| json!({ "configMap": { "name": format!("c{i}"), "items": [{ "key": "k", "path": "p" }] } })) } }] }),
                )
            },
            201,
        ),
        (
            "table of a pod",
            25,
            |n| {
                then(
                    pod(
                        json!({ "containers": list(n, |i| json!({ "name": format!("c{i}"), "image": "i" })), "readinessGates": list(n, |i| json!({ "conditionType": format!("g{i}") })) }),
                    ),
                    Sent::get(PODS),
                )
            },
            200,
        ),
    ]);
}

#[test]
fn policies_for_pods_cost_in_proportion_to_the_size_of_both() {
    assert_proportional(&[
        (
            "ratios of containers",
            40,
            |n| {
                limited_pod(
                    json!({ "type": "Container", "maxLimitRequestRatio": extended(n) }),
                    json!({ "containers": list(n, |i| json!({ "name": format!("c{i}"), "image": "i" })) }),
                )
            },
            403,
        ),
        (
            "maximums of a pod",
            1_500,
            |n| limited_pod(json!({ "type": "Pod", "max": extended(n) }), json!({})),
            403,
        ),
        (
            "maximums of a claim",
            1_500,
            |n| {
                let range = json!({ "metadata": { "name": "r" }, "spec": { "limits": [
                    { "type": "PersistentVolumeClaim", "min": { "storage": "1" }, "max": extended(n) }] } });
                let claim = json!({ "metadata": { "name": "a" }, "spec": {
                    "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1" } } } });
                vec![
                    Sent::post("/api/v1/namespaces/default/limitranges", &range),
                    Sent::post("/api/v1/namespaces/default/persistentvolumeclaims", &claim),
                ]
            },
            403,
        ),
        (
            "resources of sidecars",
            150,
            |n| limited_pod(json!({ "type": "Pod" }), json!({ "initContainers": list(n, sidecar) })),
            201,
        ),
        (
            "init containers behind sidecars",
            50,
            |n| {
                let item = |i: usize| {
                    if i < n { sidecar(i) } else { json!({ "name": format!("i{i}"), "image": "i" }) }
                };
                limited_pod(json!({ "type": "Pod" }), json!({ "initContainers": list(2 * n, item) }))
            },
            201,
        ),
        (
            "tolerations of a runtime class",
            150,
            |n| {
                let tolerations =
                    |of: &str| list(n, |i| json!({ "key": format!("{of}{i}"), "operator": "Exists" }));
                let class = json!({ "metadata": { "name": "c" }, "handler": "h", "scheduling": { "tolerations": tolerations("c") } });
                vec![
                    Sent::post("/apis/node.k8s.io/v1/runtimeclasses", &class),
                    Sent::post(
                        PODS,
                        &pod_with(json!({ "runtimeClassName": "c", "tolerations": tolerations("p") })),
                    ),
                ]
            },
            201,
        ),
        (
            "scopes of a quota",
            50,
            |n| {
                let quota = json!({ "metadata": { "name": "q" }, "spec": { "hard": { "pods": "9" }, "scopes": list(n, |_| json!("NotBestEffort")) } });
                let resources = json!({ "requests": { "cpu": "1" } });
                vec![
                    Sent::post("/api/v1/namespaces/default/resourcequotas", &quota),
                    Sent::merge(
                        "/api/v1/namespaces/default/resourcequotas/q/status",
                        &json!({ "status": { "hard": { "pods": "9" }, "used": { "pods": "0" } } }),
                    ),
                    Sent::post(
                        PODS,
                        &pod_with(
                            json!({ "containers": list(n, |i| json!({ "name": format!("c{i}"), "image": "i", "resources": resources })) }),
                        ),
                    ),
                ]
            },
            201,
        ),
    ]);
}

#[test]
fn token_reviews_cost_in_proportion_to_their_audiences() {
    assert_proportional(&[(
        "audiences",
        600,
        |n| {
            let audiences = |of: &str| list(n, |i| json!(format!("{of}{i}")));
            vec![
                Sent::post(
                    "/api/v1/namespaces/default/serviceaccounts",
                    &json!({ "metadata": { "name": "a" } }),
                ),
                Sent::post(
                    "/api/v1/namespaces/default/serviceaccounts/a/token",
                    &json!({ "spec": { "audiences": audiences("a") } }),
                ),
                Sent::post(
                    "/apis/authentication.k8s.io/v1/tokenreviews",
                    &json!({ "spec": { "token": TOKEN, "audiences": audiences("b") } }),
                ),
            ]
        },
        201,
    )]);
}

#[test]
fn objects_of_other_groups_cost_in_proportion_to_their_size() {
    assert_proportional(&[
        (
            "selector",
            50,
            |n| {
                workload(
                    "apps",
                    "deployments",
                    json!({ "selector": { "matchExpressions": list(n, |i| json!({ "key": format!("k{i}"), "operator": "In" })) } }),
                )
            },
            422,
        ),
        (
            "values of a selector",
            125,
            |n| {
                workload(
                    "apps",
                    "deployments",
                    json!({ "selector": { "matchExpressions": [{ "key": "a", "operator": "In", "values": list(n, |i| json!(format!("v{i}"))) }] } }),
                )
            },
            422,
        ),
        (
            "labels of a template",
            125,
            |n| {
                workload(
                    "apps",
                    "deployments",
                    json!({ "selector": { "matchLabels": map(n, |i| (format!("k{i}"), json!("v"))) }, "template": { "metadata": { "labels": map(n, |i| (format!("k{i}"), json!("v"))) } } }),
                )
            },
            201,
        ),
        (
            "deployment conditions",
            50,
            |n| {
                then(
                    workload("apps", "deployments", json!({})),
                    Sent::merge(
                        "/apis/apps/v1/namespaces/default/deployments/a/status",
                        &json!({ "status": { "conditions": list(n, |i| json!({ "type": format!("T{i}"), "status": "True" })) } }),
                    ),
                )
            },
            200,
        ),
        (
            "claim templates",
            25,
            |n| {
                workload(
                    "apps",
                    "statefulsets",
                    json!({ "serviceName": "s", "volumeClaimTemplates": list(n, |i| json!({ "metadata": { "name": format!("v{i}") }, "spec": { "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1" } } } })), "template": { "spec": { "volumes": list(n, |i| json!({ "name": format!("w{i}"), "emptyDir": {} })), "containers": [{ "name": "c", "image": "i", "volumeMounts": list(n, |i| json!({ "name": format!("v{i}"), "mountPath": format!("/{i}") })) }] } } }),
                )
            },
            201,
        ),
        (
            "invalid claim templates",
            50,
            |n| {
                workload(
                    "apps",
                    "statefulsets",
                    json!({ "serviceName": "s", "volumeClaimTemplates": list(n, |_| json!({ "metadata": {} })) }),
                )
            },
            422,
        ),
        (
            "failure policy",
            25,
            |n| {
                workload(
                    "batch",
                    "jobs",
                    json!({ "podFailurePolicy": { "rules": list(n, |_| json!({ "action": "FailJob", "onExitCodes": { "operator": "In", "values": [1] } })) } }),
                )
            },
            201,
        ),
        (
            "exit codes",
            125,
            |n| {
                workload(
                    "batch",
                    "jobs",
                    json!({ "podFailurePolicy": { "rules": [{ "action": "FailJob", "onExitCodes": { "operator": "In", "values": list(n, |i| json!(i)) } }] } }),
                )
            },
            201,
        ),
        (
            "metrics",
            25,
            |n| {
                vec![Sent::post(
                    "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers",
                    &json!({ "metadata": { "name": "a" }, "spec": { "maxReplicas": 2, "scaleTargetRef": { "kind": "Deployment", "name": "d", "apiVersion": "apps/v1" }, "metrics": list(n, |_| json!({ "type": "Resource", "resource": { "name": "cpu", "target": { "type": "Utilization", "averageUtilization": 0 } } })) } }),
                )]
            },
            422,
        ),
        (
            "metrics as annotations",
            25,
            |n| {
                vec![Sent::post(
                    "/apis/autoscaling/v1/namespaces/default/horizontalpodautoscalers",
                    &json!({ "metadata": { "name": "a", "annotations": { "autoscaling.alpha.kubernetes.io/metrics": list(n, |_| json!({ "type": "Resource", "resource": { "name": "memory", "targetAverageUtilization": 1 } })).to_string() } }, "spec": { "maxReplicas": 2, "scaleTargetRef": { "kind": "Deployment", "name": "d", "apiVersion": "apps/v1" } } }),
                )]
            },
            201,
        ),
        (
            "network policy",
            25,
            |n| {
                vec![Sent::post(
                    "/apis/networking.k8s.io/v1/namespaces/default/networkpolicies",
                    &json!({ "metadata": { "name": "a" }, "spec": { "podSelector": {}, "ingress": list(n, |_| json!({ "from": [{ "ipBlock": { "cidr": "x", "except": ["y"] } }], "ports": [{ "port": 0 }] })) } }),
                )]
            },
            422,
        ),
        (
            "exceptions of a network policy",
            75,
            |n| {
                vec![Sent::post(
                    "/apis/networking.k8s.io/v1/namespaces/default/networkpolicies",
                    &json!({ "metadata": { "name": "a" }, "spec": { "podSelector": {}, "ingress": [{ "from": [{ "ipBlock": { "cidr": "10.0.0.0/8", "except": list(n, |_| json!("10.1.0.0/16")) } }] }] } }),
                )]
            },
            201,
        ),
        (
            "ingress",
            25,
            |n| {
                vec![Sent::post(
                    "/apis/networking.k8s.io/v1/namespaces/default/ingresses",
                    &json!({ "metadata": { "name": "a" }, "spec": { "tls": list(n, |_| json!({ "hosts": ["x_"] })), "rules": list(n, |i| json!({ "host": format!("h{i}_"), "http": { "paths": [{ "path": "x", "pathType": "Prefix" }] } })) } }),
                )]
            },
            422,
        ),
        (
            "paths of an ingress",
            25,
            |n| {
                vec![Sent::post(
                    "/apis/networking.k8s.io/v1/namespaces/default/ingresses",
                    &json!({ "metadata": { "name": "a" }, "spec": { "rules": [{ "host": "h", "http": { "paths": list(n, |i| json!({ "path": format!("/{i}"), "pathType": "Prefix", "backend": { "service": { "name": "s", "port": { "number": 1 } } } })) } }] } }),
                )]
            },
            201,
        ),
        (
            "role",
            50,
            |n| {
                vec![Sent::post(
                    "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles",
                    &json!({ "metadata": { "name": "a" }, "rules": list(n, |_| json!({ "verbs": [] })) }),
                )]
            },
            422,
        ),
        (
            "binding",
            50,
            |n| {
                vec![Sent::post(
                    "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings",
                    &json!({ "metadata": { "name": "a" }, "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r" }, "subjects": list(n, |_| json!({ "kind": "x" })) }),
                )]
            },
            422,
        ),
        (
            "webhooks",
            12,
            |n| {
                cluster_wide(
                    "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations",
                    json!({ "webhooks": list(n, |i| json!({ "name": format!("w{i}.a.b"), "sideEffects": "None", "admissionReviewVersions": ["v1"], "clientConfig": { "url": "https://a" }, "failurePolicy": "Ignore" })) }),
                )
            },
            201,
        ),
        (
            "equal webhooks",
            12,
            |n| {
                cluster_wide(
                    "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations",
                    json!({ "webhooks": list(n, |_| json!({ "name": "w.a.b", "sideEffects": "None", "admissionReviewVersions": ["v1"], "clientConfig": { "url": "https://a" } })) }),
                )
            },
            422,
        ),
        (
            "rules of a webhook",
            25,
            |n| {
                cluster_wide(
                    "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations",
                    json!({ "webhooks": [{ "name": "w.a.b", "sideEffects": "None", "admissionReviewVersions": ["v1"], "clientConfig": { "url": "https://a" }, "rules": list(n, |i| json!({ "operations": ["CREATE"], "apiGroups": [format!("g{i}")], "apiVersions": ["v1"], "resources": ["a/*", "b"] })) }] }),
                )
            },
            201,
        ),
        (
            "resources of a webhook",
            50,
            |n| {
                cluster_wide(
                    "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations",
                    json!({ "webhooks": [{ "name": "w.a.b", "sideEffects": "None", "admissionReviewVersions": list(n, |i| json!(format!("v{i}"))), "clientConfig": { "url": "https://a" }, "rules": [{ "operations": list(n, |_| json!("CREATE")), "apiGroups": list(n, |i| json!(format!("g{i}"))), "apiVersions": list(n, |i| json!(format!("v{i}"))), "resources": list(n, |i| json!(format!("r{i}"))) }] }] }),
                )
            },
            201,
        ),
        (
            "match conditions",
            // At most 64 are permitted, and the largest number is eight times this one.
            8,
            |n| {
                cluster_wide(
                    "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations",
                    json!({ "webhooks": [{ "name": "w.a.b", "sideEffects": "None", "admissionReviewVersions": ["v1"], "clientConfig": { "url": "https://a" }, "matchConditions": list(n, |i| json!({ "name": format!("m{i}"), "expression": "true" })) }] }),
                )
            },
            201,
        ),
        (
            "policy",
            25,
            |n| {
                cluster_wide(
                    "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies",
                    json!({ "spec": { "matchConstraints": { "resourceRules": [{ "operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"] }] }, "validations": list(n, |_| json!({ "expression": "true" })) } }),
                )
            },
            201,
        ),
        (
            "conditions of a signing request",
            100,
            |n| {
                let made = cluster_wide(
                    SIGNING,
                    json!({ "spec": { "signerName": "a.b/c", "request": "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0KLS0tLS1FTkQgQ0VSVElGSUNBVEUgUkVRVUVTVC0tLS0tCg==", "usages": ["any"] } }),
                );
                let conditions = |n: usize| json!({ "status": { "conditions": list(n, |i| json!({ "type": format!("T{i}"), "status": "True" })) } });
                let path = format!("{SIGNING}/a/approval");
                then(
                    then(made, Sent::merge(path.clone(), &conditions(n))),
                    Sent::merge(path, &conditions(2 * n)),
                )
            },
            200,
        ),
        (
            "equal conditions of a signing request",
            50,
            |n| {
                let made = cluster_wide(
                    SIGNING,
                    json!({ "spec": { "signerName": "a.b/c", "request": "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0KLS0tLS1FTkQgQ0VSVElGSUNBVEUgUkVRVUVTVC0tLS0tCg==", "usages": ["any"] } }),
                );
                let conditions = json!({ "status": { "conditions": list(n, |_| json!({ "type": "T", "status": "True" })) } });
                then(made, Sent::merge(format!("{SIGNING}/a/approval"), &conditions))
            },
            422,
        ),
        (
            "usages",
            75,
            |n| {
                cluster_wide(
                    SIGNING,
                    json!({ "spec": { "signerName": "a.b/c", "request": "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0KLS0tLS1FTkQgQ0VSVElGSUNBVEUgUkVRVUVTVC0tLS0tCg==", "usages": list(n, |_| json!("any")) } }),
                )
            },
            201,
        ),
        (
            "CSI node",
            25,
            |n| {
                cluster_wide(
                    "/apis/storage.k8s.io/v1/csinodes",
                    json!({ "spec": { "drivers": list(n, |i| json!({ "name": format!("d{i}"), "nodeID": "n", "topologyKeys": ["a", "b"] })) } }),
                )
            },
            201,
        ),
        (
            "keys of a CSI node",
            125,
            |n| {
                cluster_wide(
                    "/apis/storage.k8s.io/v1/csinodes",
                    json!({ "spec": { "drivers": [{ "name": "d", "nodeID": "n", "topologyKeys": list(n, |i| json!(format!("k{i}"))) }] } }),
                )
            },
            201,
        ),
        (
            "storage class",
            75,
            |n| {
                cluster_wide(
                    "/apis/storage.k8s.io/v1/storageclasses",
                    json!({ "provisioner": "p", "parameters": map(n, |i| (format!("k{i}"), json!(""))), "allowedTopologies": list(n, |_| json!({ "matchLabelExpressions": [{ "key": "k", "values": ["v"] }] })) }),
                )
            },
            201,
        ),
        (
            "access review",
            125,
            |n| {
                vec![Sent::post(
                    "/apis/authorization.k8s.io/v1/subjectaccessreviews",
                    &json!({ "spec": { "user": "u", "groups": list(n, |i| json!(format!("g{i}"))), "nonResourceAttributes": { "path": "/", "verb": "get" } } }),
                )]
            },
            201,
        ),
        (
            "cron job",
            5_000,
            |n| {
                vec![Sent::post(
                    "/apis/batch/v1/namespaces/default/cronjobs",
                    &json!({ "metadata": { "name": "a" }, "spec": { "schedule": format!("{}0 * * * *", "0,".repeat(n)), "jobTemplate": { "spec": { "template": { "spec": { "restartPolicy": "Never", "containers": [{ "name": "c", "image": "i" }] } } } } } }),
                )]
            },
            201,
        ),
        (
            "disruption budget",
            75,
            |n| {
                vec![Sent::post(
                    "/apis/policy/v1/namespaces/default/poddisruptionbudgets",
                    &json!({ "metadata": { "name": "a" }, "spec": { "minAvailable": 1, "selector": { "matchExpressions": list(n, |i| json!({ "key": format!("k{i}"), "operator": "Exists" })) } } }),
                )]
            },
            201,
        ),
    ]);
}
