//! Tables: the columns that a server prints for any kind it serves.

use dogwatch_core::{ListParams, Meta, ResourceVersion, null_as_default};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Api;
use crate::error::Error;
use crate::request::Request;

const ACCEPT: &str = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";

/// A list as the server prints it.
///
/// ```
/// use dogwatch_client::Api;
/// use dogwatch_core::ListParams;
/// use k8s_openapi::api::core::v1::ConfigMap;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let builder = dogwatch_apiserver::ApiServer::builder().in_process();
/// # let yaml = "{apiVersion: v1, kind: ConfigMap, metadata: {name: settings}, data: {colour: \
/// #     blue, size: small}}";
/// # let server = builder.yaml(yaml).start().await?;
/// # let url = server.url().parse()?;
/// # let client = dogwatch_client::Client::from_service(url, "default", server.service());
/// let table = Api::<ConfigMap>::all(client).table(&ListParams::default()).await?;
/// for row in &table.rows {
///     println!("{:?} {:?}", table.cell(row, "Name"), table.cell(row, "Data"));
/// }
/// assert_eq!(table.cell(&table.rows[0], "Data"), Some(&2.into()));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Table {
    /// Always `Table`; a server without support for tables returns another kind.
    kind: String,
    /// The version of the list, to watch from, and the token of the next page.
    pub metadata: TableMeta,
    /// The columns, in order. In a watch, only the first table has them.
    #[serde(deserialize_with = "null_as_default")]
    pub column_definitions: Vec<TableColumn>,
    /// One row for each object.
    #[serde(deserialize_with = "null_as_default")]
    pub rows: Vec<TableRow>,
}

/// The list metadata of a [`Table`].
///
/// ```
/// use dogwatch_client::api::Table;
///
/// let text = r#"{"kind": "Table", "metadata": {"continue": "abc"}}"#;
/// let table: Table = serde_json::from_str(text)?;
/// assert_eq!(table.metadata.continue_token, "abc"); // there is another page
/// assert!(table.metadata.resource_version.is_unset());
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TableMeta {
    /// The version of the list, to watch from.
    #[serde(deserialize_with = "null_as_default", skip_serializing_if = "ResourceVersion::is_unset")]
    pub resource_version: ResourceVersion,
    /// The token of the next page; empty on the last one.
    #[serde(
        rename = "continue",
        deserialize_with = "null_as_default",
        skip_serializing_if = "String::is_empty"
    )]
    pub continue_token: String,
    /// The number of rows on the remaining pages, if the server reports it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remaining_item_count: Option<i64>,
}

/// A column of a [`Table`].
///
/// ```
/// use dogwatch_client::api::TableColumn;
///
/// let wide = TableColumn { name: "Node".to_owned(), priority: 1, ..TableColumn::default() };
/// let shown: Vec<_> = [wide].into_iter().filter(|it| it.priority == 0).collect();
/// assert!(shown.is_empty());
/// ```
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TableColumn {
    /// The heading.
    pub name: String,
    /// `string`, `integer`, `number`, `boolean` or `date`.
    pub r#type: String,
    /// A hint, for example `name` for the column that names the object.
    pub format: String,
    /// The meaning of the column.
    pub description: String,
    /// The priority: 0 is always shown, higher ones only on request, as by `kubectl -o wide`.
    pub priority: i32,
}

/// A row of a [`Table`].
///
/// ```
/// use dogwatch_client::api::TableRow;
///
/// let row: TableRow = serde_json::from_str(r#"{"cells": ["settings", 2], "object": null}"#)?;
/// assert_eq!(row.cells[1], 2);
/// assert_eq!(row.object, None);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TableRow {
    /// One value for each column.
    #[serde(deserialize_with = "null_as_default")]
    pub cells: Vec<Value>,
    /// The object, as far as the server includes it: its metadata by default.
    pub object: Option<RowObject>,
}

/// The object of a row.
///
/// ```
/// use dogwatch_client::api::RowObject;
///
/// let object: RowObject = serde_json::from_str(r#"{"metadata": {"name": "settings"}}"#)?;
/// assert_eq!(object.metadata.name, "settings");
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
pub struct RowObject {
    /// The metadata of the object.
    #[serde(default)]
    pub metadata: Meta,
}

impl<K> Api<K> {
    /// Lists the collection as a table.
    ///
    /// # Errors
    /// See [`Self::list`]; [`Error::Malformed`] if the server does not support tables.
    pub async fn table(&self, params: &ListParams) -> Result<Table, Error> {
        checked(self.on_collection(self.client.get()).checked_params(params.query())).await
    }

    /// Reads one object as a table.
    ///
    /// # Errors
    /// `NotFound` if the object does not exist.
    pub async fn table_of(&self, name: &str) -> Result<Table, Error> {
        checked(self.on_object(self.client.get(), name)).await
    }
}

async fn checked(request: Request) -> Result<Table, Error> {
    let table: Table = request.accept(ACCEPT).send().await?;
    if table.kind == "Table" {
        return Ok(table);
    }
    let problem = format!(
        "expected a Table, got {:?}: the server does not support tables for this resource",
        table.kind
    );
    Err(Error::Malformed { request: "a table".to_owned(), problem })
}

impl Table {
    /// Returns the cell of a row under a heading.
    pub fn cell<'t>(&self, row: &'t TableRow, heading: &str) -> Option<&'t Value> {
        let at = self.column_definitions.iter().position(|it| it.name == heading)?;
        row.cells.get(at)
    }
}
