//! Events of the core group, and the parts that the events of both groups share.
//!
//! The validation mirrors k8s.io/kubernetes v1.36.4 pkg/apis/core/validation/events.go: it is
//! lenient for events of the core group and strict for those of `events.k8s.io`.

use jiff::Timestamp;
use serde_json::Value;

use crate::kinds::age;
use crate::kinds::cells;
use crate::kinds::fields::{Field, SelectableFields};
use crate::kinds::json_access::{at, number, text};
use crate::kinds::names;
use crate::kinds::rules::{Accounting, COMMON, KindRules};
use crate::kinds::traits::{KindTraits, MetadataPasses};
use crate::kinds::validate::check::{FieldErrors, invalid, invalid_string, required};

/// The rules of the kind Event.
pub(crate) static RULES: KindRules = KindRules {
    group: "",
    kind: "Event",
    plural: "events",
    traits: KindTraits { allow_create_on_update: true, ..KindTraits::COMMON },
    metadata_passes: MetadataPasses { labels: 2, fixed: 1, finalizers: 0 },
    finalizers_need_domain: false,
    validate_create: |out, event| common(out, event, "reportingComponent"),
    fields: SelectableFields::of(FIELDS),
    cells,
    is_collected: false,
    accounting: Accounting::Ignored,
    ..COMMON
};

/// The maximum length of names.
const NAME: usize = 128;

/// The maximum length of a note.
const NOTE: usize = 1024;

/// The selectable fields of events of both groups, by their names in the core group.
pub(in crate::kinds) const FIELDS: &[Field] = &[
    Field::text("involvedObject.kind", "/involvedObject/kind"),
    Field::text("involvedObject.namespace", "/involvedObject/namespace"),
    Field::text("involvedObject.name", "/involvedObject/name"),
    Field::text("involvedObject.uid", "/involvedObject/uid"),
    Field::text("involvedObject.apiVersion", "/involvedObject/apiVersion"),
    Field::text("involvedObject.resourceVersion", "/involvedObject/resourceVersion"),
    Field::text("involvedObject.fieldPath", "/involvedObject/fieldPath"),
    Field::text("reason", "/reason"),
    Field::text("reportingComponent", "/reportingComponent"),
    Field::computed("source", &["/source/component", "/reportingComponent"], source),
    Field::text("type", "/type"),
];

/// Returns the component that an event comes from.
fn source(event: &Value) -> String {
    match text(event, "/source/component") {
        "" => text(event, "/reportingComponent").to_owned(),
        component => component.to_owned(),
    }
}

/// Validates an event of either group, in the form of the core group.
pub(in crate::kinds) fn common(out: &mut FieldErrors, event: &Value, controller: &str) {
    let (of, own) = (text(event, "/involvedObject/namespace"), text(event, "/metadata/namespace"));
    if of != own && !(of.is_empty() && own == "default") {
        invalid(out, "involvedObject.namespace", &of.into(), "does not match event.namespace");
    }
    // Only events with an event time follow the rules of `events.k8s.io`.
    if at(event, "/eventTime").is_none() {
        return;
    }
    match text(event, "/reportingComponent") {
        "" => required(out, controller, ""),
        name => invalid_string(out, controller, name, names::qualified(name)),
    }
    for (field, longest) in [("reportingInstance", NAME), ("action", NAME), ("reason", NAME)] {
        let value = text(event, &format!("/{field}"));
        if value.is_empty() {
            required(out, field, "");
        } else if value.len() > longest {
            invalid(out, field, &"".into(), &format!("can have at most {longest} characters"));
        }
    }
    if text(event, "/message").len() > NOTE {
        invalid(out, "message", &"".into(), &format!("can have at most {NOTE} characters"));
    }
}

/// Returns the cells of an event, of either group.
pub(in crate::kinds) fn cells(object: &Value, now: Timestamp) -> Vec<Value> {
    let either =
        |core: &'static str, new: &'static str| cells::non_empty_or(text(object, core), text(object, new));
    let event_time = text(object, "/eventTime");
    let first = cells::non_empty_or(either("/firstTimestamp", "/deprecatedFirstTimestamp"), event_time);
    let mut last = cells::non_empty_or(either("/lastTimestamp", "/deprecatedLastTimestamp"), first);
    let mut count = number(object, "/count")
        .or(number(object, "/deprecatedCount"))
        .filter(|count| *count != 0)
        .unwrap_or(1);
    if let Some(series) = at(object, "/series") {
        last = text(series, "/lastObservedTime");
        count = number(series, "/count").unwrap_or(0);
    }
    let kind = either("/involvedObject/kind", "/regarding/kind").to_lowercase();
    let target = match either("/involvedObject/name", "/regarding/name") {
        "" => kind,
        name => format!("{kind}/{name}"),
    };
    let component = cells::non_empty_or(
        either("/source/component", "/deprecatedSource/component"),
        either("/reportingComponent", "/reportingController"),
    );
    let instance = cells::non_empty_or(
        either("/source/host", "/deprecatedSource/host"),
        text(object, "/reportingInstance"),
    );
    let source = if instance.is_empty() { component.to_owned() } else { format!("{component}, {instance}") };
    vec![
        age::since(last, now).into(),
        text(object, "/type").into(),
        text(object, "/reason").into(),
        target.into(),
        either("/involvedObject/fieldPath", "/regarding/fieldPath").into(),
        source.into(),
        either("/message", "/note").trim().into(),
        age::since(first, now).into(),
        count.into(),
        cells::name(object),
    ]
}
