//! The kind HorizontalPodAutoscaler of the group `autoscaling`, which has two versions.
//!
//! The `mod` lines below are in layer order.

mod annotation;
mod metric;
mod defaults;
mod conversion;
mod validation;
mod columns;

use crate::kinds::rules::{COMMON, Conversion, KindRules};
use crate::kinds::traits::{KindTraits, MetadataPasses};
use crate::kinds::validate::status::counts;

pub use columns::scale_cells;
pub use conversion::{to_v1, to_v2};

/// The rules of the kind HorizontalPodAutoscaler.
pub(crate) static RULES: KindRules = KindRules {
    group: "autoscaling",
    kind: "HorizontalPodAutoscaler",
    plural: "horizontalpodautoscalers",
    traits: KindTraits { has_status: true, ..KindTraits::COMMON },
    metadata_passes: MetadataPasses { labels: 3, fixed: 2, finalizers: 1 },
    default: defaults::defaults,
    validate_create: |out, object| validation::autoscaler(out, &object["spec"]),
    validate_status: |out, object, _| counts(out, object, &["currentReplicas", "desiredReplicas"], &[]),
    cells: columns::cells,
    conversion: Some(Conversion {
        version: Some("v1"),
        stored_group: "autoscaling",
        to_stored: to_v2,
        from_stored: to_v1,
    }),
    storage_version: Some("v2"),
    ..COMMON
};
