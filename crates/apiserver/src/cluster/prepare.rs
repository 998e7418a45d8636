//! The fourth stage of a write: applies the rules of the kind to the object, which allocate
//! addresses and keep what the request cannot change.

use serde_json::{Value, json};

use super::Cluster;
use super::decode::check_custom_kind;
use super::object_fields::{metadata_mut, object_mut, set_or_remove};
use super::write::Write;
use crate::ApiError;
use crate::custom::{self, definition};
use crate::kinds::core::pod;
use crate::kinds::json_access::text;
use crate::kinds::prepare::{self, ClusterResources};
use crate::kinds::signing;
use crate::kinds::{DEFINITION, SIGNING_REQUEST};
use crate::user::User;

/// Access to the rest of the cluster for the preparation of an object. The addresses are locked for
/// each allocation only, and not while other objects are read: the claim of the write
/// (`service_addresses.rs`) keeps those that were allocated.
struct ClusterSurroundings<'a> {
    cluster: &'a Cluster,
    /// The uid to which addresses are allocated: that under which they are released, whatever uid a
    /// client has written into the object.
    uid: String,
}

impl Write<'_> {
    /// Prepares the object: after this it is what will be stored if it is valid.
    ///
    /// # Errors
    /// 400 if a webhook has changed the type of a custom object; 422 if no address or port is left.
    pub(super) fn prepare(&mut self) -> Result<(), ApiError> {
        let kind = self.place.kind;
        match self.base {
            None => {
                // After the webhooks, which must not choose another user.
                if kind.is(&SIGNING_REQUEST) {
                    set_requesting_user(&mut self.new, &self.writer.user);
                }
                let now = self.cluster.source.stamp();
                metadata_mut(&mut self.new).insert("creationTimestamp".to_owned(), now.into());
            }
            Some(base) => keep_system_fields(base.object, &mut self.new),
        }
        let Some(version) = kind.custom_version() else { return self.prepare_builtin() };
        // A webhook may have changed the type.
        check_custom_kind(&self.new, &kind.def.kind, &kind.def.api_version())?;
        match (self.base, self.place.part) {
            (None, _) => custom::object::prepare_create(&mut self.new, version),
            (Some(base), "status") => custom::object::prepare_status(&mut self.new, base.object),
            (Some(base), _) => custom::object::prepare_update(&mut self.new, base.object, version),
        }
        Ok(())
    }

    fn prepare_builtin(&mut self) -> Result<(), ApiError> {
        let (cluster, place, kind) = (self.cluster, self.place, self.place.kind);
        let (version, now) = (kind.def.version.as_str(), cluster.source.stamp());
        let new = &mut self.new;
        let Some(base) = self.base else {
            let mut around = ClusterSurroundings::of(cluster, new);
            prepare::for_create(kind.rules, version, new, &now, &mut around)?;
            if kind.is(&DEFINITION) {
                definition::prepare_create(new);
            }
            return Ok(());
        };
        let old = base.object;
        match place.part {
            // An eviction adds a condition to the status of its pod.
            "status" | "eviction" => {
                prepare::for_status_update(kind.rules, new, old);
                if kind.is(&SIGNING_REQUEST) {
                    signing::keep_decisions(new, old);
                    signing::date_conditions(new, old, &now);
                }
            }
            "finalize" => keep_fields(new, old, &["status"]),
            "binding" => {}
            "approval" => {
                let conditions = new.pointer("/status/conditions").cloned();
                keep_fields(new, old, &["spec", "status"]);
                set_or_remove(object_mut(new, "status"), "conditions", conditions);
                signing::date_conditions(new, old, &now);
            }
            part => {
                pod::only_part(part, new, old);
                let mut around = ClusterSurroundings::of(cluster, old);
                prepare::for_update(kind.rules, new, old, &mut around)?;
                if kind.is(&DEFINITION) {
                    definition::prepare_update(new, old);
                }
            }
        }
        Ok(())
    }
}

impl<'a> ClusterSurroundings<'a> {
    /// Returns access to the rest of the cluster for a write of this object.
    fn of(cluster: &'a Cluster, object: &Value) -> Self {
        Self { cluster, uid: text(object, "/metadata/uid").to_owned() }
    }
}

impl ClusterResources for ClusterSurroundings<'_> {
    fn cluster_ip(&mut self, service: &Value, wanted: Option<&str>) -> Result<String, ApiError> {
        self.cluster.addresses.lock().take_address(&self.uid, service, wanted)
    }

    fn node_port(&mut self, service: &Value, index: usize, wanted: Option<i64>) -> Result<i64, ApiError> {
        self.cluster.addresses.lock().take_port(&self.uid, service, index, wanted)
    }

    fn health_check_port(&mut self, wanted: Option<i64>) -> Result<i64, ApiError> {
        self.cluster.addresses.lock().take_health_check_port(&self.uid, wanted)
    }
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

/// Keeps these fields as they were.
fn keep_fields(new: &mut Value, old: &Value, fields: &[&str]) {
    if let Some(map) = new.as_object_mut() {
        for field in fields {
            set_or_remove(map, field, old.get(field).cloned());
        }
    }
}

/// Keeps the system fields that a client may leave out. Validation finds those that a client has
/// changed.
pub(super) fn keep_system_fields(old: &Value, new: &mut Value) {
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
