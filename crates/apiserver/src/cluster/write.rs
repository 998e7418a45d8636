//! A write of one object on its way from the request to the storage.

use std::sync::Arc;

use serde_json::Value;

use super::{Cluster, ObjectRef, Writer};
use crate::store::Encoded;

/// A write of one object. `pipeline.rs` lists the stages that it goes through; each is a method in
/// a file of its own.
#[derive(Clone, Debug)]
pub(super) struct Write<'a> {
    pub(super) cluster: &'a Cluster,
    pub(super) place: &'a ObjectRef<'a>,
    pub(super) writer: &'a Writer,
    pub(super) owning: Owning,
    /// The state that is changed; `None` for a creation.
    pub(super) base: Option<Base<'a>>,
    /// The object as the stages so far have made it, in the version of the request.
    pub(super) new: Value,
    /// The warnings for the client so far.
    pub(super) warnings: Vec<String>,
    /// The version that the stored object must have, and whether its kind may require one. Checked
    /// after the webhooks: `Store.Update` in k8s.io/apiserver v0.36.4
    /// pkg/registry/generic/registry/store.go.
    pub(super) expected: Option<(String, bool)>,
    /// The verb of a change.
    pub(super) verb: &'static str,
    /// True if the client sent the version, the uid and the creation time of the stored object.
    pub(super) is_complete: bool,
    /// True for a creation by an update or an apply, which takes the permission to create as well.
    pub(super) creates_on_update: bool,
}

/// The stored state that a write changes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Base<'a> {
    pub(super) stored: &'a Arc<Encoded>,
    /// The stored object in the version of the request.
    pub(super) object: &'a Value,
}

/// The way in which `managedFields` are updated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owning {
    /// The write owns the fields that it changes.
    Track,
    /// An apply has updated them already.
    Settled,
}

impl<'a> Write<'a> {
    /// Returns the creation of an object.
    pub(super) fn creation(
        cluster: &'a Cluster,
        place: &'a ObjectRef<'a>,
        object: Value,
        writer: &'a Writer,
    ) -> Self {
        let (owning, base, warnings) = (Owning::Track, None, Vec::new());
        Self {
            cluster,
            place,
            writer,
            owning,
            base,
            new: object,
            warnings,
            expected: None,
            verb: "update",
            is_complete: false,
            creates_on_update: false,
        }
    }

    /// Returns the creation of an object by a request to update it.
    pub(super) fn creation_on_update(
        cluster: &'a Cluster,
        place: &'a ObjectRef<'a>,
        object: Value,
        writer: &'a Writer,
    ) -> Self {
        Self { creates_on_update: true, ..Self::creation(cluster, place, object, writer) }
    }

    /// Returns the change of a stored object, or of a subresource, to the state `new`. `old` is the
    /// stored object in the version of the request.
    pub(super) fn change(
        cluster: &'a Cluster,
        place: &'a ObjectRef<'a>,
        (stored, old): (&'a Arc<Encoded>, &'a Value),
        new: Value,
        writer: &'a Writer,
    ) -> Self {
        let (owning, base) = (Owning::Track, Some(Base { stored, object: old }));
        Self {
            cluster,
            place,
            writer,
            owning,
            base,
            new,
            warnings: Vec::new(),
            expected: None,
            verb: "update",
            is_complete: false,
            creates_on_update: false,
        }
    }

    /// Sets the version that the stored object must have, if it is not empty. `needed` is true if
    /// its kind may require one.
    pub(super) fn expecting(self, version: String, needed: bool) -> Self {
        Self { expected: Some((version, needed)), ..self }
    }

    /// Sets the verb of a change. Defaults to `update`.
    pub(super) fn with_verb(self, verb: &'static str) -> Self {
        Self { verb, ..self }
    }

    /// Sets the way in which `managedFields` are updated. Defaults to [`Owning::Track`].
    pub(super) fn owning(mut self, owning: Owning) -> Self {
        self.owning = owning;
        self
    }
}
