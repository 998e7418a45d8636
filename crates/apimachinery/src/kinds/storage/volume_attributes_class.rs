//! VolumeAttributesClasses.

use crate::kinds::age;
use crate::kinds::cells;
use crate::kinds::json_access::text;
use crate::kinds::rules::{COMMON, KindRules};
use crate::kinds::traits::KindTraits;

/// The rules of the kind VolumeAttributesClass.
pub(crate) static RULES: KindRules = KindRules {
    group: "storage.k8s.io",
    kind: "VolumeAttributesClass",
    plural: "volumeattributesclasses",
    traits: KindTraits { returns_deleted_object: true, ..KindTraits::COMMON },
    cells: |object, now| {
        let driver = text(object, "/driverName").into();
        vec![cells::name(object), driver, age::since_creation(object, now)]
    },
    ..COMMON
};
