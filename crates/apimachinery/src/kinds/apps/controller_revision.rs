//! ControllerRevisions.

use serde_json::Value;

use crate::kinds::age;
use crate::kinds::cells;
use crate::kinds::json_access::{flag, items, number, text};
use crate::kinds::rules::{COMMON, KindRules};
use crate::kinds::traits::MetadataPasses;
use crate::kinds::validate::check::{invalid, not_negative, required};

/// The rules of the kind ControllerRevision.
pub(crate) static RULES: KindRules = KindRules {
    group: "apps",
    kind: "ControllerRevision",
    plural: "controllerrevisions",
    metadata_passes: MetadataPasses { labels: 5, fixed: 3, finalizers: 3 },
    validate_create: |out, object| match object.get("data") {
        None | Some(Value::Null) => required(out, "data", "data is mandatory"),
        Some(Value::Object(_)) => {}
        Some(_) => required(out, "data", "data must be a valid JSON object"),
    },
    validate_update: Some(|out, new, old| {
        not_negative(out, new, "/revision", "revision");
        if new.get("data") != old.get("data") {
            invalid(out, "data", &new["data"], "field is immutable");
        }
    }),
    cells: |object, now| {
        let revision = number(object, "/revision").unwrap_or(0);
        let age = age::since_creation(object, now);
        vec![cells::name(object), owner(object).into(), revision.into(), age]
    },
    ..COMMON
};

fn owner(object: &Value) -> String {
    let owners = items(object, "/metadata/ownerReferences");
    let Some(owner) = owners.iter().find(|owner| flag(owner, "/controller")) else {
        return "<none>".to_owned();
    };
    let kind = text(owner, "/kind").to_lowercase();
    let name = text(owner, "/name");
    match text(owner, "/apiVersion").split_once('/') {
        Some((group, _)) => format!("{kind}.{group}/{name}"),
        None => format!("{kind}/{name}"),
    }
}
