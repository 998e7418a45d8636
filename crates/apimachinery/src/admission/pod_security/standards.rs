//! The checks that belong to each level in each version.

use serde_json::Value;

use super::check::{CheckPod, PodToCheck, Violation};
use super::policy::{Level, LevelVersion, Version};
use super::{baseline, restricted};

/// A check, as it changed over time.
struct Check {
    /// Its name upstream.
    id: &'static str,
    /// The level from which on it applies.
    level: Level,
    /// The first minor version of each revision. In earlier ones the check does not exist.
    revisions: &'static [(i64, CheckPod)],
    /// The check of baseline that this one replaces; empty if it replaces none.
    replaces: &'static str,
}

/// All checks, in the order in which messages list them: by level and name.
static CHECKS: [Check; 19] = [
    baseline("appArmorProfile", &[(0, baseline::app_armor_profile)]),
    baseline("capabilities_baseline", &[(0, baseline::capabilities)]),
    baseline("hostNamespaces", &[(0, baseline::host_namespaces)]),
    baseline("hostPathVolumes", &[(0, baseline::host_path_volumes)]),
    baseline("hostPorts", &[(0, baseline::host_ports)]),
    baseline("hostProbesAndHostLifecycle", &[(34, baseline::probe_hosts)]),
    baseline("privileged", &[(0, baseline::privileged)]),
    baseline("procMount", &[(0, baseline::proc_mount), (35, baseline::proc_mount_of_host_users)]),
    baseline("seLinuxOptions", &[(0, baseline::selinux_before_1_31), (31, baseline::selinux)]),
    baseline(
        "seccompProfile_baseline",
        &[(0, baseline::seccomp_annotations), (19, baseline::seccomp_profile)],
    ),
    baseline(
        "sysctls",
        &[
            (0, baseline::sysctls_before_1_27),
            (27, baseline::sysctls_before_1_29),
            (29, baseline::sysctls_before_1_32),
            (32, baseline::sysctls),
        ],
    ),
    baseline("windowsHostProcess", &[(0, baseline::windows_host_process)]),
    restricted(
        "allowPrivilegeEscalation",
        "",
        &[(8, restricted::privilege_escalation), (25, restricted::privilege_escalation_on_linux)],
    ),
    restricted(
        "capabilities_restricted",
        "capabilities_baseline",
        &[(22, restricted::capabilities), (25, restricted::capabilities_on_linux)],
    ),
    restricted("procMount_restricted", "procMount", &[(35, baseline::proc_mount)]),
    restricted("restrictedVolumes", "hostPathVolumes", &[(0, restricted::volumes)]),
    restricted(
        "runAsNonRoot",
        "",
        &[(0, restricted::run_as_non_root), (35, restricted::run_as_non_root_of_host_users)],
    ),
    restricted(
        "runAsUser",
        "",
        &[(23, restricted::run_as_user), (35, restricted::run_as_user_of_host_users)],
    ),
    restricted(
        "seccompProfile_restricted",
        "seccompProfile_baseline",
        &[(19, restricted::seccomp_profile), (25, restricted::seccomp_profile_on_linux)],
    ),
];

const fn baseline(id: &'static str, revisions: &'static [(i64, CheckPod)]) -> Check {
    Check { id, level: Level::Baseline, revisions, replaces: "" }
}

const fn restricted(
    id: &'static str,
    replaces: &'static str,
    revisions: &'static [(i64, CheckPod)],
) -> Check {
    Check { id, level: Level::Restricted, revisions, replaces }
}

impl Check {
    /// Returns the revision of the check in a version.
    fn revision(&self, version: Version) -> Option<CheckPod> {
        let known = |(since, _): &&(i64, CheckPod)| Version::Minor(*since) <= version;
        self.revisions.iter().rev().find(known).map(|(_, check)| *check)
    }
}

/// Returns the violations of a level by a pod, or by the template of one. `metadata` and `spec` are
/// those of the pod.
pub fn violations(standard: LevelVersion, metadata: &Value, spec: &Value) -> Vec<Violation> {
    let LevelVersion { level, version } = standard;
    let checks = || CHECKS.iter().filter(|it| it.level <= level && it.revision(version).is_some());
    let is_replaced = |check: &Check| checks().any(|it| it.replaces == check.id);
    let pod = PodToCheck { metadata, spec };
    let applied = checks().filter(|it| !is_replaced(it));
    applied.filter_map(|it| it.revision(version)?(pod)).collect()
}

impl Violation {
    /// Returns the reasons of violations, for example `hostPort, privileged`.
    pub fn reasons(all: &[Self]) -> String {
        all.iter().map(|it| it.reason.as_str()).collect::<Vec<_>>().join(", ")
    }

    /// Returns the reasons of violations with their details.
    pub fn details(all: &[Self]) -> String {
        all.iter().map(|it| format!("{} ({})", it.reason, it.detail)).collect::<Vec<_>>().join(", ")
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::Policy;
    use super::*;

    fn details(level: &str, version: &str, spec: &Value) -> String {
        let labels = json!({ "pod-security.kubernetes.io/enforce": level,
            "pod-security.kubernetes.io/enforce-version": version });
        let policy = Policy::of(&json!({ "metadata": { "labels": labels } }));
        assert!(policy.problems.is_empty());
        Violation::details(&violations(policy.enforce, &Value::Null, spec))
    }

    #[test]
    fn checks_are_sorted_within_their_level() {
        let mut sorted: Vec<_> = CHECKS.iter().map(|it| (it.level, it.id)).collect();
        sorted.sort_unstable();
        assert!(sorted.iter().eq(CHECKS.iter().map(|it| (it.level, it.id)).collect::<Vec<_>>().iter()));
        for check in &CHECKS {
            assert!(check.replaces.is_empty() || CHECKS.iter().any(|it| it.id == check.replaces));
        }
    }

    #[test]
    fn restricted_asks_for_all_that_a_plain_pod_lacks() {
        let plain = json!({ "containers": [{ "name": "a" }, { "name": "b" }] });
        assert_eq!(
            details("restricted", "latest", &plain),
            "allowPrivilegeEscalation != false (containers \"a\", \"b\" must set \
             securityContext.allowPrivilegeEscalation=false), unrestricted capabilities (containers \"a\", \"b\" must set \
             securityContext.capabilities.drop=[\"ALL\"]), runAsNonRoot != true (pod or containers \"a\", \"b\" must set \
             securityContext.runAsNonRoot=true), seccompProfile (pod or containers \"a\", \"b\" must set \
             securityContext.seccompProfile.type to \"RuntimeDefault\" or \"Localhost\")"
        );
        assert_eq!(details("baseline", "latest", &plain), "");
        assert_eq!(details("privileged", "latest", &json!({ "hostPID": true })), "");
        let context = json!({ "allowPrivilegeEscalation": false, "capabilities": { "drop": ["ALL"] },
            "runAsNonRoot": true, "seccompProfile": { "type": "RuntimeDefault" } });
        assert_eq!(
            details(
                "restricted",
                "latest",
                &json!({ "containers": [{ "name": "a", "securityContext": context }] })
            ),
            ""
        );
    }

    #[test]
    fn a_version_has_the_checks_of_its_time() {
        let root = json!({ "securityContext": { "runAsUser": 0, "runAsNonRoot": true }, "hostUsers": false });
        for (version, expected) in [
            ("v1.22", ""),
            ("v1.23", "runAsUser=0 (pod must not set runAsUser=0)"),
            ("v1.34", "runAsUser=0 (pod must not set runAsUser=0)"),
            ("v1.35", ""),
            ("v1.99", ""),
            ("latest", ""),
        ] {
            assert_eq!(details("restricted", version, &root), expected, "{version}");
        }
        let host_path = json!({ "volumes": [{ "name": "v", "hostPath": { "path": "/" } }] });
        assert_eq!(details("baseline", "v1.0", &host_path), "hostPath volumes (volume \"v\")");
        assert_eq!(
            details("restricted", "v1.0", &host_path),
            "restricted volume types (volume \"v\" uses restricted volume type \"hostPath\")"
        );
        let unmasked = json!({ "hostUsers": false,
            "containers": [{ "name": "a", "securityContext": { "procMount": "Unmasked" } }] });
        let message = "procMount (container \"a\" must not set securityContext.procMount to \"Unmasked\")";
        assert_eq!(details("baseline", "v1.34", &unmasked), message);
        assert_eq!(details("baseline", "v1.35", &unmasked), "");
        assert!(details("restricted", "v1.35", &unmasked).contains(message));
    }
}
