//! LimitRanger: the defaults and bounds of the limit ranges of a namespace.

use crate::ApiError;
use crate::admission::limits;
use crate::cluster::policies::{Policies, forbidden};
use crate::cluster::write::Write;
use crate::kinds::POD;
use crate::kinds::json_access::at;
use crate::kinds::rules::Accounting;

/// Fills in the requests and limits of a new or resized pod.
pub(super) fn fill(write: &mut Write<'_>) -> Result<(), ApiError> {
    if write.place.kind.is(&POD) && concerns(write) {
        limits::fill(&mut write.new, &Policies::of(write.cluster).limit_ranges(write.place));
    }
    Ok(())
}

/// Rejects pods and claims that are out of bounds.
pub(super) fn check(write: &mut Write<'_>) -> Result<(), ApiError> {
    if !concerns(write) {
        return Ok(());
    }
    let ranges = Policies::of(write.cluster).limit_ranges(write.place);
    match limits::refuse(write.place.kind.rules.accounting, &write.new, &ranges) {
        Some(why) => Err(forbidden(write.place, &write.new, &why)),
        None => Ok(()),
    }
}

/// Returns true for writes of pods and claims that are limited. The containers of a pod change only
/// when it is resized.
fn concerns(write: &Write<'_>) -> bool {
    let accounting = write.place.kind.rules.accounting;
    let old = write.base.map(|it| it.object);
    let is_deleted = old.is_some_and(|it| at(it, "/metadata/deletionTimestamp").is_some());
    let is_limited = match (accounting, write.place.part, old.is_some()) {
        (Accounting::Pod, "", is_update) => !is_update,
        (Accounting::Pod, "resize", true) | (Accounting::Claim, "", _) => true,
        _ => false,
    };
    is_limited && !is_deleted
}
