//! Warnings for the writer of an object: those of kube-apiserver.

use serde_json::Value;

use super::write::Write;
use crate::custom;
use crate::kinds::DEFINITION;
use crate::registry::Kind;

impl Write<'_> {
    /// Adds the warnings about the object itself.
    pub(super) fn warn(&mut self) {
        let old = self.base.map(|it| it.object);
        self.warnings.extend(of_kind(self.place.kind, &self.new, old));
    }
}

/// Returns the warnings about an object of a kind: `WarningsOnCreate` and `WarningsOnUpdate` of
/// the strategies in k8s.io/kubernetes v1.36.4 pkg/registry.
fn of_kind(kind: &Kind, object: &Value, old: Option<&Value>) -> Vec<String> {
    if kind.is(&DEFINITION) {
        custom::check::format_warnings(object, old)
    } else if kind.custom_version().is_some() {
        crate::kinds::warnings::custom(object, old)
    } else {
        crate::kinds::warnings::builtin(kind.rules, object, old)
    }
}
