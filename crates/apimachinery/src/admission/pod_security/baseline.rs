//! The checks of the level baseline, which forbids what gives a pod power over its node.

use std::collections::BTreeSet;

use serde_json::Value;

use super::check::{PodToCheck, Violation, named_containers, plural, quoted, sorted};
use crate::kinds::json_access::{at, entries, flag, items, number, text};
use crate::strconv::quote;

/// The capabilities that a container may add.
const CAPABILITIES: [&str; 13] = [
    "AUDIT_WRITE",
    "CHOWN",
    "DAC_OVERRIDE",
    "FOWNER",
    "FSETID",
    "KILL",
    "MKNOD",
    "NET_BIND_SERVICE",
    "SETFCAP",
    "SETGID",
    "SETPCAP",
    "SETUID",
    "SYS_CHROOT",
];

/// The types of SELinux labels that a container may have since 1.31; before, all but the last.
const SELINUX_TYPES: [&str; 5] =
    ["", "container_t", "container_init_t", "container_kvm_t", "container_engine_t"];

/// The sysctls that a pod may set, in the order in which they were added.
const SYSCTLS: [&str; 12] = [
    "kernel.shm_rmid_forced",
    "net.ipv4.ip_local_port_range",
    "net.ipv4.tcp_syncookies",
    "net.ipv4.ping_group_range",
    "net.ipv4.ip_unprivileged_port_start",
    "net.ipv4.ip_local_reserved_ports",
    "net.ipv4.tcp_keepalive_time",
    "net.ipv4.tcp_fin_timeout",
    "net.ipv4.tcp_keepalive_intvl",
    "net.ipv4.tcp_keepalive_probes",
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_wmem",
];

pub(super) fn app_armor_profile(pod: PodToCheck<'_>) -> Option<Violation> {
    const ANNOTATION: &str = "container.apparmor.security.beta.kubernetes.io/";
    let mut bad_types = BTreeSet::new();
    let mut setters = pod.bad_setters(|context| {
        let kind = at(context, "/appArmorProfile").map(|it| text(it, "/type"));
        let bad = kind.filter(|it| !matches!(*it, "RuntimeDefault" | "Localhost"));
        bad_types.extend(bad);
        bad.is_some()
    });
    let annotations = entries(pod.metadata, "/annotations").filter_map(|(key, value)| {
        let value = value.as_str().filter(|_| key.starts_with(ANNOTATION))?;
        let is_allowed = matches!(value, "" | "runtime/default") || value.starts_with("localhost/");
        (!is_allowed).then(|| format!("{key}={}", quote(value)))
    });
    let annotations: BTreeSet<String> = annotations.collect();
    if !annotations.is_empty() {
        setters.push(plural("annotation", "annotations", annotations.len()).to_owned());
    }
    if setters.is_empty() {
        return None;
    }
    let values: Vec<&str> = bad_types.into_iter().chain(annotations.iter().map(String::as_str)).collect();
    Violation::new(
        plural("forbidden AppArmor profile", "forbidden AppArmor profiles", values.len()),
        format!("{} must not set AppArmor profile type to {}", setters.join(" and "), quoted(&values)),
    )
}

pub(super) fn capabilities(pod: PodToCheck<'_>) -> Option<Violation> {
    let mut added = BTreeSet::new();
    let containers = pod.bad_containers(|container| {
        let bad = other_than(items(container, "/securityContext/capabilities/add"), &CAPABILITIES);
        added.extend(bad.iter().copied());
        !bad.is_empty()
    });
    (!containers.is_empty()).then_some(())?;
    let (containers, added) = (named_containers(&containers), quoted(added));
    Violation::new(
        "non-default capabilities",
        format!("{containers} must not include {added} in securityContext.capabilities.add"),
    )
}

pub(super) fn host_namespaces(pod: PodToCheck<'_>) -> Option<Violation> {
    let used =
        ["hostNetwork", "hostPID", "hostIPC"].into_iter().filter(|it| flag(pod.spec, &format!("/{it}")));
    let used: Vec<_> = used.map(|it| format!("{it}=true")).collect();
    (!used.is_empty()).then_some(())?;
    Violation::new("host namespaces", used.join(", "))
}

pub(super) fn host_path_volumes(pod: PodToCheck<'_>) -> Option<Violation> {
    let volumes = items(pod.spec, "/volumes").iter().filter(|it| at(it, "/hostPath").is_some());
    let volumes: Vec<_> = volumes.map(|it| text(it, "/name")).collect();
    (!volumes.is_empty()).then_some(())?;
    let detail = format!("{} {}", plural("volume", "volumes", volumes.len()), quoted(volumes));
    Violation::new("hostPath volumes", detail)
}

pub(super) fn host_ports(pod: PodToCheck<'_>) -> Option<Violation> {
    let mut ports = BTreeSet::new();
    let containers = pod.bad_containers(|container| {
        let used = items(container, "/ports").iter().filter_map(|it| number(it, "/hostPort"));
        let used: Vec<_> = used.filter(|it| *it != 0).map(|it| it.to_string()).collect();
        let is_bad = !used.is_empty();
        ports.extend(used);
        is_bad
    });
    (!containers.is_empty()).then_some(())?;
    let detail = format!(
        "{} {} {} {}",
        named_containers(&containers),
        plural("uses", "use", containers.len()),
        plural("hostPort", "hostPorts", ports.len()),
        ports.into_iter().collect::<Vec<_>>().join(", ")
    );
    Violation::new("hostPort", detail)
}

pub(super) fn probe_hosts(pod: PodToCheck<'_>) -> Option<Violation> {
    const HANDLERS: [&str; 5] =
        ["/livenessProbe", "/readinessProbe", "/startupProbe", "/lifecycle/postStart", "/lifecycle/preStop"];
    let mut hosts = BTreeSet::new();
    let containers = pod.bad_containers(|container| {
        let handlers = HANDLERS.iter().filter_map(|it| at(container, it));
        let used = handlers.flat_map(|it| [text(it, "/httpGet/host"), text(it, "/tcpSocket/host")]);
        let used: Vec<_> = used.filter(|it| !it.is_empty()).collect();
        hosts.extend(used.iter().copied());
        !used.is_empty()
    });
    let containers: Vec<_> = sorted(containers).into_iter().collect();
    (!containers.is_empty()).then_some(())?;
    let detail = format!(
        "{} {} {} {}",
        named_containers(&containers),
        plural("uses", "use", containers.len()),
        plural("probe or lifecycle host", "probe or lifecycle hosts", hosts.len()),
        quoted(hosts)
    );
    Violation::new("probe or lifecycle host", detail)
}

pub(super) fn privileged(pod: PodToCheck<'_>) -> Option<Violation> {
    let containers = pod.bad_containers(|it| flag(it, "/securityContext/privileged"));
    (!containers.is_empty()).then_some(())?;
    let containers = named_containers(&containers);
    Violation::new("privileged", format!("{containers} must not set securityContext.privileged=true"))
}

pub(super) fn proc_mount(pod: PodToCheck<'_>) -> Option<Violation> {
    let mut kinds = BTreeSet::new();
    let containers = pod.bad_containers(|container| {
        let kind = at(container, "/securityContext/procMount").and_then(Value::as_str);
        let bad = kind.filter(|it| *it != "Default");
        kinds.extend(bad);
        bad.is_some()
    });
    (!containers.is_empty()).then_some(())?;
    let (containers, kinds) = (named_containers(&containers), quoted(kinds));
    Violation::new("procMount", format!("{containers} must not set securityContext.procMount to {kinds}"))
}

/// The same since 1.35: a pod with a user namespace may have any.
pub(super) fn proc_mount_of_host_users(pod: PodToCheck<'_>) -> Option<Violation> {
    if pod.has_user_namespace() { None } else { proc_mount(pod) }
}

pub(super) fn selinux_before_1_31(pod: PodToCheck<'_>) -> Option<Violation> {
    selinux_options(pod, &SELINUX_TYPES[..4])
}

pub(super) fn selinux(pod: PodToCheck<'_>) -> Option<Violation> {
    selinux_options(pod, &SELINUX_TYPES)
}

fn selinux_options(pod: PodToCheck<'_>, allowed: &[&str]) -> Option<Violation> {
    let (mut types, mut sets_user, mut sets_role) = (BTreeSet::new(), false, false);
    let setters = pod.bad_setters(|context| {
        let Some(options) = at(context, "/seLinuxOptions") else { return false };
        let kind = Some(text(options, "/type")).filter(|it| !allowed.contains(it));
        let (user, role) = (!text(options, "/user").is_empty(), !text(options, "/role").is_empty());
        types.extend(kind);
        sets_user |= user;
        sets_role |= role;
        kind.is_some() || user || role
    });
    (!setters.is_empty()).then_some(())?;
    let mut bad = Vec::new();
    if !types.is_empty() {
        bad.push(format!("{} {}", plural("type", "types", types.len()), quoted(types)));
    }
    bad.extend(sets_user.then(|| "user may not be set".to_owned()));
    bad.extend(sets_role.then(|| "role may not be set".to_owned()));
    let setters = setters.join(" and ");
    Violation::new(
        "seLinuxOptions",
        format!("{setters} set forbidden securityContext.seLinuxOptions: {}", bad.join("; ")),
    )
}

/// Before 1.19, the profile was an annotation.
pub(super) fn seccomp_annotations(pod: PodToCheck<'_>) -> Option<Violation> {
    let of_containers = pod
        .containers()
        .map(|it| format!("container.seccomp.security.alpha.kubernetes.io/{}", text(it, "/name")));
    let names = std::iter::once("seccomp.security.alpha.kubernetes.io/pod".to_owned()).chain(of_containers);
    let bad = names.filter_map(|name| {
        let value = pod.annotation(&name)?;
        let is_allowed =
            matches!(value, "runtime/default" | "docker/default") || value.starts_with("localhost/");
        (!is_allowed).then(|| format!("{name}={}", quote(value)))
    });
    let bad: BTreeSet<_> = bad.collect();
    (!bad.is_empty()).then_some(())?;
    let words = plural("annotation", "annotations", bad.len());
    let bad = bad.into_iter().collect::<Vec<_>>().join(", ");
    Violation::new("seccompProfile", format!("forbidden {words} {bad}"))
}

pub(super) fn seccomp_profile(pod: PodToCheck<'_>) -> Option<Violation> {
    let mut bad = BTreeSet::new();
    let setters = pod.bad_setters(|context| {
        let kind = at(context, "/seccompProfile").map(|it| text(it, "/type"));
        let kind = kind.filter(|it| !is_seccomp_profile(it));
        bad.extend(kind);
        kind.is_some()
    });
    bad_seccomp_profile(&setters, bad)
}

/// Returns true for a type of profile that is allowed.
pub(super) fn is_seccomp_profile(kind: &str) -> bool {
    matches!(kind, "Localhost" | "RuntimeDefault")
}

/// Returns the violation of those that set a bad profile, if there are any.
pub(super) fn bad_seccomp_profile(setters: &[String], bad: BTreeSet<&str>) -> Option<Violation> {
    (!setters.is_empty()).then_some(())?;
    let (setters, bad) = (setters.join(" and "), quoted(bad));
    Violation::new(
        "seccompProfile",
        format!("{setters} must not set securityContext.seccompProfile.type to {bad}"),
    )
}

pub(super) fn sysctls_before_1_27(pod: PodToCheck<'_>) -> Option<Violation> {
    sysctls_in(pod, &SYSCTLS[..5])
}

pub(super) fn sysctls_before_1_29(pod: PodToCheck<'_>) -> Option<Violation> {
    sysctls_in(pod, &SYSCTLS[..6])
}

pub(super) fn sysctls_before_1_32(pod: PodToCheck<'_>) -> Option<Violation> {
    sysctls_in(pod, &SYSCTLS[..10])
}

pub(super) fn sysctls(pod: PodToCheck<'_>) -> Option<Violation> {
    sysctls_in(pod, &SYSCTLS)
}

fn sysctls_in(pod: PodToCheck<'_>, allowed: &[&str]) -> Option<Violation> {
    let names = items(pod.spec, "/securityContext/sysctls").iter().map(|it| text(it, "/name"));
    let bad: Vec<_> = names.filter(|it| !allowed.contains(it)).collect();
    (!bad.is_empty()).then_some(())?;
    Violation::new("forbidden sysctls", bad.join(", "))
}

pub(super) fn windows_host_process(pod: PodToCheck<'_>) -> Option<Violation> {
    let setters = pod.bad_setters(|it| flag(it, "/windowsOptions/hostProcess"));
    (!setters.is_empty()).then_some(())?;
    let setters = setters.join(" and ");
    Violation::new(
        "hostProcess",
        format!("{setters} must not set securityContext.windowsOptions.hostProcess=true"),
    )
}

/// Returns the texts of a list that are not allowed.
pub(super) fn other_than<'a>(list: &'a [Value], allowed: &[&str]) -> Vec<&'a str> {
    list.iter().filter_map(Value::as_str).filter(|it| !allowed.contains(it)).collect()
}
