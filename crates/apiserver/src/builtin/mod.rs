//! The kinds every cluster has: what is served, what their fields are, and whether a body fits them.
//!
//! All of it comes from the tables in `data/generated`, which `cargo xtask gen` makes. They are part of the program; each
//! piece is parsed the first time someone asks for it, so a server that is asked nothing pays nothing.

mod resource;
mod tables;
mod prose;
mod definitions;
mod syntax;
mod words;
mod decode;
mod typed;

pub use decode::{Findings, duplicate_fields, inspect, type_errors, unknown_fields};
pub use definitions::BuiltinDefinitions;
pub(crate) use prose::Prose;
pub use resource::{Column, ResourceDef, SubresourceDef};
pub use tables::{
    columns, definition_json, definition_name, definition_names, resource, resource_of_kind, resources,
};
pub use typed::keep_known;
