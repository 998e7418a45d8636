//! The parts of an object that are skipped while decoding.

/// The parts of an object to skip while decoding, before they are allocated.
///
/// The default skips the `metadata.managedFields` of the object itself: half the bytes of a pod,
/// and useful for server-side apply, but not for watching. Those of nested templates are kept. To
/// skip more, decode into a type that names fewer fields.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Fields {
    managed: bool,
}

impl Fields {
    /// Keeps `metadata.managedFields`.
    #[must_use]
    pub fn keep_managed_fields(mut self) -> Self {
        self.managed = true;
        self
    }

    pub(crate) fn keeps_managed_fields(self) -> bool {
        self.managed
    }
}
