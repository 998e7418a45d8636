//! ComponentStatuses, which are computed and never stored.

use crate::kinds::rules::{COMMON, KindRules};

/// The rules of the kind ComponentStatus.
pub(crate) static RULES: KindRules = KindRules {
    group: "",
    kind: "ComponentStatus",
    plural: "componentstatuses",
    deprecation: Some("v1 ComponentStatus is deprecated in v1.19+"),
    is_stored: false,
    ..COMMON
};
