//! ServiceAccounts.

use serde_json::Value;

use crate::kinds::json_access::at;
use crate::kinds::rules::{COMMON, KindRules};
use crate::kinds::traits::KindTraits;

/// The annotation by which an account limits the secrets of its pods.
const LIMITS_SECRETS: &str = "kubernetes.io/enforce-mountable-secrets";

/// The rules of the kind ServiceAccount.
pub(crate) static RULES: KindRules = KindRules {
    group: "",
    kind: "ServiceAccount",
    plural: "serviceaccounts",
    traits: KindTraits { returns_deleted_object: true, ..KindTraits::COMMON },
    warnings,
    ..COMMON
};

/// Warns about an annotation that is deprecated, when it is added.
fn warnings(account: &Value, old: Option<&Value>) -> Vec<String> {
    let has = |it: &Value| at(it, "/metadata/annotations").is_some_and(|it| it.get(LIMITS_SECRETS).is_some());
    if !has(account) || old.is_some_and(has) {
        return Vec::new();
    }
    vec![format!(
        "metadata.annotations[{LIMITS_SECRETS}]: deprecated in v1.32+; prefer separate namespaces to isolate access to mounted \
         secrets"
    )]
}
