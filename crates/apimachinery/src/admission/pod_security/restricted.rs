//! The checks that the level restricted adds, which demand that a pod gives up what it does not
//! need.

use std::collections::BTreeSet;

use super::baseline::{bad_seccomp_profile, is_seccomp_profile, other_than};
use super::check::{PodToCheck, Violation, named_containers, plural, quoted};
use crate::kinds::json_access::{at, flag, items, number, text};

/// The sources of volumes that are allowed.
const ALLOWED_SOURCES: [&str; 9] = [
    "configMap",
    "csi",
    "downwardAPI",
    "emptyDir",
    "ephemeral",
    "image",
    "persistentVolumeClaim",
    "projected",
    "secret",
];

/// The other sources of volumes.
const FORBIDDEN_SOURCES: [&str; 21] = [
    "hostPath",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "gitRepo",
    "nfs",
    "iscsi",
    "glusterfs",
    "rbd",
    "flexVolume",
    "cinder",
    "cephfs",
    "flocker",
    "fc",
    "azureFile",
    "vsphereVolume",
    "quobyte",
    "azureDisk",
    "photonPersistentDisk",
    "portworxVolume",
    "scaleIO",
    "storageos",
];

pub(super) fn privilege_escalation(pod: PodToCheck<'_>) -> Option<Violation> {
    let forbids = |it| {
        at(it, "/securityContext/allowPrivilegeEscalation").is_some()
            && !flag(it, "/securityContext/allowPrivilegeEscalation")
    };
    let containers = pod.bad_containers(|it| !forbids(it));
    (!containers.is_empty()).then_some(())?;
    let containers = named_containers(&containers);
    Violation::new(
        "allowPrivilegeEscalation != false",
        format!("{containers} must set securityContext.allowPrivilegeEscalation=false"),
    )
}

/// The same since 1.25: pods of Windows cannot set the field.
pub(super) fn privilege_escalation_on_linux(pod: PodToCheck<'_>) -> Option<Violation> {
    if pod.is_windows() { None } else { privilege_escalation(pod) }
}

pub(super) fn capabilities(pod: PodToCheck<'_>) -> Option<Violation> {
    let keeping = pod.bad_containers(|it| {
        let dropped = items(it, "/securityContext/capabilities/drop");
        !dropped.iter().any(|it| it == "ALL")
    });
    let mut added = BTreeSet::new();
    let adding = pod.bad_containers(|container| {
        let bad = other_than(items(container, "/securityContext/capabilities/add"), &["NET_BIND_SERVICE"]);
        added.extend(bad.iter().copied());
        !bad.is_empty()
    });
    let mut details = Vec::new();
    if !keeping.is_empty() {
        let keeping = named_containers(&keeping);
        details.push(format!("{keeping} must set securityContext.capabilities.drop=[\"ALL\"]"));
    }
    if !adding.is_empty() {
        let (adding, added) = (named_containers(&adding), quoted(added));
        details.push(format!("{adding} must not include {added} in securityContext.capabilities.add"));
    }
    (!details.is_empty()).then_some(())?;
    Violation::new("unrestricted capabilities", details.join("; "))
}

/// The same since 1.25: pods of Windows cannot set the field.
pub(super) fn capabilities_on_linux(pod: PodToCheck<'_>) -> Option<Violation> {
    if pod.is_windows() { None } else { capabilities(pod) }
}

pub(super) fn volumes(pod: PodToCheck<'_>) -> Option<Violation> {
    let has = |volume, source: &str| at(volume, &format!("/{source}")).is_some();
    let mut sources = BTreeSet::new();
    let mut names = Vec::new();
    for volume in items(pod.spec, "/volumes") {
        if ALLOWED_SOURCES.iter().any(|it| has(volume, it)) {
            continue;
        }
        names.push(text(volume, "/name"));
        sources.insert(*FORBIDDEN_SOURCES.iter().find(|it| has(volume, it)).unwrap_or(&"unknown"));
    }
    (!names.is_empty()).then_some(())?;
    let detail = format!(
        "{} {} {} {} {}",
        plural("volume", "volumes", names.len()),
        quoted(&names),
        plural("uses", "use", names.len()),
        plural("restricted volume type", "restricted volume types", sources.len()),
        quoted(sources)
    );
    Violation::new("restricted volume types", detail)
}

pub(super) fn run_as_non_root(pod: PodToCheck<'_>) -> Option<Violation> {
    const REASON: &str = "runAsNonRoot != true";
    let is_set = |it| at(it, "/securityContext/runAsNonRoot").is_some();
    let setters = pod.bad_setters(|it| at(it, "/runAsNonRoot").is_some() && !flag(it, "/runAsNonRoot"));
    if !setters.is_empty() {
        let setters = setters.join(" and ");
        return Violation::new(REASON, format!("{setters} must not set securityContext.runAsNonRoot=false"));
    }
    if is_set(pod.spec) {
        return None;
    }
    let containers = pod.bad_containers(|it| !is_set(it));
    (!containers.is_empty()).then_some(())?;
    let containers = named_containers(&containers);
    Violation::new(REASON, format!("pod or {containers} must set securityContext.runAsNonRoot=true"))
}

/// The same since 1.35: the root of a user namespace is not that of the node.
pub(super) fn run_as_non_root_of_host_users(pod: PodToCheck<'_>) -> Option<Violation> {
    if pod.has_user_namespace() { None } else { run_as_non_root(pod) }
}

pub(super) fn run_as_user(pod: PodToCheck<'_>) -> Option<Violation> {
    let setters = pod.bad_setters(|it| number(it, "/runAsUser") == Some(0));
    (!setters.is_empty()).then_some(())?;
    Violation::new("runAsUser=0", format!("{} must not set runAsUser=0", setters.join(" and ")))
}

/// The same since 1.35: the root of a user namespace is not that of the node.
pub(super) fn run_as_user_of_host_users(pod: PodToCheck<'_>) -> Option<Violation> {
    if pod.has_user_namespace() { None } else { run_as_user(pod) }
}

pub(super) fn seccomp_profile(pod: PodToCheck<'_>) -> Option<Violation> {
    let mut bad = BTreeSet::new();
    let setters = pod.bad_setters(|context| {
        let kind = at(context, "/seccompProfile").map(|it| text(it, "/type"));
        let kind = kind.filter(|it| !is_seccomp_profile(it));
        bad.extend(kind);
        kind.is_some()
    });
    if !setters.is_empty() {
        return bad_seccomp_profile(&setters, bad);
    }
    let is_set = |it| at(it, "/securityContext/seccompProfile").is_some();
    if is_set(pod.spec) {
        return None;
    }
    let containers = pod.bad_containers(|it| !is_set(it));
    (!containers.is_empty()).then_some(())?;
    let containers = named_containers(&containers);
    Violation::new(
        "seccompProfile",
        format!(
            "pod or {containers} must set securityContext.seccompProfile.type to \"RuntimeDefault\" or \"Localhost\""
        ),
    )
}

/// The same since 1.25: pods of Windows cannot set the field.
pub(super) fn seccomp_profile_on_linux(pod: PodToCheck<'_>) -> Option<Violation> {
    if pod.is_windows() { None } else { seccomp_profile(pod) }
}
