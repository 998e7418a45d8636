//! PodSecurity: pods, and the workloads that create them, against the level of their namespace.

use dogwatch_core::ObjectKey;
use serde_json::Value;

use crate::ApiError;
use crate::admission::pod_security::{
    LevelVersion, Policy, Violation, changes_images, pod_template, violations, warnings_about_existing,
};
use crate::cluster::write::Write;
use crate::kinds::json_access::text;
use crate::kinds::{NAMESPACE, POD};

/// The subresources of pods that do not change their spec.
const IGNORED: [&str; 3] = ["binding", "eviction", "status"];

/// Rejects pods that violate the enforced level, and warns about pods and workloads that violate
/// the level of the mode `warn`.
pub(super) fn check(write: &mut Write<'_>) -> Result<(), ApiError> {
    let (kind, part) = (write.place.kind, write.place.part);
    if kind.is(&NAMESPACE) {
        return if part.is_empty() { check_namespace(write) } else { Ok(()) };
    }
    let def = &kind.def;
    let is_pod = kind.is(&POD);
    let pod = match is_pod {
        true if IGNORED.contains(&part) => return Ok(()),
        true => &write.new,
        false if !part.is_empty() => return Ok(()),
        false => match pod_template(&def.group, &def.plural, &write.new) {
            Some(template) => template,
            None => return Ok(()),
        },
    };
    let policy = policy_of(write);
    if policy.warn.allows_everything() && (!is_pod || policy.enforce.allows_everything()) {
        return Ok(());
    }
    if is_pod && write.base.is_some_and(|it| !changes_images(pod, it.object)) {
        return Ok(());
    }
    let found = |level: LevelVersion| violations(level, &pod["metadata"], &pod["spec"]);
    let enforced = if is_pod { found(policy.enforce) } else { Vec::new() };
    if !enforced.is_empty() {
        let why = format!("violates PodSecurity \"{}\": {}", policy.enforce, Violation::details(&enforced));
        return Err(ApiError::forbidden(&def.group, &def.plural, text(&write.new, "/metadata/name"), &why));
    }
    let warned = found(policy.warn);
    if !warned.is_empty() {
        let details = Violation::details(&warned);
        write.warnings.push(format!("would violate PodSecurity \"{}\": {details}", policy.warn));
    }
    Ok(())
}

/// Checks the labels of a namespace, and warns about existing pods that violate a new level.
fn check_namespace(write: &mut Write<'_>) -> Result<(), ApiError> {
    let new = Policy::of(&write.new);
    let old = write.updated().map(Policy::of);
    let are_known = old.as_ref().is_some_and(|it| !it.problems.is_empty() && it.problems == new.problems);
    if !new.problems.is_empty() && !are_known {
        return Err(write.place.kind.invalid(text(&write.new, "/metadata/name"), &new.problems));
    }
    let Some(old) = old else { return Ok(()) };
    if new.enforce.may_be_stricter_than(old.enforce)
        && let Some(kind) = write.cluster.catalog().kind("", "v1", "pods")
    {
        let name = text(&write.new, "/metadata/name");
        let pods: Vec<Value> = write.cluster.list(&kind, Some(name)).iter().map(|it| kind.show(it)).collect();
        let warnings = warnings_about_existing(name, new.enforce, &pods);
        write.warnings.extend(warnings);
    }
    Ok(())
}

/// Returns the policy of the namespace of the written object.
fn policy_of(write: &Write<'_>) -> Policy {
    let namespace = || {
        let key = ObjectKey::from_parts(None, write.place.namespace?).ok()?;
        write.cluster.store().get(&"/namespaces".into(), &key)
    };
    namespace().map(|it| Policy::of(&it.to_value())).unwrap_or_default()
}
