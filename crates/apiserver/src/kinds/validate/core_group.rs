//! Validation of the kinds of the core group that run no pods.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::check::{
    FieldErrors, address, forbidden, immutable, invalid, invalid_string, not_negative, one_of, port_number,
    required, routable_address, unsupported,
};
use super::infrastructure;
use super::limits;
use super::metadata::finalizer;
use super::pod::node_terms;
use super::volume::{has_source, is_source};
use crate::kinds::json_access::{at, entries, items, number, text};
use crate::kinds::names;
use crate::kinds::quantity::Quantity;
use crate::{FieldError, FieldErrorKind};

/// The number of bytes that all keys of a ConfigMap or Secret may hold together, `MaxSecretSize` of
/// k8s.io/kubernetes v1.36.4 pkg/apis/core/types.go.
const DATA_LIMIT: usize = 1024 * 1024;
const ACCESS_MODES: &[&str] = &["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];
/// The field for the capacity of a volume.
const STORAGE: &str = "spec.capacity[storage]";
const IMMUTABLE: &str = "field is immutable when `immutable` is set";

/// Validates a new object of one of these kinds.
pub(super) fn create(out: &mut FieldErrors, kind: &str, object: &Value) {
    match kind {
        "ConfigMap" => config_map(out, object),
        "Secret" => secret(out, object),
        "Namespace" => {
            for value in items(object, "/spec/finalizers").iter().filter_map(Value::as_str) {
                finalizer(out, value, "spec.finalizers", "spec.finalizers");
            }
        }
        "Event" => super::events::core(out, object),
        "PersistentVolumeClaim" => claim(out, object),
        "PersistentVolume" => volume(out, object),
        "Endpoints" => endpoints(out, object),
        "ResourceQuota" => limits::quota(out, object),
        "LimitRange" => limits::range(out, object),
        _ => infrastructure::create(out, kind, object),
    }
}

/// Validates the new state of an object of one of these kinds.
pub(super) fn update(out: &mut FieldErrors, kind: &str, new: &Value, old: &Value) {
    match kind {
        "ConfigMap" | "Secret" => {
            if kind == "Secret" {
                immutable(out, new, old, "/type", "type");
            }
            if old["immutable"] == true {
                if new["immutable"] != true {
                    forbidden(out, "immutable", IMMUTABLE);
                }
                for key in ["data", "binaryData"] {
                    if new.get(key) != old.get(key) {
                        forbidden(out, key, IMMUTABLE);
                    }
                }
            }
            create(out, kind, new);
        }
        "PersistentVolumeClaim" => {
            create(out, kind, new);
            let fixed = |object: &Value| -> Vec<(String, Value)> {
                entries(object, "/spec")
                    .filter(|(key, _)| match *key {
                        "resources" => text(old, "/status/phase") != "Bound",
                        "volumeName" => !text(old, "/spec/volumeName").is_empty(),
                        key => key != "volumeAttributesClassName",
                    })
                    .map(|(key, value)| (key.to_owned(), value.clone()))
                    .collect()
            };
            if fixed(new) != fixed(old) {
                let detail = "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims";
                forbidden(out, "spec", detail);
            }
            immutable(out, new, old, "/spec/volumeMode", "volumeMode");
        }
        "PersistentVolume" => {
            create(out, kind, new);
            if source(new) != source(old) {
                let detail = "spec.persistentvolumesource is immutable after creation";
                forbidden(out, "spec.persistentvolumesource", detail);
            }
        }
        "ResourceQuota" => limits::quota_update(out, new, old),
        "Node" => infrastructure::update(out, kind, new, old),
        _ => create(out, kind, new),
    }
}

/// Returns the source fields of the spec of a volume.
fn source(volume: &Value) -> Vec<(&str, &Value)> {
    entries(volume, "/spec").filter(|(key, _)| is_source(key)).collect()
}

fn too_large(out: &mut FieldErrors, size: usize) {
    if size > DATA_LIMIT {
        let detail = format!("may not be more than {DATA_LIMIT} bytes");
        out.push(FieldError::new("data", FieldErrorKind::TooLong, &detail));
    }
}

/// Returns the number of bytes that a base64 string decodes to.
fn decoded_size(value: &Value) -> usize {
    value.as_str().map_or(0, |text| text.trim_end_matches('=').len() * 3 / 4)
}

fn config_map(out: &mut FieldErrors, object: &Value) {
    let mut size = 0;
    for (key, value) in entries(object, "/data") {
        invalid_string(out, &format!("data[{key}]"), key, names::config_key(key));
        if object["binaryData"].get(key).is_some() {
            let detail = "duplicate of key present in binaryData";
            invalid(out, &format!("data[{key}]"), &key.into(), detail);
        }
        size += value.as_str().unwrap_or_default().len();
    }
    for (key, value) in entries(object, "/binaryData") {
        invalid_string(out, &format!("binaryData[{key}]"), key, names::config_key(key));
        size += decoded_size(value);
    }
    if size > DATA_LIMIT {
        let detail = format!("may not be more than {DATA_LIMIT} bytes");
        out.push(FieldError::new("", FieldErrorKind::TooLong, &detail));
    }
}

fn secret(out: &mut FieldErrors, object: &Value) {
    let mut size = 0;
    for (key, value) in entries(object, "/data") {
        invalid_string(out, &format!("data[{key}]"), key, names::config_key(key));
        size += decoded_size(value);
    }
    too_large(out, size);
    let has = |key: &str| entries(object, "/data").any(|(known, _)| known == key);
    let keys: &[&str] = match text(object, "/type") {
        "kubernetes.io/tls" => &["tls.crt", "tls.key"],
        "kubernetes.io/dockerconfigjson" => &[".dockerconfigjson"],
        "kubernetes.io/dockercfg" => &[".dockercfg"],
        "kubernetes.io/ssh-auth" => &["ssh-privatekey"],
        "kubernetes.io/basic-auth" if has("username") || has("password") => &[],
        "kubernetes.io/basic-auth" => &["username", "password"],
        "kubernetes.io/service-account-token" => {
            let name = "kubernetes.io/service-account.name";
            if !entries(object, "/metadata/annotations").any(|(key, _)| key == name) {
                required(out, &format!("metadata.annotations[{name}]"), "");
            }
            &[]
        }
        _ => &[],
    };
    for key in keys {
        let value = entries(object, "/data").find(|(known, _)| known == key);
        match value {
            None => required(out, &format!("data[{key}]"), ""),
            Some((_, value)) if key.starts_with(".docker") => docker(out, key, value),
            Some(_) => {}
        }
    }
}

/// Checks that the contents of a registry secret are JSON. The message never contains them.
fn docker(out: &mut FieldErrors, key: &str, value: &Value) {
    let bytes = STANDARD.decode(value.as_str().unwrap_or_default()).unwrap_or_default();
    if serde_json::from_slice::<Value>(&bytes).is_ok() {
        return;
    }
    let why = match bytes.first() {
        None => "unexpected end of JSON input".to_owned(),
        Some(first) if !b"{[\"-0123456789tfn".contains(first) => {
            format!("invalid character '{}' looking for beginning of value", char::from(*first))
        }
        Some(_) => "unexpected end of JSON input".to_owned(),
    };
    invalid(out, &format!("data[{key}]"), &"<secret contents redacted>".into(), &why);
}

fn access_modes(out: &mut FieldErrors, spec: &Value) {
    for mode in items(spec, "/accessModes") {
        if !ACCESS_MODES.iter().any(|known| mode == known) {
            unsupported(out, "spec.accessModes", mode, ACCESS_MODES);
        }
    }
}

/// Validates the claim templates of a new StatefulSet. They are immutable, so updates need not be
/// checked.
pub(super) fn claim_templates(out: &mut FieldErrors, stateful_set: &Value) {
    for (index, template) in items(stateful_set, "/spec/volumeClaimTemplates").iter().enumerate() {
        let mut found = FieldErrors::new();
        claim(&mut found, template);
        out.extend(found.into_iter().map(|it| {
            let field = format!("spec.volumeClaimTemplates[{index}].{}", it.field);
            FieldError { field, ..it }
        }));
    }
}

fn claim(out: &mut FieldErrors, object: &Value) {
    let spec = &object["spec"];
    if items(spec, "/accessModes").is_empty() {
        required(out, "spec.accessModes", "at least 1 access mode is required");
    }
    access_modes(out, spec);
    let modes = items(spec, "/accessModes");
    if modes.len() > 1 && modes.iter().any(|mode| mode == "ReadWriteOncePod") {
        forbidden(out, "spec.accessModes", "may not use ReadWriteOncePod with other access modes");
    }
    let class = text(spec, "/storageClassName");
    if !class.is_empty() {
        invalid_string(out, "spec.storageClassName", class, names::subdomain(class));
    }
    let amount = at(spec, "/resources/requests/storage");
    match amount.and_then(Quantity::read) {
        None => required(out, "spec.resources[storage]", ""),
        Some(amount) if amount.is_negative() || amount.is_zero() => {
            let shown = Value::from(amount.canonical());
            invalid(out, "spec.resources[storage]", &shown, "must be greater than zero");
        }
        Some(_) => {}
    }
    if at(spec, "/volumeMode").is_some() {
        one_of(out, spec, "/volumeMode", "spec.volumeMode", &["Block", "Filesystem"]);
    }
    if let (Some(one), Some(two)) = (at(spec, "/dataSource"), at(spec, "/dataSourceRef"))
        && one != two
    {
        out.push(FieldError::with_value("spec", FieldErrorKind::Invalid, "{}", "must match dataSourceRef"));
    }
    for source in ["dataSource", "dataSourceRef"] {
        let Some(from) = at(spec, &format!("/{source}")) else { continue };
        for key in ["name", "kind"] {
            if text(from, &format!("/{key}")).is_empty() {
                required(out, &format!("spec.{source}.{key}"), "");
            }
        }
    }
}

fn volume(out: &mut FieldErrors, object: &Value) {
    let spec = &object["spec"];
    if items(spec, "/accessModes").is_empty() {
        required(out, "spec.accessModes", "");
    }
    access_modes(out, spec);
    if entries(spec, "/capacity").next().is_none() {
        required(out, "spec.capacity", "");
    }
    if !entries(spec, "/capacity").any(|(key, _)| key == "storage") {
        let shown = at(spec, "/capacity").cloned().unwrap_or_default();
        unsupported(out, "spec.capacity", &shown, &["storage"]);
    }
    if let Some(amount) = at(spec, "/capacity/storage").and_then(Quantity::read) {
        if amount.is_negative() {
            let detail = "must be a valid resource quantity";
            out.push(FieldError::with_value(STORAGE, FieldErrorKind::Invalid, amount.units(), detail));
        }
        if amount.is_negative() || amount.is_zero() {
            invalid(out, STORAGE, &amount.canonical().into(), "must be greater than zero");
        }
    }
    let path = text(spec, "/hostPath/path");
    if path.split('/').any(|part| part == "..") {
        invalid(out, "spec.hostPath.path", &path.into(), "must not contain '..'");
    }
    let sources: Vec<&str> = entries(spec, "").map(|(key, _)| key).filter(|key| is_source(key)).collect();
    if !has_source(spec) {
        required(out, "spec", "must specify a volume type");
    } else {
        for more in sources.iter().skip(1) {
            forbidden(out, &format!("spec.{more}"), "may not specify more than 1 volume type");
        }
    }
    if let Some(nodes) = at(spec, "/nodeAffinity/required") {
        node_terms(out, nodes, "spec.nodeAffinity.required");
    }
    let policies = ["Delete", "Recycle", "Retain"];
    one_of(out, spec, "/persistentVolumeReclaimPolicy", "spec.persistentVolumeReclaimPolicy", &policies);
}

fn endpoints(out: &mut FieldErrors, object: &Value) {
    for (index, subset) in items(object, "/subsets").iter().enumerate() {
        let path = format!("subsets[{index}]");
        if items(subset, "/addresses").is_empty() && items(subset, "/notReadyAddresses").is_empty() {
            required(out, &path, "must specify `addresses` or `notReadyAddresses`");
        }
        for list in ["addresses", "notReadyAddresses"] {
            for (index, one) in items(subset, &format!("/{list}")).iter().enumerate() {
                let node = text(one, "/nodeName");
                if !node.is_empty() {
                    let field = format!("{path}.{list}[{index}].nodeName");
                    invalid_string(out, &field, node, names::subdomain(node));
                }
                let field = format!("{path}.{list}[{index}].ip");
                let ip = text(one, "/ip");
                let before = out.count();
                address(out, &field, ip);
                if out.count() > before {
                    invalid(out, &field, &ip.into(), "must be a valid IP address");
                }
                routable_address(out, &field, ip);
            }
        }
        let ports = items(subset, "/ports");
        for (index, port) in ports.iter().enumerate() {
            let path = format!("{path}.ports[{index}]");
            match text(port, "/name") {
                "" if ports.len() > 1 => required(out, &format!("{path}.name"), ""),
                "" => {}
                name => invalid_string(out, &format!("{path}.name"), name, names::label(name)),
            }
            port_number(out, &format!("{path}.port"), number(port, "/port").unwrap_or(0));
            one_of(out, port, "/protocol", &format!("{path}.protocol"), &["SCTP", "TCP", "UDP"]);
        }
    }
}

/// Validates a lease.
pub(super) fn lease(out: &mut FieldErrors, object: &Value) {
    if let Some(seconds) = number(object, "/spec/leaseDurationSeconds").filter(|it| *it <= 0) {
        invalid(out, "spec.leaseDurationSeconds", &seconds.into(), "must be greater than 0");
    }
    not_negative(out, object, "/spec/leaseTransitions", "spec.leaseTransitions");
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn data_is_limited_to_one_mebibyte() {
        let problems = |size: usize| {
            let mut out = FieldErrors::new();
            config_map(&mut out, &json!({"data": {"k": "v".repeat(size)}}));
            out
        };
        assert!(problems(DATA_LIMIT).is_empty());
        assert_eq!(problems(DATA_LIMIT + 1)[0].message, "Too long: may not be more than 1048576 bytes");
    }

    #[test]
    fn the_message_for_an_invalid_secret_does_not_contain_it() {
        let mut out = FieldErrors::new();
        let data = STANDARD.encode("{\"auths\": hunter2");
        secret(&mut out, &json!({"type": "kubernetes.io/dockercfg", "data": {".dockercfg": data}}));
        assert_eq!(out.len(), 1);
        assert!(!out[0].to_string().contains("hunter2") && out[0].to_string().contains("redacted"));
    }
}
