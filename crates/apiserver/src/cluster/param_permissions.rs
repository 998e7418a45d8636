//! The permission to read the parameters of a policy, which its writer must have: expressions could
//! show their content in messages.
//!
//! Mirrors k8s.io/kubernetes v1.36.4 pkg/registry/admissionregistration, authz.go of each kind.

use serde_json::Value;

use super::policy_params::param_kind;
use super::write::Write;
use crate::authorization::{AccessRequest, AccessTarget, AuthorizationMode, is_master};
use crate::kinds::json_access::{at, text};
use crate::kinds::{MUTATING_BINDING, MUTATING_POLICY, VALIDATING_BINDING, VALIDATING_POLICY};
use crate::user::User;
use crate::{FieldError, FieldErrorKind};

const GROUP: &str = "admissionregistration.k8s.io";

/// The group and resource of parameters; `*` where they are not known.
struct ParamResource {
    group: String,
    resource: String,
    /// The reason why the resource is not known.
    problem: Option<String>,
}

impl Write<'_> {
    /// Returns the problem of a policy or a binding whose writer may not read its parameters.
    pub(super) fn problem_of_params(&self) -> Option<FieldError> {
        let is_enforced = self.cluster.authorizer.mode() != AuthorizationMode::AlwaysAllow;
        if !is_enforced || is_master(&self.writer.user) {
            return None;
        }
        let (kind, old) = (self.place.kind, self.base.map(|it| it.object));
        let keeps = |pointer: &str| old.is_some_and(|old| at(old, pointer) == at(&self.new, pointer));
        let (field, why) = if kind.is(&VALIDATING_POLICY) || kind.is(&MUTATING_POLICY) {
            let wanted = at(&self.new, "/spec/paramKind").filter(|_| !keeps("/spec/paramKind"))?;
            ("spec.paramKind", self.refused_kind(wanted)?)
        } else if kind.is(&VALIDATING_BINDING) || kind.is(&MUTATING_BINDING) {
            // Asked for each update: kube-apiserver compares pointers that always differ.
            let wanted = at(&self.new, "/spec/paramRef")?;
            ("spec.paramRef", self.refused_reference(wanted)?)
        } else {
            return None;
        };
        Some(FieldError::new(field, FieldErrorKind::Forbidden, &why))
    }

    fn refused_kind(&self, wanted: &Value) -> Option<String> {
        let found = self.param_resource(&self.new);
        if self.may_read("get", &found, "*", "*") {
            return None;
        }
        Some(format!(
            "user {} must have \"get\" permission on all objects of the referenced paramKind (kind={}, apiVersion={})",
            shown(&self.writer.user),
            text(wanted, "/kind"),
            text(wanted, "/apiVersion")
        ))
    }

    fn refused_reference(&self, wanted: &Value) -> Option<String> {
        let name = text(wanted, "/name");
        let verb = if name.is_empty() { "list" } else { "get" };
        let plural = match self.place.kind.is(&VALIDATING_BINDING) {
            true => "validatingadmissionpolicies",
            false => "mutatingadmissionpolicies",
        };
        let policy_name = text(&self.new, "/spec/policyName");
        let policy = self.cluster.catalog().kind(GROUP, "v1", plural).and_then(|kind| {
            let key = dogwatch_core::ObjectKey::from_parts(None, policy_name).ok()?;
            Some(kind.show(&*self.cluster.get(&kind, &key)?))
        });
        let found = match &policy {
            Some(policy) => self.param_resource(policy),
            None => ParamResource {
                group: "*".to_owned(),
                resource: "*".to_owned(),
                problem: Some(format!("get policy {policy_name}")),
            },
        };
        if self.may_read(verb, &found, text(wanted, "/namespace"), name) {
            return None;
        }
        let user = shown(&self.writer.user);
        Some(match found.problem {
            Some(problem) => format!(
                "unable to {problem} to determine minimum required permissions and user {user} does not have \"{verb}\" \
                 permission for all groups, versions and resources"
            ),
            None => {
                // kube-apiserver mixes them up for mutating policies.
                let is_validating = self.place.kind.is(&VALIDATING_BINDING);
                let (first, second) = if is_validating { (&*user, verb) } else { (verb, &*user) };
                format!(
                    "user {first} does not have \"{second}\" permission on the object referenced by paramRef"
                )
            }
        })
    }

    /// Returns the resource of the parameters of a policy.
    fn param_resource(&self, policy: &Value) -> ParamResource {
        let api_version = text(policy, "/spec/paramKind/apiVersion");
        let unknown = |problem: Option<String>, group: &str| ParamResource {
            group: group.to_owned(),
            resource: "*".to_owned(),
            problem,
        };
        match param_kind(&self.cluster.catalog(), policy) {
            Ok(Some(kind)) => ParamResource {
                group: kind.def.group.clone(),
                resource: kind.def.plural.clone(),
                problem: None,
            },
            Ok(None) => unknown(None, "*"),
            Err(_) => {
                let group = api_version.split_once('/').map_or("", |(group, _)| group);
                let shown = format!(
                    "&ParamKind{{APIVersion:{api_version},Kind:{},}}",
                    text(policy, "/spec/paramKind/kind")
                );
                unknown(Some(format!("resolve paramKind {shown}")), group)
            }
        }
    }

    fn may_read(&self, verb: &str, of: &ParamResource, namespace: &str, name: &str) -> bool {
        let (group, resource) = (&*of.group, &*of.resource);
        let target = AccessTarget::Resource { group, resource, subresource: "", namespace, name };
        let request = AccessRequest { verb: verb.into(), target };
        self.cluster.authorize(&self.writer.user, &request).allowed
    }
}

/// Returns a user as Go formats it.
fn shown(user: &User) -> String {
    let extra = user.extra.iter().map(|(key, values)| format!("{key}:[{}]", values.join(" ")));
    let extra: Vec<String> = extra.collect();
    format!("&{{{} {} [{}] map[{}]}}", user.name, user.uid, user.groups.join(" "), extra.join(" "))
}
