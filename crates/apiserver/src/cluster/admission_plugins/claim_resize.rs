//! PersistentVolumeClaimResize: which claims may grow.

use super::cluster_objects;
use crate::ApiError;
use crate::admission::claim_resize;
use crate::cluster::policies::forbidden;
use crate::cluster::write::Write;
use crate::kinds::rules::Accounting;

/// Rejects the growth of a claim that is not bound, or whose storage class does not permit it.
pub(super) fn check(write: &mut Write<'_>) -> Result<(), ApiError> {
    let is_claim = write.place.kind.rules.accounting == Accounting::Claim;
    let Some(old) = write.updated().filter(|it| is_claim && claim_resize::grows(&write.new, it)) else {
        return Ok(());
    };
    let class = claim_resize::class(&write.new, old);
    let class =
        class.and_then(|it| cluster_objects::one(write.cluster, "storage.k8s.io", "storageclasses", it));
    match claim_resize::refuse(old, class.as_ref()) {
        Some(why) => Err(forbidden(write.place, &write.new, why)),
        None => Ok(()),
    }
}
