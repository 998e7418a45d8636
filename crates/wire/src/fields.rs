//! The parts of an object that are skipped while decoding.

/// The parts of an object to skip while decoding, before they are allocated.
///
/// The default skips the `metadata.managedFields` of the object itself: half the bytes of a pod,
/// and useful for server-side apply, but not for watching. Those of nested templates are kept. To
/// skip more, decode into a type that names fewer fields.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Fields {
    managed: bool,
    known_only: bool,
}

impl Fields {
    /// Keeps `metadata.managedFields`.
    #[must_use]
    pub fn keep_managed_fields(mut self) -> Self {
        self.managed = true;
        self
    }

    /// Rejects an object in protobuf with a field that this crate does not know, in a part of it
    /// that is decoded: see
    /// [`UndecodableItem::is_unknown_field`](crate::UndecodableItem::is_unknown_field). Such a
    /// field has no name, so no type can receive it. By default it is skipped, as in Go.
    #[must_use]
    pub fn reject_unknown(mut self) -> Self {
        self.known_only = true;
        self
    }

    /// Returns true if unknown fields are rejected.
    pub(crate) fn is_known_only(self) -> bool {
        self.known_only
    }
}

/// The role of the next object while it is decoded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Role {
    /// Any object, all of whose members are read.
    #[default]
    Plain,
    /// The Kubernetes object itself; its `metadata` is recognized.
    Root,
    /// The metadata of the Kubernetes object; its managed fields are skipped.
    Metadata,
}

impl Role {
    /// Returns the role of a whole object.
    pub(crate) fn of_object(fields: Fields) -> Self {
        if fields.managed { Self::Plain } else { Self::Root }
    }
}
