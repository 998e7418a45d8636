//! The steps between decoding and storage that all verbs share: field ownership, the rules of the
//! kind, validation.

use parking_lot::{Mutex, MutexGuard};

use dogwatch_core::ObjectKey;
use serde_json::{Map, Value, json};

use super::addresses::Addresses;
use super::decode::check_custom_kind;
use super::{Cluster, ObjectRef, User, Writer};
use crate::ApiError;
use crate::FieldErrors;
use crate::custom::convert::{self, Conversions};
use crate::custom::{self, definition};
use crate::kinds::core::pod;
use crate::kinds::json_access::{self, number, text};
use crate::kinds::prepare::{self, ClusterResources};
use crate::kinds::signing;
use crate::kinds::traits::StatusMetadata;
use crate::kinds::validate;
use crate::kinds::{DEFINITION, SIGNING_REQUEST};
use crate::ownership::{self, Reset, Target, Versions};
use crate::registry::{Catalog, Family, Kind};
use crate::schema::Schema;

/// The maximum number of conversions to compute the owners of one object. Each version in which a
/// manager has written takes a few.
const MAX_CONVERSIONS: usize = 1_000;

/// The way in which `managedFields` are updated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owning {
    /// The write owns the fields that it changes.
    Track,
    /// An apply has updated them already.
    Settled,
}

/// The other versions of a kind.
struct KindVersions<'a> {
    kind: &'a Kind,
    catalog: &'a Catalog,
    /// The conversions by the webhook of the kind.
    conversions: &'a Mutex<Conversions>,
}

/// Access to the rest of the cluster for the preparation of an object.
struct ClusterSurroundings<'a> {
    addresses: MutexGuard<'a, Addresses>,
    cluster: &'a Cluster,
    /// The uid to which addresses are allocated: that under which they are released, whatever uid a
    /// client has written into the object.
    uid: String,
}

impl Cluster {
    /// Starts the preparation of a new object: removes system fields, and records who owns the
    /// rest.
    pub(super) async fn begin_new(
        &self,
        place: &ObjectRef<'_>,
        object: &mut Value,
        writer: &Writer,
        owning: Owning,
    ) {
        let metadata = metadata_mut(object);
        for field in
            ["uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"]
        {
            metadata.remove(field);
        }
        if owning == Owning::Track {
            self.own(place, None, object, writer).await;
        }
    }

    /// Prepares a new object that has a name and a uid: applies the rules of its kind and validates
    /// it.
    pub(super) fn ready_new(
        &self,
        place: &ObjectRef<'_>,
        object: &mut Value,
        user: &User,
    ) -> Result<(), ApiError> {
        let kind = place.kind;
        // After the webhooks, which must not choose another user.
        if is_signing_request(kind) {
            set_requesting_user(object, user);
        }
        let metadata = metadata_mut(object);
        metadata.insert("creationTimestamp".to_owned(), self.source.stamp().into());
        let name = text(object, "/metadata/name").to_owned();
        let problems = match kind.custom_version() {
            Some(version) => {
                // A webhook may have changed the type.
                check_custom_kind(object, &kind.def.kind, &kind.def.api_version())?;
                custom::object::prepare_create(object, version);
                let rule = kind.traits.name;
                let mut problems = validate::metadata::common(rule, kind.def.namespaced, object);
                problems.append(custom::object::validate_create(object, version));
                custom::object::settle_numbers(object);
                problems
            }
            None => {
                self.fill_by_policy(place, object)?;
                let mut around = self.surroundings(object);
                let (rules, version) = (kind.rules, kind.def.version.as_str());
                prepare::for_create(rules, version, object, &self.source.stamp(), &mut around)?;
                if is_definition(kind) {
                    definition::prepare_create(object);
                }
                let mut problems = validate::create(kind.rules, kind.def.namespaced, object);
                if is_definition(kind) {
                    let more = custom::check::check_create(object);
                    let more: Vec<_> = more.into_iter().filter(|it| !problems.contains(it)).collect();
                    problems.extend(more);
                }
                problems
            }
        };
        if problems.is_empty() { Ok(()) } else { Err(kind.invalid(&name, &problems)) }
    }

    /// Starts the preparation of a changed object: keeps system fields and records who owns what.
    pub(super) async fn begin_change(
        &self,
        place: &ObjectRef<'_>,
        old: &Value,
        new: &mut Value,
        writer: &Writer,
        owning: Owning,
    ) {
        keep_system_fields(old, new);
        if owning == Owning::Track {
            self.own(place, Some(old), new, writer).await;
        }
    }

    /// Prepares a changed object: applies the rules of its kind and validates it.
    pub(super) fn ready_change(
        &self,
        place: &ObjectRef<'_>,
        old: &Value,
        new: &mut Value,
    ) -> Result<(), ApiError> {
        let kind = place.kind;
        keep_system_fields(old, new);
        if kind.custom_version().is_some() {
            // A webhook may have changed the type.
            check_custom_kind(new, &kind.def.kind, &kind.def.api_version())?;
        }
        let problems = match (kind.custom_version(), place.part) {
            (Some(version), "status") => {
                custom::object::prepare_status(new, old);
                let mut problems = validate::metadata::update_common(new, old);
                problems.append(custom::object::validate_status(new, old, version));
                problems
            }
            (Some(version), _) => {
                custom::object::prepare_update(new, old, version);
                let mut problems = validate::metadata::common(kind.traits.name, kind.def.namespaced, new);
                problems.append(validate::metadata::update_common(new, old));
                problems.append(custom::object::validate_update(new, old, version));
                problems
            }
            (None, part) => self.ready_builtin(place, old, new, part)?,
        };
        if kind.custom_version().is_some() {
            custom::object::settle_numbers(new);
        }
        if !problems.is_empty() {
            return Err(kind.invalid(place.name, &problems));
        }
        ownership::keep_times_if_unchanged(old, new);
        Ok(())
    }

    fn ready_builtin(
        &self,
        place: &ObjectRef<'_>,
        old: &Value,
        new: &mut Value,
        part: &str,
    ) -> Result<FieldErrors, ApiError> {
        let kind = place.kind;
        match part {
            // An eviction adds a condition to the status of its pod.
            "status" | "eviction" => {
                prepare::for_status_update(kind.rules, &kind.def.version, new, old);
                let mut problems = validate::update_status(kind.rules, new, old);
                if is_signing_request(kind) {
                    signing::keep_decisions(new, old);
                    signing::date_conditions(new, old, &self.source.stamp());
                    problems.append(signing::problems(new, old, false));
                }
                return Ok(problems);
            }
            "finalize" => {
                if let Some(map) = new.as_object_mut() {
                    set_or_remove(map, "status", old.get("status").cloned());
                }
                kind.rules.apply_defaults(&kind.def.version, new);
                let mut problems = validate::metadata::namespace_finalizers(new);
                problems.append(validate::metadata::update_common(new, old));
                return Ok(problems);
            }
            // Binding is the only way to set `spec.nodeName`, so the validation of updates is
            // skipped.
            "binding" => return Ok(validate::metadata::update_common(new, old)),
            "approval" => {
                let conditions = new.pointer("/status/conditions").cloned();
                if let Some(map) = new.as_object_mut() {
                    for field in ["spec", "status"] {
                        set_or_remove(map, field, old.get(field).cloned());
                    }
                }
                set_or_remove(object_mut(new, "status"), "conditions", conditions);
                signing::date_conditions(new, old, &self.source.stamp());
                let mut problems = signing::problems(new, old, true);
                problems.append(validate::metadata::update_common(new, old));
                return Ok(problems);
            }
            _ => {
                if part == "resize" {
                    self.fill_by_policy(place, new)?;
                }
                pod::only_part(part, new, old);
                let mut around = self.surroundings(old);
                prepare::for_update(kind.rules, new, old, &mut around)?;
                if is_definition(kind) {
                    definition::prepare_update(new, old);
                }
            }
        }
        if matches!(part, "ephemeralcontainers" | "resize") {
            return Ok(pod::update_part(part, new, old));
        }
        let mut problems = validate::update(kind.rules, new, old);
        if is_definition(kind) {
            problems.append(custom::check::check_update(new, old));
        }
        Ok(problems)
    }

    /// Returns access to the rest of the cluster for a write of this object. Holds the lock of the
    /// addresses.
    fn surroundings(&self, object: &Value) -> ClusterSurroundings<'_> {
        let uid = text(object, "/metadata/uid").to_owned();
        ClusterSurroundings { addresses: self.addresses(), cluster: self, uid }
    }

    /// Updates `managedFields` for a write other than an apply.
    pub(super) async fn own(
        &self,
        place: &ObjectRef<'_>,
        old: Option<&Value>,
        new: &mut Value,
        writer: &Writer,
    ) {
        let writer =
            ownership::Writer { manager: &writer.manager, subresource: place.part, now: self.source.now() };
        if place.kind.converted_by_webhook().is_none() {
            let conversions = Mutex::default();
            let own = |target: &Target<'_>| ownership::update(old, new, target, &writer);
            return self.with_target(place, &conversions, own);
        }
        let before = &*new;
        let owned = self.with_conversions(place, |target| {
            let mut owned = before.clone();
            ownership::update(old, &mut owned, target, &writer);
            owned
        });
        match owned.await {
            Ok(owned) => *new = owned,
            // As kube-apiserver does (`UpdateNoErrors` in k8s.io/apimachinery v0.36.4
            // pkg/util/managedfields/internal/fieldmanager.go): otherwise a webhook that fails would
            // block all writes, also those in the storage version.
            Err(refusal) => {
                tracing::warn!(%refusal, "cannot convert an object to update its managedFields");
                metadata_mut(new).remove("managedFields");
            }
        }
    }

    /// Calls `run` with the description of what a write to this place may own. Calls it again, after
    /// a conversion by the webhook of the kind, until it has all conversions that it needs.
    ///
    /// # Errors
    /// 500 if the webhook fails.
    pub(super) async fn with_conversions<T>(
        &self,
        place: &ObjectRef<'_>,
        run: impl Fn(&Target<'_>) -> T + Send + Sync,
    ) -> Result<T, ApiError> {
        let mut known = Conversions::default();
        for _ in 0..MAX_CONVERSIONS {
            let conversions = Mutex::new(known);
            let result = self.with_target(place, &conversions, &run);
            known = conversions.into_inner();
            if !known.has_missing() {
                return Ok(result);
            }
            drop(result);
            self.convert_missing(place.kind, &mut known).await?;
        }
        Err(ApiError::internal("the managers of the object use too many versions"))
    }

    /// Calls `run` with the description of what a write to this place may own.
    fn with_target<T>(
        &self,
        place: &ObjectRef<'_>,
        conversions: &Mutex<Conversions>,
        run: impl FnOnce(&Target<'_>) -> T,
    ) -> T {
        let kind = place.kind;
        let catalog = self.catalog();
        let reset = reset_of(kind, place.part);
        run(&Target {
            api_version: &kind.def.api_version(),
            kind: &kind.def.kind,
            schema: &kind.schema,
            definitions: kind.definitions(),
            empty: kind.empty(),
            versions: &KindVersions { kind, catalog: &catalog, conversions },
            reset: &reset,
        })
    }

    /// Allocates to a service exactly the addresses and ports of its stored state, unless a write
    /// of it is in progress.
    pub(super) fn settle_addresses(&self, uid: &str, key: Option<&ObjectKey>) {
        let mut addresses = self.addresses();
        if addresses.is_written(uid) {
            return;
        }
        // Read under the lock of the addresses, so that no write can begin and allocate more in
        // between.
        let stored = key.and_then(|it| self.store().get(&"/services".into(), it));
        let stored = stored.filter(|it| it.uid() == uid).map(|it| it.to_value());
        addresses.settle(uid, stored.as_ref());
    }
}

impl Versions for KindVersions<'_> {
    fn convert(&self, object: &Value, api_version: &str) -> Option<(Value, Schema)> {
        if *api_version == *self.kind.def.api_version() && object["apiVersion"] == api_version {
            return Some((object.clone(), self.kind.schema.clone()));
        }
        let (group, version) = api_version.rsplit_once('/').unwrap_or(("", api_version));
        if let Family::Custom { kind, .. } = &self.kind.family {
            let wanted = kind.versions.iter().find(|it| kind.group == group && it.name == version)?;
            let converted = if convert::takes_webhook(object, kind, &wanted.name) {
                let mut known = self.conversions.lock();
                known.find(object, &wanted.name)?
            } else {
                let mut renamed = object.clone();
                convert::to_version(&mut renamed, &kind.group, &wanted.name);
                renamed
            };
            return Some((converted, wanted.schema.to_schema()));
        }
        let wanted = self.catalog.kind_of(api_version, &self.kind.def.kind)?;
        // Events of the two groups are stored together, but neither group converts to the other.
        if wanted.def.group != self.kind.def.group || wanted.collection != self.kind.collection {
            return None;
        }
        let from = self.catalog.kind_of(object["apiVersion"].as_str()?, &self.kind.def.kind)?;
        let stored = from.to_stored(object.clone()).ok()?;
        Some((wanted.shown(stored).ok()?, wanted.schema.clone()))
    }
}

impl ClusterResources for ClusterSurroundings<'_> {
    fn cluster_ip(&mut self, service: &Value, wanted: Option<&str>) -> Result<String, ApiError> {
        self.addresses.take_address(&self.uid, service, wanted)
    }

    fn node_port(&mut self, service: &Value, index: usize, wanted: Option<i64>) -> Result<i64, ApiError> {
        self.addresses.take_port(&self.uid, service, index, wanted)
    }

    fn health_check_port(&mut self, wanted: Option<i64>) -> Result<i64, ApiError> {
        self.addresses.take_health_check_port(&self.uid, wanted)
    }

    fn priority(&self, class: &str) -> Option<(i64, String)> {
        let kind = self.cluster.catalog().kind("scheduling.k8s.io", "v1", "priorityclasses")?;
        let classes = self.cluster.list(&kind, None);
        let mut classes = classes.iter().map(|it| it.to_value());
        let found = classes.find(|it| match class {
            "" => json_access::flag(it, "/globalDefault"),
            name => text(it, "/metadata/name") == name,
        })?;
        let policy = match text(&found, "/preemptionPolicy") {
            "" => "PreemptLowerPriority",
            policy => policy,
        };
        Some((number(&found, "/value")?, policy.to_owned()))
    }
}

/// Returns the warnings for the writer of an object; `old` is its former state, if it had one.
pub(super) fn warnings(kind: &Kind, object: &Value, old: Option<&Value>) -> Vec<String> {
    if is_definition(kind) {
        custom::check::format_warnings(object, old)
    } else if kind.custom_version().is_some() {
        crate::kinds::warnings::custom(object, old)
    } else {
        crate::kinds::warnings::builtin(kind.rules, object, old)
    }
}

/// Returns true for the kind CustomResourceDefinition.
pub(super) fn is_definition(kind: &Kind) -> bool {
    kind.is(&DEFINITION)
}

/// Returns true for the kind CertificateSigningRequest.
fn is_signing_request(kind: &Kind) -> bool {
    kind.is(&SIGNING_REQUEST)
}

/// Writes the requesting user into a CertificateSigningRequest, replacing what the client sent.
fn set_requesting_user(request: &mut Value, user: &User) {
    let spec = object_mut(request, "spec");
    let said = |given: bool, value: Value| given.then_some(value);
    set_or_remove(spec, "username", said(!user.name.is_empty(), user.name.as_str().into()));
    set_or_remove(spec, "uid", said(!user.uid.is_empty(), user.uid.as_str().into()));
    set_or_remove(spec, "groups", said(!user.groups.is_empty(), json!(user.groups)));
    set_or_remove(spec, "extra", said(!user.extra.is_empty(), json!(user.extra)));
}

/// Returns the metadata of an object, created if absent.
pub(super) fn metadata_mut(object: &mut Value) -> &mut Map<String, Value> {
    object_mut(object, "metadata")
}

pub(super) fn object_mut<'a>(object: &'a mut Value, key: &str) -> &'a mut Map<String, Value> {
    if !object.is_object() {
        *object = Value::Object(Map::new());
    }
    json_access::object(object.as_object_mut().expect("it was made an object above"), key)
}

fn set_or_remove(map: &mut Map<String, Value>, key: &str, value: Option<Value>) {
    match value {
        Some(value) => map.insert(key.to_owned(), value),
        None => map.remove(key),
    };
}

/// Keeps the system fields that a client may leave out. Validation finds those that a client has
/// changed.
fn keep_system_fields(old: &Value, new: &mut Value) {
    let metadata = metadata_mut(new);
    for field in ["namespace", "uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"]
    {
        let absent = metadata.get(field).is_none_or(|it| it.is_null() || it == "");
        if let Some(kept) = old["metadata"].get(field).filter(|_| absent) {
            metadata.insert(field.to_owned(), kept.clone());
        }
    }
    for field in ["resourceVersion", "creationTimestamp", "generation"] {
        set_or_remove(metadata, field, old["metadata"].get(field).cloned());
    }
    metadata.remove("selfLink");
}

/// Returns the fields that an endpoint does not write.
fn reset_of(kind: &Kind, part: &str) -> Reset {
    let custom = kind.custom_version().is_some();
    match part {
        "" if kind.traits.has_status => Reset::trees(["status"]),
        "status" if custom || is_definition(kind) => Reset::trees(["metadata", "spec"]),
        "status" => Reset::trees(
            match kind.traits.status_metadata {
                StatusMetadata::All => &["spec"] as &[&str],
                StatusMetadata::AllButOwners => {
                    &["spec", "metadata.deletionTimestamp", "metadata.ownerReferences"]
                }
                StatusMetadata::AllButLabels => &["spec", "metadata.labels"],
                StatusMetadata::Nothing => &["spec", "metadata"],
            }
            .iter()
            .copied(),
        ),
        "approval" => Reset::trees(["spec"]),
        _ => Reset::Nothing,
    }
}
