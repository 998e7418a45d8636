//! A change as text: a line of a table, of JSON, a name, or a YAML document.

use dogwatch::Object;
use dogwatch::api::{DynamicObject, EventKind, PartialObjectMeta, ResourceType};
use dogwatch::informer::{Change, Snapshot};
use dogwatch::k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use dogwatch::kube_core::TypeMeta;
use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;

use super::layout::{Shape, TableLayout};
use super::rows::{Columns, Row};
use super::sort::{SortBy, SortKey};

/// The widest of `ADDED`, `MODIFIED` and `DELETED`, and the gap after it.
const EVENT_WIDTH: usize = 11;

/// A format of changes.
pub(super) trait Format<T: Object> {
    /// Inspects all initial objects, before the first line is formatted.
    fn prepare(&mut self, all: &Snapshot<T>) {
        let _ = all;
    }

    /// Formats a change as one or more lines, each with its line end.
    fn lines(&mut self, event: EventKind, object: &T) -> String;

    /// Returns the position of an initial object among the others; they are all alike if the output
    /// is not sorted.
    fn sort_key(&self, object: &T) -> SortKey {
        let _ = object;
        SortKey::default()
    }
}

/// Returns the API's name of a change.
pub(super) fn event<T>(change: &Change<T>) -> EventKind {
    match change {
        Change::Added { .. } => EventKind::Added,
        Change::Deleted(_) => EventKind::Deleted,
        // Updates, and any kind of change that may be added later.
        _ => EventKind::Modified,
    }
}

/// Whole objects, with the kind that those of a list omit, and their order.
#[derive(Clone, Debug)]
pub(crate) struct Objects {
    types: TypeMeta,
    sort_by: Option<SortBy>,
}

/// `{"type":"ADDED","object":{…}}`: the change, and the whole object.
pub(super) struct Json(pub(super) Objects);

/// A document for each change.
pub(super) struct Yaml {
    pub(super) objects: Objects,
    /// True if a comment in the document has the change.
    pub(super) events: bool,
}

/// `pod/web-1`, `deployment.apps/web`: names in the syntax of kubectl.
pub(crate) struct Names {
    prefix: String,
}

/// Names in the order of a field.
pub(super) struct SortedNames {
    pub(super) names: Names,
    pub(super) objects: Objects,
}

#[derive(Serialize)]
struct Line<'a> {
    r#type: &'static str,
    object: Whole<'a>,
}

#[derive(Serialize)]
struct Whole<'a> {
    #[serde(flatten)]
    types: &'a TypeMeta,
    metadata: &'a ObjectMeta,
    #[serde(flatten)]
    data: &'a Value,
}

const READ_FROM_JSON: &str = "a value that was read from JSON can be written";

impl Objects {
    pub(crate) fn new(resource: &ResourceType, sort_by: Option<SortBy>) -> Self {
        let types = TypeMeta {
            api_version: resource.gvk.api_version().into_owned(),
            kind: resource.gvk.kind.to_string(),
        };
        Self { types, sort_by }
    }

    fn whole<'a>(&'a self, object: &'a DynamicObject) -> Whole<'a> {
        // Objects of a list have no kind of their own: the list has it.
        let types = object.types.as_ref().unwrap_or(&self.types);
        Whole { types, metadata: &object.metadata, data: &object.data }
    }

    /// Returns the whole object, with sorted keys.
    pub(crate) fn value(&self, object: &DynamicObject) -> Value {
        serde_json::to_value(self.whole(object)).expect(READ_FROM_JSON)
    }

    fn sort_key(&self, object: &DynamicObject) -> SortKey {
        self.sort_by.as_ref().map(|it| it.key(&self.value(object))).unwrap_or_default()
    }
}

impl Format<DynamicObject> for Json {
    fn lines(&mut self, event: EventKind, object: &DynamicObject) -> String {
        let line = Line { r#type: event.as_str(), object: self.0.whole(object) };
        let mut text = serde_json::to_string(&line).expect(READ_FROM_JSON);
        text.push('\n');
        text
    }

    fn sort_key(&self, object: &DynamicObject) -> SortKey {
        self.0.sort_key(object)
    }
}

impl Format<DynamicObject> for Yaml {
    fn lines(&mut self, event: EventKind, object: &DynamicObject) -> String {
        let event = if self.events { format!("# {}\n", event.as_str()) } else { String::new() };
        // As a value, so that the keys are sorted as in the output of kubectl.
        let document = serde_saphyr::to_string(&self.objects.value(object)).expect(READ_FROM_JSON);
        format!("---\n{event}{}\n", document.trim_end())
    }

    fn sort_key(&self, object: &DynamicObject) -> SortKey {
        self.objects.sort_key(object)
    }
}

impl Names {
    pub(crate) fn new(resource: &ResourceType) -> Self {
        let kind = resource.gvk.kind.as_str().to_lowercase();
        let group = resource.gvk.group.as_str();
        Self { prefix: if group.is_empty() { kind } else { format!("{kind}.{group}") } }
    }

    /// Returns the kind, for example `deployment.apps`.
    pub(crate) fn kind(&self) -> &str {
        &self.prefix
    }

    fn line(&self, object: &impl Object) -> String {
        format!("{}/{}\n", self.prefix, object.header().name)
    }
}

impl Format<PartialObjectMeta> for Names {
    fn lines(&mut self, _event: EventKind, object: &PartialObjectMeta) -> String {
        self.line(object)
    }
}

impl Format<DynamicObject> for SortedNames {
    fn lines(&mut self, _event: EventKind, object: &DynamicObject) -> String {
        self.names.line(object)
    }

    fn sort_key(&self, object: &DynamicObject) -> SortKey {
        self.objects.sort_key(object)
    }
}

/// Rows under the server's headings; optionally with the change as the first column.
pub(super) struct TableLines {
    columns: Columns,
    /// True if the change is a column.
    events: bool,
    layout: TableLayout,
    /// Set when the headings of the layout were written.
    headed: bool,
    /// The clock for the ages.
    clock: fn() -> Timestamp,
}

impl TableLines {
    pub(super) fn new(columns: Columns, shape: Shape, events: bool) -> Self {
        let layout = TableLayout::new(columns.get(), shape);
        Self { columns, events, layout, headed: false, clock: Timestamp::now }
    }

    fn line(&self, event: &str, cells: &[String]) -> String {
        let line = self.layout.line(cells);
        if self.events { format!("{event:EVENT_WIDTH$}{line}\n") } else { format!("{line}\n") }
    }

    /// Updates the columns, which are known after the first list, and may change when a definition
    /// is recreated.
    fn follow_columns(&mut self) {
        let columns = self.columns.get();
        if !self.layout.is_of(&columns) {
            self.layout = self.layout.with(columns);
            self.headed = false;
        }
    }
}

impl Format<Row> for TableLines {
    fn prepare(&mut self, all: &Snapshot<Row>) {
        self.follow_columns();
        let now = (self.clock)();
        for row in all.iter() {
            let cells = self.layout.cells(row, now);
            self.layout.fit(&cells);
        }
    }

    fn lines(&mut self, event: EventKind, row: &Row) -> String {
        self.follow_columns();
        let cells = self.layout.cells(row, (self.clock)());
        self.layout.fit(&cells);
        let mut lines = String::new();
        if !std::mem::replace(&mut self.headed, true) {
            lines = self.line("EVENT", &self.layout.headings());
        }
        lines + &self.line(event.as_str(), &cells)
    }

    fn sort_key(&self, row: &Row) -> SortKey {
        row.sort_key.clone()
    }
}

#[cfg(test)]
mod tests {
    use dogwatch::api::{Gvk, Scope};
    use serde_json::json;

    use super::*;

    fn resource(group: &str, kind: &str, plural: &str) -> ResourceType {
        ResourceType { gvk: Gvk::new(group, "v1", kind), plural: plural.into(), scope: Scope::Namespaced }
    }

    #[test]
    fn json_is_the_whole_object_with_its_kind_even_if_a_list_omits_it() {
        let objects = Objects::new(&resource("apps", "Deployment", "deployments"), None);
        let mut json = Json(objects);
        let object = json!({ "metadata": { "name": "web" }, "spec": { "replicas": 2 } });
        let line = json.lines(EventKind::Modified, &serde_json::from_value(object).expect("an object"));
        assert!(line.ends_with("}\n") && line.lines().count() == 1, "{line}");
        assert_eq!(
            serde_json::from_str::<Value>(&line).expect("JSON"),
            json!({ "type": "MODIFIED", "object": {
                "apiVersion": "apps/v1", "kind": "Deployment",
                "metadata": { "name": "web" }, "spec": { "replicas": 2 },
            } })
        );
    }

    #[test]
    fn yaml_is_a_document_for_each_change_and_reads_back_as_the_object() {
        let objects = Objects::new(&resource("", "ConfigMap", "configmaps"), None);
        let object = json!({
            "metadata": { "name": "web" },
            "data": { "a": "1", "b": "yes", "c": "two\nlines\n", "d": "# no", "e": "\u{1b}[2J", "f": "null" },
        });
        let object: DynamicObject = serde_json::from_value(object).expect("an object");
        for (events, begin) in [(true, "---\n# MODIFIED\n"), (false, "---\n")] {
            let mut yaml = Yaml { objects: objects.clone(), events };
            let document = yaml.lines(EventKind::Modified, &object);
            assert!(document.starts_with(begin) && document.ends_with('\n'), "{document}");
            assert!(!document.contains('\u{1b}'), "{document:?}");
            let read: Value = serde_saphyr::from_str(&document).expect("YAML");
            assert_eq!(read, objects.value(&object), "{document}");
        }
    }

    #[test]
    fn names_have_the_syntax_of_kubectl() {
        let object: PartialObjectMeta =
            serde_json::from_value(json!({ "metadata": { "name": "web-1" } })).expect("metadata");
        for (resource, expected) in [
            (resource("", "Pod", "pods"), "pod/web-1\n"),
            (resource("apps", "Deployment", "deployments"), "deployment.apps/web-1\n"),
        ] {
            assert_eq!(Names::new(&resource).lines(EventKind::Deleted, &object), expected);
        }
    }

    #[test]
    fn headings_are_printed_once_and_again_when_the_columns_change() {
        let columns = Columns::of(json!([{ "name": "Name" }]));
        let mut table = TableLines::new(columns.clone(), Shape::default(), true);
        let row = |cells: Value| Row::of_table(json!({ "cells": cells }));
        assert_eq!(table.lines(EventKind::Added, &row(json!(["a"]))), "EVENT      NAME\nADDED      a\n");
        assert_eq!(table.lines(EventKind::Modified, &row(json!(["a"]))), "MODIFIED   a\n");
        columns.set(json!([{ "name": "Name" }, { "name": "Size" }]));
        assert_eq!(
            table.lines(EventKind::Deleted, &row(json!(["a", 3]))),
            "EVENT      NAME   SIZE\nDELETED    a      3\n"
        );
    }
}
