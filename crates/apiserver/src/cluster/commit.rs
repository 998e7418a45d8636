//! The last stage of a write: stores the object, unless another write was faster.

use std::sync::Arc;

use dogwatch_core::Reason;
use serde_json::Value;

use super::WriteOutcome;
use super::after_removal::after_removal;
use super::definition_checks::{check_accepts_new, check_defined};
use super::deletion_step::is_to_be_removed;
use super::ip_addresses::follow_service;
use super::name_checks::check_key;
use super::namespaces::admit_to_namespace;
use super::object_fields::metadata_mut;
use super::write::{Base, Owning, Write};
use crate::ApiError;
use crate::kinds::SERVICE;
use crate::kinds::json_access::text;
use crate::memory;
use crate::store::{Draft, Expect};

/// The maximum size of an object as JSON, in bytes: that of a request body. Without it, patches
/// could let an object grow until one change of it exceeds the log, and every change ends all
/// watches. A write holds several decoded copies of the object, each up to a hundred times as large
/// as the text.
///
/// kube-apiserver leaves this to etcd, which rejects 1.5 MiB by default.
pub(super) const LARGEST_OBJECT: usize = 3 * 1024 * 1024;

/// The number of attempts to write without a resource version while other writes conflict.
pub(super) const ATTEMPTS: usize = 64;

/// The outcome of an attempt to store a change.
#[derive(Debug)]
pub(super) enum Attempt {
    /// The change is stored, or nothing had to be stored.
    Done(WriteOutcome),
    /// Another write was first: retry on the new state.
    Again,
}

/// Checks that an object does not grow beyond the memory that a decoded object may take.
///
/// # Errors
/// 413 if it does.
pub(super) fn check_memory(new: &Value, old: Option<&Value>) -> Result<(), ApiError> {
    let size = memory::without_managed_fields;
    let limit = memory::OBJECT.max(old.map_or(0, size));
    if size(new) > limit { Err(too_large(&memory::exceeded())) } else { Ok(()) }
}

fn too_large(why: &str) -> ApiError {
    let mut refusal =
        ApiError::new(Reason::RequestEntityTooLarge, format!("Request entity too large: {why}"));
    refusal.0.details = None;
    refusal
}

impl Write<'_> {
    /// Stores a new object.
    ///
    /// # Errors
    /// 409 if there is an object of its name; 413 if it is too large.
    pub(super) async fn commit_new(mut self) -> Result<WriteOutcome, ApiError> {
        let (cluster, place, kind) = (self.cluster, self.place, self.place.kind);
        let name = text(&self.new, "/metadata/name").to_owned();
        let key = place.key_of(&name)?;
        if self.writer.dry_run {
            if let Some(current) = cluster.get(kind, &key) {
                return Err(kind.already_exists(&name, &current.to_value()));
            }
            return Ok(self.outcome(|new| WriteOutcome::value(new, true)));
        }
        let draft = self.draft_within_limit().await?;
        check_defined(&cluster.catalog(), kind)?;
        // Webhooks may have taken their time: the definition or the namespace may be gone since the
        // first checks, and nothing would delete an object in them.
        check_accepts_new(&cluster.catalog(), kind, &name)?;
        admit_to_namespace(cluster, place, &name)?;
        check_key(&draft, &key)?;
        match cluster.storage.commit(&kind.collection, &key, Expect::Absent, Some(draft)).await {
            Ok(stored) => {
                if kind.is(&SERVICE) {
                    follow_service(cluster, None, Some(&stored)).await;
                }
                cluster.definitions().changed(kind).await;
                Ok(self.outcome(|_| WriteOutcome::stored(stored, true)))
            }
            Err(lost) => {
                let current = lost.current.map(|it| it.to_value()).unwrap_or_default();
                Err(kind.already_exists(&name, &current))
            }
        }
    }

    /// Stores the new state of an object, or removes it if nothing holds it any more. A state that
    /// is equal to the stored one is not stored again.
    ///
    /// # Errors
    /// 404 if the definition of a custom object is gone; 413 if the object grows and is too large.
    pub(super) async fn commit_change(mut self, base: Base<'_>) -> Result<Attempt, ApiError> {
        let (cluster, kind) = (self.cluster, self.place.kind);
        // The last finalizer is gone, or the grace period is over.
        let is_removed = is_to_be_removed(kind, &self.new);
        let draft = match is_removed {
            true => cluster.conversion().draft(kind, &self.new).await?,
            false => self.draft_within_limit().await?,
        };
        check_defined(&cluster.catalog(), kind)?;
        check_key(&draft, base.stored.key())?;
        if draft.says_what(base.stored) && !is_removed {
            return Ok(Attempt::Done(self.outcome(|_| WriteOutcome::stored(Arc::clone(base.stored), false))));
        }
        if self.writer.dry_run {
            return Ok(Attempt::Done(self.outcome(|new| WriteOutcome::value(new, false))));
        }
        let (expect, key) = (Expect::At(base.stored.version()), base.stored.key());
        let draft = Some(draft).filter(|_| !is_removed);
        let Ok(stored) = cluster.storage.commit(&kind.collection, key, expect, draft).await else {
            return Ok(Attempt::Again);
        };
        if is_removed {
            after_removal(cluster, kind, base.stored).await;
        } else if kind.is(&SERVICE) {
            follow_service(cluster, Some(base.stored), Some(&stored)).await;
        }
        cluster.definitions().changed(kind).await;
        Ok(Attempt::Done(self.outcome(|new| match is_removed {
            true => WriteOutcome::value(new, false),
            false => WriteOutcome::stored(stored, false),
        })))
    }

    /// Encodes the object for the storage. An object that is too large loses its `managedFields`,
    /// as in k8s.io/apiserver v0.36.4 pkg/endpoints/handlers/create.go, update.go and patch.go; an
    /// apply keeps them.
    ///
    /// # Errors
    /// 413 if it is too large nevertheless, unless it is smaller than before: finalizers can always
    /// be removed. kube-apiserver returns 500 with the message of etcd, which clients take for a
    /// failure that may pass.
    async fn draft_within_limit(&mut self) -> Result<Draft, ApiError> {
        let (cluster, kind) = (self.cluster, self.place.kind);
        let limit = LARGEST_OBJECT.max(self.base.map_or(0, |it| it.stored.bytes().len()));
        check_memory(&self.new, self.base.map(|it| it.object))?;
        let mut draft = cluster.conversion().draft(kind, &self.new).await?;
        let is_too_large =
            |draft: &Draft, new: &Value| draft.size() > limit || memory::is_exceeded_by_managed_fields(new);
        if is_too_large(&draft, &self.new) && self.owning == Owning::Track {
            metadata_mut(&mut self.new).remove("managedFields");
            draft = cluster.conversion().draft(kind, &self.new).await?;
        }
        if is_too_large(&draft, &self.new) {
            return Err(too_large(&match draft.size() {
                size if size > limit => format!("the object has {size} bytes, the limit is {LARGEST_OBJECT}"),
                _ => format!("managedFields: {}", memory::exceeded()),
            }));
        }
        Ok(draft)
    }

    /// Returns the outcome that `make` creates from the object, with the warnings.
    fn outcome(self, make: impl FnOnce(Value) -> WriteOutcome) -> WriteOutcome {
        WriteOutcome { warnings: self.warnings, ..make(self.new) }
    }
}
