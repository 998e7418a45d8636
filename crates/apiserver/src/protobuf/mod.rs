//! Bodies in protobuf, read into the same values as JSON: typed clients of the original send built-in objects this way.
//!
//! Only requests are read; answers are JSON, which such clients accept too. The table of messages is data, and parsed the
//! first time somebody sends protobuf.
//!
//! The `mod` lines below are in layer order.

mod table;
mod wire;
mod error;
mod message;

pub use error::ProtobufError;
pub use message::{Object, decode};
