//! Validation of the spec of pods, and of pod templates in other kinds.

use std::collections::HashSet;

use serde_json::Value;

use super::container::{PodContext, containers, resources};
use super::resources::{is_huge_pages, is_of_pods, of_containers};
use super::sysctl::sysctls;
use crate::kinds::json_access::{at, flag, items, number, text};
use crate::kinds::names;
use crate::kinds::resource_list::ResourceList;
use crate::kinds::validate::check::{
    FieldErrors, address, duplicate, forbidden, invalid, invalid_string, one_of, required, unsupported,
};
use crate::kinds::validate::metadata::labels;
use crate::kinds::validate::selector;
use crate::kinds::validate::volume::volumes;

/// Validates a pod spec at this path.
pub(super) fn spec(out: &mut FieldErrors, spec: &Value, field: &str) {
    let known = volumes(out, items(spec, "/volumes"), &format!("{field}.volumes"));
    let pod_context = PodContext { volumes: &known, host_network: flag(spec, "/hostNetwork") };
    let list = items(spec, "/containers");
    if list.is_empty() {
        required(out, &format!("{field}.containers"), "");
    }
    let mut seen = HashSet::new();
    containers(out, list, &format!("{field}.containers"), false, &pod_context, &mut seen);
    let init = items(spec, "/initContainers");
    containers(out, init, &format!("{field}.initContainers"), true, &pod_context, &mut seen);
    pod_level_resources(out, spec, field);
    one_of(out, spec, "/restartPolicy", &format!("{field}.restartPolicy"), &["Always", "OnFailure", "Never"]);
    let policies = ["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"];
    one_of(out, spec, "/dnsPolicy", &format!("{field}.dnsPolicy"), &policies);
    labels(out, spec, "/nodeSelector", &format!("{field}.nodeSelector"));
    sysctls(out, spec, field);
    name_fields(out, spec, field);
    if let Some(limit) =
        number(spec, "/activeDeadlineSeconds").filter(|it| !(1..=i64::from(i32::MAX)).contains(it))
    {
        let detail = "must be between 1 and 2147483647, inclusive";
        invalid(out, &format!("{field}.activeDeadlineSeconds"), &limit.into(), detail);
    }
    for (index, gate) in items(spec, "/readinessGates").iter().enumerate() {
        let kind = text(gate, "/conditionType");
        invalid_string(
            out,
            &format!("{field}.readinessGates[{index}].conditionType"),
            kind,
            names::qualified(kind),
        );
    }
    scheduling_gates(out, spec, field);
    host_settings(out, spec, field);
    tolerations(out, spec, field);
    spread(out, spec, field);
    affinity(out, spec, field);
}

/// Checks the resources at the level of the pod: they are at least those of its containers
/// together, and the limits at least those of each container (`validatePodResources` in
/// k8s.io/kubernetes v1.36.4 pkg/apis/core/validation/validation.go).
fn pod_level_resources(out: &mut FieldErrors, spec: &Value, field: &str) {
    if at(spec, "/resources").is_none() {
        return;
    }
    if at(spec, "/resources/claims").is_some() {
        let detail = "claims may not be set for Resources at pod-level";
        forbidden(out, &format!("{field}.resources.claims"), detail);
    }
    resources(out, spec, field, |out, name, field| match names::qualified(name) {
        problems if !problems.is_empty() => invalid_string(out, field, name, problems),
        _ if is_of_pods(name) => {}
        _ if name.contains('/') || name == "ephemeral-storage" => {
            unsupported(out, field, &name.into(), &["cpu", "hugepages-", "memory"]);
        }
        _ => invalid(out, field, &name.into(), "must be a standard resource type or fully qualified"),
    });
    let (containers, init) = (items(spec, "/containers"), items(spec, "/initContainers"));
    for side in ["requests", "limits"] {
        let pointer = format!("/resources/{side}");
        let set = ResourceList::at(spec, &pointer);
        let together = of_containers(containers, init, |it| ResourceList::at(it, &pointer));
        // The limits of containers may be more than that of the pod, except for huge pages.
        for (name, amount) in together.iter().filter(|(name, _)| side == "requests" || is_huge_pages(name)) {
            if let Some(own) = set.get(name).filter(|own| amount.exceeds(*own)) {
                let detail = format!(
                    "must be greater than or equal to aggregate container {side} of {}",
                    amount.canonical()
                );
                let field = format!("{field}.resources.{side}[{name}]");
                invalid(out, &field, &own.canonical().into(), &detail);
            }
        }
    }
    let limits = ResourceList::at(spec, "/resources/limits");
    for (index, container) in containers.iter().enumerate() {
        for (name, amount) in ResourceList::at(container, "/resources/limits").iter() {
            if let Some(own) = limits.get(name).filter(|own| amount.exceeds(*own)) {
                let detail = format!("must be less than or equal to pod limits of {}", own.canonical());
                let field = format!("{field}.resources.containers[{index}][{name}].limits");
                invalid(out, &field, &amount.canonical().into(), &detail);
            }
        }
    }
}

fn affinity(out: &mut FieldErrors, spec: &Value, field: &str) {
    const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
    const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";
    let weight = |out: &mut FieldErrors, term: &Value, path: &str| {
        let weight = number(term, "/weight").unwrap_or(0);
        if !(1..=100).contains(&weight) {
            invalid(out, &format!("{path}.weight"), &weight.into(), "must be in the range 1-100");
        }
    };
    let to_nodes = &spec["affinity"]["nodeAffinity"];
    if let Some(terms) = at(to_nodes, &format!("/{REQUIRED}")) {
        node_terms(out, terms, &format!("{field}.affinity.nodeAffinity.{REQUIRED}"));
    }
    for (index, term) in items(to_nodes, &format!("/{PREFERRED}")).iter().enumerate() {
        let path = format!("{field}.affinity.nodeAffinity.{PREFERRED}[{index}]");
        weight(out, term, &path);
        node_term(out, &term["preference"], &format!("{path}.preference"));
    }
    for key in ["podAffinity", "podAntiAffinity"] {
        let (to_pods, path) = (&spec["affinity"][key], format!("{field}.affinity.{key}"));
        for (index, term) in items(to_pods, &format!("/{REQUIRED}")).iter().enumerate() {
            pod_term(out, term, &format!("{path}.{REQUIRED}[{index}]"));
        }
        for (index, term) in items(to_pods, &format!("/{PREFERRED}")).iter().enumerate() {
            let path = format!("{path}.{PREFERRED}[{index}]");
            weight(out, term, &path);
            pod_term(out, &term["podAffinityTerm"], &format!("{path}.podAffinityTerm"));
        }
    }
}

/// Checks a node selector: it needs at least one term, and each must be valid.
pub(in crate::kinds) fn node_terms(out: &mut FieldErrors, selector: &Value, field: &str) {
    let terms = items(selector, "/nodeSelectorTerms");
    if terms.is_empty() {
        let field = format!("{field}.nodeSelectorTerms");
        required(out, &field, "must have at least one node selector term");
    }
    for (index, term) in terms.iter().enumerate() {
        node_term(out, term, &format!("{field}.nodeSelectorTerms[{index}]"));
    }
}

fn node_term(out: &mut FieldErrors, term: &Value, field: &str) {
    for (index, expression) in items(term, "/matchExpressions").iter().enumerate() {
        let path = format!("{field}.matchExpressions[{index}]");
        let values = items(expression, "/values");
        match text(expression, "/operator") {
            "In" | "NotIn" if values.is_empty() => {
                let detail = "must be specified when `operator` is 'In' or 'NotIn'";
                required(out, &format!("{path}.values"), detail);
            }
            "Exists" | "DoesNotExist" if !values.is_empty() => {
                let detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
                forbidden(out, &format!("{path}.values"), detail);
            }
            "Gt" | "Lt" if values.len() != 1 => {
                let detail = "must be specified single value when `operator` is 'Lt' or 'Gt'";
                required(out, &format!("{path}.values"), detail);
            }
            "In" | "NotIn" | "Exists" | "DoesNotExist" | "Gt" | "Lt" => {}
            other => {
                let detail = "not a valid selector operator";
                invalid(out, &format!("{path}.operator"), &other.into(), detail);
            }
        }
        let key = text(expression, "/key");
        invalid_string(out, &format!("{path}.key"), key, names::qualified(key));
        for (index, value) in values.iter().filter_map(Value::as_str).enumerate() {
            invalid_string(out, &format!("{path}.values[{index}]"), value, names::label_value(value));
        }
    }
}

fn pod_term(out: &mut FieldErrors, term: &Value, field: &str) {
    for key in ["labelSelector", "namespaceSelector"] {
        if let Some(chosen) = at(term, &format!("/{key}")) {
            selector::check(out, chosen, &format!("{field}.{key}"));
        }
    }
    let (key, field) = (text(term, "/topologyKey"), format!("{field}.topologyKey"));
    if key.is_empty() {
        required(out, &field, "can not be empty");
    }
    invalid_string(out, &field, key, names::qualified(key));
}

fn scheduling_gates(out: &mut FieldErrors, spec: &Value, field: &str) {
    let gates = items(spec, "/schedulingGates");
    let mut names_before = HashSet::new();
    for (index, gate) in gates.iter().enumerate() {
        let (path, name) = (format!("{field}.schedulingGates[{index}]"), text(gate, "/name"));
        invalid_string(out, &path, name, names::qualified(name));
        if !names_before.insert(name) {
            duplicate(out, &path, &name.into());
        }
    }
}

/// Checks the settings that concern the host: user and group ids, processes, host aliases,
/// operating system.
fn host_settings(out: &mut FieldErrors, spec: &Value, field: &str) {
    let context = format!("{field}.securityContext");
    for key in ["runAsUser", "runAsGroup", "fsGroup"] {
        if let Some(id) = number(spec, &format!("/securityContext/{key}")) {
            user_or_group_id(out, &format!("{context}.{key}"), id);
        }
    }
    for (index, id) in items(spec, "/securityContext/supplementalGroups").iter().enumerate() {
        user_or_group_id(out, &format!("{context}.supplementalGroups[{index}]"), id.as_i64().unwrap_or(0));
    }
    if flag(spec, "/shareProcessNamespace") && flag(spec, "/hostPID") {
        let detail = "ShareProcessNamespace and HostPID cannot both be enabled";
        invalid(out, &format!("{context}.shareProcessNamespace"), &true.into(), detail);
    }
    for (index, alias) in items(spec, "/hostAliases").iter().enumerate() {
        let path = format!("{field}.hostAliases[{index}]");
        address(out, &format!("{path}.ip"), text(alias, "/ip"));
        for (index, name) in items(alias, "/hostnames").iter().filter_map(Value::as_str).enumerate() {
            invalid_string(out, &format!("{path}.hostnames[{index}]"), name, names::subdomain(name));
        }
    }
    if at(spec, "/os").is_some() {
        one_of(out, spec, "/os/name", &format!("{field}.os"), &["linux", "windows"]);
    }
}

/// Checks that a number is a valid user or group id.
fn user_or_group_id(out: &mut FieldErrors, field: &str, id: i64) {
    if !(0..=i64::from(i32::MAX)).contains(&id) {
        invalid(out, field, &id.into(), "must be between 0 and 2147483647, inclusive");
    }
}

fn name_fields(out: &mut FieldErrors, spec: &Value, field: &str) {
    type Rule = fn(&str) -> Vec<String>;
    let rules: [(&str, Rule); 5] = [
        ("nodeName", names::subdomain),
        ("serviceAccountName", names::subdomain),
        ("hostname", names::label),
        ("subdomain", names::label),
        ("priorityClassName", names::subdomain),
    ];
    for (key, rule) in rules {
        let name = text(spec, &format!("/{key}"));
        if !name.is_empty() {
            invalid_string(out, &format!("{field}.{key}"), name, rule(name));
        }
    }
}

/// Checks tolerations, of a pod or of a runtime class.
pub(in crate::kinds) fn tolerations(out: &mut FieldErrors, spec: &Value, field: &str) {
    for (index, toleration) in items(spec, "/tolerations").iter().enumerate() {
        let path = format!("{field}.tolerations[{index}]");
        let (key, operator) = (text(toleration, "/key"), text(toleration, "/operator"));
        let (value, effect) = (text(toleration, "/value"), text(toleration, "/effect"));
        if !key.is_empty() {
            invalid_string(out, &format!("{path}.key"), key, names::qualified(key));
        } else if operator != "Exists" {
            let detail =
                "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
            invalid(out, &format!("{path}.operator"), &operator.into(), detail);
        }
        if at(toleration, "/tolerationSeconds").is_some() && effect != "NoExecute" {
            let detail = "effect must be 'NoExecute' when `tolerationSeconds` is set";
            invalid(out, &format!("{path}.effect"), &effect.into(), detail);
        }
        match operator {
            "" | "Equal" => {
                invalid_string(out, &format!("{path}.operator"), value, names::label_value(value))
            }
            "Exists" if !value.is_empty() => {
                let detail = "value must be empty when `operator` is 'Exists'";
                invalid(out, &format!("{path}.operator"), &value.into(), detail);
            }
            "Exists" => {}
            other => unsupported(out, &format!("{path}.operator"), &other.into(), &["Equal", "Exists"]),
        }
        let effects = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
        if !effect.is_empty() && !effects.contains(&effect) {
            unsupported(out, &format!("{path}.effect"), &effect.into(), &effects);
        }
    }
}

fn spread(out: &mut FieldErrors, spec: &Value, field: &str) {
    for (index, constraint) in items(spec, "/topologySpreadConstraints").iter().enumerate() {
        let path = format!("{field}.topologySpreadConstraints[{index}]");
        let skew = number(constraint, "/maxSkew").unwrap_or(0);
        if skew <= 0 {
            invalid(out, &format!("{path}.maxSkew"), &skew.into(), "must be greater than zero");
        }
        if text(constraint, "/topologyKey").is_empty() {
            required(out, &format!("{path}.topologyKey"), "can not be empty");
        }
        let actions = ["DoNotSchedule", "ScheduleAnyway"];
        one_of(out, constraint, "/whenUnsatisfiable", &format!("{path}.whenUnsatisfiable"), &actions);
        if let Some(chosen) = at(constraint, "/labelSelector") {
            selector::check(out, chosen, &format!("{path}.labelSelector"));
        }
    }
}
