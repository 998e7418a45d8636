//! StorageObjectInUseProtection: the finalizer of storage objects.

use crate::ApiError;
use crate::admission::storage_protection;
use crate::cluster::write::Write;

/// Adds the finalizer to a new object.
pub(super) fn fill(write: &mut Write<'_>) -> Result<(), ApiError> {
    if write.is_creation() {
        let def = &write.place.kind.def;
        storage_protection::fill(&def.group, &def.plural, &mut write.new);
    }
    Ok(())
}
