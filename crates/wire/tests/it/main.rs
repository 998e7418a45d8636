//! Integration tests of the decoders: any chunks, malformed input, every kind of type.

mod chunks;
mod managed_fields;
mod protobuf;
mod resource_version;
mod packed;
mod list;
mod strategies;
mod types;
mod watch;
