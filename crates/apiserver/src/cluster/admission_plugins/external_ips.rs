//! DenyServiceExternalIPs: no service gets an external IP address that it did not have.

use std::collections::HashSet;

use serde_json::Value;

use crate::ApiError;
use crate::cluster::policies::forbidden;
use crate::cluster::write::Write;
use crate::kinds::SERVICE;
use crate::kinds::json_access::items;

/// Rejects services with new external addresses.
pub(super) fn check(write: &mut Write<'_>) -> Result<(), ApiError> {
    if !write.place.kind.is(&SERVICE) || !write.place.part.is_empty() {
        return Ok(());
    }
    let old: HashSet<&Value> =
        write.updated().into_iter().flat_map(|it| items(it, "/spec/externalIPs")).collect();
    if items(&write.new, "/spec/externalIPs").iter().all(|it| old.contains(it)) {
        return Ok(());
    }
    Err(forbidden(write.place, &write.new, "Use of external IPs is denied by admission control"))
}
