//! Protobuf bodies, decoded into the same values as JSON: Go's typed clients send built-in objects
//! this way.
//!
//! Only requests are decoded; responses are JSON, which these clients accept too. The table of
//! messages is data, parsed when the first protobuf body arrives.
//!
//! The `mod` lines below are in layer order.

mod table;
mod wire;
mod error;
mod message;

pub use error::ProtobufError;
pub use message::{Object, decode};
