//! Targets, endpoints and channels, against an API server in the same process.

mod town;
mod resolve;
mod resolve_faults;
mod resolve_churn;
#[cfg(feature = "tonic")]
mod feed;
