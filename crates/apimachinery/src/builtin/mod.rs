//! The built-in kinds: their resources, their schemas, and the decoding of bodies.
//!
//! All of it comes from the tables in `data/generated`, which `cargo xtask gen` generates and which
//! are part of the binary. Each piece is parsed on first use.

mod resource;
mod tables;
mod descriptions;
mod definitions;
mod go_types;
mod schema_unions;
mod decode;
mod typed;

pub use decode::{Findings, duplicate_fields, inspect, type_errors, unknown_fields};
pub use definitions::BuiltinDefinitions;
pub(crate) use descriptions::Descriptions;
pub use resource::{Column, ResourceDef, SubresourceDef};
pub use tables::{
    columns, definition_json, definition_name, definition_names, resource, resource_of_kind, resources,
};
pub use typed::keep_known;
