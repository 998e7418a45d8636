//! ResourceQuotas.

use serde_json::Value;

use crate::kinds::age;
use crate::kinds::cells;
use crate::kinds::json_access::entries;
use crate::kinds::rules::{Accounting, COMMON, KindRules};
use crate::kinds::traits::{KindTraits, MetadataPasses};
use crate::kinds::validate::limits;

/// The rules of the kind ResourceQuota.
pub(crate) static RULES: KindRules = KindRules {
    group: "",
    kind: "ResourceQuota",
    plural: "resourcequotas",
    traits: KindTraits { returns_deleted_object: true, has_status: true, ..KindTraits::COMMON },
    metadata_passes: MetadataPasses { labels: 3, fixed: 2, finalizers: 1 },
    validate_create: limits::quota,
    validate_update: Some(limits::quota_update),
    validate_status: |out, new, _| limits::quota_status(out, new),
    cells: |object, now| {
        let [requests, limits] = quota(object);
        vec![cells::name(object), requests.into(), limits.into(), age::since_creation(object, now)]
    },
    accounting: Accounting::CountedByName,
    ..COMMON
};

fn quota(object: &Value) -> [String; 2] {
    let mut lists = [Vec::new(), Vec::new()];
    for (resource, hard) in entries(object, "/status/hard") {
        let used = object["status"]["used"].get(resource).and_then(Value::as_str).unwrap_or("0");
        let part = format!("{resource}: {used}/{}", hard.as_str().unwrap_or("0"));
        lists[usize::from(resource.starts_with("limits."))].push(part);
    }
    lists.map(|list| list.join(", "))
}
