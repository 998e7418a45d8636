//! The selectable fields of built-in kinds: their names and their values.
//!
//! Used by lists and watches; values are read from the stored object. The fields of custom kinds
//! are declared by their definitions and not known here.
//!
//! The names and messages are those of the field label conversions in k8s.io/kubernetes v1.36.4
//! pkg/apis/*/v1/conversion.go.

use serde_json::Value;

use crate::ApiError;
use crate::kinds::json_access::{flag, items, number, text};

/// A selectable field, by its stored name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FieldName(&'static str);

const NAME: FieldName = FieldName("metadata.name");
const NAMESPACE: FieldName = FieldName("metadata.namespace");

/// The fields of events: the name in the core group, the name in `events.k8s.io`, and the stored
/// name.
const EVENT_FIELDS: &[(&str, &str, &str)] = &[
    ("involvedObject.kind", "regarding.kind", "involvedObject.kind"),
    ("involvedObject.namespace", "regarding.namespace", "involvedObject.namespace"),
    ("involvedObject.name", "regarding.name", "involvedObject.name"),
    ("involvedObject.uid", "regarding.uid", "involvedObject.uid"),
    ("involvedObject.apiVersion", "regarding.apiVersion", "involvedObject.apiVersion"),
    ("involvedObject.resourceVersion", "regarding.resourceVersion", "involvedObject.resourceVersion"),
    ("involvedObject.fieldPath", "regarding.fieldPath", "involvedObject.fieldPath"),
    ("reason", "reason", "reason"),
    ("reportingComponent", "reportingController", "reportingComponent"),
    ("source", "", "source"),
    ("type", "type", "type"),
];

/// Returns the fields of a kind beyond name and namespace, or `None` if only these can be selected.
fn own_fields(group: &str, kind: &str) -> Option<&'static [&'static str]> {
    Some(match (group, kind) {
        ("", "Pod") => &[
            "spec.nodeName",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "spec.hostNetwork",
            "status.phase",
            "status.podIP",
            "status.podIPs",
            "status.nominatedNodeName",
        ],
        ("", "Node") => &["spec.unschedulable"],
        ("", "ReplicationController") => &["status.replicas"],
        ("", "Namespace") => &["status.phase"],
        ("", "Secret") => &["type"],
        ("", "Service") => &["spec.clusterIP", "spec.type"],
        ("batch", "Job") => &["status.successful"],
        ("certificates.k8s.io", "CertificateSigningRequest") => &["spec.signerName"],
        ("resource.k8s.io", "ResourceSlice") => &["spec.nodeName", "spec.driver"],
        _ => return None,
    })
}

/// Returns the stored name of a field in a selector.
///
/// # Errors
/// 400 for an unknown field. The message depends on the kind, as in kube-apiserver.
pub fn resolve(group: &str, kind: &str, label: &str) -> Result<FieldName, ApiError> {
    let scoped = !matches!((group, kind), ("", "Node" | "Namespace"));
    match label {
        "metadata.name" => return Ok(NAME),
        "metadata.namespace" if scoped => return Ok(NAMESPACE),
        "spec.host" if (group, kind) == ("", "Pod") => return Ok(FieldName("spec.nodeName")),
        _ => {}
    }
    if kind == "Event" && matches!(group, "" | "events.k8s.io") {
        let found =
            EVENT_FIELDS.iter().find(|(core, new, _)| label == if group.is_empty() { *core } else { *new });
        return found
            .filter(|_| !label.is_empty())
            .map(|(_, _, stored)| FieldName(stored))
            .ok_or_else(|| ApiError::bad_request(format!("field label not supported: {label}")));
    }
    let Some(own) = own_fields(group, kind) else {
        return Err(ApiError::bad_request(format!(
            "{label:?} is not a known field selector: only \"metadata.name\", \"metadata.namespace\""
        )));
    };
    if let Some(name) = own.iter().find(|name| **name == label) {
        return Ok(FieldName(name));
    }
    Err(ApiError::bad_request(match (group, kind) {
        ("batch", "Job") => format!("field label {label:?} not supported for Job"),
        ("resource.k8s.io", "ResourceSlice") => {
            format!("field label not supported for resource.k8s.io/v1, Kind=ResourceSlice: {label}")
        }
        _ => format!("field label not supported: {label}"),
    }))
}

/// Returns the stored names of the selectable fields of a kind, beyond name and namespace.
pub fn selectable(group: &str, kind: &str) -> Vec<FieldName> {
    if kind == "Event" && matches!(group, "" | "events.k8s.io") {
        return EVENT_FIELDS.iter().map(|(_, _, stored)| FieldName(stored)).collect();
    }
    own_fields(group, kind).unwrap_or_default().iter().map(|it| FieldName(it)).collect()
}

impl FieldName {
    /// Returns the stored name of the field.
    pub fn as_str(self) -> &'static str {
        self.0
    }

    /// Returns the value of the field in a stored object, as selectors compare it: absent fields
    /// are empty, booleans `false`, numbers `0`.
    pub fn value(self, object: &Value) -> String {
        match self.0 {
            "metadata.name" => text(object, "/metadata/name").to_owned(),
            "metadata.namespace" => text(object, "/metadata/namespace").to_owned(),
            "spec.hostNetwork" => flag(object, "/spec/hostNetwork").to_string(),
            "spec.unschedulable" => flag(object, "/spec/unschedulable").to_string(),
            "status.replicas" => number(object, "/status/replicas").unwrap_or(0).to_string(),
            "status.successful" => number(object, "/status/succeeded").unwrap_or(0).to_string(),
            "status.podIP" => pod_ips(object).into_iter().next().unwrap_or_default(),
            "status.podIPs" => pod_ips(object).join(","),
            "source" => match text(object, "/source/component") {
                "" => text(object, "/reportingComponent").to_owned(),
                component => component.to_owned(),
            },
            name => text(object, &format!("/{}", name.replace('.', "/"))).to_owned(),
        }
    }
}

fn pod_ips(pod: &Value) -> Vec<String> {
    let listed: Vec<String> =
        items(pod, "/status/podIPs").iter().map(|ip| text(ip, "/ip").to_owned()).collect();
    match text(pod, "/status/podIP") {
        one if listed.is_empty() && !one.is_empty() => vec![one.to_owned()],
        _ => listed,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn absent_fields_have_a_zero_value() {
        let pod = json!({"metadata": {"name": "p", "namespace": "n"}, "spec": {"nodeName": "w"},
            "status": {"phase": "Running", "podIPs": [{"ip": "1.2.3.4"}, {"ip": "::1"}]}});
        for (label, value) in [
            ("metadata.name", "p"),
            ("metadata.namespace", "n"),
            ("spec.host", "w"),
            ("spec.hostNetwork", "false"),
            ("spec.schedulerName", ""),
            ("status.podIP", "1.2.3.4"),
            ("status.podIPs", "1.2.3.4,::1"),
        ] {
            let field = resolve("", "Pod", label).expect("a field of pods");
            assert_eq!(field.value(&pod), value, "{label}");
        }
        let job = json!({"status": {"succeeded": 2}});
        assert_eq!(resolve("batch", "Job", "status.successful").expect("a field").value(&job), "2");
    }

    #[test]
    fn the_message_for_an_unknown_field_depends_on_the_kind() {
        for (group, kind, label, message) in [
            ("", "Pod", "spec.foo", "field label not supported: spec.foo"),
            ("", "Node", "metadata.namespace", "field label not supported: metadata.namespace"),
            ("batch", "Job", "spec.foo", "field label \"spec.foo\" not supported for Job"),
            (
                "",
                "ConfigMap",
                "data.k",
                "\"data.k\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\"",
            ),
            (
                "events.k8s.io",
                "Event",
                "involvedObject.kind",
                "field label not supported: involvedObject.kind",
            ),
            ("events.k8s.io", "Event", "source", "field label not supported: source"),
            ("", "Event", "regarding.kind", "field label not supported: regarding.kind"),
        ] {
            let refusal = resolve(group, kind, label).expect_err("the field is unknown");
            assert_eq!((refusal.0.code, refusal.0.message.as_str()), (400, message));
        }
    }

    #[test]
    fn both_groups_of_events_select_from_one_store() {
        let event = json!({"involvedObject": {"kind": "Pod"}, "reportingComponent": "c", "type": "Normal"});
        for (group, label, value) in [
            ("", "involvedObject.kind", "Pod"),
            ("events.k8s.io", "regarding.kind", "Pod"),
            ("events.k8s.io", "reportingController", "c"),
            ("", "source", "c"),
        ] {
            let field = resolve(group, "Event", label).expect("a field of events");
            assert_eq!(field.value(&event), value, "{group} {label}");
        }
    }
}
