//! Defaults, validation errors and table rows of built-in kinds, compared with recordings of
//! kube-apiserver.
//!
//! The recordings are under `tests/data`, made by `record.py` there.

use dogwatch_apimachinery::kinds::rules::KindRules;
use dogwatch_apimachinery::kinds::{defaults, index, prepare, validate};
use dogwatch_apimachinery::{ApiError, admission, print};
use jiff::Timestamp;
use serde_json::{Value, json};

fn recorded(path: &str) -> Vec<Value> {
    let path = format!("{}/tests/data/{path}.json", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).expect("the recording exists");
    serde_json::from_str(&text).expect("recordings are valid")
}

/// A cluster that grants every allocation for services.
struct GrantingCluster;

impl prepare::ClusterResources for GrantingCluster {
    fn cluster_ip(&mut self, _: &Value, wanted: Option<&str>) -> Result<String, ApiError> {
        Ok(wanted.unwrap_or("10.0.0.0").to_owned())
    }

    fn node_port(&mut self, _: &Value, _: usize, wanted: Option<i64>) -> Result<i64, ApiError> {
        Ok(wanted.unwrap_or(32769))
    }

    fn health_check_port(&mut self, wanted: Option<i64>) -> Result<i64, ApiError> {
        Ok(wanted.unwrap_or(32769))
    }
}

const DEFAULTS: [&str; 8] = ["core", "pod", "workloads", "jobs", "services", "others", "empty", "amounts"];
const UID: &str = "00000000-0000-4000-8000-000000000000";
const NOW: &str = "2026-01-01T00:00:00Z";

/// Replaces the times and uids that kube-apiserver chose by constants.
fn normalize(value: &mut Value) {
    match value {
        Value::Object(map) => map.values_mut().for_each(normalize),
        Value::Array(list) => list.iter_mut().for_each(normalize),
        Value::String(text) if text.starts_with("2026-") && text.ends_with('Z') => *text = NOW.to_owned(),
        Value::String(text) => *text = with_one_uid(text),
        _ => {}
    }
}

/// Returns the text with every uid replaced by the one of these tests.
fn with_one_uid(text: &str) -> String {
    let shape = |window: &[u8]| {
        window.iter().enumerate().all(|(index, byte)| match index {
            8 | 13 | 18 | 23 => *byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        })
    };
    let mut out = text.to_owned();
    let mut from = 0;
    while let Some(found) = out.as_bytes()[from..].windows(36).position(shape) {
        out.replace_range(from + found..from + found + 36, UID);
        from += found + 36;
    }
    out
}

/// Group, version and kind of a row, and the rules of the kind.
struct Names<'a> {
    group: &'a str,
    version: &'a str,
    kind: &'a str,
    rules: &'static KindRules,
}

fn names(row: &Value) -> Names<'_> {
    let api = row["apiVersion"].as_str().expect("a version");
    let (group, version) = api.split_once('/').unwrap_or(("", api));
    let kind = row["kind"].as_str().expect("a kind");
    Names { group, version, kind, rules: index::of_kind(group, kind) }
}

fn scoped(row: &Value) -> bool {
    !matches!(
        names(row).kind,
        "Namespace"
            | "Node"
            | "PersistentVolume"
            | "IngressClass"
            | "ClusterRole"
            | "ClusterRoleBinding"
            | "StorageClass"
            | "CSIDriver"
            | "CSINode"
            | "VolumeAttachment"
            | "PriorityClass"
            | "RuntimeClass"
            | "FlowSchema"
            | "PriorityLevelConfiguration"
            | "ServiceCIDR"
            | "IPAddress"
            | "ValidatingWebhookConfiguration"
    )
}

/// Returns the object of a row after decoding and defaulting.
fn sent(row: &Value) -> Value {
    let mut object = row["sent"].clone();
    object["kind"] = row["kind"].clone();
    object["apiVersion"] = row["apiVersion"].clone();
    if scoped(row) {
        object["metadata"]["namespace"] = "recorded".into();
    }
    let names = names(row);
    defaults::apply(names.group, names.version, names.kind, &mut object);
    object["metadata"]["uid"] = UID.into();
    object
}

/// Applies the admission plugins that change new objects, as in a cluster with the two system
/// priority classes.
fn admit(row: &Value, object: &mut Value) {
    let Names { group, rules, .. } = names(row);
    admission::storage_protection::fill(group, rules.plural, object);
    match (group, rules.plural) {
        ("", "pods") => {
            let class = object["spec"]["priorityClassName"].as_str().map(|name| {
                let value = if name == "system-node-critical" { 2_000_001_000 } else { 2_000_000_000 };
                json!({ "metadata": { "name": name }, "value": value, "preemptionPolicy": "PreemptLowerPriority" })
            });
            admission::priority::fill(object, class.as_ref()).expect("the pod has no other priority");
            admission::toleration_seconds::fill(object);
        }
        ("", "nodes") => admission::node_taint::fill(object),
        _ => {}
    }
}

#[test]
fn new_objects_get_the_recorded_defaults() {
    let mut wrong = Vec::new();
    for file in DEFAULTS {
        for row in recorded(&format!("defaults/{file}")) {
            let mut object = sent(&row);
            admit(&row, &mut object);
            prepare::for_create(
                names(&row).rules,
                names(&row).version,
                &mut object,
                NOW,
                &mut GrantingCluster,
            )
            .expect("granted");
            object["metadata"].as_object_mut().expect("metadata").remove("uid");
            let mut stored = row["stored"].clone();
            normalize(&mut stored);
            if object != stored {
                wrong.push(format!("{}\n  ours   {object}\n  theirs {stored}", row["sent"]));
            }
        }
    }
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
}

/// Defaults are set when an object is decoded; of what preparation removes, only the status of its
/// type comes back.
#[test]
fn preparation_sets_no_defaults_but_those_of_a_blank_status() {
    let prepared = |kind: &str, mut object: Value| {
        object["metadata"]["uid"] = UID.into();
        let rules = index::of_kind("", kind);
        prepare::for_create(rules, "v1", &mut object, NOW, &mut GrantingCluster).expect("granted");
        object
    };
    let pod = prepared("Pod", json!({"spec": {"containers": [{"name": "c", "image": "i"}]}}));
    assert_eq!(pod["spec"].get("dnsPolicy"), None, "{pod}");
    for (kind, sent, status) in [
        ("Namespace", json!({"phase": "Terminating", "conditions": []}), json!({"phase": "Active"})),
        ("PersistentVolumeClaim", json!({"phase": "Bound"}), json!({"phase": "Pending"})),
        (
            "PersistentVolume",
            json!({"phase": "Bound"}),
            json!({"phase": "Pending", "lastPhaseTransitionTime": NOW}),
        ),
        ("Service", json!({"loadBalancer": {"ingress": [{}]}}), json!({"loadBalancer": {}})),
        ("ReplicationController", json!({"replicas": 3}), json!({"replicas": 0})),
    ] {
        let created = prepared(kind, json!({"metadata": {"name": "a"}, "spec": {}, "status": sent}));
        assert_eq!(created["status"], status, "{kind}");
    }
}

/// Regression test: the spec of a status write is the stored one, not the one that was decoded.
#[test]
fn a_status_write_gets_the_defaults_that_depend_on_the_spec() {
    let template = json!({"metadata": {"labels": {"app": "a"}}});
    for (group, kind, spec, status, pointer, expected) in [
        ("batch", "Job", json!({"template": template}), json!({}), "/metadata/labels", json!({"app": "a"})),
        (
            "",
            "ReplicationController",
            json!({"template": template}),
            json!({}),
            "/metadata/labels/app",
            json!("a"),
        ),
        (
            "",
            "Service",
            json!({"type": "LoadBalancer"}),
            json!({"loadBalancer": {"ingress": [{"ip": "1.2.3.4"}]}}),
            "/status/loadBalancer/ingress/0/ipMode",
            json!("VIP"),
        ),
    ] {
        let old = json!({"metadata": {"name": "a", "labels": {"b": "c"}}, "spec": spec, "status": {}});
        let mut new = json!({"metadata": {"name": "a"}, "spec": {}, "status": status});
        prepare::for_status_update(index::of_kind(group, kind), &mut new, &old);
        assert_eq!(new.pointer(pointer), Some(&expected), "{kind}: {new}");
    }
}

#[test]
fn defaulting_is_idempotent_for_every_kind() {
    for file in DEFAULTS {
        for row in recorded(&format!("defaults/{file}")) {
            let names = names(&row);
            let mut again = row["stored"].clone();
            defaults::apply(names.group, names.version, names.kind, &mut again);
            assert_eq!(again, row["stored"]);
        }
    }
}

#[test]
fn invalid_objects_are_rejected_with_the_recorded_messages() {
    let (mut wrong, mut all) = (Vec::new(), 0);
    for file in ["metadata", "pod", "workloads", "others", "terms"] {
        for row in recorded(&format!("refusals/{file}")) {
            if row["sent"]["metadata"].get("generateName").is_some() {
                continue; // the generated part of the name differs each time
            }
            all += 1;
            let mut object = sent(&row);
            prepare::for_create(
                names(&row).rules,
                names(&row).version,
                &mut object,
                NOW,
                &mut GrantingCluster,
            )
            .expect("granted");
            check(&row, &validate::create(names(&row).rules, scoped(&row), &object), &mut wrong);
        }
    }
    assert!(wrong.is_empty(), "{} of {all} differ:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn a_service_with_many_ports_is_validated_in_linear_time() {
    let ports: Vec<Value> = (0..30_000)
        .map(|it| json!({"name": format!("p{it}"), "port": it + 1, "protocol": "TCP", "targetPort": 1}))
        .chain([json!({"name": "p7", "port": 8, "protocol": "TCP", "targetPort": 1})])
        .collect();
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s", "namespace": "n"}, "spec": {
        "type": "ClusterIP", "clusterIP": "10.96.0.7", "clusterIPs": ["10.96.0.7"], "sessionAffinity": "None",
        "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack", "internalTrafficPolicy": "Cluster", "ports": ports}});
    let problems = validate::create(names(&service).rules, true, &service);
    let fields: Vec<&str> = problems.iter().map(|it| it.field.as_str()).collect();
    assert_eq!(fields, ["spec.ports[30000].name", "spec.ports[30000]"]);
}

fn check(row: &Value, problems: &[dogwatch_apimachinery::FieldError], wrong: &mut Vec<String>) {
    let mut ours: Vec<Value> = problems
        .iter()
        .map(|it| json!({"reason": it.kind.reason(), "message": it.message, "field": it.field}))
        .collect();
    let mut theirs = row["causes"].as_array().cloned().unwrap_or_default();
    theirs.iter_mut().for_each(normalize);
    let key = |value: &Value| value.to_string();
    ours.sort_by_key(key);
    theirs.sort_by_key(key);
    if ours != theirs {
        let lines =
            |list: &[Value]| list.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n         ");
        let what = row.get("sent").or(row.get("patch")).expect("what was sent");
        wrong.push(format!("{} {what}\n  ours   {}\n  theirs {}", row["kind"], lines(&ours), lines(&theirs)));
    }
}

#[test]
fn updates_are_stored_or_rejected_as_recorded() {
    let (mut wrong, mut all) = (Vec::new(), 0);
    for mut row in recorded("refusals/updates") {
        let shown = row["message"].as_str().unwrap_or_default();
        if shown.contains("\n@@")
            || shown.contains("\"Spec\":{")
            || row["patch"]["metadata"].get("uid").is_some()
        {
            continue; // the message shows the Go representation of the object, or the update is rejected earlier
        }
        all += 1;
        normalize(&mut row);
        row["old"]["metadata"]["uid"] = UID.into();
        let old = row["old"].clone();
        let mut new = merged(&old, &row["patch"]);
        let names = names(&row);
        defaults::apply(names.group, names.version, names.kind, &mut new);
        if (names.group, names.rules.plural) == ("", "pods") {
            // The admission plugins that change pods in updates.
            admission::priority::keep(&mut new, &old);
            admission::toleration_seconds::fill(&mut new);
        }
        prepare::for_update(names.rules, &mut new, &old, &mut GrantingCluster).expect("granted");
        let problems = validate::update(names.rules, &new, &old);
        if row.get("stored").is_none() {
            check(&row, &problems, &mut wrong);
            continue;
        }
        for key in ["creationTimestamp", "uid"] {
            new["metadata"].as_object_mut().expect("metadata").remove(key);
        }
        if !problems.is_empty() || new != row["stored"] {
            wrong.push(format!(
                "{}\n  {problems:?}\n  ours   {new}\n  theirs {}",
                row["patch"], row["stored"]
            ));
        }
    }
    assert!(wrong.is_empty(), "{} of {all} differ:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn status_updates_keep_the_other_fields_as_recorded() {
    let mut wrong = Vec::new();
    for mut row in recorded("statuses/all") {
        normalize(&mut row);
        let names = names(&row);
        let mut new = merged(&row["old"], &row["patch"]);
        defaults::apply(names.group, names.version, names.kind, &mut new);
        prepare::for_status_update(names.rules, &mut new, &row["old"]);
        if new != row["stored"] {
            wrong.push(format!("{}\n  ours   {new}\n  theirs {}", row["patch"], row["stored"]));
        }
    }
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
}

fn merged(old: &Value, patch: &Value) -> Value {
    let (Value::Object(patch), Some(old)) = (patch, old.as_object()) else { return patch.clone() };
    let mut new = old.clone();
    for (key, value) in patch {
        if value.is_null() {
            new.remove(key);
        } else {
            let before = new.get(key).cloned().unwrap_or(json!({}));
            new.insert(key.clone(), merged(&before, value));
        }
    }
    new.into()
}

#[test]
fn rows_have_the_recorded_cells() {
    let mut wrong = Vec::new();
    for file in ["pods", "core", "services", "workloads", "others"] {
        for row in recorded(&format!("tables/{file}")) {
            let resource = row["resource"].as_str().expect("a resource");
            let parts: Vec<&str> = resource.split('/').collect();
            let [group, version, plural] = parts[..] else { panic!("{resource}") };
            let object = &row["object"];
            let created = object["metadata"]["creationTimestamp"].as_str().expect("a time");
            let now: Timestamp = created.parse().expect("a time");
            let mut cells = Value::from(print::cells(group, plural, object, now));
            let mut theirs = row["cells"].clone();
            for value in [&mut cells, &mut theirs] {
                for cell in value.as_array_mut().expect("cells") {
                    if *cell == "1s" {
                        *cell = "0s".into();
                    }
                }
            }
            let columns = print::columns(group, version, plural);
            assert_eq!(columns.as_array().map(Vec::len), theirs.as_array().map(Vec::len), "{resource}");
            if cells != theirs {
                wrong.push(format!("{resource} {object}\n  ours   {cells}\n  theirs {theirs}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
}
