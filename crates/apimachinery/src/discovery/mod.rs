//! Discovery: the aggregated and the legacy documents about the served resources.
//!
//! [`Served`] orders built-in and custom resources; everything else is a pure function of it that
//! returns a value. The HTTP layer serves it (negotiation, `If-None-Match`); [`etag`] returns the
//! tag.

mod version;
mod served;
mod aggregated;
mod legacy;
mod digest;

pub use aggregated::{AGGREGATED_PROTOBUF_TYPE, AGGREGATED_TYPE, aggregated_core, aggregated_groups};
pub use digest::{digest, etag};
pub use legacy::{api_versions, group, group_list, resource_list};
pub use served::Served;
pub use version::by_stability;
