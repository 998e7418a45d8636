//! APIServices.

use serde_json::Value;

use crate::kinds::age;
use crate::kinds::cells;
use crate::kinds::json_access::{at, text};
use crate::kinds::rules::{COMMON, KindRules};
use crate::kinds::traits::{KindTraits, StatusMetadata};

/// The rules of the kind APIService.
pub(crate) static RULES: KindRules = KindRules {
    group: "apiregistration.k8s.io",
    kind: "APIService",
    plural: "apiservices",
    traits: KindTraits {
        requires_version_on_update: true,
        has_status: true,
        status_metadata: StatusMetadata::Nothing,
        ..KindTraits::COMMON
    },
    cells: |object, now| {
        let age = age::since_creation(object, now);
        vec![cells::name(object), service(object).into(), availability(object).into(), age]
    },
    ..COMMON
};

fn service(part: &Value) -> String {
    at(part, "/spec/service")
        .map_or_else(|| "Local".to_owned(), |it| format!("{}/{}", text(it, "/namespace"), text(it, "/name")))
}

fn availability(part: &Value) -> String {
    match cells::find_condition(part, "Available").map(|it| (text(it, "/status"), text(it, "/reason"))) {
        None => "Unknown".to_owned(),
        Some(("True", _)) => "True".to_owned(),
        Some((status, "")) => status.to_owned(),
        Some((status, reason)) => format!("{status} ({reason})"),
    }
}
