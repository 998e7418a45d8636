//! Field ownership, compared with recordings of kube-apiserver: each recorded write is replayed
//! with our functions.
//!
//! `tests/data/ownership/README.md` describes the recordings.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use dogwatch_apimachinery::ownership::{
    FieldSet, OneVersion, Reset, Target, Versions, Writer, apply, blank, keep_times_if_unchanged, update,
};
use dogwatch_apimachinery::schema::{Definitions, Field, List, Map, Scalar, Schema, Struct, Topology};
use jiff::Timestamp;
use serde_json::{Value, json};

mod properties;
mod versions;

/// Fields that the server adds and that no manager wrote.
const ADDED_BY_THE_SERVER: [&str; 36] = [
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "namespace",
    "status",
    "strategy",
    "type",
    "rollingUpdate",
    "revisionHistoryLimit",
    "progressDeadlineSeconds",
    "replicas",
    "resources",
    "terminationMessagePath",
    "terminationMessagePolicy",
    "imagePullPolicy",
    "restartPolicy",
    "terminationGracePeriodSeconds",
    "dnsPolicy",
    "securityContext",
    "schedulerName",
    "protocol",
    "targetPort",
    "clusterIP",
    "clusterIPs",
    "ipFamilies",
    "ipFamilyPolicy",
    "internalTrafficPolicy",
    "sessionAffinity",
    "loadBalancer",
    "failureThreshold",
    "periodSeconds",
    "successThreshold",
    "timeoutSeconds",
    "scheme",
    "emptyDir",
];

struct Recorded(HashMap<String, Schema>);

/// The versions `v1` and `v2` of a custom kind; the second has an additional field.
struct Moons;

impl Moons {
    fn schema(api_version: &str) -> Option<Schema> {
        let (_, version) = api_version.split_once('/')?;
        let name = [("v1", "Moon1"), ("v2", "Moon")].iter().find(|(known, _)| *known == version)?.1;
        Some(Schema::Named(name.into()))
    }
}

impl Versions for Moons {
    fn convert(&self, object: &Value, api_version: &str) -> Option<(Value, Schema)> {
        let mut object = object.clone();
        object["apiVersion"] = json!(api_version);
        Some((object, Self::schema(api_version)?))
    }
}

impl Definitions for Recorded {
    fn get(&self, name: &str) -> Option<Schema> {
        self.0.get(name).cloned()
    }
}

fn data(name: &str) -> Value {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data/ownership").join(name);
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

fn definitions() -> Recorded {
    let schemas = data("schemas.json");
    Recorded(schemas.as_object().unwrap().iter().map(|(name, form)| (name.clone(), schema(form))).collect())
}

/// Parses the compact form of a schema.
fn schema(form: &Value) -> Schema {
    if let Some(name) = form.as_str() {
        return match name {
            "string" => Schema::Scalar(Scalar::String),
            "integer" => Schema::Scalar(Scalar::Integer),
            "boolean" => Schema::Scalar(Scalar::Boolean),
            "time" => Schema::Scalar(Scalar::Time),
            "int-or-string" => Schema::Scalar(Scalar::IntOrString),
            "any" => Schema::Any,
            other => panic!("unknown schema: {other}"),
        };
    }
    let atomic = form.get("atomic").is_some();
    let list = |item: &Value, topology| Schema::List(Arc::new(List { item: schema(item), topology }));
    if let Some(name) = form.get("ref") {
        Schema::Named(name.as_str().unwrap().into())
    } else if let Some(value) = form.get("map") {
        Schema::Map(Arc::new(Map { value: schema(value), atomic }))
    } else if let Some(item) = form.get("atomic-list") {
        list(item, Topology::Atomic)
    } else if let Some(item) = form.get("set") {
        list(item, Topology::Set)
    } else if let Some(item) = form.get("list") {
        list(item, Topology::Map(serde_json::from_value(form["keys"].clone()).unwrap()))
    } else {
        let defaults = form.get("defaults").cloned().unwrap_or_default();
        let required = form.get("required").cloned().unwrap_or_else(|| json!([]));
        let required: Vec<String> = serde_json::from_value(required).unwrap();
        let fields = form["fields"].as_object().unwrap().iter().map(|(name, inner)| {
            let default = defaults.get(name).cloned();
            let required = required.contains(name);
            (name.clone(), Field { default, required, ..Field::new(schema(inner)) })
        });
        Schema::Struct(Arc::new(Struct { fields: fields.collect(), atomic, ..Struct::default() }))
    }
}

/// Drops nulls, as decoding into a built-in kind does.
fn without_nulls(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|_, value| !value.is_null());
            fields.values_mut().for_each(without_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(without_nulls),
        _ => {}
    }
}

/// Collects the differences between `ours` and `theirs`, except fields that the server adds.
fn differences(path: &str, ours: &Value, theirs: &Value, found: &mut Vec<String>) {
    match (ours, theirs) {
        (Value::Object(ours), Value::Object(theirs)) => {
            for (name, value) in ours {
                match theirs.get(name) {
                    Some(other) => differences(&format!("{path}.{name}"), value, other, found),
                    // Built-in kinds omit empty and zero values.
                    None if [json!({}), json!([]), json!(0)].contains(value) => {}
                    None => found.push(format!("{path}.{name} is only in ours: {value}")),
                }
            }
            for (name, value) in theirs {
                if !ours.contains_key(name) && !ADDED_BY_THE_SERVER.contains(&name.as_str()) {
                    found.push(format!("{path}.{name} is only in theirs: {value}"));
                }
            }
        }
        (Value::Array(ours), Value::Array(theirs))
            if ours.len() == theirs.len() && !path.ends_with("managedFields") =>
        {
            for (index, (ours, theirs)) in ours.iter().zip(theirs).enumerate() {
                differences(&format!("{path}[{index}]"), ours, theirs, found);
            }
        }
        _ if ours == theirs => {}
        _ if ["generation", "resourceVersion"].iter().any(|name| path.ends_with(name)) => {}
        _ => found.push(format!("{path}:\n   ours {ours}\n theirs {theirs}")),
    }
}

/// Returns the latest time in the entries of an object.
fn latest(object: &Value) -> Option<Timestamp> {
    let entries = object.pointer("/metadata/managedFields")?.as_array()?;
    entries.iter().filter_map(|entry| entry.get("time")?.as_str()?.parse().ok()).max()
}

/// Sorts causes: with several conflicting managers their order is not fixed.
fn sorted(mut causes: Value) -> Value {
    causes.as_array_mut().unwrap().sort_by_key(ToString::to_string);
    causes
}

/// Replays one step and adds the differences from the recording to `found`.
fn replay_step(step: &Value, live: Option<&Value>, target: &Target<'_>, found: &mut Vec<String>) {
    let text = |name: &str| step.get(name).and_then(Value::as_str).unwrap_or_default();
    let now = step.get("result").and_then(latest).unwrap_or_else(|| "2030-01-01T00:00:00Z".parse().unwrap());
    let writer = Writer { manager: text("manager"), subresource: text("subresource"), now };
    let ours = match step.get("apply") {
        Some(applied) => apply(live, applied, target, &writer, step.get("force").is_some()),
        None => {
            let mut new = step["write"].clone();
            if new == json!(true) {
                new = step["result"].clone();
            }
            new["metadata"].as_object_mut().unwrap().remove("managedFields");
            if let Some(sent) = step.get("sent") {
                new["metadata"]["managedFields"] = sent.clone();
            }
            update(live, &mut new, target, &writer);
            Ok(new)
        }
    };
    match (ours, step.get("refused")) {
        (Ok(mut ours), None) => {
            if !target.api_version.contains("example.com") {
                without_nulls(&mut ours);
            }
            if let Some(live) = live {
                keep_times_if_unchanged(live, &mut ours);
            }
            differences("", &ours, &step["result"], found);
        }
        (Err(refusal), Some(refused)) => {
            let mut ours = json!({"code": refusal.0.code, "message": refusal.0.message});
            ours["causes"] = sorted(serde_json::to_value(refusal.0.causes()).unwrap());
            let mut refused = refused.clone();
            refused["causes"] = sorted(refused["causes"].take());
            if ours != refused {
                found.push(format!("refusal:\n   ours {ours}\n theirs {refused}"));
            }
        }
        (ours, refused) => found.push(format!("ours {ours:?}\n theirs {refused:?}")),
    }
}

fn replay(name: &str) {
    let scenario = data(name);
    let definitions = definitions();
    let schema = Schema::Named(scenario["schema"].as_str().unwrap().into());
    let custom = scenario["apiVersion"].as_str().unwrap().contains("example.com");
    let empty = if custom { json!({}) } else { blank(&schema, &definitions) };
    let mut live: Option<Value> = None;
    let mut found = Vec::new();
    for (index, step) in scenario["steps"].as_array().unwrap().iter().enumerate() {
        match step.get("live") {
            Some(Value::Null) => live = None,
            Some(object) => live = Some(object.clone()),
            None => {}
        }
        let reset = step.get("reset").and_then(Value::as_array).cloned().unwrap_or_default();
        let reset = Reset::trees(reset.iter().filter_map(Value::as_str));
        let mut api_version = scenario["apiVersion"].as_str().unwrap().to_owned();
        if let Some(version) = step.get("version").and_then(Value::as_str) {
            api_version = api_version.replace("/v1", &format!("/{version}"));
        }
        let schema = Moons::schema(&api_version)
            .filter(|_| step.get("version").is_some())
            .unwrap_or_else(|| schema.clone());
        let target = Target {
            api_version: &api_version,
            kind: scenario["kind"].as_str().unwrap(),
            schema: &schema,
            definitions: &definitions,
            empty: &empty,
            versions: if step.get("version").is_some() { &Moons } else { &OneVersion },
            reset: &reset,
        };
        let mut wrong = Vec::new();
        replay_step(step, live.as_ref(), &target, &mut wrong);
        found.extend(wrong.into_iter().map(|what| format!("step {}: {what}", index + 1)));
        if let Some(result) = step.get("result") {
            live = Some(result.clone());
        }
    }
    assert!(found.is_empty(), "{name}\n{}", found.join("\n"));
}

macro_rules! replays {
    ($($test:ident: $file:literal,)*) => {
        $(#[test] fn $test() { replay($file); })*
    };
}

replays! {
    appliers_conflict_and_force_takes_over: "conflicts-and-force.json",
    apply_creates_and_applying_again_changes_nothing: "create-and-apply-again.json",
    dropped_fields_are_removed_unless_another_manager_owns_them: "dropped-and-shared.json",
    updates_own_what_they_change_and_a_reset_removes_owners: "updates.json",
    the_oldest_of_many_updaters_share_an_entry: "many-updaters.json",
    kubectl_migrates_from_client_side_apply_without_conflicts: "from-client-side-apply.json",
    items_of_keyed_lists_have_their_own_owners: "keyed-lists.json",
    a_creator_owns_the_sent_fields_and_the_defaults: "a-created-deployment.json",
    ports_of_a_service_are_distinguished_by_defaulted_keys: "a-service.json",
    custom_kinds_follow_their_schema: "a-custom-kind.json",
    owners_in_another_version_count_and_are_converted: "two-versions.json",
    random_writes_match_the_recordings: "random-writes.json",
    random_deployments_match_the_recordings: "random-deployments.json",
    the_creator_of_a_custom_object_owns_its_nested_objects: "a-created-custom-kind.json",
}

fn writer(manager: &str, second: i64) -> Writer<'_> {
    Writer { manager, subresource: "", now: Timestamp::from_second(second).unwrap() }
}

/// Returns the fields that a manager owns.
fn owned(object: &Value, manager: &str) -> FieldSet {
    let entries = object.pointer("/metadata/managedFields").and_then(Value::as_array);
    let entry = entries.into_iter().flatten().find(|entry| entry["manager"] == manager);
    entry.map(|entry| FieldSet::from_json(&entry["fieldsV1"]).unwrap()).unwrap_or_default()
}
