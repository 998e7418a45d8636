//! DefaultTolerationSeconds: the tolerations that every pod has.

use crate::ApiError;
use crate::admission::toleration_seconds;
use crate::cluster::write::Write;
use crate::kinds::POD;

/// Adds the tolerations to a new or changed pod.
pub(super) fn fill(write: &mut Write<'_>) -> Result<(), ApiError> {
    if write.place.kind.is(&POD) && write.place.part.is_empty() {
        toleration_seconds::fill(&mut write.new);
    }
    Ok(())
}
