//! Tests of the whole pipeline, on a server in the same process.

mod follow;
#[cfg(feature = "informer")]
mod packed_cache;
mod protobuf_encoding;
#[cfg(feature = "derive")]
mod custom_resource_derive;
#[cfg(all(feature = "derive", feature = "informer", feature = "testing"))]
mod derives_on_a_server;
