//! TaintNodesByCondition: the taint of new nodes.

use crate::ApiError;
use crate::admission::node_taint;
use crate::cluster::write::Write;

/// Adds the taint to a new node.
pub(super) fn fill(write: &mut Write<'_>) -> Result<(), ApiError> {
    let def = &write.place.kind.def;
    if write.is_creation() && def.group.is_empty() && def.plural == "nodes" {
        node_taint::fill(&mut write.new);
    }
    Ok(())
}
