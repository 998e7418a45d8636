//! The view of a process in a simulated container: its environment variables, its host name, its
//! directory and a few files, from the specification of the pod.

use std::collections::BTreeMap;

use serde_json::Value;

use super::container::Container;
use crate::json_access::{at, entries, flag, items, text};
use crate::quantity;

/// The variables that container runtimes set if an image sets no others.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// The largest size of a variable, which references to others can let grow.
const LONGEST_VALUE: usize = 64 * 1024;

/// The view of a process in a simulated container.
#[derive(Clone, Debug)]
pub(super) struct ContainerView {
    pub(super) container: String,
    pub(super) pod: String,
    pub(super) hostname: String,
    pub(super) directory: String,
    pub(super) environment: BTreeMap<String, String>,
    files: BTreeMap<&'static str, String>,
}

impl ContainerView {
    pub(super) fn of(container: &Container<'_>) -> Self {
        let pod = container.pod;
        let name = text(pod, "/metadata/name");
        // `GeneratePodHostNameAndDomain` in k8s.io/kubernetes v1.36.4 pkg/kubelet/kubelet_pods.go
        // cuts off names that are too long for a host.
        let hostname = match (flag(pod, "/spec/hostNetwork"), text(pod, "/spec/hostname")) {
            (true, _) => text(pod, "/spec/nodeName"),
            (false, "") => name.get(..63).unwrap_or(name).trim_end_matches(['-', '.']),
            (false, hostname) => hostname,
        };
        let directory = match text(container.spec, "/workingDir") {
            "" => "/",
            directory => directory,
        };
        let mut environment = BTreeMap::from(
            [("PATH", PATH), ("HOSTNAME", hostname)].map(|(key, value)| (key.to_owned(), value.to_owned())),
        );
        environment.extend(variables(container));
        Self {
            container: container.name().to_owned(),
            pod: name.to_owned(),
            hostname: hostname.to_owned(),
            directory: directory.to_owned(),
            environment,
            files: files(pod, hostname),
        }
    }

    /// Returns the contents of a file, if the simulated container has it.
    pub(super) fn file(&self, path: &str) -> Option<&str> {
        let path = match path.starts_with('/') {
            true => path.to_owned(),
            false => format!("{}/{path}", self.directory.trim_end_matches('/')),
        };
        self.files.get(&*path).map(String::as_str)
    }
}

fn files(pod: &Value, hostname: &str) -> BTreeMap<&'static str, String> {
    let address = text(pod, "/status/podIP");
    let mut hosts =
        String::from("# Simulated hosts file.\n127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost\n");
    if !address.is_empty() && !flag(pod, "/spec/hostNetwork") {
        hosts.push_str(&format!("{address}\t{hostname}\n"));
    }
    for alias in items(pod, "/spec/hostAliases") {
        let names: Vec<_> = items(alias, "/hostnames").iter().filter_map(Value::as_str).collect();
        hosts.push_str(&format!("{}\t{}\n", text(alias, "/ip"), names.join("\t")));
    }
    let namespace = text(pod, "/metadata/namespace");
    BTreeMap::from([
        ("/etc/hostname", format!("{hostname}\n")),
        ("/etc/hosts", hosts),
        (
            "/etc/resolv.conf",
            format!(
                "search {namespace}.svc.cluster.local svc.cluster.local cluster.local\nnameserver 10.96.0.10\n\
                 options ndots:5\n"
            ),
        ),
        ("/etc/os-release", "NAME=simulated\nID=simulated\nPRETTY_NAME=\"simulated container\"\n".to_owned()),
        ("/var/run/secrets/kubernetes.io/serviceaccount/namespace", namespace.to_owned()),
    ])
}

/// Returns the variables of the specification, in its order, so that later ones replace earlier
/// ones. Those from ConfigMaps and Secrets are left out, because no volume and no reference is
/// resolved in a simulated container.
fn variables(container: &Container<'_>) -> Vec<(String, String)> {
    let mut all: Vec<(String, String)> = Vec::new();
    let mut known: BTreeMap<String, String> = BTreeMap::new();
    for variable in items(container.spec, "/env") {
        let name = text(variable, "/name");
        let value = if let Some(field) = at(variable, "/valueFrom/fieldRef") {
            Some(field_value(container.pod, text(field, "/fieldPath")))
        } else if let Some(resource) = at(variable, "/valueFrom/resourceFieldRef") {
            resource_value(container, resource)
        } else if at(variable, "/valueFrom").is_some() {
            None
        } else {
            Some(expanded(text(variable, "/value"), &known))
        };
        if let Some(value) = value {
            known.insert(name.to_owned(), value.clone());
            all.push((name.to_owned(), value));
        }
    }
    all
}

/// Replaces references `$(NAME)` to known variables; `$$` is a dollar sign. Others stay as they are
/// (k8s.io/kubernetes v1.36.4 third_party/forked/golang/expansion/expand.go).
fn expanded(value: &str, known: &BTreeMap<String, String>) -> String {
    let (mut out, mut rest) = (String::new(), value);
    while let Some((before, after)) = rest.split_once('$') {
        out.push_str(before);
        let reference = after.strip_prefix('(').and_then(|it| it.split_once(')'));
        rest = match reference {
            Some((name, tail)) => {
                match known.get(name) {
                    Some(value) => out.push_str(value),
                    None => out.push_str(&format!("$({name})")),
                }
                tail
            }
            None => {
                out.push('$');
                after.strip_prefix('$').unwrap_or(after)
            }
        };
        if out.len() > LONGEST_VALUE {
            break;
        }
    }
    out.push_str(rest);
    let end = (0..=out.len().min(LONGEST_VALUE)).rev().find(|it| out.is_char_boundary(*it)).unwrap_or(0);
    out.truncate(end);
    out
}

/// Returns the value of a field of the pod that variables can refer to.
fn field_value(pod: &Value, path: &str) -> String {
    let of_map = |map: &str, field: &str| {
        let key = path.strip_prefix(field)?.strip_prefix("['")?.strip_suffix("']")?;
        entries(pod, map)
            .find(|(name, _)| *name == key)
            .and_then(|(_, value)| value.as_str())
            .map(str::to_owned)
    };
    let ips = |list: &str| {
        let all: Vec<_> = items(pod, list).iter().map(|it| text(it, "/ip")).collect();
        all.join(",")
    };
    match path {
        "status.podIPs" => ips("/status/podIPs"),
        "status.hostIPs" => ips("/status/hostIPs"),
        "metadata.name"
        | "metadata.namespace"
        | "metadata.uid"
        | "spec.nodeName"
        | "spec.serviceAccountName"
        | "status.hostIP"
        | "status.podIP" => text(pod, &format!("/{}", path.replace('.', "/"))).to_owned(),
        _ => of_map("/metadata/labels", "metadata.labels")
            .or_else(|| of_map("/metadata/annotations", "metadata.annotations"))
            .unwrap_or_default(),
    }
}

/// Returns a request or limit of a container in units of its divisor, rounded up.
fn resource_value(container: &Container<'_>, reference: &Value) -> Option<String> {
    let named = match text(reference, "/containerName") {
        "" => *container,
        name => Container::find(container.pod, name)?,
    };
    let (kind, resource) = text(reference, "/resource").split_once('.')?;
    let (_, amount) =
        entries(named.spec, &format!("/resources/{kind}")).find(|(name, _)| *name == resource)?;
    let amount = quantity::parse(amount.as_str()?)?;
    let divisor = match text(reference, "/divisor") {
        "" | "0" => 1000,
        divisor => quantity::parse(divisor)?,
    };
    let quotient = amount.checked_div_euclid(divisor)?;
    let rounded =
        if amount.checked_rem_euclid(divisor)? == 0 { quotient } else { quotient.checked_add(1)? };
    Some(rounded.to_string())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn view(pod: &Value) -> ContainerView {
        ContainerView::of(&Container::find(pod, "c").unwrap())
    }

    #[test]
    fn variables_come_from_values_references_and_fields() {
        let from = |kind: &str, value: Value| json!({ kind: value });
        let field = |path: &str| from("fieldRef", json!({ "fieldPath": path }));
        let limit = |resource: &str, divisor: &str| {
            from("resourceFieldRef", json!({ "resource": resource, "divisor": divisor }))
        };
        let env = json!([
            { "name": "A", "value": "1" }, { "name": "B", "value": "$(A)$(C)$$(A)$" },
            { "name": "POD", "valueFrom": field("metadata.name") },
            { "name": "APP", "valueFrom": field("metadata.labels['app.io/name']") },
            { "name": "IPS", "valueFrom": field("status.podIPs") },
            { "name": "CPU", "valueFrom": limit("limits.cpu", "") },
            { "name": "MEMORY", "valueFrom": limit("requests.memory", "1Mi") },
            { "name": "NONE", "valueFrom": limit("limits.memory", "0") },
            { "name": "SECRET", "valueFrom": { "secretKeyRef": { "name": "s", "key": "k" } } },
        ]);
        let pod = json!({ "metadata": { "name": "web-0", "labels": { "app.io/name": "web" } },
            "spec": { "containers": [{ "name": "c", "env": env, "workingDir": "/srv",
                "resources": { "limits": { "cpu": "1500m" }, "requests": { "memory": "64Mi" } } }] },
            "status": { "podIPs": [{ "ip": "10.0.0.1" }, { "ip": "fd00::1" }] } });
        let view = view(&pod);
        let own: Vec<_> = view
            .environment
            .iter()
            .filter(|(key, _)| *key != "PATH")
            .map(|(key, value)| format!("{key}={value}"))
            .collect();
        assert_eq!(
            own,
            [
                "A=1",
                "APP=web",
                "B=1$(C)$(A)$",
                "CPU=2",
                "HOSTNAME=web-0",
                "IPS=10.0.0.1,fd00::1",
                "MEMORY=64",
                "POD=web-0"
            ]
        );
        assert_eq!(view.directory, "/srv");
    }

    #[test]
    fn references_that_let_a_variable_grow_are_limited() {
        let mut env = vec![json!({ "name": "V0", "value": "xxxxxxxxxx" })];
        for at in 1..40 {
            let before = format!("$(V{})", at - 1);
            env.push(json!({ "name": format!("V{at}"), "value": before.repeat(10) }));
        }
        let pod =
            json!({ "metadata": { "name": "p" }, "spec": { "containers": [{ "name": "c", "env": env }] } });
        assert!(view(&pod).environment.values().all(|it| it.len() <= LONGEST_VALUE));
    }

    #[test]
    fn the_host_name_is_that_of_the_pod_or_its_node() {
        let long = "x".repeat(62) + "-y";
        for (name, spec, expected) in [
            ("web", json!({}), "web"),
            ("web", json!({ "hostname": "db" }), "db"),
            ("web", json!({ "hostNetwork": true, "nodeName": "node-1" }), "node-1"),
            (long.as_str(), json!({}), &long[..62]),
        ] {
            let mut pod = json!({ "metadata": { "name": name, "namespace": "n" }, "spec": spec,
                "status": { "podIP": "10.0.0.1" } });
            pod["spec"]["containers"] = json!([{ "name": "c" }]);
            let view = view(&pod);
            assert_eq!(view.hostname, expected);
            assert_eq!(view.file("/etc/hostname"), Some(&*format!("{expected}\n")));
            assert_eq!(view.file("etc/hostname"), view.file("/etc/hostname"), "relative to the directory");
            let own = view.file("/etc/hosts").unwrap().contains("10.0.0.1");
            assert_eq!(own, !spec["hostNetwork"].is_boolean());
            assert_eq!(view.file("/var/run/secrets/kubernetes.io/serviceaccount/token"), None);
        }
    }
}
