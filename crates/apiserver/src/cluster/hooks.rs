//! Admission by webhooks: they are asked whether an object may be written, and may change it before.
//!
//! ```text
//! own ─► mutate (one webhook after the other) ─► the rules of the kind ─► approve (all at once) ─► commit
//! ```
//!
//! Which webhooks there are is read anew for each write, so that a configuration holds as soon as it is stored.
//!
//! `matchConditions` are CEL, which this server does not evaluate: such a webhook is called for every request that its rules
//! and selectors match, as if all its conditions were true. It may so see requests that it wanted to be spared, but no
//! request gets around it. Whoever stores such a configuration gets a warning.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use dogwatch_core::Gvk;
use futures_util::future::join_all;
use serde_json::{Value, json};

use super::decode::settle;
use super::selected::selects;
use super::{Cluster, Place, Writer};
use crate::kinds::look::{at, items, number, text};
use crate::patch::{Patch, PatchKind};
use crate::refusal::Refusal;
use crate::registry::Kind;
use crate::store::CollectionName;
use crate::webhook::review::{self, Verdict};
use crate::webhook::rules::{self, Subject};
use crate::webhook::{call, target::Target};

const GROUP: &str = "admissionregistration.k8s.io";
static MUTATING: LazyLock<CollectionName> =
    LazyLock::new(|| format!("{GROUP}/mutatingwebhookconfigurations").into());
static VALIDATING: LazyLock<CollectionName> =
    LazyLock::new(|| format!("{GROUP}/validatingwebhookconfigurations").into());
/// How many seconds a webhook has to answer, unless it says otherwise.
const PATIENCE: i64 = 10;

/// What webhooks are asked about.
#[derive(Debug)]
pub(super) struct Asked<'a> {
    place: &'a Place<'a>,
    operation: &'static str,
    /// What there was before.
    old: Option<&'a Value>,
    writer: &'a Writer,
    /// How it is to be written: what those options are called, and what they say.
    options: (&'static str, Value),
}

/// A webhook that wants to be asked.
struct Hook {
    /// As its configuration says.
    webhook: Value,
    /// The version it wants to see.
    kind: Option<Arc<Kind>>,
}

impl<'a> Asked<'a> {
    /// Whether something may come into being.
    pub(super) fn create(place: &'a Place<'a>, writer: &'a Writer) -> Self {
        Self { place, operation: "CREATE", old: None, writer, options: ("CreateOptions", Value::Null) }
    }

    /// Whether something may change.
    pub(super) fn update(place: &'a Place<'a>, old: &'a Value, writer: &'a Writer) -> Self {
        let options = ("UpdateOptions", Value::Null);
        Self { place, operation: "UPDATE", old: Some(old), writer, options }
    }

    /// Whether something may go, in the way that `how` says.
    pub(super) fn delete(place: &'a Place<'a>, old: &'a Value, writer: &'a Writer, how: Value) -> Self {
        Self { place, operation: "DELETE", old: Some(old), writer, options: ("DeleteOptions", how) }
    }

    /// Where it goes.
    pub(super) fn place(&self) -> &'a Place<'a> {
        self.place
    }

    /// Who writes, and how.
    pub(super) fn writer(&self) -> &'a Writer {
        self.writer
    }

    /// The name of what it is about, as far as it has one.
    fn name(&self, object: Option<&Value>) -> String {
        match self.place.name {
            "" => text(object.or(self.old).unwrap_or(&Value::Null), "/metadata/name").to_owned(),
            name => name.to_owned(),
        }
    }

    /// Which kind of object is written, in the version of a kind.
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
            namespaced: self.place.namespace.is_some() && !kind.is("", "namespaces"),
        }
    }

    /// The options of the request.
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

    /// The request of a review, for a webhook that wants to see `kind`.
    fn request(&self, uid: &str, kind: &Kind, object: Option<&Value>) -> Value {
        let show = |it: &Value| self.shown(kind, it);
        let (gvk, plain) = (self.gvk(kind), self.gvk(self.place.kind));
        let mut request = json!({
            "uid": uid,
            "kind": { "group": gvk.group, "version": gvk.version, "kind": gvk.kind },
            "resource": resource(kind),
            "requestKind": { "group": plain.group, "version": plain.version, "kind": plain.kind },
            "requestResource": resource(self.place.kind),
            "operation": self.operation,
            "userInfo": self.writer.user.info(),
            "object": object.map(show),
            "oldObject": self.old.map(show),
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
                request[field] = value.into();
            }
        }
        request
    }

    /// An object of the request's version in that of another kind.
    fn shown(&self, kind: &Kind, object: &Value) -> Value {
        if kind.def.api_version() == self.place.kind.def.api_version() || !self.place.part.is_empty() {
            return object.clone();
        }
        kind.shown(self.place.kind.to_stored(object.clone()))
    }
}

impl Cluster {
    /// Lets webhooks change an object before the rules of its kind are applied. Gives what they warn of.
    ///
    /// # Errors
    /// What a webhook says against it; 500 where one does not answer and has to.
    pub(super) async fn mutate(
        &self,
        asked: &Asked<'_>,
        object: &mut Option<Value>,
    ) -> Result<Vec<String>, Refusal> {
        let mut warnings = Vec::new();
        let mut left: Vec<(Hook, Option<Value>)> = Vec::new();
        for hook in self.hooks(&MUTATING, asked) {
            warnings.extend(self.changed_by(&hook, asked, object).await?);
            left.push((hook, object.clone()));
        }
        // Some want to look again at what those behind them have changed.
        for (hook, seen) in left {
            if text(&hook.webhook, "/reinvocationPolicy") == "IfNeeded" && *object != seen {
                warnings.extend(self.changed_by(&hook, asked, object).await?);
            }
        }
        Ok(warnings)
    }

    /// Asks webhooks whether an object that is ready may be stored, or may go. Gives what they warn of.
    ///
    /// # Errors
    /// As for [`Self::mutate`].
    pub(super) async fn approve(
        &self,
        asked: &Asked<'_>,
        object: Option<&Value>,
    ) -> Result<Vec<String>, Refusal> {
        let hooks = self.hooks(&VALIDATING, asked);
        let verdicts = join_all(hooks.iter().map(|it| self.ask(it, asked, object))).await;
        let mut warnings = Vec::new();
        for verdict in verdicts {
            warnings.extend(verdict?.map(|it| it.warnings).unwrap_or_default());
        }
        Ok(warnings)
    }

    /// Both, for what is asked for and never stored.
    ///
    /// # Errors
    /// As for [`Self::mutate`].
    pub(super) async fn admit_by_hooks(
        &self,
        asked: &Asked<'_>,
        object: &mut Value,
    ) -> Result<Vec<String>, Refusal> {
        let mut changed = Some(object.take());
        let mut warnings = self.mutate(asked, &mut changed).await?;
        warnings.extend(self.approve(asked, changed.as_ref()).await?);
        *object = changed.unwrap_or_default();
        Ok(warnings)
    }

    /// Whether any webhooks are configured at all.
    pub(super) fn has_webhooks(&self) -> bool {
        let any = |it: &CollectionName| {
            self.store().read(it, |history, revision| {
                history.list_at(revision, None).into_iter().flatten().next().is_some()
            })
        };
        any(&MUTATING) || any(&VALIDATING)
    }

    /// The webhooks of these configurations that want to be asked, in order.
    fn hooks(&self, configurations: &CollectionName, asked: &Asked<'_>) -> Vec<Hook> {
        let stored = self.store().read(configurations, |history, revision| {
            history.list_at(revision, None).into_iter().flatten().cloned().collect::<Vec<_>>()
        });
        // What says who is asked is nobody's to forbid.
        if stored.is_empty() || asked.place.kind.def.group == GROUP {
            return Vec::new();
        }
        let webhooks = stored.iter().map(|it| it.to_value()).flat_map(|it| items(&it, "/webhooks").to_vec());
        webhooks.filter_map(|it| self.hook(it, asked)).collect()
    }

    fn hook(&self, webhook: Value, asked: &Asked<'_>) -> Option<Hook> {
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
        Some(Hook { webhook, kind: wanted })
    }

    /// Whether the selectors of a webhook match a request whose object is now `object`.
    ///
    /// They are evaluated just before the webhook is called, since an earlier webhook may have changed the labels.
    fn selected(&self, webhook: &Value, asked: &Asked<'_>, object: Option<&Value>) -> bool {
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

    /// The labels that a `namespaceSelector` is matched against; `None` for cluster-scoped objects other than namespaces.
    ///
    /// A namespace that is created or updated is selected by its new labels; for its subresources and its deletion the
    /// stored labels count (kube-apiserver: admission/plugin/webhook/predicates/namespace/matcher.go).
    fn namespace_labels(&self, asked: &Asked<'_>, object: Option<&Value>) -> Option<Value> {
        if asked.place.kind.is("", "namespaces") {
            let new = object.filter(|_| asked.place.part.is_empty() && asked.operation != "DELETE");
            return Some(new.or(asked.old).map(labels).unwrap_or_default());
        }
        let key = dogwatch_core::ObjectKey::from_parts(None, asked.place.namespace?).ok()?;
        let namespace = self.store().get(&"/namespaces".into(), &key)?;
        Some(labels(&namespace.to_value()))
    }

    async fn changed_by(
        &self,
        hook: &Hook,
        asked: &Asked<'_>,
        object: &mut Option<Value>,
    ) -> Result<Vec<String>, Refusal> {
        let Some(verdict) = self.ask(hook, asked, object.as_ref()).await? else { return Ok(Vec::new()) };
        if let (Some(patch), Some(before)) = (&verdict.patch, object.as_ref()) {
            *object = Some(patched(hook, asked, before, patch).map_err(|why| review::broken(&why))?);
        }
        Ok(verdict.warnings)
    }

    /// Asks one webhook. Gives nothing where it need not be asked, or does not answer and need not.
    async fn ask(
        &self,
        hook: &Hook,
        asked: &Asked<'_>,
        object: Option<&Value>,
    ) -> Result<Option<Verdict>, Refusal> {
        let (webhook, name) = (&hook.webhook, text(&hook.webhook, "/name"));
        if !self.selected(webhook, asked, object) {
            return Ok(None);
        }
        if asked.writer.dry_run && !matches!(text(webhook, "/sideEffects"), "None" | "NoneOnDryRun") {
            return Err(Refusal::bad_request(format!("admission webhook {name:?} does not support dry run")));
        }
        match self.answer_of(hook, asked, object).await {
            Ok(verdict) if verdict.allowed => Ok(Some(verdict)),
            Ok(verdict) => Err(review::denied(name, verdict.status.as_ref())),
            Err(why) if text(webhook, "/failurePolicy") == "Ignore" => {
                tracing::warn!(webhook = name, %why, "failed calling a webhook that need not be asked");
                Ok(None)
            }
            Err(why) => Err(review::unanswered(name, &why)),
        }
    }

    async fn answer_of(
        &self,
        hook: &Hook,
        asked: &Asked<'_>,
        object: Option<&Value>,
    ) -> Result<Verdict, String> {
        let webhook = &hook.webhook;
        let version = review::version_for(webhook)
            .ok_or_else(|| "no admissionReviewVersions that this server knows".to_owned())?;
        let uid = self.source.uid();
        let kind = hook.kind.as_deref().unwrap_or(asked.place.kind);
        let question = review::question(version, &asked.request(&uid, kind, object));
        let target = self.target(at(webhook, "/clientConfig").unwrap_or(&Value::Null))?;
        let seconds = number(webhook, "/timeoutSeconds").unwrap_or(PATIENCE).clamp(1, 30);
        let limit = Duration::from_secs(seconds.unsigned_abs());
        let answer = call::post(&self.webhooks, &target, &question, limit).await?;
        review::read(&answer, version, &uid)
    }

    /// Where a webhook is that a configuration describes.
    ///
    /// # Errors
    /// Why it cannot be found.
    pub(super) fn target(&self, config: &Value) -> Result<Target, String> {
        Target::read(config, |namespace, name, port| self.locate(namespace, name, port))
    }

    /// Where a port of a service is. No proxy leads from its address to its endpoints here, so it is one of these.
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

/// What a JSON patch of a webhook makes of an object of the request's version.
fn patched(hook: &Hook, asked: &Asked<'_>, before: &Value, patch: &[u8]) -> Result<Value, String> {
    let plain = asked.place.kind;
    let kind = hook.kind.as_deref().unwrap_or(plain);
    let patch = Patch::decode(PatchKind::Json, patch, false).map_err(|it| it.0.message)?;
    let seen = asked.shown(kind, before);
    let mut object = patch.apply(&seen, &kind.schema, kind.definitions()).map_err(|it| it.0.message)?;
    if asked.gvk(kind) == kind.def.gvk() {
        let bytes = object.to_string();
        settle(kind, bytes.as_bytes(), &mut object)?;
    }
    Ok(match &hook.kind {
        Some(kind) if asked.place.part.is_empty() => plain.shown(kind.to_stored(object)),
        _ => object,
    })
}

fn labels(object: &Value) -> Value {
    at(object, "/metadata/labels").cloned().unwrap_or_default()
}

fn resource(kind: &Kind) -> Value {
    json!({ "group": kind.def.group, "version": kind.def.version, "resource": kind.def.plural })
}
