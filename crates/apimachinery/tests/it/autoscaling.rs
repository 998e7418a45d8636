//! HorizontalPodAutoscalers in both versions, compared with recordings of kube-apiserver.
//!
//! The recordings are in `tests/data/versions`, made by `record.py` there.

use dogwatch_apimachinery::kinds::autoscaling::{to_v1, to_v2};
use dogwatch_apimachinery::kinds::defaults;
use serde_json::{Value, json};

struct Row {
    sent: Value,
    is_status: bool,
    v1: Value,
    v2: Value,
}

fn rows() -> Vec<Row> {
    let text = include_str!("../data/versions/autoscaling.json");
    let rows: Vec<Value> = serde_json::from_str(text).expect("recordings are valid");
    let row = |mut it: Value| Row {
        sent: it["sent"].take(),
        is_status: it["status"] == true,
        v1: it["v1"].take(),
        v2: it["v2"].take(),
    };
    rows.into_iter().map(row).collect()
}

fn defaulted(mut object: Value) -> Value {
    let version = object["apiVersion"].as_str().unwrap().rsplit('/').next().unwrap().to_owned();
    defaults::apply("autoscaling", &version, "HorizontalPodAutoscaler", &mut object);
    object
}

#[test]
fn a_stored_autoscaler_converts_to_version_1_as_in_kube_apiserver() {
    let rows = rows();
    assert!(rows.len() > 30);
    for row in rows {
        assert_eq!(to_v1(&row.v2), row.v1, "{}", row.v2);
    }
}

#[test]
fn an_autoscaler_written_in_version_1_is_stored_as_by_kube_apiserver() {
    let of_v1 = rows().into_iter().filter(|it| it.sent["apiVersion"] == "autoscaling/v1");
    let mut count = 0;
    for row in of_v1 {
        count += 1;
        let mut stored = to_v2(&defaulted(row.sent.clone()));
        if !row.is_status {
            // A creation does not set the status.
            stored["status"] = json!({ "currentMetrics": null, "desiredReplicas": 0 });
        }
        assert_eq!(stored, row.v2, "{}", row.sent);
    }
    assert!(count > 15);
}

#[test]
fn an_autoscaler_written_in_version_2_drops_the_annotations_of_version_1() {
    for row in rows().into_iter().filter(|it| it.sent["apiVersion"] == "autoscaling/v2" && !it.is_status) {
        let stored = defaulted(row.sent);
        assert_eq!(stored["metadata"], row.v2["metadata"]);
        assert_eq!(stored["spec"]["behavior"], row.v2["spec"]["behavior"]);
    }
}

#[test]
fn writing_back_what_was_read_in_version_1_changes_nothing() {
    for row in rows() {
        let stored = to_v2(&row.v1);
        assert_eq!(to_v1(&stored), row.v1, "{}", row.v1);
        assert_eq!(stored["spec"]["behavior"], row.v2["spec"]["behavior"]);
        assert_eq!(stored["status"]["conditions"], row.v2["status"]["conditions"]);
        let targets = |it: &Value| {
            let metrics = it["spec"]["metrics"].as_array().cloned().unwrap_or_default();
            metrics.into_iter().filter(|it| it["type"] != "Resource").collect::<Vec<_>>()
        };
        // Version 1 cannot express which of the two values of this object metric is the target.
        if row.v2["metadata"]["name"] != "object-both" {
            assert_eq!(targets(&stored), targets(&row.v2));
        }
    }
}
