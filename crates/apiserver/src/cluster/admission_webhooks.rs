//! Admission by policies and webhooks, which may change an object before it is written, and may
//! reject the write.
//!
//! ```text
//! own ─► mutate (policies, then one webhook after the other; both again if the object changes)
//!     ─► the rules of the kind ─► approve (policies, then all webhooks at once) ─► commit
//! ```
//!
//! `configured_webhooks.rs` decides which webhooks see a write, `admission_policies.rs` which
//! policies do.

use std::time::Duration;

use futures_util::stream::{self, StreamExt};
use serde_json::Value;

use super::Cluster;
use super::admission_attributes::{AdmissionAttributes, SeenObjects};
use super::admission_policies::AdmissionPolicies;
use super::configured_webhooks::ConfiguredWebhooks;
use super::conversion::{Conversion, size};
use super::decode::{AFTER_MUTATION, check_type, dedup_owner_references, settle};
use super::mutating_policies::Reinvocation;
use super::request_authorizer::RequestAuthorizer;
use super::webhook_cache::MatchedWebhook;
use super::webhook_calls::WebhookCalls;
use super::write::Write;
use crate::ApiError;
use crate::admission_plugin::{AdmissionPlugin, EnabledPlugins};
use crate::admission_policy::PolicyInput;
use crate::kinds::json_access::{at, number, text};
use crate::patch::{Patch, PatchKind};
use crate::plain_json;
use crate::registry::Kind;
use crate::webhook::review::{self, Purpose, Verdict};

/// The default of `timeoutSeconds`.
const DEFAULT_TIMEOUT_SECONDS: i64 = 10;
/// The approximate number of bytes of the reviews that one write sends at the same time. Each is a
/// copy of the object, and a cluster may have hundreds of webhooks.
const REVIEWS_IN_MEMORY: usize = 16 * 1024 * 1024;
/// The numbers of reviews that one write sends at the same time: at least, however large they are,
/// and at most, however small.
const LEAST_CALLS: usize = 4;
const MOST_CALLS: usize = 256;

/// The admission of writes by policies and webhooks.
#[derive(Clone, Copy, Debug)]
pub(super) struct AdmissionWebhooks<'a> {
    policies: AdmissionPolicies<'a>,
    configured: ConfiguredWebhooks<'a>,
    /// Webhooks may see objects in another version than that of the request.
    conversion: Conversion<'a>,
    calls: WebhookCalls<'a>,
    /// The admission plugins decide which webhooks are called at all.
    plugins: EnabledPlugins,
}

impl Cluster {
    /// Returns the admission of writes by policies and webhooks.
    pub(super) fn webhooks(&self) -> AdmissionWebhooks<'_> {
        AdmissionWebhooks {
            policies: AdmissionPolicies::of(self),
            configured: ConfiguredWebhooks::of(self),
            conversion: self.conversion(),
            calls: WebhookCalls::of(self),
            plugins: self.plugins,
        }
    }
}

impl Write<'_> {
    /// The third stage of a write: applies the mutating policies and calls the mutating webhooks.
    ///
    /// # Errors
    /// Those of [`AdmissionWebhooks::mutate`].
    pub(super) async fn mutate(&mut self) -> Result<(), ApiError> {
        let asked = AdmissionAttributes::of(self);
        let mut mutated = Some(std::mem::take(&mut self.new));
        self.warnings.extend(self.cluster.webhooks().mutate(&asked, &mut mutated).await?);
        self.new = mutated.unwrap_or_default();
        self.warnings.extend(dedup_owner_references(&mut self.new, AFTER_MUTATION));
        Ok(())
    }

    /// The sixth stage of a write: evaluates the validating policies and calls the validating
    /// webhooks.
    ///
    /// # Errors
    /// Those of [`AdmissionWebhooks::mutate`].
    pub(super) async fn review(&mut self) -> Result<(), ApiError> {
        let asked = AdmissionAttributes::of(self);
        self.warnings.extend(self.cluster.webhooks().approve(&asked, Some(&self.new)).await?);
        Ok(())
    }
}

impl AdmissionWebhooks<'_> {
    /// Returns true if any webhooks are configured, or any policies have bindings.
    pub(super) fn are_configured(&self) -> bool {
        self.configured.any() || self.policies.any()
    }

    /// Applies the mutating policies and calls the mutating webhooks, which may change an object
    /// before the rules of its kind are applied. Returns their warnings.
    ///
    /// # Errors
    /// The denial of a policy or a webhook; 500 if a webhook with `failurePolicy: Fail` does not
    /// respond.
    pub(super) async fn mutate(
        &self,
        asked: &AdmissionAttributes<'_>,
        object: &mut Option<Value>,
    ) -> Result<Vec<String>, ApiError> {
        let mut warnings = Vec::new();
        let mut round = Reinvocation::default();
        let is_applied = self.apply_policies(asked, object, &mut round).await?;
        let mut changes = 0_usize;
        // The webhooks that may be called again, with the number of changes up to their call.
        let mut called = Vec::new();
        let is_on = self.plugins.has(AdmissionPlugin::MutatingAdmissionWebhook);
        let hooks = is_on.then(|| self.configured.mutating(asked));
        for hook in hooks.iter().flat_map(|it| it.iter()) {
            let changed = self.mutate_by(hook, asked, object, &mut warnings).await?;
            changes = changes.saturating_add(usize::from(changed));
            if text(&hook.webhook, "/reinvocationPolicy") == "IfNeeded" {
                called.push((hook, changes));
            }
        }
        // All are applied again if one has changed the object. Policies come before webhooks, so
        // the changes of a webhook are those since the policies were applied.
        if is_applied || changes > 0 {
            round.begin_second(changes > 0);
            // A copy of the object, which only webhooks that are called again need.
            let before = (!called.is_empty()).then(|| object.clone());
            self.apply_policies(asked, object, &mut round).await?;
            let is_changed = before.is_some_and(|before| before != *object);
            changes = changes.saturating_add(usize::from(is_changed));
        }
        // Called again if later webhooks have changed the object, also if the changes cancel out
        // (k8s.io/apiserver v0.36.4 pkg/admission/plugin/webhook/mutating/reinvocationcontext.go).
        // Changes are counted, since comparing would take a copy of the object for each webhook.
        for (hook, seen) in called {
            if changes > seen {
                let changed = self.mutate_by(hook, asked, object, &mut warnings).await?;
                changes = changes.saturating_add(usize::from(changed));
            }
        }
        Ok(warnings)
    }

    /// Applies the mutating policies, unless their plugin is off. Returns true if one has changed
    /// the object.
    async fn apply_policies(
        &self,
        asked: &AdmissionAttributes<'_>,
        object: &mut Option<Value>,
        round: &mut Reinvocation,
    ) -> Result<bool, ApiError> {
        if !self.plugins.has(AdmissionPlugin::MutatingAdmissionPolicy) {
            return Ok(false);
        }
        self.policies.mutate(asked, object, round).await
    }

    /// Evaluates the validating policies and calls the validating webhooks for an object that is
    /// ready to be stored, or about to be deleted. Returns their warnings.
    ///
    /// # Errors
    /// Those of [`Self::mutate`].
    pub(super) async fn approve(
        &self,
        asked: &AdmissionAttributes<'_>,
        object: Option<&Value>,
    ) -> Result<Vec<String>, ApiError> {
        let mut warnings = Vec::new();
        if self.plugins.has(AdmissionPlugin::ValidatingAdmissionPolicy) {
            self.policies.validate(asked, object, &mut warnings).await?;
        }
        if !self.plugins.has(AdmissionPlugin::ValidatingAdmissionWebhook) {
            return Ok(warnings);
        }
        let hooks = self.configured.validating(asked);
        if hooks.is_empty() {
            return Ok(warnings);
        }
        let review = [object, asked.old].into_iter().flatten().map(size).fold(1, usize::saturating_add);
        let at_a_time = REVIEWS_IN_MEMORY.checked_div(review).unwrap_or(1).clamp(LEAST_CALLS, MOST_CALLS);
        let call = |(index, hook)| async move {
            let verdict = self.ask(hook, asked, object, Purpose::Validate).await;
            (index, verdict.map(|it| it.map(|(verdict, _)| verdict.warnings).unwrap_or_default()))
        };
        let calls: Vec<_> = hooks.iter().enumerate().map(call).collect();
        // Unordered, so that a webhook that does not respond delays no others; the first error in
        // the order of the webhooks counts.
        let mut verdicts: Vec<_> = stream::iter(calls).buffer_unordered(at_a_time).collect().await;
        verdicts.sort_by_key(|(index, _)| *index);
        let verdicts: Result<Vec<_>, _> = verdicts.into_iter().map(|(_, verdict)| verdict).collect();
        warnings.extend(verdicts?.into_iter().flatten());
        Ok(warnings)
    }

    /// Calls one mutating webhook and applies its patch. Returns true if that changed the object.
    async fn mutate_by(
        &self,
        hook: &MatchedWebhook,
        asked: &AdmissionAttributes<'_>,
        object: &mut Option<Value>,
        warnings: &mut Vec<String>,
    ) -> Result<bool, ApiError> {
        let Some((verdict, seen)) = self.ask(hook, asked, object.as_ref(), Purpose::Mutate).await? else {
            return Ok(false);
        };
        warnings.extend(verdict.warnings);
        let is_empty = |it: &[u8]| plain_json::from_slice(it).is_ok_and(|it| it == Value::Array(Vec::new()));
        let Some(patch) = verdict.patch.filter(|it| !is_empty(it)) else { return Ok(false) };
        let Some(before) = seen.object else {
            let name = text(&hook.webhook, "/name");
            return Err(review::broken(&format!(
                "admission webhook {name:?} attempted to modify the object, which is not supported for this operation"
            )));
        };
        let plain = asked.place.kind;
        let kind = hook.kind.as_deref().unwrap_or(plain);
        let patched = patched(kind, asked, &before, &patch).map_err(|why| review::broken(&why))?;
        let changed = patched != *before;
        drop(before);
        *object = Some(if asked.differs_in(kind) {
            self.conversion.between(kind, plain, &patched).await?
        } else {
            patched
        });
        Ok(changed)
    }

    /// Calls one webhook. Returns its verdict with the objects that it has seen, or `None` if its
    /// selectors or conditions do not match, or if it does not respond and has
    /// `failurePolicy: Ignore`.
    async fn ask<'a>(
        &self,
        hook: &MatchedWebhook,
        asked: &'a AdmissionAttributes<'_>,
        object: Option<&'a Value>,
        purpose: Purpose,
    ) -> Result<Option<(Verdict, SeenObjects<'a>)>, ApiError> {
        let (webhook, name) = (&hook.webhook, text(&hook.webhook, "/name"));
        if !self.configured.selects(webhook, asked, object) {
            return Ok(None);
        }
        // A failure to convert is an error in spite of the failure policy, as in k8s.io/apiserver
        // v0.36.4 pkg/admission/plugin/webhook/mutating/dispatcher.go.
        let kind = hook.kind.as_deref().unwrap_or(asked.place.kind);
        let seen = SeenObjects {
            object: self.conversion.seen_by(kind, asked, object).await?,
            old: self.conversion.seen_by(kind, asked, asked.old).await?,
        };
        if !self.meets_conditions(hook, kind, asked, &seen)? {
            return Ok(None);
        }
        if asked.writer.dry_run && !matches!(text(webhook, "/sideEffects"), "None" | "NoneOnDryRun") {
            return Err(ApiError::bad_request(format!(
                "admission webhook {name:?} does not support dry run"
            )));
        }
        match self.call_webhook(hook, asked, &seen, purpose).await {
            Ok(verdict) if verdict.allowed => Ok(Some((verdict, seen))),
            Ok(verdict) => Err(review::denied(name, verdict.status.as_ref())),
            Err(why) if text(webhook, "/failurePolicy") == "Ignore" => {
                tracing::warn!(webhook = name, %why, "failed to call a webhook; ignored because of its failurePolicy");
                Ok(None)
            }
            Err(why) => Err(review::unanswered(name, &why)),
        }
    }

    /// Returns true if the match conditions of a webhook do not exclude a request.
    ///
    /// # Errors
    /// 403 if a condition fails and the failure policy does not ignore that.
    fn meets_conditions(
        &self,
        hook: &MatchedWebhook,
        kind: &Kind,
        asked: &AdmissionAttributes<'_>,
        seen: &SeenObjects<'_>,
    ) -> Result<bool, ApiError> {
        let conditions = hook.webhook.conditions();
        if conditions.is_empty() {
            return Ok(true);
        }
        let object = seen.object.as_deref();
        let input = PolicyInput {
            object,
            old_object: seen.old.as_deref(),
            params: None,
            request: &asked.attributes("", kind, object),
            namespace: None,
            authorizer: &RequestAuthorizer::new(self.policies.cluster, &asked.writer.user),
        };
        conditions.matches(&input).map_err(|why| {
            let def = &asked.place.kind.def;
            ApiError::forbidden(&def.group, &def.plural, &asked.name(object), &why)
        })
    }

    async fn call_webhook(
        &self,
        hook: &MatchedWebhook,
        asked: &AdmissionAttributes<'_>,
        seen: &SeenObjects<'_>,
        purpose: Purpose,
    ) -> Result<Verdict, String> {
        let webhook = &hook.webhook;
        let version = review::version_for(webhook)
            .ok_or_else(|| "no admissionReviewVersions that this server knows".to_owned())?;
        let uid = self.calls.uid();
        let kind = hook.kind.as_deref().unwrap_or(asked.place.kind);
        let target = self.calls.target(at(webhook, "/clientConfig").unwrap_or(&Value::Null))?;
        let question = review::question(version, &asked.request(&uid, kind, seen));
        let seconds = number(webhook, "/timeoutSeconds").unwrap_or(DEFAULT_TIMEOUT_SECONDS).clamp(1, 30);
        let limit = Duration::from_secs(seconds.unsigned_abs());
        let answer = self.calls.post(&target, question, limit).await?;
        review::read(&answer, version, &uid, purpose)
    }
}

/// Applies the JSON patch of a webhook to an object of the webhook's version.
fn patched(
    kind: &Kind,
    asked: &AdmissionAttributes<'_>,
    before: &Value,
    patch: &[u8],
) -> Result<Value, String> {
    let patch = Patch::decode(PatchKind::Json, patch, false).map_err(|it| it.0.message)?;
    let mut object = patch.apply(before, &kind.schema, kind.definitions()).map_err(|it| it.0.message)?;
    if asked.gvk(kind) == kind.def.gvk() {
        let bytes = object.to_string();
        check_type(kind, &object)?;
        if kind.custom_version().is_some() && text(&object, "/kind").is_empty() {
            return Err(format!("Object 'Kind' is missing in '{bytes}'"));
        }
        settle(kind, bytes.as_bytes(), &mut object)?;
    }
    Ok(object)
}
