//! The text for people after the ready line: what to type next, and what the server enforces and
//! simulates. Pure.

use std::path::Path;

/// The differences from a Kubernetes API server that users would not expect, printed once at the
/// start.
const NOT_ENFORCED: &str = "not enforced: priority and fairness; see `dogwatch serve --help`";

/// The same for a server without authorization.
const NOT_AUTHORIZED: &str = "not enforced: roles (every caller may do everything; --authorization-mode RBAC changes \
                              that), priority and fairness; see `dogwatch serve --help`";

/// The settings of a server that a user should know of.
#[derive(Clone, Copy, Debug)]
pub(super) struct Banner<'a> {
    pub(super) url: &'a str,
    /// The kubeconfig that was written.
    pub(super) kubeconfig: Option<&'a Path>,
    /// Requests need a token.
    pub(super) token: bool,
    pub(super) tls: bool,
    /// Roles and bindings are enforced.
    pub(super) rbac: bool,
    pub(super) simulated: Simulated,
    /// The fault-injection API is exposed.
    pub(super) admin: bool,
}

/// The extent of the simulation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Simulated {
    Nothing,
    Nodes,
    Workloads,
}

impl Banner<'_> {
    /// Returns the lines, each with its line end.
    pub(super) fn lines(&self) -> String {
        let mut lines = Vec::new();
        let (kubectl, dogwatch) = match self.kubeconfig {
            Some(file) => {
                lines.push(format!("try it:       export KUBECONFIG={}", quoted(file)));
                (Some("kubectl".to_owned()), Some("dogwatch".to_owned()))
            }
            None if self.token => (None, None),
            None => {
                let server = format!("--server {}", self.url);
                (Some(format!("kubectl {server}")), Some(server))
            }
        };
        // Without a kubeconfig, the flag comes after the command of ours and before that of
        // kubectl.
        let ours = |command: &str| match (&dogwatch, self.kubeconfig) {
            (Some(server), None) => format!("dogwatch {command} {server}"),
            _ => format!("dogwatch {command}"),
        };
        match &kubectl {
            Some(kubectl) => {
                let begin = if lines.is_empty() { "try it:       " } else { "              " };
                let command = match self.simulated {
                    Simulated::Workloads => "create deployment web --image nginx --replicas 3",
                    _ => "get namespaces",
                };
                lines.push(format!("{begin}{kubectl} {command}"));
                lines.push(format!("              {}", ours("watch pods")));
                if self.admin {
                    lines.push(format!("              {}", ours("fault list")));
                }
            }
            None => lines.push(format!("try it:       {}", self.how_to_authenticate())),
        }
        let roles = if self.rbac { ", roles (RBAC)" } else { "" };
        lines.push(format!(
            "enforced:     schemas, policies, webhooks, pod security, quotas, limit ranges{roles}"
        ));
        lines.push(not_enforced(self.rbac).to_owned());
        lines.push(format!("simulated:    {}", self.simulation()));
        lines.into_iter().map(|it| it + "\n").collect()
    }

    fn how_to_authenticate(&self) -> &'static str {
        match self.tls {
            true => "restart with --kubeconfig-out FILE for a kubeconfig with the token and the certificate",
            false => "kubectl sends tokens only over TLS: restart with --tls --kubeconfig-out FILE",
        }
    }

    fn simulation(&self) -> &'static str {
        match self.simulated {
            Simulated::Nothing => "nothing: deployments get no pods, and pods stay pending; add --simulate",
            Simulated::Nodes => "nodes, on which pods become ready; no container runs",
            Simulated::Workloads => {
                "nodes and workloads: pods of deployments, jobs and others run; no container does"
            }
        }
    }
}

/// Returns the line about what the server does not enforce.
pub(super) fn not_enforced(rbac: bool) -> &'static str {
    if rbac { NOT_ENFORCED } else { NOT_AUTHORIZED }
}

/// Returns a path as a word for a shell.
fn quoted(file: &Path) -> String {
    let text = file.display().to_string();
    let is_plain = |it: char| it.is_alphanumeric() || "/._-+:@%".contains(it);
    match !text.is_empty() && text.chars().all(is_plain) {
        true => text,
        false => format!("'{}'", text.replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: Banner<'_> = Banner {
        url: "http://127.0.0.1:8080",
        kubeconfig: None,
        token: false,
        tls: false,
        rbac: false,
        simulated: Simulated::Nothing,
        admin: false,
    };

    fn first_lines(banner: Banner<'_>, count: usize) -> Vec<String> {
        banner.lines().lines().take(count).map(str::to_owned).collect()
    }

    #[test]
    fn without_credentials_the_address_is_enough() {
        assert_eq!(
            first_lines(Banner { admin: true, simulated: Simulated::Workloads, ..PLAIN }, 3),
            [
                "try it:       kubectl --server http://127.0.0.1:8080 create deployment web --image nginx --replicas 3",
                "              dogwatch watch pods --server http://127.0.0.1:8080",
                "              dogwatch fault list --server http://127.0.0.1:8080",
            ]
        );
    }

    #[test]
    fn a_kubeconfig_is_exported_with_quotes_if_it_needs_them() {
        for (file, expected) in [("kube.config", "kube.config"), ("dir/it's here", r"'dir/it'\''s here'")] {
            let banner = Banner { kubeconfig: Some(Path::new(file)), token: true, tls: true, ..PLAIN };
            assert_eq!(
                first_lines(banner, 3),
                [
                    &format!("try it:       export KUBECONFIG={expected}"),
                    "              kubectl get namespaces",
                    "              dogwatch watch pods",
                ]
            );
        }
    }

    #[test]
    fn a_token_without_a_kubeconfig_is_explained() {
        let over_tls = Banner { token: true, tls: true, ..PLAIN }.lines();
        assert!(
            over_tls.contains("--kubeconfig-out FILE") && !over_tls.contains("kubectl --server"),
            "{over_tls}"
        );
        let plain = Banner { token: true, ..PLAIN }.lines();
        assert!(plain.contains("--tls --kubeconfig-out FILE"), "{plain}");
    }

    #[test]
    fn three_lines_say_what_is_enforced_and_simulated() {
        for (rbac, simulated, parts) in [
            (false, Simulated::Nothing, ["limit ranges\n", "not enforced: roles", "add --simulate\n"]),
            (
                true,
                Simulated::Nodes,
                ["roles (RBAC)\n", "not enforced: priority and fairness", "no container runs\n"],
            ),
        ] {
            let lines = Banner { rbac, simulated, ..PLAIN }.lines();
            let last: Vec<_> = lines.lines().rev().take(3).map(|it| format!("{it}\n")).collect();
            for (line, part) in last.iter().rev().zip(parts) {
                assert!(line.contains(part), "{line}");
            }
        }
    }
}
