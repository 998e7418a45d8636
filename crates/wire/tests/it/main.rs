//! What the decoders promise, told from outside: any chunks, bad weather, every kind of type.

mod chunks;
mod managed_fields;
mod list;
mod nasty;
mod types;
mod watch;
