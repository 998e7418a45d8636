//! Validation of the kernel parameters (sysctls) of a pod.

use std::collections::HashSet;

use serde_json::Value;

use crate::kinds::json_access::{flag, items, text};
use crate::kinds::validate::check::{FieldErrors, duplicate, invalid, required};

const SHAPE: &str = r"must have at most 253 characters and match regex ^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$";

/// Checks the parameters in the security context of a pod.
pub(super) fn sysctls(out: &mut FieldErrors, spec: &Value, field: &str) {
    let mut seen = HashSet::new();
    for (index, it) in items(spec, "/securityContext/sysctls").iter().enumerate() {
        let (name, field) = (text(it, "/name"), format!("{field}.securityContext.sysctls[{index}].name"));
        if name.is_empty() {
            required(out, &field, "");
        } else if !is_name(name) {
            invalid(out, &field, &name.into(), SHAPE);
        } else if seen.contains(name) {
            duplicate(out, &field, &name.into());
        }
        seen.insert(name);
        let shared = match host_namespace(name) {
            HostNamespace::Network => "hostNetwork",
            HostNamespace::Ipc => "hostIPC",
            HostNamespace::Other => continue,
        };
        if flag(spec, &format!("/{shared}")) {
            let detail = format!("may not be specified when '{shared}' is true");
            invalid(out, &field, &name.into(), &detail);
        }
    }
}

fn is_name(name: &str) -> bool {
    let lower = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let is_part = |part: &str| {
        let bytes = part.as_bytes();
        bytes.first().is_some_and(|it| lower(*it))
            && bytes.last().is_some_and(|it| lower(*it))
            && bytes.iter().all(|it| lower(*it) || b"-_".contains(it))
    };
    name.len() <= 253 && name.split(['.', '/']).all(is_part)
}

/// The namespace of the host that a parameter belongs to.
enum HostNamespace {
    Network,
    Ipc,
    Other,
}

fn host_namespace(name: &str) -> HostNamespace {
    // The separator that comes first determines the notation.
    let name = match name.find(['.', '/']) {
        Some(at) if name[at..].starts_with('/') => name.replace('/', "."),
        _ => name.to_owned(),
    };
    if name.starts_with("net.") {
        HostNamespace::Network
    } else if name == "kernel.sem"
        || ["kernel.shm", "kernel.msg", "fs.mqueue."].iter().any(|it| name.starts_with(it))
    {
        HostNamespace::Ipc
    } else {
        HostNamespace::Other
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn wrong(spec: Value) -> Vec<String> {
        let mut out = FieldErrors::default();
        sysctls(&mut out, &spec, "spec");
        let shortened = |it: &crate::FieldError| {
            it.to_string().replace("spec.securityContext.sysctls", "").replace(SHAPE, "…")
        };
        out.iter().map(shortened).collect()
    }

    #[test]
    fn parameters_need_unique_names_and_a_namespace_of_the_pod() {
        let list =
            |names: &[&str]| names.iter().map(|it| json!({ "name": it, "value": "1" })).collect::<Value>();
        let names =
            list(&["foo-", "kernel.shmmax", "kernel.shmmax", "", "kernel/shm_rmid_forced", "net.x", "bar.."]);
        assert_eq!(
            wrong(json!({ "hostNetwork": true, "securityContext": { "sysctls": names } })),
            [
                "[0].name: Invalid value: \"foo-\": …",
                "[2].name: Duplicate value: \"kernel.shmmax\"",
                "[3].name: Required value",
                "[5].name: Invalid value: \"net.x\": may not be specified when 'hostNetwork' is true",
                "[6].name: Invalid value: \"bar..\": …",
            ]
        );
        let names = list(&["kernel.sem", "net.ipv4.x", "fs.mqueue.x", "kernel/shm_rmid_forced"]);
        let expected = ["[0]", "[2]", "[3]"];
        let found = wrong(json!({ "hostIPC": true, "securityContext": { "sysctls": names } }));
        assert!(
            found.len() == 3 && found.iter().zip(expected).all(|(it, at)| it.starts_with(at)),
            "{found:?}"
        );
    }
}
