//! The limits that hold for every object that is read from outside.

use serde_json::Value;

use crate::{depth, memory};

/// Returns the reason why an object must not be processed: it is nested too deeply, or takes too
/// much memory.
pub fn violation(object: &Value) -> Option<String> {
    if depth::is_exceeded_by(object) {
        return Some(depth::exceeded());
    }
    memory::is_exceeded_by(object).then(memory::exceeded)
}
