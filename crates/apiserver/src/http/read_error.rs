//! The errors of reads that ask for a version.

use dogwatch_core::{Details, Reason, Status};

use crate::ApiError;
use crate::store::Compacted;

/// Returns 504: the store has not reached the version yet. As `NewTooLargeResourceVersionError` in
/// k8s.io/apiserver v0.36.4 pkg/storage/errors.go.
pub(super) fn too_large(requested: u64, revision: u64) -> ApiError {
    let message = format!("Timeout: Too large resource version: {requested}, current: {revision}");
    let mut status = Status::failure(Reason::Timeout, message);
    status.details = Some(Details { retry_after_seconds: 1, ..Details::default() });
    ApiError(Box::new(status)).cause("ResourceVersionTooLarge", "Too large resource version", "")
}

/// Returns 410: the server has never reached this version. The code is 410 because clients list
/// again only after 410: kube-rs retries a watch that ended with 504 at the same version forever.
pub(super) fn unknown(version: u64, revision: u64) -> ApiError {
    let message = format!("unknown resource version: {version}, the newest is {revision}");
    ApiError(Box::new(Status::failure(Reason::Expired, message)))
}

/// Returns 410: the changes after a version are no longer kept. The message is that of
/// k8s.io/apiserver v0.36.4 pkg/storage/cacher/watch_cache.go.
pub(super) fn too_old(version: u64, compacted: Compacted) -> ApiError {
    let message = format!("too old resource version: {version} ({})", compacted.oldest);
    ApiError(Box::new(Status::failure(Reason::Expired, message)))
}

/// Returns 410: the objects look different from now on.
pub(super) fn view_ended() -> ApiError {
    let message = "the rules that decide what this watch shows have changed";
    ApiError(Box::new(Status::failure(Reason::Expired, message)))
}
