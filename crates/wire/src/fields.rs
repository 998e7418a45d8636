//! Which parts of an object are worth decoding.

/// Says what to leave out while decoding, before anything is allocated for it.
///
/// The default leaves out `metadata.managedFields` of the object itself: half the bytes of a pod, and of use to
/// those who apply, not to those who watch. Nested templates keep theirs. To leave out
/// more, decode into a type that names less.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
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
