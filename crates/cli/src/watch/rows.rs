//! A collection as the server prints it: rows under the server's own headings, listed and watched
//! as tables.
//!
//! These are the rows of `kubectl get`, for every kind of the server, including custom ones with
//! their own columns. A server that does not print tables sends objects, which become rows with a
//! name and an age. An informer holds the rows; nothing here knows how they are shown.

use std::sync::{Arc, Mutex, PoisonError};

use compact_str::CompactString;
use dogwatch::informer::{ListEvent, Lists, Watches};
use dogwatch::{
    Api, Client, Error, FieldSelector, Header, Labels, ListParams, ListWatch, Object, Request, ResourceType,
    ResourceVersion, WatchEvent, WatchParams,
};
use futures_util::future::BoxFuture;
use futures_util::stream::{self, StreamExt, TryStreamExt};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

const ACCEPT: &str = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";

/// An object as the server prints it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Row {
    head: Head,
    /// A text for each column, including hidden ones.
    pub(super) cells: Vec<String>,
}

/// A column definition of the server.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub(super) struct Column {
    pub(super) name: String,
    #[serde(default)]
    description: String,
    /// 0 is shown by default; higher ones only in wide output.
    #[serde(default)]
    priority: i32,
}

/// The columns that the server last sent, shared by the source and the view.
#[derive(Clone, Debug, Default)]
pub(super) struct Columns(Arc<Mutex<Arc<[Column]>>>);

/// The source of rows.
#[derive(Debug)]
pub(super) struct Rows {
    client: Client,
    resource: ResourceType,
    namespace: Option<String>,
    columns: Columns,
}

/// The metadata of an object or of a list that rows need.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Head {
    name: CompactString,
    namespace: CompactString,
    uid: CompactString,
    resource_version: CompactString,
    creation_timestamp: Option<CompactString>,
    #[serde(rename = "continue")]
    continue_token: Option<String>,
}

/// The server's response: a table; or, if it does not print tables, a list or an object.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Answer {
    kind: String,
    metadata: Head,
    #[serde(deserialize_with = "null_as_default")]
    column_definitions: Vec<Column>,
    #[serde(deserialize_with = "null_as_default")]
    rows: Vec<Printed>,
    #[serde(deserialize_with = "null_as_default")]
    items: Vec<Plain>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Printed {
    cells: Vec<Value>,
    object: Plain,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Plain {
    metadata: Head,
}

impl Row {
    /// Returns the creation timestamp of the object, as sent by the server.
    pub(super) fn created(&self) -> &str {
        self.head.creation_timestamp.as_deref().unwrap_or_default()
    }

    /// Creates a row from a row of a table.
    #[cfg(test)]
    pub(super) fn of_table(row: Value) -> Self {
        serde_json::from_value::<Printed>(row).expect("a row of a table").into_row()
    }

    fn plain(head: Head) -> Self {
        Self { cells: vec![head.name.to_string(), String::new()], head }
    }
}

impl Object for Row {
    fn header(&self) -> Header<'_> {
        Header {
            name: &self.head.name,
            namespace: Some(self.head.namespace.as_str()).filter(|it| !it.is_empty()),
            uid: &self.head.uid,
            version: &self.head.resource_version,
            labels: Labels::EMPTY,
        }
    }
}

impl Column {
    pub(super) fn is_shown(&self) -> bool {
        self.priority == 0
    }

    /// Returns true if its cells are the age of the object: they change with time, and are computed
    /// again when they are shown.
    pub(super) fn is_age(&self) -> bool {
        self.name == "Age" && self.description.to_lowercase().contains("creationtimestamp")
    }

    fn new(name: &str, description: &str) -> Self {
        Self { name: name.to_owned(), description: description.to_owned(), priority: 0 }
    }
}

#[cfg(test)]
impl Columns {
    /// Creates columns from definitions of a server.
    pub(super) fn of(definitions: Value) -> Self {
        let columns = Self::default();
        columns.set(definitions);
        columns
    }

    pub(super) fn set(&self, definitions: Value) {
        let columns = serde_json::from_value::<Vec<Column>>(definitions).expect("columns");
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = columns.into();
    }
}

impl Columns {
    pub(super) fn get(&self) -> Arc<[Column]> {
        Arc::clone(&self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Takes the columns of a response; most events of a watch have none.
    fn learn(&self, answer: &mut Answer) {
        let told = match answer.is_table() {
            true => std::mem::take(&mut answer.column_definitions),
            false => vec![Column::new("Name", ""), Column::new("Age", "creationTimestamp")],
        };
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !told.is_empty() && **known != *told {
            *known = told.into();
        }
    }
}

impl Columns {
    /// Replaces the table of a watch event with its row. Returns `None` for an unknown event.
    fn told(&self, event: Result<WatchEvent<Answer>, Error>) -> Option<Result<WatchEvent<Row>, Error>> {
        let row = |mut answer: Answer| {
            self.learn(&mut answer);
            answer.into_row()
        };
        Some(Ok(match event {
            Ok(WatchEvent::Added(answer)) => WatchEvent::Added(row(answer)),
            Ok(WatchEvent::Modified(answer)) => WatchEvent::Modified(row(answer)),
            Ok(WatchEvent::Deleted(answer)) => WatchEvent::Deleted(row(answer)),
            Ok(WatchEvent::Bookmark(bookmark)) => WatchEvent::Bookmark(bookmark),
            Ok(WatchEvent::Error(status)) => WatchEvent::Error(status),
            Ok(_) => return None,
            Err(error) => return Some(Err(error)),
        }))
    }
}

impl Answer {
    fn is_table(&self) -> bool {
        self.kind == "Table"
    }

    /// Returns the rows of a list.
    fn into_rows(self) -> Vec<Row> {
        let printed = self.rows.into_iter().map(Printed::into_row);
        printed.chain(self.items.into_iter().map(|it| Row::plain(it.metadata))).collect()
    }

    /// Returns the row of an event, whose table has exactly one.
    fn into_row(self) -> Row {
        if !self.is_table() {
            return Row::plain(self.metadata);
        }
        self.rows.into_iter().next().map(Printed::into_row).unwrap_or_default()
    }
}

impl Printed {
    fn into_row(self) -> Row {
        Row { head: self.object.metadata, cells: self.cells.iter().map(text).collect() }
    }
}

/// Formats a cell like kubectl.
fn text(cell: &Value) -> String {
    match cell {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

impl Rows {
    /// Creates a source of the rows of a collection, or of one namespace of it.
    pub(super) fn new(client: Client, resource: ResourceType, namespace: Option<String>) -> Self {
        Self { client, resource, namespace, columns: Columns::default() }
    }

    /// Returns the columns; empty before the first list.
    pub(super) fn columns(&self) -> Columns {
        self.columns.clone()
    }

    /// Returns the same collection as objects.
    fn api(&self) -> Api<Value> {
        let api = Api::dynamic(self.client.clone(), self.resource.clone());
        match &self.namespace {
            Some(namespace) => api.within(namespace),
            None => api,
        }
    }

    fn request(&self) -> Request {
        let request = self.client.get().resource(&self.resource).accept(ACCEPT);
        match &self.namespace {
            Some(namespace) => request.namespace(namespace),
            None => request,
        }
    }
}

impl ListWatch<Row> for Rows {
    fn resource(&self) -> &ResourceType {
        &self.resource
    }

    fn namespace(&self) -> Option<&str> {
        self.namespace.as_deref()
    }

    fn list(&self, params: ListParams) -> Lists<Row> {
        let pages = Pages { request: self.request(), columns: self.columns(), params, first: true };
        let pages = stream::try_unfold(Some(pages), |pages| async move {
            match pages {
                Some(pages) => pages.next().await.map(Some),
                None => Ok(None),
            }
        });
        pages.map_ok(|events| stream::iter(events.into_iter().map(Ok))).try_flatten().boxed()
    }

    fn watch(&self, params: WatchParams) -> BoxFuture<'static, Result<Watches<Row>, Error>> {
        let (request, columns) = (self.request(), self.columns());
        Box::pin(async move {
            let events = request.watch::<Answer>(&params).await?;
            let rows = events.filter_map(move |event| std::future::ready(columns.told(event)));
            Ok(rows.boxed() as Watches<Row>)
        })
    }

    /// In a table, the annotation that ends the initial events is not where a reflector looks for it.
    fn lacks_initial_events(&self) -> bool {
        true
    }

    fn newest_version(
        &self,
        fields: FieldSelector,
    ) -> BoxFuture<'static, Result<Option<ResourceVersion>, Error>> {
        ListWatch::newest_version(&self.api(), fields)
    }

    fn is_served(&self) -> BoxFuture<'static, Result<Option<bool>, Error>> {
        ListWatch::is_served(&self.api())
    }
}

/// A list that is read page by page.
struct Pages {
    request: Request,
    columns: Columns,
    params: ListParams,
    first: bool,
}

impl Pages {
    /// Returns the events of the next page, and the pages after it.
    async fn next(mut self) -> Result<(Vec<ListEvent<Row>>, Option<Self>), Error> {
        let request = self.request.clone().params(self.params.query()?);
        let mut answer: Answer = request.send().await?;
        self.columns.learn(&mut answer);
        let next = answer.metadata.continue_token.take().filter(|it| !it.is_empty());
        let version = answer.metadata.resource_version.as_str().into();
        let mut events: Vec<_> = answer.into_rows().into_iter().map(ListEvent::Item).collect();
        let Some(token) = next else {
            events.push(ListEvent::End { version, paginated: !self.first });
            return Ok((events, None));
        };
        // The token of a continued list already determines its version.
        self.params.version = "".into();
        self.params.version_match = None;
        self.params.continue_token = Some(token);
        self.first = false;
        Ok((events, Some(self)))
    }
}

fn null_as_default<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(
    deserializer: D,
) -> Result<T, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn answer(value: Value) -> Answer {
        serde_json::from_value(value).expect("an answer")
    }

    fn names(columns: &Columns) -> Vec<String> {
        columns.get().iter().filter(|it| it.is_shown()).map(|it| it.name.clone()).collect()
    }

    #[test]
    fn a_table_becomes_rows_and_defines_its_columns_once() {
        let columns = Columns::default();
        let mut first = answer(json!({
            "kind": "Table", "metadata": { "resourceVersion": "9" },
            "columnDefinitions": [
                { "name": "Name", "type": "string", "priority": 0 },
                { "name": "Ready", "type": "boolean" },
                { "name": "Age", "description": "CreationTimestamp is a timestamp", "priority": 0 },
                { "name": "Selector", "priority": 1 },
            ],
            "rows": [{
                "cells": ["a", true, "3s", null],
                "object": { "metadata": { "name": "a", "namespace": "n", "uid": "u", "resourceVersion": "7",
                                          "creationTimestamp": "2026-01-01T00:00:00Z" } },
            }],
        }));
        columns.learn(&mut first);
        let row = first.into_row();
        assert_eq!(row.cells, ["a", "true", "3s", ""]);
        assert_eq!(row.key().map(String::from).as_deref(), Some("n/a"));
        assert_eq!((row.header().version, row.created()), ("7", "2026-01-01T00:00:00Z"));

        let mut later = answer(json!({ "kind": "Table", "columnDefinitions": null, "rows": null }));
        columns.learn(&mut later);
        assert_eq!(names(&columns), ["Name", "Ready", "Age"]);
        assert_eq!(columns.get().iter().filter(|it| it.is_age()).count(), 1);
        assert_eq!(later.into_rows(), []);
    }

    #[test]
    fn another_kind_of_age_is_left_as_the_server_sends_it() {
        let custom = "Custom resource definition column (in JSONPath format): .status.started";
        let own = "Custom resource definition column (in JSONPath format): .metadata.creationTimestamp";
        assert!(Column::new("Age", own).is_age());
        assert!(!Column::new("Age", custom).is_age() && !Column::new("Created", own).is_age());
    }

    #[test]
    fn objects_of_a_server_that_prints_no_tables_have_a_name_and_an_age() {
        let columns = Columns::default();
        let mut list = answer(json!({
            "kind": "ThingList", "metadata": { "resourceVersion": "9" },
            "items": [{ "metadata": { "name": "a" }, "spec": {} }],
        }));
        columns.learn(&mut list);
        assert_eq!(list.into_rows(), [Row::plain(Head { name: "a".into(), ..Head::default() })]);
        let mut event = answer(json!({ "kind": "Thing", "metadata": { "name": "b" }, "spec": {} }));
        columns.learn(&mut event);
        assert_eq!(event.into_row().cells, ["b", ""]);
        assert_eq!(names(&columns), ["Name", "Age"]);
    }
}
