//! ServiceAccounts.

use crate::kinds::rules::{COMMON, KindRules};
use crate::kinds::traits::KindTraits;

/// The rules of the kind ServiceAccount.
pub(crate) static RULES: KindRules = KindRules {
    group: "",
    kind: "ServiceAccount",
    plural: "serviceaccounts",
    traits: KindTraits { returns_deleted_object: true, ..KindTraits::COMMON },
    ..COMMON
};
