//! StatefulSets.

use std::borrow::Cow;
use std::collections::HashSet;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::selected_template::{report, selected_template, with_template};
use crate::kinds::age;
use crate::kinds::cells;
use crate::kinds::core::persistent_volume_claim::{claim, defaults as claim_defaults};
use crate::kinds::json_access::{
    Object, at, each, entries, fill, items, number, object, object_if_present, text,
};
use crate::kinds::rules::{COMMON, KindRules};
use crate::kinds::traits::{KindTraits, MetadataPasses};
use crate::kinds::validate::check::{FieldErrors, forbidden, invalid, not_negative, one_of};
use crate::kinds::validate::status::counts;
use crate::{FieldError, FieldErrorKind};

/// The rules of the kind StatefulSet.
pub(crate) static RULES: KindRules = KindRules {
    group: "apps",
    kind: "StatefulSet",
    plural: "statefulsets",
    traits: KindTraits { has_generation: true, has_status: true, ..KindTraits::COMMON },
    metadata_passes: MetadataPasses { labels: 3, fixed: 2, finalizers: 1 },
    default: defaults,
    validate_create: |out, object| {
        stateful_set_spec(out, &object["spec"]);
        claim_templates(out, object);
    },
    validate_update: Some(validate_update),
    validate_status: |out, object, _| counts(out, object, NUMBERS, PARTS),
    pod_spec: Some("/spec/template/spec"),
    cells,
    ..COMMON
};

const FIXED_STATEFUL_SET: &str = "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden";

/// The numbers in the status.
const NUMBERS: &[&str] = &[
    "replicas",
    "readyReplicas",
    "currentReplicas",
    "updatedReplicas",
    "availableReplicas",
    "observedGeneration",
    "collisionCount",
];
/// The numbers in the status that count a part of the replicas.
const PARTS: &[&str] = &["readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas"];

fn defaults(_: &str, map: &mut Object) {
    let spec = object(map, "spec");
    fill(spec, "podManagementPolicy", "OrderedReady");
    let strategy = object(spec, "updateStrategy");
    if strategy.get("type").and_then(Value::as_str).unwrap_or_default().is_empty() {
        fill(strategy, "type", "RollingUpdate");
        object(strategy, "rollingUpdate");
    }
    let rolls = strategy.get("type").and_then(Value::as_str) == Some("RollingUpdate");
    if let Some(rolling) = object_if_present(strategy, "rollingUpdate").filter(|_| rolls) {
        fill(rolling, "partition", 0);
    }
    let retention = object(spec, "persistentVolumeClaimRetentionPolicy");
    fill(retention, "whenDeleted", "Retain");
    fill(retention, "whenScaled", "Retain");
    fill(spec, "replicas", 1);
    fill(spec, "revisionHistoryLimit", 10);
    for claim in each(spec, "volumeClaimTemplates") {
        fill(claim, "kind", "PersistentVolumeClaim");
        fill(claim, "apiVersion", "v1");
        object(claim, "metadata");
        claim_defaults(claim);
    }
    with_template(spec);
}

fn stateful_set_spec(out: &mut FieldErrors, spec: &Value) {
    let policy = text(spec, "/podManagementPolicy");
    if !matches!(policy, "OrderedReady" | "Parallel") {
        invalid(out, "spec.podManagementPolicy", &policy.into(), "must be 'OrderedReady' or 'Parallel'");
    }
    let rolling = at(spec, "/updateStrategy/rollingUpdate");
    match text(spec, "/updateStrategy/type") {
        "RollingUpdate" => {
            let field = "spec.updateStrategy.rollingUpdate.partition";
            not_negative(out, spec, "/updateStrategy/rollingUpdate/partition", field);
        }
        "OnDelete" => {
            if let Some(rolling) = rolling {
                let partition = number(rolling, "/partition").unwrap_or(0);
                let most = rolling.get("maxUnavailable").cloned().unwrap_or_default();
                let value = format!("{{\"Partition\":{partition},\"MaxUnavailable\":{most}}}");
                let detail = "only allowed for updateStrategy 'RollingUpdate'";
                report(out, FieldErrorKind::Invalid, "spec.updateStrategy.rollingUpdate", &value, detail);
            }
        }
        other => {
            let value = format!("{{\"Type\":{},\"RollingUpdate\":null}}", Value::from(other));
            let detail = "must be 'RollingUpdate' or 'OnDelete'";
            report(out, FieldErrorKind::Invalid, "spec.updateStrategy", &value, detail);
        }
    }
    for key in ["replicas", "minReadySeconds", "revisionHistoryLimit"] {
        not_negative(out, spec, &format!("/{key}"), &format!("spec.{key}"));
    }
    for key in ["whenDeleted", "whenScaled"] {
        let key = format!("persistentVolumeClaimRetentionPolicy/{key}");
        if at(spec, &format!("/{key}")).is_some() {
            let field = format!("spec.{}", key.replace('/', "."));
            one_of(out, spec, &format!("/{key}"), &field, &["Retain", "Delete"]);
        }
    }
    selected_template(out, spec, &stateful_template(spec), "statefulset", true);
}

/// Returns the template of a StatefulSet as its pods will be: with a volume for each claim
/// template, which replaces a volume of the same name, and without hostname and subdomain, which
/// the controller sets for each pod.
fn stateful_template(spec: &Value) -> Cow<'_, Value> {
    let template = &spec["template"];
    let claims = items(spec, "/volumeClaimTemplates");
    let replaced = ["hostname", "subdomain"].iter().any(|key| template["spec"].get(key).is_some());
    if claims.is_empty() && !replaced {
        return Cow::Borrowed(template);
    }
    let mut template = template.clone();
    if let Some(pod) = template.get_mut("spec").and_then(Value::as_object_mut) {
        pod.remove("hostname");
        pod.remove("subdomain");
        let mut volumes: Vec<Value> = Vec::new();
        let mut names = HashSet::new();
        for claim in claims {
            let name = text(claim, "/metadata/name");
            if names.insert(name) {
                volumes.push(json!({ "name": name, "persistentVolumeClaim": { "claimName": name } }));
            }
        }
        let own = pod.get("volumes").and_then(Value::as_array).into_iter().flatten();
        let replaced = |it: &Value| it["name"].as_str().is_some_and(|name| names.contains(name));
        let kept: Vec<_> = own.filter(|it| !replaced(it)).cloned().collect();
        volumes.extend(kept);
        pod.insert("volumes".to_owned(), volumes.into());
    }
    Cow::Owned(template)
}

/// Validates the claim templates of a new StatefulSet. They are immutable, so updates need not be
/// checked.
fn claim_templates(out: &mut FieldErrors, stateful_set: &Value) {
    for (index, template) in items(stateful_set, "/spec/volumeClaimTemplates").iter().enumerate() {
        let mut found = FieldErrors::new();
        claim(&mut found, template);
        out.extend(found.into_iter().map(|it| {
            let field = format!("spec.volumeClaimTemplates[{index}].{}", it.field);
            FieldError { field, ..it }
        }));
    }
}

fn validate_update(out: &mut FieldErrors, new: &Value, old: &Value) {
    stateful_set_spec(out, &new["spec"]);
    let fixed = |object: &Value| -> Vec<(String, Value)> {
        let free = [
            "replicas",
            "ordinals",
            "template",
            "updateStrategy",
            "revisionHistoryLimit",
            "persistentVolumeClaimRetentionPolicy",
            "minReadySeconds",
        ];
        entries(object, "/spec")
            .filter(|(key, _)| !free.contains(key))
            .map(|(key, value)| (key.to_owned(), value.clone()))
            .collect()
    };
    if fixed(new) != fixed(old) {
        forbidden(out, "spec", FIXED_STATEFUL_SET);
    }
}

fn cells(object: &Value, now: Timestamp) -> Vec<Value> {
    let [names, images] = cells::containers(object, "/spec/template/spec");
    let count = |pointer: &str| number(object, pointer).unwrap_or(0);
    let ready = format!("{}/{}", count("/status/readyReplicas"), count("/spec/replicas"));
    vec![cells::name(object), ready.into(), age::since_creation(object, now), names, images]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stateful_set(mount: &str, volumes: &Value) -> Value {
        json!({ "spec": { "serviceName": "s", "podManagementPolicy": "OrderedReady",
            "updateStrategy": { "type": "RollingUpdate" }, "selector": { "matchLabels": { "app": "a" } },
            "template": { "metadata": { "labels": { "app": "a" } }, "spec": {
                "restartPolicy": "Always", "dnsPolicy": "ClusterFirst", "terminationGracePeriodSeconds": 30,
                "hostname": "NOT A LABEL", "volumes": volumes,
                "containers": [{ "name": "c", "image": "i", "imagePullPolicy": "Always", "terminationMessagePolicy": "File",
                    "volumeMounts": [{ "name": mount, "mountPath": "/data" }] }] } },
            "volumeClaimTemplates": [{ "metadata": { "name": "data" }, "spec": { "accessModes": ["ReadWriteOnce"],
                "resources": { "requests": { "storage": "1Gi" } } } }] } })
    }

    fn problems(object: &Value) -> Vec<String> {
        let mut out = FieldErrors::default();
        stateful_set_spec(&mut out, &object["spec"]);
        out.iter().map(|it| it.to_string()).collect()
    }

    #[test]
    fn a_claim_template_is_a_volume_of_the_pods_of_a_stateful_set() {
        assert_eq!(problems(&stateful_set("data", &json!([]))), [""; 0]);
        let own = json!([{ "name": "data", "emptyDir": {} }, { "name": "other", "emptyDir": {} }]);
        assert_eq!(problems(&stateful_set("data", &own)), [""; 0], "the claim replaces the volume");
        assert_eq!(problems(&stateful_set("other", &own)), [""; 0]);
        let wrong = problems(&stateful_set("dta", &own));
        let expected = r#"spec.template.spec.containers[0].volumeMounts[0].name: Not found: "dta""#;
        assert_eq!(wrong, [expected]);
        let mut bad = stateful_set("data", &json!([]));
        bad["spec"]["volumeClaimTemplates"][0]["metadata"]["name"] = "Data".into();
        let wrong = problems(&bad);
        assert!(wrong.iter().any(|it| it.starts_with("spec.template.spec.volumes[0].name: ")), "{wrong:?}");
    }
}
