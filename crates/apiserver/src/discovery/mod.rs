//! What a client sees of what is served: the aggregated documents and the old ones.
//!
//! [`Served`] puts built-in and custom resources in order; everything else is a pure function of it, returned as a value.
//! Serving it (negotiation, `If-None-Match`) is the business of the server; [`etag`] gives it the tag.

mod version;
mod served;
mod aggregated;
mod legacy;
mod digest;

pub use aggregated::{AGGREGATED_TYPE, aggregated_core, aggregated_groups};
pub use digest::{digest, etag};
pub use legacy::{api_versions, group, group_list, resource_list};
pub use served::Served;
pub use version::by_stability;
