//! What one asks of a server besides the path: list, watch, get, write, patch and delete parameters (rule RQ-3).
//!
//! Every struct turns into query pairs with `query()`; deleting has a body instead. Empty and zero values are left out, as
//! the server's defaults are theirs. What the server is known to refuse is refused here, before any I/O.

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
