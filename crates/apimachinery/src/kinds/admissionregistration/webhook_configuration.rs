//! ValidatingWebhookConfigurations and MutatingWebhookConfigurations.

use std::collections::HashSet;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::kinds::age;
use crate::kinds::cells;
use crate::kinds::json_access::{Object, at, each, fill, items, number, object, object_if_present, text};
use crate::kinds::names;
use crate::kinds::rules::{COMMON, KindRules};
use crate::kinds::traits::{KindTraits, StatusMetadata};
use crate::kinds::validate::check::{FieldErrors, duplicate, invalid, invalid_string, one_of, required};

/// The rules of the kind ValidatingWebhookConfiguration.
pub static VALIDATING: KindRules = KindRules {
    group: "admissionregistration.k8s.io",
    kind: "ValidatingWebhookConfiguration",
    plural: "validatingwebhookconfigurations",
    traits: KindTraits {
        requires_version_on_update: true,
        has_generation: true,
        status_metadata: StatusMetadata::Nothing,
        ..KindTraits::COMMON
    },
    default: |_, map| each(map, "webhooks").for_each(|it| webhook(it, false)),
    validate_create: webhooks,
    cells,
    ..COMMON
};

/// The rules of the kind MutatingWebhookConfiguration.
pub static MUTATING: KindRules = KindRules {
    group: "admissionregistration.k8s.io",
    kind: "MutatingWebhookConfiguration",
    plural: "mutatingwebhookconfigurations",
    traits: KindTraits {
        requires_version_on_update: true,
        has_generation: true,
        status_metadata: StatusMetadata::Nothing,
        ..KindTraits::COMMON
    },
    default: |_, map| each(map, "webhooks").for_each(|it| webhook(it, true)),
    validate_create: webhooks,
    cells,
    ..COMMON
};

fn webhook(webhook: &mut Object, mutating: bool) {
    fill(webhook, "failurePolicy", "Fail");
    fill(webhook, "matchPolicy", "Equivalent");
    fill(webhook, "namespaceSelector", json!({}));
    fill(webhook, "objectSelector", json!({}));
    fill(webhook, "timeoutSeconds", 10);
    if mutating {
        fill(webhook, "reinvocationPolicy", "Never");
    }
    each(webhook, "rules").for_each(|it| fill(it, "scope", "*"));
    if let Some(service) = object_if_present(object(webhook, "clientConfig"), "service") {
        fill(service, "port", 443);
    }
}

fn webhooks(out: &mut FieldErrors, configuration: &Value) {
    let mut names_before = HashSet::new();
    for (index, webhook) in items(configuration, "/webhooks").iter().enumerate() {
        let path = format!("webhooks[{index}]");
        let name = text(webhook, "/name");
        if !names_before.insert(name) {
            duplicate(out, &format!("{path}.name"), &name.into());
        }
        if name.split('.').filter(|part| !part.is_empty()).count() < 3 {
            let detail = "should be a domain with at least three segments separated by dots";
            invalid(out, &format!("{path}.name"), &name.into(), detail);
        } else {
            invalid_string(out, &format!("{path}.name"), name, names::subdomain(name));
        }
        let versions = items(webhook, "/admissionReviewVersions");
        if versions.is_empty() {
            let detail = "must specify one of v1, v1beta1";
            required(out, &format!("{path}.admissionReviewVersions"), detail);
        } else if !versions.iter().any(|it| it == "v1" || it == "v1beta1") {
            let shown = &webhook["admissionReviewVersions"];
            let detail = "must include at least one of v1, v1beta1";
            invalid(out, &format!("{path}.admissionReviewVersions"), shown, detail);
        }
        let (url, service) = (at(webhook, "/clientConfig/url"), at(webhook, "/clientConfig/service"));
        if url.is_some() == service.is_some() {
            let detail = "exactly one of url or service is required";
            required(out, &format!("{path}.clientConfig"), detail);
        }
        if at(webhook, "/sideEffects").is_none() {
            required(out, &format!("{path}.sideEffects"), "must specify one of None, NoneOnDryRun");
        } else {
            let known = ["None", "NoneOnDryRun"];
            one_of(out, webhook, "/sideEffects", &format!("{path}.sideEffects"), &known);
        }
        one_of(out, webhook, "/failurePolicy", &format!("{path}.failurePolicy"), &["Fail", "Ignore"]);
        one_of(out, webhook, "/matchPolicy", &format!("{path}.matchPolicy"), &["Equivalent", "Exact"]);
        if let Some(seconds) = number(webhook, "/timeoutSeconds").filter(|it| !(1..=30).contains(it)) {
            let detail = "the timeout value must be between 1 and 30 seconds";
            invalid(out, &format!("{path}.timeoutSeconds"), &seconds.into(), detail);
        }
    }
}

fn cells(object: &Value, now: Timestamp) -> Vec<Value> {
    let webhooks = items(object, "/webhooks").len().into();
    vec![cells::name(object), webhooks, age::since_creation(object, now)]
}
