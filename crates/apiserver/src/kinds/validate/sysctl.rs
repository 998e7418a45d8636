//! What is wrong with the kernel parameters of a pod.

use std::collections::HashSet;

use serde_json::Value;

use super::check::{Problems, duplicate, invalid, required};
use crate::kinds::look::{flag, items, text};

const SHAPE: &str = r"must have at most 253 characters and match regex ^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$";

/// The parameters in the security context of a pod.
pub(super) fn sysctls(out: &mut Problems, spec: &Value, field: &str) {
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
        let shared = match part(name) {
            Part::Network => "hostNetwork",
            Part::Processes => "hostIPC",
            Part::Other => continue,
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

/// What of a machine a parameter is about.
enum Part {
    Network,
    Processes,
    Other,
}

fn part(name: &str) -> Part {
    // Whichever separator comes first is the one that counts.
    let name = match name.find(['.', '/']) {
        Some(at) if name[at..].starts_with('/') => name.replace('/', "."),
        _ => name.to_owned(),
    };
    if name.starts_with("net.") {
        Part::Network
    } else if name == "kernel.sem"
        || ["kernel.shm", "kernel.msg", "fs.mqueue."].iter().any(|it| name.starts_with(it))
    {
        Part::Processes
    } else {
        Part::Other
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn wrong(spec: Value) -> Vec<String> {
        let mut out = Problems::default();
        sysctls(&mut out, &spec, "spec");
        let said = |it: &crate::Problem| {
            it.to_string().replace("spec.securityContext.sysctls", "").replace(SHAPE, "…")
        };
        out.iter().map(said).collect()
    }

    #[test]
    fn parameters_have_names_each_once_and_none_of_what_is_shared_with_the_node() {
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
