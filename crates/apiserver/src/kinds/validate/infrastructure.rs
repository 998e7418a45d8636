//! Validation of kinds that components of a cluster register: nodes, drivers, classes, webhooks,
//! flow control and others.

use std::collections::HashSet;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::check::{
    FieldErrors, duplicate, forbidden, immutable, invalid, invalid_string, one_of, required, unsupported,
};
use super::network::cidr;
use crate::kinds::json_access::{at, flag, items, number, text};
use crate::kinds::names;
use crate::{FieldError, FieldErrorKind};

/// Validates a new object of one of these kinds.
pub(super) fn create(out: &mut FieldErrors, kind: &str, object: &Value) {
    match kind {
        "Node" => {
            taints(out, object);
            for (index, range) in items(object, "/spec/podCIDRs").iter().filter_map(Value::as_str).enumerate()
            {
                cidr(out, &format!("spec.podCIDRs[{index}]"), range);
            }
        }
        "IngressClass" => {
            controller(out, text(object, "/spec/controller"));
            if let Some(parameters) = at(object, "/spec/parameters") {
                class_parameters(out, parameters);
            }
        }
        "CSIDriver" => lifecycles(out, object),
        "CSINode" => node_drivers(out, object),
        "VolumeAttachment" => attachment(out, object),
        "CertificateSigningRequest" => signing_request(out, object),
        "ValidatingWebhookConfiguration" | "MutatingWebhookConfiguration" => webhooks(out, object),
        "PriorityLevelConfiguration" => priority_level(out, &object["spec"]),
        "FlowSchema" => flow_schema(out, &object["spec"]),
        _ => {}
    }
}

/// Validates the new state of an object of one of these kinds.
pub(super) fn update(out: &mut FieldErrors, kind: &str, new: &Value, old: &Value) {
    create(out, kind, new);
    changes(out, kind, new, old);
}

/// Checks the immutable fields of these kinds.
pub(super) fn changes(out: &mut FieldErrors, kind: &str, new: &Value, old: &Value) {
    match kind {
        "Node" => {
            // kube-apiserver validates taints twice, and reports their problems twice.
            taints(out, new);
            let before = items(old, "/spec/podCIDRs");
            if !before.is_empty() && before != items(new, "/spec/podCIDRs") {
                let detail = "node updates may not change podCIDR except from \"\" to valid";
                forbidden(out, "spec.podCIDRs", detail);
            }
        }
        "IngressClass" => immutable(out, new, old, "/spec/controller", "spec.controller"),
        "CSIDriver" => {
            // The misspelled path is that of k8s.io/kubernetes v1.36.4
            // pkg/apis/storage/validation/validation.go.
            immutable(out, new, old, "/spec/attachRequired", "spec.attachedRequired");
            immutable(out, new, old, "/spec/volumeLifecycleModes", "spec.volumeLifecycleModes");
        }
        "VolumeAttachment" if new.get("spec") != old.get("spec") => {
            let part = |pointer: &str| at(new, pointer).cloned().unwrap_or_default();
            let shown = format!(
                "{{\"Attacher\":{},\"Source\":{{\"PersistentVolumeName\":{},\"InlineVolumeSpec\":{}}},\"NodeName\":{}}}",
                part("/spec/attacher"),
                part("/spec/source/persistentVolumeName"),
                part("/spec/source/inlineVolumeSpec"),
                part("/spec/nodeName")
            );
            out.push(FieldError::with_value("spec", FieldErrorKind::Invalid, shown, "field is immutable"));
        }
        _ => {}
    }
}

fn taints(out: &mut FieldErrors, node: &Value) {
    for (index, taint) in items(node, "/spec/taints").iter().enumerate() {
        // Taints are in `spec`, but `ValidateNode` of k8s.io/kubernetes v1.36.4
        // pkg/apis/core/validation/validation.go reports them below `metadata`.
        let path = format!("metadata.taints[{index}]");
        let (key, value) = (text(taint, "/key"), text(taint, "/value"));
        invalid_string(out, &format!("{path}.key"), key, names::qualified(key));
        invalid_string(out, &format!("{path}.value"), value, names::label_value(value));
        match text(taint, "/effect") {
            "" => required(out, &format!("{path}.effect"), ""),
            "NoSchedule" | "PreferNoSchedule" | "NoExecute" => {}
            other => {
                let known = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
                unsupported(out, &format!("{path}.effect"), &other.into(), &known);
            }
        }
    }
}

fn controller(out: &mut FieldErrors, name: &str) {
    let field = "spec.controller";
    let (domain, path) = name.split_once('/').unwrap_or((name, ""));
    if name.is_empty() {
        required(out, field, "");
    } else if path.is_empty() {
        let detail = "must be a domain-prefixed path (such as \"acme.io/foo\")";
        invalid(out, field, &name.into(), detail);
    } else {
        invalid_string(out, field, domain, names::subdomain(domain));
    }
}

fn class_parameters(out: &mut FieldErrors, parameters: &Value) {
    for key in ["kind", "name"] {
        if text(parameters, &format!("/{key}")).is_empty() {
            required(out, &format!("spec.parameters.{key}"), "");
        }
    }
    let field = "spec.parameters.namespace";
    match (text(parameters, "/scope"), text(parameters, "/namespace")) {
        ("Namespace", "") => required(out, field, "`parameters.scope` is set to 'Namespace'"),
        ("Cluster", namespace) if !namespace.is_empty() => {
            forbidden(out, field, "`parameters.scope` is set to 'Cluster'");
        }
        _ => one_of(out, parameters, "/scope", "spec.parameters.scope", &["Cluster", "Namespace"]),
    }
}

fn lifecycles(out: &mut FieldErrors, driver: &Value) {
    if at(driver, "/spec/fsGroupPolicy").is_some() {
        let known = ["File", "None", "ReadWriteOnceWithFSType"];
        one_of(out, driver, "/spec/fsGroupPolicy", "spec.fsGroupPolicy", &known);
    }
    let mut audiences = HashSet::new();
    for (index, request) in items(driver, "/spec/tokenRequests").iter().enumerate() {
        let audience = text(request, "/audience");
        if !audiences.insert(audience) {
            duplicate(out, &format!("spec.tokenRequests[{index}].audience"), &audience.into());
        }
    }
    let known = ["Persistent", "Ephemeral"];
    for mode in
        items(driver, "/spec/volumeLifecycleModes").iter().filter(|it| !known.iter().any(|one| it == one))
    {
        unsupported(out, "spec.volumeLifecycleModes", mode, &known);
    }
}

fn node_drivers(out: &mut FieldErrors, node: &Value) {
    for (index, driver) in items(node, "/spec/drivers").iter().enumerate() {
        for key in ["name", "nodeID"] {
            if text(driver, &format!("/{key}")).is_empty() {
                required(out, &format!("spec.drivers[{index}].{key}"), "");
            }
        }
    }
}

fn attachment(out: &mut FieldErrors, attachment: &Value) {
    for key in ["attacher", "nodeName"] {
        if text(attachment, &format!("/spec/{key}")).is_empty() {
            required(out, &format!("spec.{key}"), "");
        }
    }
    let node = text(attachment, "/spec/nodeName");
    if !node.is_empty() {
        invalid_string(out, "spec.nodeName", node, names::subdomain(node));
    }
    let has = |key: &str| at(attachment, &format!("/spec/source/{key}")).is_some();
    if has("inlineVolumeSpec") == has("persistentVolumeName") {
        let detail = "must specify exactly one of inlineVolumeSpec and persistentVolumeName";
        required(out, "spec.source", detail);
    }
}

fn signing_request(out: &mut FieldErrors, request: &Value) {
    let encoded = text(request, "/spec/request");
    let pem = STANDARD.decode(encoded).ok().and_then(|it| String::from_utf8(it).ok()).unwrap_or_default();
    // Text before the first block is skipped.
    let block = pem.lines().find(|it| it.starts_with("-----BEGIN "));
    if block.is_none_or(|it| it.trim_end() != "-----BEGIN CERTIFICATE REQUEST-----") {
        invalid(out, "spec.request", &encoded.into(), "PEM block type must be CERTIFICATE REQUEST");
    }
    let signer = text(request, "/spec/signerName");
    let good = signer.split_once('/').is_some_and(|(domain, path)| {
        !path.is_empty() && domain.contains('.') && names::subdomain(domain).is_empty()
    });
    if !good {
        let detail = "must be a fully qualified domain and path of the form 'example.com/signer-name'";
        invalid(out, "spec.signerName", &signer.into(), detail);
    }
    if items(request, "/spec/usages").is_empty() {
        required(out, "spec.usages", "");
    }
}

fn webhooks(out: &mut FieldErrors, configuration: &Value) {
    let mut names_before = HashSet::new();
    for (index, webhook) in items(configuration, "/webhooks").iter().enumerate() {
        let path = format!("webhooks[{index}]");
        let name = text(webhook, "/name");
        if !names_before.insert(name) {
            duplicate(out, &format!("{path}.name"), &name.into());
        }
        if name.split('.').filter(|part| !part.is_empty()).count() < 3 {
            let detail = "should be a domain with at least three segments separated by dots";
            invalid(out, &format!("{path}.name"), &name.into(), detail);
        } else {
            invalid_string(out, &format!("{path}.name"), name, names::subdomain(name));
        }
        let versions = items(webhook, "/admissionReviewVersions");
        if versions.is_empty() {
            let detail = "must specify one of v1, v1beta1";
            required(out, &format!("{path}.admissionReviewVersions"), detail);
        } else if !versions.iter().any(|it| it == "v1" || it == "v1beta1") {
            let shown = &webhook["admissionReviewVersions"];
            let detail = "must include at least one of v1, v1beta1";
            invalid(out, &format!("{path}.admissionReviewVersions"), shown, detail);
        }
        let (url, service) = (at(webhook, "/clientConfig/url"), at(webhook, "/clientConfig/service"));
        if url.is_some() == service.is_some() {
            let detail = "exactly one of url or service is required";
            required(out, &format!("{path}.clientConfig"), detail);
        }
        if at(webhook, "/sideEffects").is_none() {
            required(out, &format!("{path}.sideEffects"), "must specify one of None, NoneOnDryRun");
        } else {
            let known = ["None", "NoneOnDryRun"];
            one_of(out, webhook, "/sideEffects", &format!("{path}.sideEffects"), &known);
        }
        one_of(out, webhook, "/failurePolicy", &format!("{path}.failurePolicy"), &["Fail", "Ignore"]);
        one_of(out, webhook, "/matchPolicy", &format!("{path}.matchPolicy"), &["Equivalent", "Exact"]);
        if let Some(seconds) = number(webhook, "/timeoutSeconds").filter(|it| !(1..=30).contains(it)) {
            let detail = "the timeout value must be between 1 and 30 seconds";
            invalid(out, &format!("{path}.timeoutSeconds"), &seconds.into(), detail);
        }
    }
}

fn priority_level(out: &mut FieldErrors, spec: &Value) {
    match text(spec, "/type") {
        "Limited" if at(spec, "/limited").is_none() => {
            required(out, "spec.limited", "must not be empty when type is Limited");
        }
        "Limited" => match text(spec, "/limited/limitResponse/type") {
            "" => required(out, "spec.limited.limitResponse.type", ""),
            "Reject" | "Queue" => {}
            other => {
                let known = ["Queue", "Reject"];
                unsupported(out, "spec.limited.limitResponse.type", &other.into(), &known);
            }
        },
        "Exempt" => {}
        other => unsupported(out, "spec.type", &other.into(), &["Exempt", "Limited"]),
    }
}

fn flow_schema(out: &mut FieldErrors, spec: &Value) {
    if text(spec, "/priorityLevelConfiguration/name").is_empty() {
        required(out, "spec.priorityLevelConfiguration.name", "must reference a priority level");
    }
    if let Some(kind) = at(spec, "/distinguisherMethod").map(|it| text(it, "/type"))
        && !matches!(kind, "ByNamespace" | "ByUser")
    {
        let shown = format!("{{\"Type\":{}}}", Value::from(kind));
        let detail = "supported values: \"ByNamespace\", \"ByUser\"";
        let field = "spec.distinguisherMethod.type";
        out.push(FieldError::with_value(field, FieldErrorKind::NotSupported, shown, detail));
    }
    for (index, rule) in items(spec, "/rules").iter().enumerate() {
        let path = format!("spec.rules[{index}]");
        if items(rule, "/subjects").is_empty() {
            required(out, &format!("{path}.subjects"), "subjects must contain at least one value");
        }
        if items(rule, "/resourceRules").is_empty() && items(rule, "/nonResourceRules").is_empty() {
            let detail = "at least one of resourceRules and nonResourceRules has to be non-empty";
            required(out, &path, detail);
        }
        for (index, rule) in items(rule, "/resourceRules").iter().enumerate() {
            let path = format!("{path}.resourceRules[{index}]");
            let needed = [
                ("verbs", "verbs must contain at least one value"),
                ("apiGroups", "resource rules must supply at least one api group"),
                ("resources", "resource rules must supply at least one resource"),
            ];
            for (key, detail) in needed {
                if items(rule, &format!("/{key}")).is_empty() {
                    required(out, &format!("{path}.{key}"), detail);
                }
            }
            if items(rule, "/namespaces").is_empty() && !flag(rule, "/clusterScope") {
                let detail = "resource rules that are not cluster scoped must supply at least one namespace";
                required(out, &format!("{path}.namespaces"), detail);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn found(kind: &str, new: &Value, old: Option<&Value>) -> Vec<String> {
        let mut out = FieldErrors::new();
        match old {
            None => create(&mut out, kind, new),
            Some(old) => update(&mut out, kind, new, old),
        }
        out.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn problems_have_the_messages_of_kube_apiserver() {
        for (kind, object, problem) in [
            (
                "IngressClass",
                json!({"spec": {"controller": "noslash"}}),
                "spec.controller: Invalid value: \"noslash\": must be a domain-prefixed path (such as \"acme.io/foo\")",
            ),
            (
                "CSINode",
                json!({"spec": {"drivers": [{"name": "d", "nodeID": ""}]}}),
                "spec.drivers[0].nodeID: Required value",
            ),
            (
                "Node",
                json!({"spec": {"taints": [{"key": "a", "effect": "X"}]}}),
                "metadata.taints[0].effect: Unsupported value: \"X\": supported values: \"NoSchedule\", \
                 \"PreferNoSchedule\", \"NoExecute\"",
            ),
            (
                "PriorityLevelConfiguration",
                json!({"spec": {"type": "Limited", "limited": {}}}),
                "spec.limited.limitResponse.type: Required value",
            ),
        ] {
            assert_eq!(found(kind, &object, None), [problem]);
        }
    }

    #[test]
    fn immutable_fields_cannot_change() {
        let node = |range: &str| json!({"spec": {"podCIDRs": [range]}});
        assert!(found("Node", &node("10.0.0.0/24"), Some(&json!({"spec": {}}))).is_empty());
        assert_eq!(
            found("Node", &node("10.2.0.0/24"), Some(&node("10.1.0.0/24"))),
            ["spec.podCIDRs: Forbidden: node updates may not change podCIDR except from \"\" to valid"]
        );
        let attached = |node: &str| json!({"spec": {"attacher": "a", "nodeName": node, "source": {"persistentVolumeName": "p"}}});
        assert_eq!(
            found("VolumeAttachment", &attached("m"), Some(&attached("n"))),
            ["spec: Invalid value: {\"Attacher\":\"a\",\"Source\":{\"PersistentVolumeName\":\"p\",\
              \"InlineVolumeSpec\":null},\"NodeName\":\"m\"}: field is immutable"]
        );
    }
}
