//! What is wrong with an object, in the words of the original.
//!
//! Metadata is checked for every kind, the rest for the kinds people meet most. All problems are found, in the order
//! in which the original names them. Objects must have their defaults and be prepared.
//!
//! The `mod` lines below are in layer order.

mod check;
pub mod metadata;

use serde_json::Value;

use crate::Problem;
use crate::kinds::prepare::KindNames;

/// What is wrong with a new object.
pub fn create(names: KindNames<'_>, namespaced: bool, object: &Value) -> Vec<Problem> {
    metadata::create(names.group, names.plural, namespaced, object)
}

/// What is wrong with the new state of an object.
pub fn update(names: KindNames<'_>, namespaced: bool, new: &Value, old: &Value) -> Vec<Problem> {
    metadata::update(names.group, names.plural, namespaced, new, old)
}
