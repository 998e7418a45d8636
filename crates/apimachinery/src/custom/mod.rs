//! Custom resources: definitions are validated and compiled; their objects are pruned, defaulted,
//! validated, converted, scaled and printed. All of it is functions on JSON values.
//!
//! A definition is checked ([`check`]), gets its names ([`names`]) and is compiled once into a
//! [`CustomKind`]. The functions of [`object`] then decode, prepare and validate an object of one
//! of its versions, with the steps in the right order. Nothing here stores, watches or knows the
//! time. The rules of schemas are compiled with them and evaluated with [`crate::cel`].
//!
//! The `mod` lines below are in layer order: a module uses only modules declared above it.

mod go_format;
mod value_path;
mod unknown_fields;
mod formats;
mod go_syntax;
mod nfa_search;
pub mod pattern;
pub mod structural;
pub mod metadata;
pub mod prune;
pub mod default;
mod numbers;
pub mod validate;
mod nodes;
mod listtype;
mod embedded;
mod rule_types;
mod rules;
pub mod jsonpath;
pub mod scale;
pub mod columns;
pub mod definition;
pub mod names;
mod keywords;
mod schema_path;
mod schema_nodes;
mod structural_rules;
mod openapi;
mod default_checks;
mod internal;
mod pattern_checks;
mod version_checks;
mod rule_checks;
pub mod check;
pub mod object;
pub mod convert;

pub use definition::{CustomKind, Names, Scope, Version};
pub use structural::Structural;
