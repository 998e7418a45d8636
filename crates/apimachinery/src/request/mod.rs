//! Request parsing: the target and verb of a request, its options, and the representation of the
//! response.
//!
//! Pure functions over paths, queries and headers; no socket, no storage.

mod route;
mod media;
mod continue_token;
mod selector;
mod options;
mod expression;
mod shards;
pub mod json;
pub mod yaml;

pub use continue_token::ContinueToken;
pub use media::{BodyForm, Encoding, ObjectForm, media_types, negotiate};
pub use options::{InitialEvents, ListOptions, ListVersion, WatchOptions};
pub use route::{Route, Target, Verb, decode_path};
pub use shards::ShardSelector;
