//! Requests with long queries.

use serde_json::json;

use crate::measure::{Sent, assert_proportional, list, map};

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// Creates an object with many labels and lists with a query.
fn query(n: usize, text: &str) -> Vec<Sent> {
    let labels = map(n, |i| (format!("k{i}"), json!("v")));
    vec![
        Sent::post(CONFIG_MAPS, &json!({ "metadata": { "name": "a", "labels": labels } })),
        Sent::get(format!("{CONFIG_MAPS}?{text}")),
    ]
}

fn joined(n: usize, part: impl Fn(usize) -> String) -> String {
    (0..n).map(part).collect::<Vec<_>>().join(",")
}

#[test]
fn queries_cost_in_proportion_to_their_size() {
    assert_proportional(&[
        (
            "label selector",
            150,
            |n| query(n, &format!("labelSelector={}", joined(n, |i| format!("k{i}%3Dv")))),
            200,
        ),
        (
            "invalid label selector",
            100,
            |n| query(n, &format!("labelSelector={}", joined(n, |i| format!("k%20{i}%3Dv")))),
            400,
        ),
        (
            "values of a label selector",
            250,
            |n| query(n, &format!("labelSelector=k1%20in%20({})", joined(n, |i| format!("v{i}")))),
            200,
        ),
        ("commas", 1_000, |n| query(n, &format!("labelSelector={}", ",".repeat(n))), 400),
        (
            "field selector",
            100,
            |n| query(n, &format!("fieldSelector={}", joined(n, |i| format!("metadata.name!%3Dn{i}")))),
            200,
        ),
        (
            "unknown fields of a selector",
            150,
            |n| query(n, &format!("fieldSelector={}", joined(n, |i| format!("k{i}%3Dv")))),
            400,
        ),
        (
            "escapes of a field selector",
            500,
            |n| query(n, &format!("fieldSelector=metadata.name%3D{}", "%5C%2C".repeat(n))),
            200,
        ),
        ("parameters", 250, |n| query(n, &(0..n).map(|i| format!("p{i}=v&")).collect::<String>()), 200),
        ("equal parameters", 200, |n| query(n, &"labelSelector=k1&".repeat(n)), 200),
        ("continue token", 3_000, |n| query(n / 100, &format!("continue={}", "a".repeat(n))), 400),
        ("resource version", 3_000, |n| query(n / 100, &format!("resourceVersion={}", "1".repeat(n))), 400),
        (
            "deletion of a collection",
            150,
            |n| {
                vec![Sent::delete(
                    format!("{CONFIG_MAPS}?labelSelector={}", joined(n, |i| format!("k{i}"))),
                    &json!({ "preconditions": { "uid": "u".repeat(n) } }),
                )]
            },
            200,
        ),
        ("path", 1_500, |n| vec![Sent::get(format!("/api/v1/{}", "a/".repeat(n)))], 404),
        ("shard selector", 250, |n| query(n, &format!("shardSelector={}", "shardRange(".repeat(n))), 200),
        (
            "table",
            25,
            |n| {
                let mut all: Vec<Sent> = (0..n).map(|i| Sent::post(CONFIG_MAPS, &json!({ "metadata": { "name": format!("a{i}") }, "data": { "k": list(1, |_| json!(1)).to_string() } }))).collect();
                all.push(Sent::get(CONFIG_MAPS));
                all
            },
            200,
        ),
    ]);
}
