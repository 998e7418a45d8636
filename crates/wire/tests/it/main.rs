//! Integration tests of the decoders: any chunks, malformed input, every kind of type.

mod chunks;
mod managed_fields;
mod list;
mod nasty;
mod types;
mod watch;
