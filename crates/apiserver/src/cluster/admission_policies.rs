//! Admission by policies: validating ones deny requests, warn or annotate.
//!
//! A policy is in effect as soon as it and its binding are stored; `policy_cache.rs` compiles it
//! once. Policies and bindings are evaluated in the order of their names, which kube-apiserver does
//! not define. Mirrors k8s.io/apiserver v0.36.4
//! pkg/admission/plugin/policy/validating/dispatcher.go.

use std::borrow::Cow;
use std::sync::{Arc, LazyLock};

use dogwatch_core::{ObjectKey, Reason};
use serde_json::{Value, json};

use super::Cluster;
use super::admission_attributes::AdmissionAttributes;
use super::configured_webhooks::ConfiguredWebhooks;
use super::policies::forbidden;
use super::policy_cache::{BoundPolicies, BoundPolicy, Compiled};
use super::policy_matching::{PolicyMatch, matched};
use super::policy_params::{Param, param_kind, params};
use super::request_authorizer::RequestAuthorizer;
use crate::ApiError;
use crate::admission_policy::{MutatingPolicy, Outcome, PolicyInput, ValidatingPolicy};
use crate::kinds::NAMESPACE;
use crate::kinds::json_access::{at, items, text};
use crate::registry::{Catalog, Kind};
use crate::store::CollectionName;

const GROUP: &str = "admissionregistration.k8s.io";

/// The resources that policies do not apply to: otherwise a policy could block its own removal.
const EXEMPT: [&str; 4] = [
    "validatingadmissionpolicies",
    "validatingadmissionpolicybindings",
    "mutatingadmissionpolicies",
    "mutatingadmissionpolicybindings",
];

static VALIDATING: LazyLock<[CollectionName; 2]> = LazyLock::new(|| collections("validating"));
static MUTATING: LazyLock<[CollectionName; 2]> = LazyLock::new(|| collections("mutating"));

fn collections(sort: &str) -> [CollectionName; 2] {
    ["policies", "policybindings"].map(|it| format!("{GROUP}/{sort}admission{it}").into())
}

/// The admission of requests by policies.
#[derive(Clone, Copy, Debug)]
pub(super) struct AdmissionPolicies<'a> {
    pub(super) cluster: &'a Cluster,
}

/// A policy whose rules match a request, with one of its bindings.
#[derive(Debug)]
pub(super) struct Invocation<P> {
    pub(super) policy: Arc<BoundPolicy<P>>,
    /// The version in which the policy sees the object, if it is another than that of the request.
    pub(super) kind: Option<Arc<Kind>>,
    /// The index of the binding.
    binding: usize,
    pub(super) param: Param,
}

/// The reason why a policy could not be evaluated.
#[derive(Debug)]
pub(super) struct Misconfigured<P> {
    pub(super) policy: Arc<BoundPolicy<P>>,
    /// The name of the binding, if it is about one.
    pub(super) binding: Option<String>,
    pub(super) message: String,
}

impl<P: Compiled> Invocation<P> {
    pub(super) fn binding(&self) -> &Value {
        self.policy.bindings.get(self.binding).unwrap_or(&Value::Null)
    }

    pub(super) fn binding_name(&self) -> &str {
        text(self.binding(), "/metadata/name")
    }
}

impl<'a> AdmissionPolicies<'a> {
    /// Returns the policies of a cluster.
    pub(super) fn of(cluster: &'a Cluster) -> Self {
        Self { cluster }
    }

    /// Returns true if any policies have bindings.
    pub(super) fn any(&self) -> bool {
        !self.bound_validating().policies.is_empty() || !self.bound_mutating().policies.is_empty()
    }

    fn bound_validating(&self) -> Arc<BoundPolicies<ValidatingPolicy>> {
        let [policies, bindings] = &*VALIDATING;
        self.cluster.policy_caches.validating.get(self.cluster.store(), policies, bindings)
    }

    pub(super) fn bound_mutating(&self) -> Arc<BoundPolicies<MutatingPolicy>> {
        let [policies, bindings] = &*MUTATING;
        self.cluster.policy_caches.mutating.get(self.cluster.store(), policies, bindings)
    }

    /// Evaluates the validating policies for an object that is ready to be stored, or about to be
    /// deleted. Adds their warnings.
    ///
    /// # Errors
    /// The first denial.
    pub(super) async fn validate(
        &self,
        asked: &AdmissionAttributes<'_>,
        object: Option<&Value>,
        warnings: &mut Vec<String>,
    ) -> Result<(), ApiError> {
        let bound = self.bound_validating();
        let (invocations, misconfigured) = self.invocations(&bound, asked, object).await?;
        let failed = misconfigured.into_iter().filter(|it| !it.policy.compiled().ignores_errors());
        let mut denials: Vec<(String, String)> = failed
            .map(|it| (denied_by(it.policy.name(), it.binding.as_deref(), &it.message), String::new()))
            .collect();
        for invocation in &invocations {
            self.decide(invocation, asked, object, warnings, &mut denials).await?;
        }
        match denials.into_iter().next() {
            None => Ok(()),
            Some((message, reason)) => {
                let reason = if reason.is_empty() { Reason::Invalid } else { Reason::from(&*reason) };
                let subject = object.or(asked.old).unwrap_or(&Value::Null);
                let mut denial = forbidden(asked.place, subject, &message).cause("", &message, "");
                denial.0.code = reason.code();
                denial.0.reason = reason;
                Err(denial)
            }
        }
    }

    /// Evaluates one policy with one binding and parameter.
    async fn decide(
        &self,
        invocation: &Invocation<ValidatingPolicy>,
        asked: &AdmissionAttributes<'_>,
        object: Option<&Value>,
        warnings: &mut Vec<String>,
        denials: &mut Vec<(String, String)>,
    ) -> Result<(), ApiError> {
        let (policy, binding) = (invocation.policy.name(), invocation.binding_name());
        let kind = invocation.kind.as_deref().unwrap_or(asked.place.kind);
        let seen = self.seen(kind, asked, object).await?;
        let verdict = seen.with_input(&invocation.param, |input| invocation.policy.compiled().decide(input));
        let denied = verdict.decisions.iter().filter(|it| it.outcome == Outcome::Deny);
        for decision in denied {
            for action in items(invocation.binding(), "/spec/validationActions") {
                let message = &decision.message;
                match action.as_str().unwrap_or_default() {
                    "Deny" => {
                        denials.push((denied_by(policy, Some(binding), message), decision.reason.clone()));
                    }
                    "Warn" => warnings.push(format!(
                        "Validation failed for ValidatingAdmissionPolicy '{policy}' with binding '{binding}': {message}"
                    )),
                    // There is no audit log; its event is a line of the log.
                    _ => tracing::info!(policy, binding, %message, "a request failed the validation of a policy"),
                }
            }
        }
        for annotation in verdict.annotations {
            match annotation.value {
                Ok(value) => {
                    tracing::info!(policy, binding, key = annotation.key, %value, "audit annotation of a policy");
                }
                Err(message) => denials.push((denied_by(policy, Some(binding), &message), String::new())),
            }
        }
        Ok(())
    }

    /// Returns the policies whose rules match a request, once for each binding and parameter.
    pub(super) async fn invocations<P: Compiled>(
        &self,
        bound: &BoundPolicies<P>,
        asked: &AdmissionAttributes<'_>,
        object: Option<&Value>,
    ) -> Result<(Vec<Invocation<P>>, Vec<Misconfigured<P>>), ApiError> {
        let (mut invocations, mut misconfigured) = (Vec::new(), Vec::new());
        if bound.policies.is_empty() || is_exempt(asked) {
            return Ok((invocations, misconfigured));
        }
        let (catalog, selectors) = (self.cluster.catalog(), ConfiguredWebhooks::of(self.cluster));
        let matches = |resources: &Value| matched(&selectors, &catalog, resources, asked, object);
        for policy in &bound.policies {
            let Some(PolicyMatch { kind }) = at(&policy.policy, "/spec/matchConstraints").and_then(matches)
            else {
                continue;
            };
            let param_kind = match self.kind_of_params(&catalog, policy) {
                Ok(param_kind) => param_kind,
                Err(message) => {
                    misconfigured.push(Misconfigured { policy: Arc::clone(policy), binding: None, message });
                    continue;
                }
            };
            for (index, binding) in policy.bindings.iter().enumerate() {
                let resources = at(binding, "/spec/matchResources");
                if resources.is_some_and(|it| matches(it).is_none()) {
                    continue;
                }
                match params(self.cluster, param_kind.as_deref(), binding, asked).await? {
                    Ok(params) => invocations.extend(params.into_iter().map(|param| Invocation {
                        policy: Arc::clone(policy),
                        kind: kind.clone(),
                        binding: index,
                        param,
                    })),
                    Err(why) => misconfigured.push(Misconfigured {
                        policy: Arc::clone(policy),
                        binding: Some(text(binding, "/metadata/name").to_owned()),
                        message: format!("failed to configure binding: {why}"),
                    }),
                }
            }
        }
        Ok((invocations, misconfigured))
    }

    fn kind_of_params<P>(
        &self,
        catalog: &Catalog,
        policy: &BoundPolicy<P>,
    ) -> Result<Option<Arc<Kind>>, String> {
        param_kind(catalog, &policy.policy).map_err(|why| format!("failed to configure policy: {why}"))
    }

    /// Returns what the expressions of a policy read.
    pub(super) async fn seen<'s>(
        &self,
        kind: &Kind,
        asked: &'s AdmissionAttributes<'_>,
        object: Option<&'s Value>,
    ) -> Result<Seen<'s>, ApiError>
    where
        'a: 's,
    {
        let conversion = self.cluster.conversion();
        let mut request = asked.attributes("", kind, object);
        // The namespace of a namespace is its own name.
        if let Some(namespace) = asked.namespace() {
            request["namespace"] = namespace.into();
        }
        Ok(Seen {
            object: conversion.seen_by(kind, asked, object).await?,
            old: conversion.seen_by(kind, asked, asked.old).await?,
            request,
            namespace: self.namespace_object(asked)?,
            authorizer: RequestAuthorizer::new(self.cluster, &asked.writer.user),
        })
    }

    /// Returns the namespace of a request as expressions see it; `None` for cluster-scoped objects,
    /// and for namespaces themselves.
    fn namespace_object(&self, asked: &AdmissionAttributes<'_>) -> Result<Option<Value>, ApiError> {
        let name = asked.place.namespace.filter(|_| !asked.place.kind.is(&NAMESPACE));
        let Some(name) = name.filter(|_| asked.place.kind.def.namespaced) else { return Ok(None) };
        let missing = || ApiError::not_found("", "namespaces", name);
        let key = ObjectKey::from_parts(None, name).map_err(|_| missing())?;
        let stored = self.cluster.store().get(&"/namespaces".into(), &key).ok_or_else(missing)?.to_value();
        let mut metadata = stored.get("metadata").cloned().unwrap_or_default();
        if let Some(fields) = metadata.as_object_mut() {
            for hidden in ["managedFields", "ownerReferences", "selfLink"] {
                fields.remove(hidden);
            }
        }
        let part = |name: &str| stored.get(name).cloned().unwrap_or_else(|| json!({}));
        Ok(Some(json!({ "metadata": metadata, "spec": part("spec"), "status": part("status") })))
    }
}

/// The values that the expressions of a policy read.
#[derive(Debug)]
pub(super) struct Seen<'a> {
    pub(super) object: Option<Cow<'a, Value>>,
    old: Option<Cow<'a, Value>>,
    request: Value,
    namespace: Option<Value>,
    authorizer: RequestAuthorizer<'a>,
}

impl Seen<'_> {
    /// Calls a function with these values and a parameter.
    pub(super) fn with_input<T>(&self, param: &Param, evaluate: impl FnOnce(&PolicyInput<'_>) -> T) -> T {
        evaluate(&PolicyInput {
            object: self.object.as_deref(),
            old_object: self.old.as_deref(),
            params: param.as_ref(),
            request: &self.request,
            namespace: self.namespace.as_ref(),
            authorizer: &self.authorizer,
        })
    }
}

/// Returns true for requests that policies do not apply to: for policies, and for the questions
/// that are answered without being stored.
fn is_exempt(asked: &AdmissionAttributes<'_>) -> bool {
    let def = &asked.place.kind.def;
    (def.group == GROUP && EXEMPT.contains(&&*def.plural)) || asked.place.kind.rules.review.is_some()
}

fn denied_by(policy: &str, binding: Option<&str>, message: &str) -> String {
    match binding {
        Some(binding) => {
            format!("ValidatingAdmissionPolicy '{policy}' with binding '{binding}' denied request: {message}")
        }
        None => format!("ValidatingAdmissionPolicy '{policy}' denied request: {message}"),
    }
}
