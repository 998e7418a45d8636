//! One rule: the objects and callers that it is for, and what it changes. A pure function from a
//! stored object to the one that a caller sees.

use std::collections::{BTreeMap, BTreeSet};

use dogwatch_apimachinery::patch::{Patch, PatchKind};
use dogwatch_apimachinery::schema::{NoDefinitions, Schema};
use dogwatch_core::{LabelSelector, Labels};
use serde_json::Value;

use super::expression::{Condition, PatchExpression};
use super::pointer::Pointer;

/// The places of host names: Ingresses, routes of the Gateway API, Services.
const HOSTS: [&str; 4] =
    ["/spec/rules/*/host", "/spec/tls/*/hosts/*", "/spec/hostnames/*", "/spec/externalName"];

/// The annotation of `kubectl apply` with the whole object as it was applied:
/// `LastAppliedConfigAnnotation` in k8s.io/api v0.36.4 core/v1/annotation_key_constants.go. It
/// repeats what a rule redacts.
const LAST_APPLIED: [&str; 3] =
    ["metadata", "annotations", "kubectl.kubernetes.io/last-applied-configuration"];

/// Keys of managed fields repeat keys of lists, such as ports.
const MANAGED_FIELDS: [&str; 2] = ["metadata", "managedFields"];

/// A rule.
#[derive(Clone, Debug)]
pub(crate) struct Rule {
    /// The name for messages.
    pub(crate) name: String,
    /// The group and the plural name of the resource.
    pub(crate) resource: (String, String),
    pub(crate) objects: Objects,
    pub(crate) callers: Callers,
    pub(crate) changes: Vec<Change>,
    pub(crate) on_write: OnWrite,
}

/// The objects that a rule is for, by their stored state.
#[derive(Clone, Debug, Default)]
pub(crate) struct Objects {
    /// Empty for all namespaces.
    pub(crate) namespaces: BTreeSet<String>,
    pub(crate) labels: LabelSelector,
    /// The objects for which an expression is true.
    pub(crate) condition: Option<Condition>,
    /// Set if the rule is for objects for which the condition has no result, so that a rule that
    /// conceals something does not show it because a field is missing.
    pub(crate) includes_unknown: bool,
}

/// The callers that a rule is for.
#[derive(Clone, Debug, Default)]
pub(crate) struct Callers {
    pub(crate) user: Option<String>,
    /// A prefix of the `User-Agent` header.
    pub(crate) user_agent: Option<String>,
}

/// One change of an object.
#[derive(Clone, Debug)]
pub(crate) enum Change {
    /// Removes the object from the view.
    Hide,
    /// Applies a patch.
    Patch(Patch),
    /// Applies the merge patch that an expression returns for the object.
    Compute(PatchExpression),
    /// Sets annotations.
    Annotate(BTreeMap<String, String>),
    /// Removes the values at these places, and the metadata that repeats them.
    Redact(Vec<Pointer>),
    /// Replaces host names.
    RenameHosts(BTreeMap<String, String>),
    /// Keeps the endpoints of a zone, and those without one; all of them if none would be left.
    KeepZone(String),
}

/// The treatment of a write of an object that the rule has changed for its caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OnWrite {
    /// The stored values are put back before the object goes upstream.
    Restore,
    /// The write is refused.
    Refuse,
}

impl Rule {
    /// Returns true if the rule is for a resource.
    pub(crate) fn is_of(&self, group: &str, resource: &str) -> bool {
        is_same(&self.resource, group, resource)
    }

    /// Returns true if the rule hides objects.
    pub(crate) fn hides(&self) -> bool {
        self.changes.iter().any(|it| matches!(it, Change::Hide))
    }

    /// Returns true if the rule keeps something from its callers. They may not write then: the
    /// answer to a patch could show it, and so could an object that no longer has the rule's
    /// labels.
    pub(crate) fn conceals(&self) -> bool {
        conceal(&self.changes)
    }
}

/// Returns true if one of these changes keeps something from a caller.
pub(crate) fn conceal(changes: &[Change]) -> bool {
    changes.iter().any(|it| matches!(it, Change::Hide | Change::Redact(_)))
}

/// Returns true if a resource of another group has the same objects: events are in two groups.
pub(crate) fn is_same((of, name): &(String, String), group: &str, resource: &str) -> bool {
    let is_of_events = |it: &str| matches!(it, "" | "events.k8s.io");
    name == resource && (of == group || (resource == "events" && is_of_events(of) && is_of_events(group)))
}

impl Objects {
    /// Returns true if the rule is for an object in this state.
    pub(crate) fn contain(&self, object: &Value) -> bool {
        let metadata = &object["metadata"];
        let namespace = metadata["namespace"].as_str().unwrap_or_default();
        if !self.namespaces.is_empty() && !self.namespaces.contains(namespace) {
            return false;
        }
        let pairs = metadata["labels"].as_object().into_iter().flatten();
        let labels: BTreeMap<String, String> =
            pairs.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect();
        self.labels.matches(Labels::from(&labels))
            && self.condition.as_ref().is_none_or(|it| it.holds(object).unwrap_or(self.includes_unknown))
    }
}

impl Callers {
    /// Returns true if the rule is for this caller.
    pub(crate) fn contain(&self, user: &str, user_agent: &str) -> bool {
        self.user.as_ref().is_none_or(|it| it == user)
            && self.user_agent.as_ref().is_none_or(|it| user_agent.starts_with(it.as_str()))
    }
}

impl Change {
    /// Applies the change; `None` hides the object.
    pub(crate) fn apply(&self, mut object: Value) -> Option<Value> {
        match self {
            Self::Hide => return None,
            Self::Patch(patch) => {
                // A patch that does not apply to this object, for example because of its `test`,
                // leaves it as it is.
                if let Ok(patched) = patch.apply(&object, &Schema::Any, &NoDefinitions) {
                    object = patched;
                }
            }
            Self::Compute(expression) => {
                let computed = expression.patch(&object).and_then(|it| merge_patch(&it).ok());
                if let Some(Ok(patched)) = computed.map(|it| it.apply(&object, &Schema::Any, &NoDefinitions))
                {
                    object = patched;
                }
            }
            Self::Annotate(annotations) => {
                if let Some(Value::Object(metadata)) = object.get_mut("metadata") {
                    let current = metadata.entry("annotations").or_insert(Value::Null);
                    if !current.is_object() {
                        *current = Value::Object(serde_json::Map::new());
                    }
                    for (key, value) in annotations {
                        current[key] = value.as_str().into();
                    }
                }
            }
            Self::Redact(places) => {
                let repeated = [Pointer::of(&LAST_APPLIED), Pointer::of(&MANAGED_FIELDS)];
                for place in places.iter().chain(&repeated) {
                    place.change(&mut object, &|_| None);
                }
            }
            Self::RenameHosts(names) => {
                let renamed = |host: &Value| {
                    let new = host.as_str().and_then(|it| names.get(it));
                    Some(new.map_or_else(|| host.clone(), |it| it.as_str().into()))
                };
                for place in hosts() {
                    place.change(&mut object, &renamed);
                }
            }
            Self::KeepZone(zone) => keep_zone(&mut object, zone),
        }
        Some(object)
    }
}

/// Decodes a patch of a rule; the error says what is wrong with it.
pub(crate) fn patch(kind: PatchKind, value: &Value) -> Result<Change, String> {
    let body = serde_json::to_vec(value).map_err(|error| error.to_string())?;
    let patch = Patch::decode(kind, &body, false).map_err(|error| error.to_string())?;
    let mut places = Vec::new();
    match (kind, value) {
        (PatchKind::Json, Value::Array(operations)) => {
            for operation in operations {
                for key in ["path", "from"] {
                    let moved = key == "path" || operation["op"] == "move";
                    if let Some(path) = operation[key].as_str().filter(|_| moved && operation["op"] != "test")
                    {
                        places.push(Pointer::parse(path)?);
                    }
                }
            }
        }
        (PatchKind::Merge, Value::Object(_)) => leaves(value, &Pointer::of(&[]), &mut places),
        (PatchKind::Merge, _) => return Err("a merge patch is an object".to_owned()),
        _ => return Err("a JSON patch is a list of operations".to_owned()),
    }
    match places.iter().find(|it| it.is_identity()) {
        Some(place) => Err(format!("a rule cannot change {place}, which identifies the object")),
        None => Ok(Change::Patch(patch)),
    }
}

fn merge_patch(value: &Value) -> Result<Patch, String> {
    let body = serde_json::to_vec(value).map_err(|error| error.to_string())?;
    Patch::decode(PatchKind::Merge, &body, false).map_err(|error| error.to_string())
}

/// Collects the places that a merge patch sets or removes.
fn leaves(value: &Value, at: &Pointer, places: &mut Vec<Pointer>) {
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            for (key, value) in fields {
                leaves(value, &at.member(key), places);
            }
        }
        _ => places.push(at.clone()),
    }
}

fn hosts() -> impl Iterator<Item = Pointer> {
    HOSTS.iter().map(|it| Pointer::parse(it).expect("the places of hosts are pointers"))
}

fn keep_zone(object: &mut Value, zone: &str) {
    let Some(endpoints) = object["endpoints"].as_array() else { return };
    let is_near = |it: &&Value| it["zone"].as_str().is_none_or(|it| it == zone);
    let near: Vec<Value> = endpoints.iter().filter(is_near).cloned().collect();
    if !near.is_empty() {
        object["endpoints"] = near.into();
    }
}
