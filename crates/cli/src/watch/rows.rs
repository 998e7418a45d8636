//! A collection as the server prints it: rows under the server's own headings, listed and watched
//! as tables.
//!
//! These are the rows of `kubectl get`, for every kind of the server, including custom ones with
//! their own columns. A server that does not print tables sends objects, which become rows with a
//! name and an age. An informer holds the rows; nothing here knows how they are shown.

use parking_lot::Mutex;
use std::marker::PhantomData;
use std::sync::Arc;

use compact_str::CompactString;
use dogwatch::api::{
    FieldSelector, Header, Labels, ListParams, ResourceType, ResourceVersion, WatchEvent, WatchParams,
};
use dogwatch::client::Request;
use dogwatch::informer::ListWatch;
use dogwatch::informer::{ListEvent, Lists, Watches};
use dogwatch::{Api, Client, Error, Object};
use futures_util::future::BoxFuture;
use futures_util::stream::{self, StreamExt, TryStreamExt};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::sort::{SortBy, SortKey};

const ACCEPT: &str = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";

/// An object as the server prints it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Row {
    head: RowMetadata,
    /// A text for each column, including hidden ones.
    pub(crate) cells: Vec<String>,
    /// The value of the field to sort by, if there is one.
    pub(crate) sort_key: SortKey,
}

/// A column definition of the server.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub(crate) struct Column {
    pub(crate) name: String,
    #[serde(default)]
    description: String,
    /// 0 is shown by default; higher ones only in wide output.
    #[serde(default)]
    priority: i32,
}

/// The columns that the server last sent, shared by the source and the view.
#[derive(Clone, Debug, Default)]
pub(crate) struct Columns(Arc<Mutex<Arc<[Column]>>>);

/// The source of rows; `O` is the part of each object that the server sends with its row.
#[derive(Debug)]
pub(crate) struct Rows<O> {
    client: Client,
    resource: ResourceType,
    namespace: Option<String>,
    columns: Columns,
    sort_by: Option<SortBy>,
    object: PhantomData<fn() -> O>,
}

/// The part of an object that comes with its row.
pub(crate) trait RowObject: DeserializeOwned + Default + Send + 'static {
    /// The value of the parameter `includeObject`.
    const INCLUDE: &'static str;

    fn into_row(self, cells: Vec<String>, sort_by: Option<&SortBy>) -> Row;
}

/// The metadata of an object or of a list that rows need.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RowMetadata {
    name: CompactString,
    namespace: CompactString,
    uid: CompactString,
    resource_version: CompactString,
    creation_timestamp: Option<CompactString>,
    #[serde(deserialize_with = "null_as_default")]
    owner_references: Box<[Owner]>,
    #[serde(rename = "continue")]
    continue_token: Option<String>,
}

/// An owner of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Owner {
    pub(crate) api_version: CompactString,
    pub(crate) kind: CompactString,
    pub(crate) name: CompactString,
    pub(crate) uid: CompactString,
}

/// The server's response: a table; or, if it does not print tables, a list or an object.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default, bound = "O: Deserialize<'de> + Default")]
struct TableResponse<O> {
    kind: String,
    metadata: RowMetadata,
    #[serde(deserialize_with = "null_as_default")]
    column_definitions: Vec<Column>,
    #[serde(deserialize_with = "null_as_default")]
    rows: Vec<PrintedRow<O>>,
    #[serde(deserialize_with = "null_as_default")]
    items: Vec<PlainObject>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, bound = "O: Deserialize<'de> + Default")]
struct PrintedRow<O> {
    cells: Vec<Value>,
    object: O,
}

/// The metadata of an object.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct PlainObject {
    metadata: RowMetadata,
}

/// A whole object, which rows that are sorted by any of its fields need.
#[derive(Debug, Default, Deserialize)]
#[serde(transparent)]
pub(crate) struct WholeObject(Value);

impl RowObject for PlainObject {
    const INCLUDE: &'static str = "Metadata";

    fn into_row(self, cells: Vec<String>, _sort_by: Option<&SortBy>) -> Row {
        Row { head: self.metadata, cells, sort_key: SortKey::default() }
    }
}

impl RowObject for WholeObject {
    const INCLUDE: &'static str = "Object";

    fn into_row(self, cells: Vec<String>, sort_by: Option<&SortBy>) -> Row {
        let head = RowMetadata::deserialize(&self.0["metadata"]).unwrap_or_default();
        let sort_key = sort_by.map(|it| it.key(&self.0)).unwrap_or_default();
        Row { head, cells, sort_key }
    }
}

impl Row {
    /// Returns the creation timestamp of the object, as sent by the server.
    pub(crate) fn created(&self) -> &str {
        self.head.creation_timestamp.as_deref().unwrap_or_default()
    }

    /// Returns the owners of the object.
    pub(crate) fn owners(&self) -> &[Owner] {
        &self.head.owner_references
    }

    /// Returns the memory of the row in bytes, roughly: the row and its texts.
    pub(crate) fn memory(&self) -> usize {
        let cells: usize = self.cells.iter().map(|it| size_of::<String>() + it.capacity()).sum();
        // Texts of up to 24 bytes are within a `CompactString`.
        let owners = self.head.owner_references.len() * size_of::<Owner>();
        size_of::<Self>() + cells + owners
    }

    /// Creates a row from a row of a table.
    #[cfg(test)]
    pub(crate) fn of_table(row: Value) -> Self {
        serde_json::from_value::<PrintedRow<PlainObject>>(row).expect("a row of a table").into_row(None)
    }

    /// Creates a row with these cells, of which the first is the name.
    #[cfg(test)]
    pub(crate) fn of_cells(namespace: &str, cells: &[&str]) -> Self {
        let [name, uid] = [cells[0].into(), format!("{namespace}/{}", cells[0]).into()];
        let head = RowMetadata { name, namespace: namespace.into(), uid, ..RowMetadata::default() };
        let cells = cells.iter().map(|it| (*it).to_owned()).collect();
        Self { head, cells, sort_key: SortKey::default() }
    }

    /// Creates a row of a server that prints none: it has no value to sort by either, because the
    /// events of a watch would have none.
    fn plain(head: RowMetadata) -> Self {
        Self { cells: vec![head.name.to_string(), String::new()], head, sort_key: SortKey::default() }
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
    /// Returns true if it is a column of the usual output, or of wide output.
    pub(crate) fn is_shown(&self, wide: bool) -> bool {
        wide || self.priority == 0
    }

    /// Returns true if its cells are the age of the object: they change with time, and are computed
    /// again when they are shown.
    pub(crate) fn is_age(&self) -> bool {
        self.name == "Age" && self.description.to_lowercase().contains("creationtimestamp")
    }

    fn new(name: &str, description: &str) -> Self {
        Self { name: name.to_owned(), description: description.to_owned(), priority: 0 }
    }
}

#[cfg(test)]
impl Columns {
    /// Creates columns from definitions of a server.
    pub(crate) fn of(definitions: Value) -> Self {
        let columns = Self::default();
        columns.set(definitions);
        columns
    }

    pub(crate) fn set(&self, definitions: Value) {
        let columns = serde_json::from_value::<Vec<Column>>(definitions).expect("columns");
        *self.0.lock() = columns.into();
    }
}

impl Columns {
    pub(crate) fn get(&self) -> Arc<[Column]> {
        Arc::clone(&self.0.lock())
    }

    /// Takes the columns of a response; most events of a watch have none.
    fn update<O: RowObject>(&self, response: &mut TableResponse<O>) {
        let row_event = match response.is_table() {
            true => std::mem::take(&mut response.column_definitions),
            false => vec![Column::new("Name", ""), Column::new("Age", "creationTimestamp")],
        };
        let mut known = self.0.lock();
        if !row_event.is_empty() && **known != *row_event {
            *known = row_event.into();
        }
    }
}

impl Columns {
    /// Replaces the table of a watch event with its row. Returns `None` for an unknown event.
    fn row_event<O: RowObject>(
        &self,
        event: Result<WatchEvent<TableResponse<O>>, Error>,
        sort_by: Option<&SortBy>,
    ) -> Option<Result<WatchEvent<Row>, Error>> {
        let row = |mut response: TableResponse<O>| {
            self.update(&mut response);
            response.into_row(sort_by)
        };
        Some(Ok(match event {
            Ok(WatchEvent::Added(response)) => WatchEvent::Added(row(response)),
            Ok(WatchEvent::Modified(response)) => WatchEvent::Modified(row(response)),
            Ok(WatchEvent::Deleted(response)) => WatchEvent::Deleted(row(response)),
            Ok(WatchEvent::Bookmark(bookmark)) => WatchEvent::Bookmark(bookmark),
            Ok(WatchEvent::Error(status)) => WatchEvent::Error(status),
            Ok(_) => return None,
            Err(error) => return Some(Err(error)),
        }))
    }
}

impl<O: RowObject> TableResponse<O> {
    fn is_table(&self) -> bool {
        self.kind == "Table"
    }

    /// Returns the rows of a list.
    fn into_rows(self, sort_by: Option<&SortBy>) -> Vec<Row> {
        let printed = self.rows.into_iter().map(|it| it.into_row(sort_by));
        printed.chain(self.items.into_iter().map(|it| Row::plain(it.metadata))).collect()
    }

    /// Returns the row of an event, whose table has exactly one.
    fn into_row(self, sort_by: Option<&SortBy>) -> Row {
        if !self.is_table() {
            return Row::plain(self.metadata);
        }
        self.rows.into_iter().next().map(|it| it.into_row(sort_by)).unwrap_or_default()
    }
}

impl<O: RowObject> PrintedRow<O> {
    fn into_row(self, sort_by: Option<&SortBy>) -> Row {
        self.object.into_row(self.cells.iter().map(text).collect(), sort_by)
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

impl<O: RowObject> Rows<O> {
    /// Creates a source of the rows of a collection, or of one namespace of it.
    pub(crate) fn new(client: Client, resource: ResourceType, namespace: Option<String>) -> Self {
        let columns = Columns::default();
        Self { client, resource, namespace, columns, sort_by: None, object: PhantomData }
    }

    /// Shares these columns with a view that exists before the source.
    pub(crate) fn share_columns(mut self, columns: Columns) -> Self {
        self.columns = columns;
        self
    }

    /// Takes the field to sort by from each object.
    pub(crate) fn sort_by(mut self, sort_by: SortBy) -> Self {
        self.sort_by = Some(sort_by);
        self
    }

    /// Returns the columns; empty before the first list.
    pub(crate) fn columns(&self) -> Columns {
        self.columns.clone()
    }

    /// Returns the same collection as objects.
    fn api(&self) -> Api<Value> {
        let api = Api::dynamic(self.client.clone(), self.resource.clone());
        match &self.namespace {
            Some(namespace) => api.in_namespace(namespace),
            None => api,
        }
    }

    fn request(&self) -> Request {
        let request = self.client.get().resource(&self.resource).accept(ACCEPT);
        let request = request.param("includeObject", O::INCLUDE);
        match &self.namespace {
            Some(namespace) => request.namespace(namespace),
            None => request,
        }
    }
}

impl<O: RowObject> ListWatch<Row> for Rows<O> {
    fn resource(&self) -> &ResourceType {
        &self.resource
    }

    fn namespace(&self) -> Option<&str> {
        self.namespace.as_deref()
    }

    fn list(&self, params: ListParams) -> Lists<Row> {
        let (request, columns, sort_by) = (self.request(), self.columns(), self.sort_by.clone());
        let pages = Pages::<O> { request, columns, params, sort_by, first: true, object: PhantomData };
        let pages = stream::try_unfold(Some(pages), |pages| async move {
            match pages {
                Some(pages) => pages.next().await.map(Some),
                None => Ok(None),
            }
        });
        pages.map_ok(|events| stream::iter(events.into_iter().map(Ok))).try_flatten().boxed()
    }

    fn watch(&self, params: WatchParams) -> BoxFuture<'static, Result<Watches<Row>, Error>> {
        let (request, columns, sort_by) = (self.request(), self.columns(), self.sort_by.clone());
        Box::pin(async move {
            let events = request.watch::<TableResponse<O>>(&params).await?;
            let row = move |event| std::future::ready(columns.row_event(event, sort_by.as_ref()));
            let rows = events.filter_map(row);
            Ok(rows.boxed() as Watches<Row>)
        })
    }

    /// In a table, the annotation that ends the initial events is not where a reflector looks for
    /// it.
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
struct Pages<O> {
    request: Request,
    columns: Columns,
    params: ListParams,
    sort_by: Option<SortBy>,
    first: bool,
    object: PhantomData<fn() -> O>,
}

impl<O: RowObject> Pages<O> {
    /// Returns the events of the next page, and the pages after it.
    async fn next(mut self) -> Result<(Vec<ListEvent<Row>>, Option<Self>), Error> {
        let request = self.request.clone().params(self.params.query()?);
        let mut response: TableResponse<O> = request.send().await?;
        self.columns.update(&mut response);
        let next = response.metadata.continue_token.take().filter(|it| !it.is_empty());
        let version = response.metadata.resource_version.as_str().into();
        let rows = response.into_rows(self.sort_by.as_ref());
        let mut events: Vec<_> = rows.into_iter().map(ListEvent::Item).collect();
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

    fn response(value: Value) -> TableResponse<PlainObject> {
        serde_json::from_value(value).expect("an response")
    }

    fn names(columns: &Columns) -> Vec<String> {
        columns.get().iter().filter(|it| it.is_shown(false)).map(|it| it.name.clone()).collect()
    }

    #[test]
    fn a_table_becomes_rows_and_defines_its_columns_once() {
        let columns = Columns::default();
        let mut first = response(json!({
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
        columns.update(&mut first);
        let row = first.into_row(None);
        assert_eq!(row.cells, ["a", "true", "3s", ""]);
        assert_eq!(row.key().map(String::from).as_deref(), Some("n/a"));
        assert_eq!((row.header().version, row.created()), ("7", "2026-01-01T00:00:00Z"));

        let mut later = response(json!({ "kind": "Table", "columnDefinitions": null, "rows": null }));
        columns.update(&mut later);
        assert_eq!(names(&columns), ["Name", "Ready", "Age"]);
        assert_eq!(columns.get().iter().filter(|it| it.is_age()).count(), 1);
        assert_eq!(later.into_rows(None), []);
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
        let mut list = response(json!({
            "kind": "ThingList", "metadata": { "resourceVersion": "9" },
            "items": [{ "metadata": { "name": "a" }, "spec": {} }],
        }));
        columns.update(&mut list);
        assert_eq!(
            list.into_rows(None),
            [Row::plain(RowMetadata { name: "a".into(), ..RowMetadata::default() })]
        );
        let mut event = response(json!({ "kind": "Thing", "metadata": { "name": "b" }, "spec": {} }));
        columns.update(&mut event);
        assert_eq!(event.into_row(None).cells, ["b", ""]);
        assert_eq!(names(&columns), ["Name", "Age"]);
    }

    #[test]
    fn a_row_that_comes_with_its_object_has_the_value_to_sort_by() {
        let table = json!({ "kind": "Table", "rows": [{
            "cells": ["a"], "object": { "metadata": { "name": "a" }, "spec": { "size": 3 } },
        }] });
        let response: TableResponse<WholeObject> = serde_json::from_value(table).expect("a table");
        let size: SortBy = ".spec.size".parse().expect("a path");
        let row = response.into_row(Some(&size));
        assert_eq!(row.header().name, "a");
        assert_eq!(row.sort_key, size.key(&json!({ "spec": { "size": 3 } })));
    }
}
