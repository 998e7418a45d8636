//! Admission by mutating policies, which change the object of a request before its webhooks do.
//!
//! Mirrors k8s.io/apiserver v0.36.4 pkg/admission/plugin/policy/mutating/dispatcher.go. A policy
//! with `reinvocationPolicy: IfNeeded` is applied again if the object has changed since.

use std::collections::BTreeSet;

use dogwatch_core::Reason;
use serde_json::Value;

use super::admission_attributes::AdmissionAttributes;
use super::admission_policies::{AdmissionPolicies, Invocation};
use super::decode::{check_type, settle, settle_as};
use super::policies::forbidden;
use crate::ApiError;
use crate::admission_policy::MutatingPolicy;
use crate::builtin::BuiltinDefinitions;
use crate::kinds::json_access::text;
use crate::registry::Kind;
use crate::schema::Schema;
use crate::webhook::review;

/// The policies that were applied to a request: those that are applied again if the object changes.
#[derive(Debug, Default)]
pub(super) struct Reinvocation {
    is_second: bool,
    /// The policies that have been applied since the object last changed.
    invoked: BTreeSet<InvocationKey>,
    /// The policies that the object has changed after.
    required: BTreeSet<InvocationKey>,
}

/// The names of a policy, a binding, and the namespace and name of a parameter.
type InvocationKey = (String, String, String, String);

impl Reinvocation {
    /// Begins the second round. `changed` is true if the object has changed since the policies were
    /// applied.
    pub(super) fn begin_second(&mut self, changed: bool) {
        self.is_second = true;
        if changed {
            self.require_invoked();
        }
    }

    fn require_invoked(&mut self) {
        self.required.append(&mut self.invoked);
    }
}

/// The reason why a policy denies a request, which its failure policy may ignore.
struct Problem {
    message: String,
    reason: Reason,
}

impl AdmissionPolicies<'_> {
    /// Applies the mutating policies to the object of a request. Returns true if later changes may
    /// make it necessary to apply others again.
    ///
    /// # Errors
    /// The first failure of a policy with `failurePolicy: Fail`.
    pub(super) async fn mutate(
        &self,
        asked: &AdmissionAttributes<'_>,
        object: &mut Option<Value>,
        round: &mut Reinvocation,
    ) -> Result<bool, ApiError> {
        let bound = self.bound_mutating();
        let (invocations, misconfigured) = self.invocations(&bound, asked, object.as_ref()).await?;
        let mut problems = Vec::new();
        for it in misconfigured.into_iter().filter(|it| !it.policy.compiled().ignores_errors()) {
            let message = denied_by(it.policy.name(), it.binding.as_deref(), &it.message);
            problems.push(Problem { message, reason: Reason::Forbidden });
        }
        let mut applied = false;
        for invocation in &invocations {
            applied |= self.invoke(invocation, asked, object, round, &mut problems).await?;
        }
        if applied {
            round.require_invoked();
        }
        let Some(first) = problems.first() else { return Ok(applied) };
        let subject = object.as_ref().or(asked.old).unwrap_or(&Value::Null);
        let mut denial = forbidden(asked.place, subject, "");
        denial.0.message.clone_from(&first.message);
        // The code stays that of a 403, as in kube-apiserver.
        denial.0.reason = first.reason.clone();
        Err(problems.iter().fold(denial, |denial, it| denial.cause("", &it.message, "")))
    }

    /// Applies one policy with one binding and parameter. Returns true if a mutation was applied.
    async fn invoke(
        &self,
        invocation: &Invocation<MutatingPolicy>,
        asked: &AdmissionAttributes<'_>,
        object: &mut Option<Value>,
        round: &mut Reinvocation,
        problems: &mut Vec<Problem>,
    ) -> Result<bool, ApiError> {
        let policy = invocation.policy.compiled();
        let kind = invocation.kind.as_deref().unwrap_or(asked.place.kind);
        let mut fail = |why: &str| {
            if !policy.ignores_errors() {
                let message = denied_by(invocation.policy.name(), Some(invocation.binding_name()), why);
                problems.push(Problem { message, reason: Reason::Invalid });
            }
        };
        let matches = {
            let seen = self.seen(kind, asked, object.as_ref()).await?;
            seen.with_input(&invocation.param, |input| policy.matches(input))
        };
        match matches {
            Ok(true) => {}
            Ok(false) => return Ok(false),
            Err(why) => {
                fail(&why);
                return Ok(false);
            }
        }
        let key = key_of(invocation);
        if round.is_second && !round.required.contains(&key) {
            return Ok(false);
        }
        let (mut applied, mut changed) = (false, false);
        for mutation in policy.mutations() {
            if object.is_none() {
                break;
            }
            let patched = {
                let seen = self.seen(kind, asked, object.as_ref()).await?;
                let schema = schema_of(kind, asked);
                let definitions = kind.definitions();
                let patched = seen.with_input(&invocation.param, |input| {
                    policy.apply(mutation, input, &schema, definitions)
                });
                patched.map(|it| (seen.object.as_deref() != Some(&it)).then_some(it))
            };
            match patched {
                Ok(Some(patched)) => {
                    let settled = match settled(kind, asked, patched) {
                        Ok(settled) => settled,
                        Err(why) if mutation.is_json_patch() => return Err(review::broken(&why)),
                        Err(why) => {
                            fail(&unconverted(kind, asked, &why));
                            continue;
                        }
                    };
                    let plain = asked.place.kind;
                    *object = Some(if asked.differs_in(kind) {
                        self.cluster.conversion().between(kind, plain, &settled).await?
                    } else {
                        settled
                    });
                    (applied, changed) = (true, true);
                }
                Ok(None) => applied = true,
                Err(why) => fail(&why),
            }
        }
        if changed {
            round.require_invoked();
        }
        if policy.is_reinvoked() {
            round.invoked.insert(key);
        }
        Ok(applied)
    }
}

/// Completes an object that a policy has changed: it must still be one of its kind.
fn settled(kind: &Kind, asked: &AdmissionAttributes<'_>, mut object: Value) -> Result<Value, String> {
    let gvk = asked.gvk(kind);
    if gvk != kind.def.gvk() {
        settle_as(&gvk, &mut object)?;
        return Ok(object);
    }
    check_type(kind, &object)?;
    let bytes = object.to_string();
    let strict = settle(kind, bytes.as_bytes(), &mut object)?;
    // Custom objects are not decoded strictly.
    match kind.custom_version().is_none() && !strict.is_empty() {
        true => Err(format!("strict decoding error: {}", strict.join(", "))),
        false => Ok(object),
    }
}

/// Returns the message about an apply configuration whose result is no object of its kind.
fn unconverted(kind: &Kind, asked: &AdmissionAttributes<'_>, why: &str) -> String {
    let gvk = asked.gvk(kind);
    let from = if why.starts_with("illegal base64") { "error decoding from json: " } else { "" };
    let (group, version, kind) = (gvk.group, gvk.version, gvk.kind);
    format!("unable to convert unstructured object to {group}/{version}, Kind={kind}: {from}{why}")
}

/// Returns the schema of the objects of a request, which may be those of a subresource.
fn schema_of(kind: &Kind, asked: &AdmissionAttributes<'_>) -> Schema {
    let gvk = asked.gvk(kind);
    if gvk == kind.def.gvk() {
        return kind.schema.clone();
    }
    BuiltinDefinitions.of_kind(&gvk.group, &gvk.version, &gvk.kind).unwrap_or(Schema::Any)
}

fn key_of(invocation: &Invocation<MutatingPolicy>) -> InvocationKey {
    let param =
        |pointer: &str| invocation.param.as_ref().map(|it| text(it, pointer)).unwrap_or_default().to_owned();
    (
        invocation.policy.name().to_owned(),
        invocation.binding_name().to_owned(),
        param("/metadata/namespace"),
        param("/metadata/name"),
    )
}

fn denied_by(policy: &str, binding: Option<&str>, message: &str) -> String {
    match binding {
        Some(binding) => format!("policy '{policy}' with binding '{binding}' denied request: {message}"),
        None => format!("policy {policy:?} denied request: {message}"),
    }
}
