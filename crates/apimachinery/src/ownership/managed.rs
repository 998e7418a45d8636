//! `metadata.managedFields`: the owners of the fields of an object, with the time of their last
//! change.
//!
//! Read from an object, changed by [`update`](super::update()) and [`apply`](super::apply()),
//! written back sorted.

use std::collections::BTreeMap;
use std::fmt;

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::element::escape_html;
use super::field_set::{BadFields, FieldSet};
use crate::strconv;

/// The largest number of update entries; the oldest ones beyond it are merged.
/// `DefaultMaxUpdateManagers` in k8s.io/apimachinery v0.36.4
/// pkg/util/managedfields/internal/fieldmanager.go.
const MOST_UPDATERS: usize = 10;

/// The manager that the oldest updates are moved to (`capmanagers.go` there).
const OLD_UPDATES: &str = "ancient-changes";

/// The owners of one object's fields.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Managed {
    pub(super) sets: BTreeMap<Manager, Owned>,
    /// The time of the last change of each manager. Outlives the entry, so that a manager that owns
    /// fields again keeps its time.
    pub(super) times: BTreeMap<Manager, String>,
}

/// The identity of an entry.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Manager {
    pub(super) name: String,
    pub(super) operation: Operation,
    /// Empty for appliers, which are the same in all versions.
    pub(super) api_version: String,
    pub(super) subresource: String,
}

/// The kind of writes of a manager.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Operation {
    Apply,
    Update,
}

/// The fields that a manager owns, in the version in which it wrote them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Owned {
    pub(super) fields: FieldSet,
    pub(super) api_version: String,
}

/// An error of decoding `managedFields`.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Unreadable {
    #[error("managedFields must be a list of objects")]
    Shape,
    #[error("operation must be `Apply` or `Update`")]
    Operation,
    #[error("apiVersion must not be empty")]
    ApiVersion,
    #[error("missing fieldsType in managed fields entry {0}")]
    NoFieldsType(usize),
    #[error("invalid fieldsType {1:?} in managed fields entry {0}")]
    FieldsType(usize, String),
    #[error("{0}")]
    Fields(#[from] BadFields),
}

impl Managed {
    /// Reads the entries of an object, which may have none.
    pub(super) fn of(object: &Value) -> Result<Self, Unreadable> {
        let mut managed = Self::default();
        let entries = match entries_of(object) {
            None | Some(Value::Null) => return Ok(managed),
            Some(Value::Array(entries)) => entries,
            Some(_) => return Err(Unreadable::Shape),
        };
        for (index, entry) in entries.iter().enumerate() {
            managed.read(index, entry.as_object().ok_or(Unreadable::Shape)?)?;
        }
        Ok(managed)
    }

    fn read(&mut self, index: usize, entry: &Map<String, Value>) -> Result<(), Unreadable> {
        let text = |name: &str| entry.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        let operation = match text("operation").as_str() {
            "Apply" => Operation::Apply,
            "Update" => Operation::Update,
            _ => return Err(Unreadable::Operation),
        };
        let api_version = text("apiVersion");
        if api_version.is_empty() {
            return Err(Unreadable::ApiVersion);
        }
        match text("fieldsType").as_str() {
            "FieldsV1" => {}
            "" => return Err(Unreadable::NoFieldsType(index)),
            other => return Err(Unreadable::FieldsType(index, other.to_owned())),
        }
        let fields = match entry.get("fieldsV1") {
            None | Some(Value::Null) => FieldSet::new(),
            Some(fields) => FieldSet::from_json(fields)?,
        };
        let manager = Manager::new(text("manager"), operation, &api_version, text("subresource"));
        match entry.get("time").and_then(Value::as_str) {
            Some(time) => self.times.insert(manager.clone(), time.to_owned()),
            None => self.times.remove(&manager),
        };
        self.sets.insert(manager, Owned { fields, api_version });
        Ok(())
    }

    /// Writes the entries into an object, or removes the field if there are none.
    pub(super) fn write(&self, object: &mut Value) {
        let Some(object) = object.as_object_mut() else { return };
        if self.sets.is_empty() {
            if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
                metadata.remove("managedFields");
            }
            return;
        }
        let mut sorted: Vec<_> = self.sets.iter().collect();
        // The version of the set is compared, not that of the manager, which is empty for appliers.
        if sorted.len() > 1 {
            sorted.sort_by_cached_key(|(manager, owned)| {
                let name = (manager.name.clone(), owned.api_version.clone(), manager.subresource.clone());
                (manager.operation, self.seconds(manager), name)
            });
        }
        let entries = sorted.into_iter().map(|(manager, owned)| self.entry(manager, owned)).collect();
        let metadata = object.entry("metadata").or_insert_with(|| json!({}));
        if let Some(metadata) = metadata.as_object_mut() {
            metadata.insert("managedFields".to_owned(), Value::Array(entries));
        }
    }

    fn entry(&self, manager: &Manager, owned: &Owned) -> Value {
        let mut entry = json!({
            "operation": manager.operation.as_str(),
            "apiVersion": owned.api_version,
            "fieldsType": "FieldsV1",
            "fieldsV1": owned.fields.to_json(),
        });
        let optional = [("manager", Some(&manager.name)), ("subresource", Some(&manager.subresource))];
        for (name, value) in optional.into_iter().chain([("time", self.times.get(manager))]) {
            if let Some(value) = value.filter(|value| !value.is_empty()) {
                entry[name] = Value::from(value.as_str());
            }
        }
        entry
    }

    fn seconds(&self, manager: &Manager) -> i64 {
        let time = self.times.get(manager).and_then(|time| time.parse::<Timestamp>().ok());
        time.map_or(0, Timestamp::as_second)
    }

    /// Merges the oldest update entries of each version until there are not more than the limit.
    ///
    /// The oldest of a version absorbs the others, and is renamed only when it does; if there is an
    /// entry of old updates already, that one absorbs them.
    pub(super) fn cap(&mut self) {
        let updaters = self.sets.keys().filter(|manager| manager.operation == Operation::Update);
        let mut oldest_first: Vec<Manager> = updaters.cloned().collect();
        let Some(excess) = oldest_first.len().checked_sub(MOST_UPDATERS).filter(|excess| *excess > 0) else {
            return;
        };
        oldest_first.sort_by_cached_key(|manager| (self.seconds(manager), manager.identifier()));
        let mut first_of_version: BTreeMap<&str, &Manager> = BTreeMap::new();
        let mut folded = Vec::new();
        for manager in &oldest_first {
            match first_of_version.get(manager.api_version.as_str()) {
                None => _ = first_of_version.insert(&manager.api_version, manager),
                Some(_) if manager.is_old_updates() => {}
                Some(first) => folded.push((*first, manager)),
            }
        }
        let mut moved = BTreeMap::new();
        for (first, manager) in folded.into_iter().take(excess) {
            self.fold(first, manager, &mut moved);
        }
        for (old, sets) in moved {
            if let Some(into) = self.sets.get_mut(&old) {
                into.fields = std::mem::take(&mut into.fields).joined(FieldSet::union_of(sets));
            }
        }
    }

    /// Removes a manager, and adds its fields to those to be moved to the old updates of its
    /// version. If there are none yet, `first` becomes that entry.
    fn fold(&mut self, first: &Manager, manager: &Manager, moved: &mut BTreeMap<Manager, Vec<FieldSet>>) {
        let old =
            Manager::new(OLD_UPDATES.to_owned(), Operation::Update, &manager.api_version, String::new());
        if !self.sets.contains_key(&old)
            && let Some(owned) = self.sets.remove(first)
        {
            self.sets.insert(old.clone(), owned);
        }
        if let Some(owned) = self.sets.remove(manager) {
            moved.entry(old.clone()).or_default().push(owned.fields);
        }
        // The merged entry gets the time of the last one merged into it.
        match self.times.get(manager).cloned() {
            Some(time) => self.times.insert(old, time),
            None => self.times.remove(&old),
        };
    }
}

impl Manager {
    /// Creates a manager. An empty name is kept when it is read; only a write replaces it by
    /// `unknown`.
    pub(super) fn new(name: String, operation: Operation, api_version: &str, subresource: String) -> Self {
        let api_version = match operation {
            Operation::Apply => String::new(),
            Operation::Update => api_version.to_owned(),
        };
        Self { name, operation, api_version, subresource }
    }

    /// Returns true for the entry that the oldest updates are moved to.
    fn is_old_updates(&self) -> bool {
        self.name == OLD_UPDATES && self.operation == Operation::Update && self.subresource.is_empty()
    }

    /// Returns the text that managers are sorted by in messages.
    pub(super) fn identifier(&self) -> String {
        let mut fields = Vec::new();
        let parts = [
            ("manager", self.name.as_str()),
            ("operation", self.operation.as_str()),
            ("apiVersion", self.api_version.as_str()),
            ("subresource", self.subresource.as_str()),
        ];
        for (name, value) in parts.into_iter().filter(|(_, value)| !value.is_empty()) {
            fields.push(format!("\"{name}\":{}", escape_html(&Value::from(value).to_string())));
        }
        format!("{{{}}}", fields.join(","))
    }
}

/// Formats a manager as in messages about conflicts.
impl fmt::Display for Manager {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&strconv::quote(&self.name))?;
        if !self.subresource.is_empty() {
            write!(f, " with subresource {}", strconv::quote(&self.subresource))?;
        }
        if self.operation == Operation::Update {
            write!(f, " using {}", self.api_version)?;
        }
        Ok(())
    }
}

impl Operation {
    fn as_str(self) -> &'static str {
        match self {
            Self::Apply => "Apply",
            Self::Update => "Update",
        }
    }
}

/// Returns true if a client asks to reset all owners: by an empty list, or by a single empty entry.
pub(super) fn asks_for_reset(object: &Value) -> bool {
    match entries_of(object).and_then(Value::as_array).map(Vec::as_slice) {
        Some([]) => true,
        Some([Value::Object(entry)]) => {
            entry.values().all(|value| value.is_null() || value.as_str().is_some_and(str::is_empty))
        }
        _ => false,
    }
}

/// Returns the entries of an object as they are stored.
pub(super) fn entries_of(object: &Value) -> Option<&Value> {
    object.get("metadata")?.get("managedFields")
}

/// Removes the entries from an object.
pub(super) fn strip(object: &mut Value) {
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
    }
}

/// Restores the times of `old` if the objects differ only in those, so that writing `new` changes
/// nothing.
///
/// To be called last, when `new` is as it would be stored.
pub fn keep_times_if_unchanged(old: &Value, new: &mut Value) {
    let (Some(Value::Array(was)), Some(Value::Array(is))) = (entries_of(old), entries_of(new)) else {
        return;
    };
    let timeless = |entries: &[Value]| -> Vec<Value> {
        let mut entries = entries.to_vec();
        for entry in entries.iter_mut().filter_map(Value::as_object_mut) {
            entry.remove("time");
        }
        entries
    };
    if was == is || timeless(was) != timeless(is) {
        return;
    }
    let mut restored = new.clone();
    restored["metadata"]["managedFields"] = Value::Array(was.clone());
    if restored == *old {
        *new = restored;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(manager: &str, operation: &str, time: &str) -> Value {
        json!({"manager": manager, "operation": operation, "apiVersion": "v1", "time": time,
            "fieldsType": "FieldsV1", "fieldsV1": {"f:a": {}}})
    }

    fn owned_by(entries: &[Value]) -> Value {
        json!({"metadata": {"managedFields": entries}})
    }

    #[test]
    fn appliers_come_first_then_updaters_by_age() {
        let sorted = [
            entry("z", "Apply", "2026-01-02T00:00:00Z"),
            entry("b", "Update", "2026-01-01T00:00:00Z"),
            entry("c", "Update", "2026-01-01T00:00:00Z"),
            entry("a", "Update", "2026-01-02T00:00:00Z"),
        ];
        let mut reversed = sorted.to_vec();
        reversed.reverse();
        let mut object = owned_by(&reversed);
        Managed::of(&object).unwrap().write(&mut object);
        assert_eq!(object, owned_by(&sorted));
    }

    #[test]
    fn an_invalid_entry_is_rejected_with_its_reason() {
        let with = |name: &str, value: Value| {
            let mut entry = entry("a", "Update", "2026-01-01T00:00:00Z");
            entry[name] = value;
            Managed::of(&owned_by(&[entry])).unwrap_err().to_string()
        };
        assert_eq!(with("operation", json!("Patch")), "operation must be `Apply` or `Update`");
        assert_eq!(with("apiVersion", json!("")), "apiVersion must not be empty");
        assert_eq!(with("fieldsType", json!("")), "missing fieldsType in managed fields entry 0");
        assert_eq!(with("fieldsType", json!("V2")), "invalid fieldsType \"V2\" in managed fields entry 0");
        assert_eq!(Managed::of(&json!({"metadata": {"managedFields": 1}})), Err(Unreadable::Shape));
    }

    #[test]
    fn an_empty_list_or_entry_asks_for_a_reset() {
        for (entries, reset) in [
            (json!([]), true),
            (json!([{}]), true),
            (json!([{"manager": ""}]), true),
            (json!([{}, {}]), false),
            (json!([{"manager": "a"}]), false),
            (json!(null), false),
        ] {
            assert_eq!(asks_for_reset(&json!({"metadata": {"managedFields": entries}})), reset, "{entries}");
        }
    }

    #[test]
    fn times_are_restored_only_if_nothing_else_changed() {
        let old = owned_by(&[entry("a", "Apply", "2026-01-01T00:00:00Z")]);
        let mut new = owned_by(&[entry("a", "Apply", "2026-01-02T00:00:00Z")]);
        let mut other = new.clone();
        other["data"] = json!({"k": "v"});
        let before = other.clone();
        keep_times_if_unchanged(&old, &mut new);
        keep_times_if_unchanged(&old, &mut other);
        assert_eq!((new, other), (old, before));
    }

    #[test]
    fn managers_are_named_with_subresource_and_version() {
        let manager = |operation, subresource: &str| {
            Manager::new("x".to_owned(), operation, "v1", subresource.to_owned()).to_string()
        };
        assert_eq!(manager(Operation::Apply, ""), r#""x""#);
        assert_eq!(manager(Operation::Update, "status"), r#""x" with subresource "status" using v1"#);
    }
}
