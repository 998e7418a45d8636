//! CSIStorageCapacities.

use crate::kinds::cells;
use crate::kinds::json_access::text;
use crate::kinds::rules::{COMMON, KindRules};
use crate::kinds::traits::KindTraits;

/// The rules of the kind CSIStorageCapacity.
pub(crate) static RULES: KindRules = KindRules {
    group: "storage.k8s.io",
    kind: "CSIStorageCapacity",
    plural: "csistoragecapacities",
    traits: KindTraits { requires_version_on_update: true, ..KindTraits::COMMON },
    cells: |object, _| vec![cells::name(object), text(object, "/metadata/creationTimestamp").into()],
    ..COMMON
};
