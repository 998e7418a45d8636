//! DeviceClasses.

use crate::kinds::rules::{COMMON, KindRules};
use crate::kinds::traits::{KindTraits, StatusMetadata};

/// The rules of the kind DeviceClass.
pub(crate) static RULES: KindRules = KindRules {
    group: "resource.k8s.io",
    kind: "DeviceClass",
    plural: "deviceclasses",
    traits: KindTraits {
        returns_deleted_object: true,
        has_generation: true,
        status_metadata: StatusMetadata::Nothing,
        ..KindTraits::COMMON
    },
    ..COMMON
};
