//! A change as a line: of a table, of JSON, or a name.

use dogwatch::Object;
use dogwatch::api::{DynamicObject, EventKind, PartialObjectMeta, ResourceType};
use dogwatch::informer::{Change, Snapshot};
use dogwatch::k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use dogwatch::kube_core::TypeMeta;
use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;

use super::layout::TableLayout;
use super::rows::{Columns, Row};

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

/// `{"type":"ADDED","object":{…}}`: the change, and the whole object.
pub(super) struct Json {
    types: TypeMeta,
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

impl Json {
    pub(super) fn new(resource: &ResourceType) -> Self {
        let types = TypeMeta {
            api_version: resource.gvk.api_version().into_owned(),
            kind: resource.gvk.kind.to_string(),
        };
        Self { types }
    }
}

impl Format<DynamicObject> for Json {
    fn lines(&mut self, event: EventKind, object: &DynamicObject) -> String {
        // Objects of a list have no kind of their own: the list has it.
        let types = object.types.as_ref().unwrap_or(&self.types);
        let object = Whole { types, metadata: &object.metadata, data: &object.data };
        let line = Line { r#type: event.as_str(), object };
        let mut text =
            serde_json::to_string(&line).expect("a value that was read from JSON can be written as JSON");
        text.push('\n');
        text
    }
}

/// `pod/web-1`, `deployment.apps/web`: names in the syntax of kubectl.
pub(super) struct Names {
    prefix: String,
}

impl Names {
    pub(super) fn new(resource: &ResourceType) -> Self {
        let kind = resource.gvk.kind.as_str().to_lowercase();
        let group = resource.gvk.group.as_str();
        Self { prefix: if group.is_empty() { kind } else { format!("{kind}.{group}") } }
    }
}

impl Format<PartialObjectMeta> for Names {
    fn lines(&mut self, _event: EventKind, object: &PartialObjectMeta) -> String {
        format!("{}/{}\n", self.prefix, object.header().name)
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
    pub(super) fn new(columns: Columns, namespaces: bool, events: bool) -> Self {
        let layout = TableLayout::new(columns.get(), namespaces);
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
        let mut json = Json::new(&resource("apps", "Deployment", "deployments"));
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
        let mut table = TableLines::new(columns.clone(), false, true);
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
