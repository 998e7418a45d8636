//! The parameters of requests besides the path: list, watch, get, write, patch and delete (rule
//! RQ-3).
//!
//! Every struct is converted into query pairs by `query()`; a delete has a body instead. Empty and
//! zero values are omitted, so the server's defaults apply. Combinations that the server is known
//! to reject are rejected here, before any I/O.

mod query;
mod list;
mod watch;
mod get;
mod write;
mod delete;

pub use delete::{DeleteParams, Preconditions, Propagation};
pub use get::GetParams;
pub use list::ListParams;
pub use query::{InvalidParams, VersionMatch};
pub use watch::WatchParams;
pub use write::{FieldValidation, PatchParams, WriteParams};
