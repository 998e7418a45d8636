//! Validation of containers: image, ports, variables, mounts, probes and resources.

use std::collections::HashSet;

use serde_json::Value;

use super::resources::is_overcommitted;
use crate::kinds::json_access::{at, entries, items, number, text};
use crate::kinds::names;
use crate::kinds::quantity::Quantity;
use crate::kinds::validate::check::{
    FieldErrors, duplicate, forbidden, invalid, invalid_string, not_negative, one_of, port_number, required,
    unsupported,
};
use crate::{FieldError, FieldErrorKind};

const PROTOCOLS: &[&str] = &["SCTP", "TCP", "UDP"];
const VARIABLE_SOURCES: &[&str] =
    &["fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef"];
const VARIABLE_FIELDS: &[&str] = &[
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];
const STANDARD_RESOURCES: &[&str] = &["cpu", "memory", "ephemeral-storage"];

/// The parts of a pod that its containers refer to.
pub(super) struct PodContext<'a> {
    /// The names of the volumes of the pod.
    pub volumes: &'a HashSet<&'a str>,
    /// True if the pod uses the network of its node.
    pub host_network: bool,
}

/// Checks the containers of one list. `init` is true for init containers.
pub(super) fn containers<'a>(
    out: &mut FieldErrors,
    list: &'a [Value],
    field: &str,
    init: bool,
    context: &PodContext<'_>,
    seen: &mut HashSet<&'a str>,
) {
    for (index, container) in list.iter().enumerate() {
        let path = format!("{field}[{index}]");
        let name = text(container, "/name");
        if name.is_empty() {
            required(out, &format!("{path}.name"), "");
        } else {
            invalid_string(out, &format!("{path}.name"), name, names::label(name));
            if !seen.insert(name) {
                duplicate(out, &format!("{path}.name"), &name.into());
            }
        }
        one(out, container, &path, init, context);
    }
}

fn one(out: &mut FieldErrors, container: &Value, path: &str, init: bool, context: &PodContext<'_>) {
    let image = text(container, "/image");
    if image.is_empty() {
        required(out, &format!("{path}.image"), "");
    } else if image.trim() != image {
        invalid(out, &format!("{path}.image"), &image.into(), "must not have leading or trailing whitespace");
    }
    let policies = ["Always", "IfNotPresent", "Never"];
    one_of(out, container, "/imagePullPolicy", &format!("{path}.imagePullPolicy"), &policies);
    let ends = ["File", "FallbackToLogsOnError"];
    one_of(out, container, "/terminationMessagePolicy", &format!("{path}.terminationMessagePolicy"), &ends);
    ports(out, container, path, context.host_network);
    variables(out, container, path);
    mounts(out, container, path, context.volumes);
    resources(out, container, path, resource_name);
    let plain_init = init && text(container, "/restartPolicy") != "Always";
    for kind in ["livenessProbe", "readinessProbe", "startupProbe", "lifecycle"] {
        if plain_init && at(container, &format!("/{kind}")).is_some() {
            let detail = "may not be set for init containers without restartPolicy=Always";
            forbidden(out, &format!("{path}.{kind}"), detail);
        }
    }
    if plain_init {
        return;
    }
    for kind in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if let Some(found) = at(container, &format!("/{kind}")) {
            probe(out, found, &format!("{path}.{kind}"), kind != "readinessProbe");
        }
    }
    for hook in ["postStart", "preStop"] {
        if let Some(found) = at(container, &format!("/lifecycle/{hook}")) {
            let kinds = ["exec", "httpGet", "tcpSocket", "sleep"];
            handler(out, found, &format!("{path}.lifecycle.{hook}"), &kinds);
        }
    }
}

fn ports(out: &mut FieldErrors, container: &Value, path: &str, host_network: bool) {
    let mut seen = HashSet::new();
    for (index, port) in items(container, "/ports").iter().enumerate() {
        let path = format!("{path}.ports[{index}]");
        let name = text(port, "/name");
        if !name.is_empty() {
            let reasons = names::port_name(name);
            if reasons.is_empty() && !seen.insert(name) {
                duplicate(out, &format!("{path}.name"), &name.into());
            }
            invalid_string(out, &format!("{path}.name"), name, reasons);
        }
        let inside = number(port, "/containerPort").unwrap_or(0);
        if inside == 0 {
            required(out, &format!("{path}.containerPort"), "");
        } else {
            port_number(out, &format!("{path}.containerPort"), inside);
        }
        if let Some(outside) = number(port, "/hostPort").filter(|it| *it != 0) {
            port_number(out, &format!("{path}.hostPort"), outside);
            if host_network && outside != inside {
                let detail = "must match `containerPort` when `hostNetwork` is true";
                invalid(out, &format!("{path}.hostPort"), &outside.into(), detail);
            }
        }
        one_of(out, port, "/protocol", &format!("{path}.protocol"), PROTOCOLS);
    }
}

fn variables(out: &mut FieldErrors, container: &Value, path: &str) {
    for (index, variable) in items(container, "/env").iter().enumerate() {
        let path = format!("{path}.env[{index}]");
        let name = text(variable, "/name");
        if name.is_empty() {
            required(out, &format!("{path}.name"), "");
        } else {
            invalid_string(out, &format!("{path}.name"), name, names::environment(name));
        }
        if let Some(source) = at(variable, "/valueFrom") {
            let filled = !text(variable, "/value").is_empty();
            variable_source(out, source, filled, &format!("{path}.valueFrom"));
        }
    }
    for (index, source) in items(container, "/envFrom").iter().enumerate() {
        let kinds: Vec<&str> =
            ["configMapRef", "secretRef"].into_iter().filter(|kind| source.get(*kind).is_some()).collect();
        if kinds.is_empty() {
            // Without the index of the source, as in `ValidateEnvFrom` of k8s.io/kubernetes v1.36.4
            // pkg/apis/core/validation/validation.go.
            let detail = "must specify one of: `configMapRef` or `secretRef`";
            invalid(out, &format!("{path}.envFrom"), &"".into(), detail);
        } else if kinds.len() > 1 {
            let detail = "may not have more than one field specified at a time";
            invalid(out, &format!("{path}.envFrom"), &"".into(), detail);
        }
        for kind in kinds {
            let field = format!("{path}.envFrom[{index}].{kind}.name");
            match text(source, &format!("/{kind}/name")) {
                "" => required(out, &field, ""),
                name => invalid_string(out, &field, name, names::subdomain(name)),
            }
        }
    }
}

fn variable_source(out: &mut FieldErrors, source: &Value, filled: bool, path: &str) {
    let kinds: Vec<&str> =
        VARIABLE_SOURCES.iter().copied().filter(|kind| at(source, &format!("/{kind}")).is_some()).collect();
    if kinds.is_empty() {
        let detail = "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`";
        invalid(out, path, &"".into(), detail);
    } else if filled {
        invalid(out, path, &"".into(), "may not be specified when `value` is not empty");
    } else if kinds.len() > 1 {
        invalid(out, path, &"".into(), "may not have more than one field specified at a time");
    }
    for kind in kinds {
        let path = format!("{path}.{kind}");
        match kind {
            "fieldRef" => field_ref(out, text(source, "/fieldRef/fieldPath"), &format!("{path}.fieldPath")),
            "configMapKeyRef" | "secretKeyRef" => {
                let name = text(source, &format!("/{kind}/name"));
                invalid_string(out, &format!("{path}.name"), name, names::subdomain(name));
                match text(source, &format!("/{kind}/key")) {
                    "" => required(out, &format!("{path}.key"), ""),
                    key => invalid_string(out, &format!("{path}.key"), key, names::config_key(key)),
                }
            }
            _ => {}
        }
    }
}

fn field_ref(out: &mut FieldErrors, field: &str, path: &str) {
    if field.is_empty() {
        return required(out, path, "");
    }
    let subscript = ["metadata.labels['", "metadata.annotations['"];
    if VARIABLE_FIELDS.contains(&field) || subscript.iter().any(|it| field.starts_with(it)) {
        return;
    }
    let elsewhere =
        ["metadata.labels", "metadata.annotations", "status.phase", "spec.host", "spec.restartPolicy"];
    if elsewhere.contains(&field) {
        return unsupported(out, path, &field.into(), VARIABLE_FIELDS);
    }
    let detail = format!("error converting fieldPath: field label not supported: {field}");
    invalid(out, path, &field.into(), &detail);
}

fn mounts(out: &mut FieldErrors, container: &Value, path: &str, volumes: &HashSet<&str>) {
    let mut seen = HashSet::new();
    for (index, mount) in items(container, "/volumeMounts").iter().enumerate() {
        let one = format!("{path}.volumeMounts[{index}]");
        let name = text(mount, "/name");
        if name.is_empty() {
            required(out, &format!("{one}.name"), "");
        }
        if !volumes.contains(name) {
            let field = format!("{one}.name");
            out.push(FieldError::with_value(field, FieldErrorKind::NotFound, Value::from(name), ""));
        }
        let place = text(mount, "/mountPath");
        if place.is_empty() {
            required(out, &format!("{one}.mountPath"), "");
        }
        if !seen.insert(place) {
            invalid(out, &format!("{one}.mountPath"), &place.into(), "must be unique");
        }
        for key in ["subPath", "subPathExpr"] {
            let part = text(mount, &format!("/{key}"));
            // Without the index of the mount, as in `ValidateVolumeMounts` of k8s.io/kubernetes
            // v1.36.4 pkg/apis/core/validation/validation.go.
            let field = format!("{path}.volumeMounts.{key}");
            if part.starts_with('/') {
                invalid(out, &field, &part.into(), "must be a relative path");
            }
            if part.split('/').any(|segment| segment == "..") {
                invalid(out, &field, &part.into(), "must not contain '..'");
            }
        }
    }
}

fn probe(out: &mut FieldErrors, probe: &Value, path: &str, once: bool) {
    handler(out, probe, path, &["exec", "httpGet", "tcpSocket", "grpc"]);
    for key in
        ["initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"]
    {
        not_negative(out, probe, &format!("/{key}"), &format!("{path}.{key}"));
    }
    if let Some(times) = at(probe, "/successThreshold").filter(|times| once && times.as_i64() != Some(1)) {
        invalid(out, &format!("{path}.successThreshold"), times, "must be 1");
    }
}

fn handler(out: &mut FieldErrors, handler: &Value, path: &str, kinds: &[&str]) {
    let mut found = false;
    for kind in kinds.iter().copied() {
        let Some(action) = at(handler, &format!("/{kind}")) else { continue };
        let path = format!("{path}.{kind}");
        if found {
            forbidden(out, &path, "may not specify more than 1 handler type");
            continue;
        }
        found = true;
        match kind {
            "exec" if items(action, "/command").is_empty() => required(out, &format!("{path}.command"), ""),
            "httpGet" => {
                if text(action, "/path").is_empty() {
                    required(out, &format!("{path}.path"), "");
                }
                port_reference(out, action, &format!("{path}.port"));
                one_of(out, action, "/scheme", &format!("{path}.scheme"), &["HTTP", "HTTPS"]);
            }
            "tcpSocket" => port_reference(out, action, &format!("{path}.port")),
            "grpc" => port_number(out, &format!("{path}.port"), number(action, "/port").unwrap_or(0)),
            _ => {}
        }
    }
    if !found {
        required(out, path, "must specify a handler type");
    }
}

fn port_reference(out: &mut FieldErrors, action: &Value, field: &str) {
    match at(action, "/port") {
        Some(Value::String(name)) => invalid_string(out, field, name, names::port_name(name)),
        port => port_number(out, field, port.and_then(Value::as_i64).unwrap_or(0)),
    }
}

/// Checks the requests and limits of a container or a pod. `check_name` checks the name of a
/// resource.
pub(super) fn resources(
    out: &mut FieldErrors,
    container: &Value,
    path: &str,
    check_name: impl Fn(&mut FieldErrors, &str, &str),
) {
    let path = format!("{path}.resources");
    for list in ["limits", "requests"] {
        for (name, value) in entries(container, &format!("/resources/{list}")) {
            let field = format!("{path}.{list}[{name}]");
            check_name(out, name, &field);
            let Some(amount) = Quantity::read(value) else { continue };
            let shown = Value::from(amount.canonical());
            if amount.is_negative() {
                invalid(out, &field, &shown, "must be greater than or equal to 0");
            }
            if name.contains('/') && !amount.is_whole() {
                invalid(out, &field, &shown, "must be an integer");
            }
        }
    }
    for (name, value) in entries(container, "/resources/requests") {
        let limit = container["resources"]["limits"].get(name);
        let overcommits = is_overcommitted(name);
        let Some(request) = Quantity::read(value) else { continue };
        match limit.and_then(Quantity::read) {
            Some(limit) => {
                let shown = Value::from(request.canonical());
                if !overcommits && !request.equals(limit) {
                    let detail = format!("must be equal to {name} limit of {}", limit.canonical());
                    invalid(out, &format!("{path}.requests"), &shown, &detail);
                } else if overcommits && request.exceeds(limit) {
                    let detail =
                        format!("must be less than or equal to {name} limit of {}", limit.canonical());
                    invalid(out, &format!("{path}.requests"), &shown, &detail);
                }
            }
            None if !overcommits => {
                required(
                    out,
                    &format!("{path}.limits"),
                    "Limit must be set for non overcommitable resources",
                );
            }
            None => {}
        }
    }
}

fn resource_name(out: &mut FieldErrors, name: &str, field: &str) {
    invalid_string(out, field, name, names::qualified(name));
    if name.contains('/') || STANDARD_RESOURCES.contains(&name) || name.starts_with("hugepages-") {
        return;
    }
    invalid(out, field, &name.into(), "must be a standard resource type or fully qualified");
    invalid(out, field, &name.into(), "must be a standard resource for containers");
}
