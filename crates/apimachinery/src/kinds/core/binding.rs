//! Bindings: requests to assign a pod to a node, which are executed and never stored.

use crate::kinds::rules::{COMMON, KindRules};

/// The rules of the kind Binding.
pub static RULES: KindRules = KindRules { group: "", kind: "Binding", plural: "bindings", ..COMMON };
