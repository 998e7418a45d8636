//! What custom resources need: their definition read and checked, and their objects pruned, defaulted, validated,
//! converted, scaled and shown, all as functions on JSON values.
//!
//! A definition is checked ([`check`]), gets its names ([`names`]) and is read once into a [`CustomKind`]. An object of
//! one of its versions is then read, readied and validated by the functions of [`object`], which put the steps in order.
//! Nothing here stores, watches or knows the time. CEL rules (`x-kubernetes-validations`) are kept as they are and not
//! evaluated.
//!
//! The `mod` lines below are in layer order: a module uses only modules declared above it.

mod printed;
mod label;
mod formats;
mod go_syntax;
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
pub mod jsonpath;
pub mod scale;
pub mod columns;
pub mod convert;
pub mod definition;
pub mod names;
mod words;
mod places;
mod rules;
mod openapi;
mod defaulted;
mod internal;
mod parts;
pub mod check;
pub mod object;

pub use definition::{CustomKind, Names, Scope, Version};
pub use structural::Structural;
