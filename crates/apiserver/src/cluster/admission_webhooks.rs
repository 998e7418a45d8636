//! Admission by webhooks, which may change an object before it is written, and may reject the
//! write.
//!
//! ```text
//! own ─► mutate (one webhook after the other) ─► the rules of the kind ─► approve (all at once) ─► commit
//! ```
//!
//! The configurations are read again for each write, so a configuration is in effect as soon as it
//! is stored.
//!
//! `matchConditions` are CEL, which this server does not evaluate: such a webhook is called for
//! every request that its rules and selectors match, as if all its conditions were true. It may see
//! requests that its conditions would exclude, but no request bypasses it. The client that stores
//! such a configuration gets a warning.

use std::borrow::Cow;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use dogwatch_core::Gvk;
use futures_util::stream::{self, StreamExt};
use serde_json::{Value, json};

use super::conversion::size;
use super::decode::{AFTER_MUTATION, check_type, dedup_owner_references, settle};
use super::selector::selects;
use super::write::Write;
use super::{Cluster, ObjectRef, Writer};
use crate::ApiError;
use crate::kinds::NAMESPACE;
use crate::kinds::json_access::{at, items, number, text};
use crate::patch::{Patch, PatchKind};
use crate::registry::Kind;
use crate::store::CollectionName;
use crate::webhook::review::{self, Purpose, ReviewRequest, Verdict};
use crate::webhook::rules::{self, Subject};
use crate::webhook::{call, target::Target};

const GROUP: &str = "admissionregistration.k8s.io";
static MUTATING: LazyLock<CollectionName> =
    LazyLock::new(|| format!("{GROUP}/mutatingwebhookconfigurations").into());
static VALIDATING: LazyLock<CollectionName> =
    LazyLock::new(|| format!("{GROUP}/validatingwebhookconfigurations").into());
/// The default of `timeoutSeconds`.
const DEFAULT_TIMEOUT_SECONDS: i64 = 10;
/// The approximate number of bytes of the reviews that one write sends at the same time. Each is a
/// copy of the object, and a cluster may have hundreds of webhooks.
const REVIEWS_IN_MEMORY: usize = 16 * 1024 * 1024;
/// The numbers of reviews that one write sends at the same time: at least, however large they are,
/// and at most, however small.
const LEAST_CALLS: usize = 4;
const MOST_CALLS: usize = 256;

/// The attributes of a write that webhooks review.
#[derive(Debug)]
pub(super) struct AdmissionAttributes<'a> {
    place: &'a ObjectRef<'a>,
    operation: &'static str,
    /// The object before the write.
    old: Option<&'a Value>,
    writer: &'a Writer,
    /// The kind of the request's options, and their fields.
    options: (&'static str, Value),
}

/// A webhook whose rules match a write.
struct MatchedWebhook {
    /// The webhook as its configuration describes it.
    webhook: Value,
    /// The version in which the webhook sees the object, if it is another than that of the request.
    kind: Option<Arc<Kind>>,
}

/// The objects of a write in the version of a webhook. They are those of the write unless they had
/// to be converted.
struct SeenObjects<'a> {
    object: Option<Cow<'a, Value>>,
    old: Option<Cow<'a, Value>>,
}

impl<'a> AdmissionAttributes<'a> {
    /// Describes a creation or an update.
    fn of(write: &Write<'a>) -> Self {
        match write.base {
            None => Self::create(write.place, write.writer),
            Some(base) => Self::update(write.place, base.object, write.writer),
        }
    }

    /// Describes a creation.
    pub(super) fn create(place: &'a ObjectRef<'a>, writer: &'a Writer) -> Self {
        Self { place, operation: "CREATE", old: None, writer, options: ("CreateOptions", Value::Null) }
    }

    /// Describes an update.
    pub(super) fn update(place: &'a ObjectRef<'a>, old: &'a Value, writer: &'a Writer) -> Self {
        let options = ("UpdateOptions", Value::Null);
        Self { place, operation: "UPDATE", old: Some(old), writer, options }
    }

    /// Describes a deletion; `how` has the delete options.
    pub(super) fn delete(place: &'a ObjectRef<'a>, old: &'a Value, writer: &'a Writer, how: Value) -> Self {
        Self { place, operation: "DELETE", old: Some(old), writer, options: ("DeleteOptions", how) }
    }

    /// Returns the name of the object; empty if it has none yet.
    fn name(&self, object: Option<&Value>) -> String {
        match self.place.name {
            "" => text(object.or(self.old).unwrap_or(&Value::Null), "/metadata/name").to_owned(),
            name => name.to_owned(),
        }
    }

    /// Returns the group, version and kind of the written object, in the version of `kind`.
    fn gvk(&self, kind: &Kind) -> Gvk {
        match kind.def.subresource(self.place.part) {
            Some(part) => kind.def.subresource_gvk(part),
            None => kind.def.gvk(),
        }
    }

    fn subject<'s>(&'s self, kind: &'s Kind) -> Subject<'s> {
        Subject {
            operation: self.operation,
            group: &kind.def.group,
            version: &kind.def.version,
            resource: &kind.def.plural,
            part: self.place.part,
            namespaced: self.place.namespace.is_some() && !kind.is(&NAMESPACE),
        }
    }

    /// Returns the options of the request as a review carries them.
    fn options(&self) -> Value {
        let (kind, how) = &self.options;
        let mut options = json!({ "kind": kind, "apiVersion": "meta.k8s.io/v1" });
        if self.writer.dry_run {
            options["dryRun"] = json!(["All"]);
        }
        if let (Some(all), Value::Object(how)) = (options.as_object_mut(), how) {
            all.extend(how.clone());
        }
        options
    }

    /// Returns the `request` of a review, for a webhook that sees the objects as `kind`.
    fn request<'s>(&self, uid: &str, kind: &Kind, seen: &'s SeenObjects<'_>) -> ReviewRequest<'s> {
        let (object, old_object) = (seen.object.as_deref(), seen.old.as_deref());
        ReviewRequest { attributes: self.attributes(uid, kind, object), object, old_object }
    }

    /// Returns the fields of a request other than its objects.
    fn attributes(&self, uid: &str, kind: &Kind, object: Option<&Value>) -> Value {
        let (gvk, plain) = (self.gvk(kind), self.gvk(self.place.kind));
        let mut attributes = json!({
            "uid": uid,
            "kind": { "group": gvk.group, "version": gvk.version, "kind": gvk.kind },
            "resource": resource(kind),
            "requestKind": { "group": plain.group, "version": plain.version, "kind": plain.kind },
            "requestResource": resource(self.place.kind),
            "operation": self.operation,
            "userInfo": self.writer.user.info(),
            "dryRun": self.writer.dry_run,
            "options": self.options(),
        });
        let (name, namespace) = (self.name(object), self.place.namespace.unwrap_or_default().to_owned());
        let part = self.place.part.to_owned();
        for (field, value) in [
            ("name", name),
            ("namespace", namespace),
            ("subResource", part.clone()),
            ("requestSubResource", part),
        ] {
            if !value.is_empty() {
                attributes[field] = value.into();
            }
        }
        attributes
    }

    /// Returns true if the written object has another form in the version of `kind`. The objects of
    /// subresources such as `scale` have a version of their own.
    fn differs_in(&self, kind: &Kind) -> bool {
        self.gvk(kind) != self.gvk(self.place.kind)
    }
}

impl Write<'_> {
    /// The third stage of a write: calls the mutating webhooks.
    ///
    /// # Errors
    /// Those of [`Cluster::mutate`].
    pub(super) async fn mutate(&mut self) -> Result<(), ApiError> {
        let asked = AdmissionAttributes::of(self);
        let mut mutated = Some(std::mem::take(&mut self.new));
        self.warnings.extend(self.cluster.mutate(&asked, &mut mutated).await?);
        self.new = mutated.unwrap_or_default();
        self.warnings.extend(dedup_owner_references(&mut self.new, AFTER_MUTATION));
        Ok(())
    }

    /// The sixth stage of a write: calls the validating webhooks.
    ///
    /// # Errors
    /// Those of [`Cluster::mutate`].
    pub(super) async fn review(&mut self) -> Result<(), ApiError> {
        let asked = AdmissionAttributes::of(self);
        self.warnings.extend(self.cluster.approve(&asked, Some(&self.new)).await?);
        Ok(())
    }
}

impl Cluster {
    /// Calls the mutating webhooks, which may change an object before the rules of its kind are
    /// applied. Returns their warnings.
    ///
    /// # Errors
    /// The denial of a webhook; 500 if a webhook with `failurePolicy: Fail` does not respond.
    pub(super) async fn mutate(
        &self,
        asked: &AdmissionAttributes<'_>,
        object: &mut Option<Value>,
    ) -> Result<Vec<String>, ApiError> {
        let mut warnings = Vec::new();
        let mut changes = 0_usize;
        // The webhooks that may be called again, with the number of changes up to their call.
        let mut called = Vec::new();
        for hook in self.hooks(&MUTATING, asked) {
            let changed = self.mutate_by(&hook, asked, object, &mut warnings).await?;
            changes = changes.saturating_add(usize::from(changed));
            if text(&hook.webhook, "/reinvocationPolicy") == "IfNeeded" {
                called.push((hook, changes));
            }
        }
        // Called again if later webhooks have changed the object, also if the changes cancel out
        // (k8s.io/apiserver v0.36.4 pkg/admission/plugin/webhook/mutating/reinvocationcontext.go).
        // Changes are counted, since comparing would take a copy of the object for each webhook.
        for (hook, seen) in called {
            if changes > seen {
                let changed = self.mutate_by(&hook, asked, object, &mut warnings).await?;
                changes = changes.saturating_add(usize::from(changed));
            }
        }
        Ok(warnings)
    }

    /// Calls the validating webhooks for an object that is ready to be stored, or about to be
    /// deleted. Returns their warnings.
    ///
    /// # Errors
    /// Those of [`Self::mutate`].
    pub(super) async fn approve(
        &self,
        asked: &AdmissionAttributes<'_>,
        object: Option<&Value>,
    ) -> Result<Vec<String>, ApiError> {
        let hooks = self.hooks(&VALIDATING, asked);
        if hooks.is_empty() {
            return Ok(Vec::new());
        }
        let review = [object, asked.old].into_iter().flatten().map(size).fold(1, usize::saturating_add);
        let at_a_time = REVIEWS_IN_MEMORY.checked_div(review).unwrap_or(1).clamp(LEAST_CALLS, MOST_CALLS);
        let call = |(index, hook)| async move {
            let verdict = self.ask(hook, asked, object, Purpose::Validate).await;
            (index, verdict.map(|it| it.map(|(verdict, _)| verdict.warnings).unwrap_or_default()))
        };
        let calls: Vec<_> = hooks.iter().enumerate().map(call).collect();
        // Unordered, so that a webhook that does not respond delays no others; the first error in the
        // order of the webhooks counts.
        let mut verdicts: Vec<_> = stream::iter(calls).buffer_unordered(at_a_time).collect().await;
        verdicts.sort_by_key(|(index, _)| *index);
        let verdicts: Result<Vec<_>, _> = verdicts.into_iter().map(|(_, verdict)| verdict).collect();
        Ok(verdicts?.concat())
    }

    /// Returns true if any webhooks are configured.
    pub(super) fn has_webhooks(&self) -> bool {
        let any = |it: &CollectionName| {
            self.store().read(it, |history, revision| {
                history.list_at(revision, None).into_iter().flatten().next().is_some()
            })
        };
        any(&MUTATING) || any(&VALIDATING)
    }

    /// Returns the webhooks of these configurations whose rules match, in order.
    fn hooks(&self, configurations: &CollectionName, asked: &AdmissionAttributes<'_>) -> Vec<MatchedWebhook> {
        let stored = self.store().read(configurations, |history, revision| {
            history.list_at(revision, None).into_iter().flatten().cloned().collect::<Vec<_>>()
        });
        // Webhook configurations and admission policies are exempt: otherwise a webhook could block
        // its own removal.
        if stored.is_empty() || asked.place.kind.def.group == GROUP {
            return Vec::new();
        }
        let webhooks = stored.iter().map(|it| it.to_value()).flat_map(|it| items(&it, "/webhooks").to_vec());
        webhooks.filter_map(|it| self.hook(it, asked)).collect()
    }

    fn hook(&self, webhook: Value, asked: &AdmissionAttributes<'_>) -> Option<MatchedWebhook> {
        let plain = asked.place.kind;
        let wanted = if rules::wants(&webhook, &asked.subject(plain)) {
            None
        } else if text(&webhook, "/matchPolicy") == "Exact" {
            return None;
        } else {
            let twin = |it: &Arc<Kind>| {
                it.collection == plain.collection && rules::wants(&webhook, &asked.subject(it))
            };
            let catalog = self.catalog();
            let all = catalog.served().resources().iter().filter(|it| it.plural == plain.def.plural);
            Some(all.filter_map(|it| catalog.kind(&it.group, &it.version, &it.plural)).find(twin)?)
        };
        Some(MatchedWebhook { webhook, kind: wanted })
    }

    /// Returns true if the selectors of a webhook match a request whose object is now `object`.
    ///
    /// They are evaluated just before the webhook is called, since an earlier webhook may have
    /// changed the labels.
    fn selected(&self, webhook: &Value, asked: &AdmissionAttributes<'_>, object: Option<&Value>) -> bool {
        let by_object = |selector: &Value| {
            let sides = [object, asked.old].into_iter().flatten();
            sides.into_iter().any(|side| selects(selector, &labels(side)))
        };
        let by_namespace = |selector: &Value| match self.namespace_labels(asked, object) {
            Some(labels) => selects(selector, &labels),
            None => true,
        };
        at(webhook, "/objectSelector").is_none_or(by_object)
            && at(webhook, "/namespaceSelector").is_none_or(by_namespace)
    }

    /// Returns the labels that a `namespaceSelector` is matched against; `None` for cluster-scoped
    /// objects other than namespaces.
    ///
    /// A namespace that is created or updated is selected by its new labels; for its subresources
    /// and its deletion the stored labels count (k8s.io/apiserver v0.36.4
    /// pkg/admission/plugin/webhook/predicates/namespace/matcher.go).
    fn namespace_labels(&self, asked: &AdmissionAttributes<'_>, object: Option<&Value>) -> Option<Value> {
        if asked.place.kind.is(&NAMESPACE) {
            let new = object.filter(|_| asked.place.part.is_empty() && asked.operation != "DELETE");
            return Some(new.or(asked.old).map(labels).unwrap_or_default());
        }
        let key = dogwatch_core::ObjectKey::from_parts(None, asked.place.namespace?).ok()?;
        let namespace = self.store().get(&"/namespaces".into(), &key)?;
        Some(labels(&namespace.to_value()))
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
        let is_empty = |it: &[u8]| serde_json::from_slice::<Vec<Value>>(it).is_ok_and(|it| it.is_empty());
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
            self.convert_between(kind, plain, &patched).await?
        } else {
            patched
        });
        Ok(changed)
    }

    /// Calls one webhook. Returns its verdict with the objects that it has seen, or `None` if its
    /// selectors do not match, or if it does not respond and has `failurePolicy: Ignore`.
    async fn ask<'a>(
        &self,
        hook: &MatchedWebhook,
        asked: &'a AdmissionAttributes<'_>,
        object: Option<&'a Value>,
        purpose: Purpose,
    ) -> Result<Option<(Verdict, SeenObjects<'a>)>, ApiError> {
        let (webhook, name) = (&hook.webhook, text(&hook.webhook, "/name"));
        if !self.selected(webhook, asked, object) {
            return Ok(None);
        }
        if asked.writer.dry_run && !matches!(text(webhook, "/sideEffects"), "None" | "NoneOnDryRun") {
            return Err(ApiError::bad_request(format!(
                "admission webhook {name:?} does not support dry run"
            )));
        }
        // A failure to convert is an error in spite of the failure policy, as in k8s.io/apiserver
        // v0.36.4 pkg/admission/plugin/webhook/mutating/dispatcher.go.
        let kind = hook.kind.as_deref().unwrap_or(asked.place.kind);
        let seen = SeenObjects {
            object: self.seen_by(kind, asked, object).await?,
            old: self.seen_by(kind, asked, asked.old).await?,
        };
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

    /// Converts an object of the request to the version in which a webhook sees it.
    async fn seen_by<'a>(
        &self,
        kind: &Kind,
        asked: &AdmissionAttributes<'_>,
        object: Option<&'a Value>,
    ) -> Result<Option<Cow<'a, Value>>, ApiError> {
        match object {
            Some(object) if asked.differs_in(kind) => {
                Ok(Some(Cow::Owned(self.convert_between(asked.place.kind, kind, object).await?)))
            }
            same => Ok(same.map(Cow::Borrowed)),
        }
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
        let uid = self.source.uid();
        let kind = hook.kind.as_deref().unwrap_or(asked.place.kind);
        let target = self.target(at(webhook, "/clientConfig").unwrap_or(&Value::Null))?;
        let question = review::question(version, &asked.request(&uid, kind, seen));
        let seconds = number(webhook, "/timeoutSeconds").unwrap_or(DEFAULT_TIMEOUT_SECONDS).clamp(1, 30);
        let limit = Duration::from_secs(seconds.unsigned_abs());
        let answer = call::post(&self.webhooks, &target, question, limit).await?;
        review::read(&answer, version, &uid, purpose)
    }

    /// Resolves the `clientConfig` of a webhook.
    ///
    /// # Errors
    /// The reason why the webhook cannot be located.
    pub(super) fn target(&self, config: &Value) -> Result<Target, String> {
        Target::read(config, |namespace, name, port| self.locate(namespace, name, port))
    }

    /// Returns the address of a service port. No proxy routes cluster IPs here, so it is the
    /// address of a ready endpoint.
    fn locate(&self, namespace: &str, name: &str, port: u16) -> Result<(String, u16), String> {
        let missing = || format!("service {name:?} not found");
        let key = dogwatch_core::ObjectKey::from_parts(Some(namespace), name).map_err(|_| missing())?;
        let service = self.store().get(&"/services".into(), &key).ok_or_else(missing)?.to_value();
        if text(&service, "/spec/type") == "ExternalName" {
            return Ok((text(&service, "/spec/externalName").to_owned(), port));
        }
        let wanted = items(&service, "/spec/ports")
            .iter()
            .find(|it| number(it, "/port") == Some(i64::from(port)))
            .ok_or_else(|| format!("no service port {port} found for service {name:?}"))?;
        let slices = self.store().read(&"discovery.k8s.io/endpointslices".into(), |history, revision| {
            let all = history.list_at(revision, None).into_iter().flatten();
            all.filter(|it| it.key().namespace() == Some(namespace))
                .map(|it| it.to_value())
                .collect::<Vec<_>>()
        });
        let of_service = |it: &&Value| it["metadata"]["labels"]["kubernetes.io/service-name"] == name;
        let found = slices.iter().filter(of_service).find_map(|slice| {
            let port = items(slice, "/ports").iter().find(|it| text(it, "/name") == text(wanted, "/name"))?;
            let port = u16::try_from(number(port, "/port")?).ok()?;
            let ready = |it: &&Value| it["conditions"]["ready"] != false;
            let address = items(slice, "/endpoints").iter().find(ready)?;
            Some((text(address, "/addresses/0").to_owned(), port))
        });
        found.ok_or_else(|| format!("no endpoints available for service {name:?}"))
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

fn labels(object: &Value) -> Value {
    at(object, "/metadata/labels").cloned().unwrap_or_default()
}

fn resource(kind: &Kind) -> Value {
    json!({ "group": kind.def.group, "version": kind.def.version, "resource": kind.def.plural })
}
