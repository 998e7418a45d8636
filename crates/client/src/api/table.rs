//! Tables: what a server would print, column by column, for any kind it serves.

use dogwatch_core::{ListParams, Meta, ResourceVersion, null_as_default};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Api;
use crate::error::Error;
use crate::request::Request;

const ACCEPT: &str = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";

/// A list as the server prints it.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Table {
    /// Always `Table`; a server that does not know tables answers with something else.
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

/// What a [`Table`] says of the list it shows.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TableMeta {
    /// The version of the list: a watch resumes here.
    #[serde(deserialize_with = "null_as_default", skip_serializing_if = "ResourceVersion::is_unset")]
    pub resource_version: ResourceVersion,
    /// The token of the next page; empty on the last one.
    #[serde(
        rename = "continue",
        deserialize_with = "null_as_default",
        skip_serializing_if = "String::is_empty"
    )]
    pub continue_token: String,
    /// How many rows the pages to come have, where the server says so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remaining_item_count: Option<i64>,
}

/// A column of a [`Table`].
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TableColumn {
    /// The heading.
    pub name: String,
    /// `string`, `integer`, `number`, `boolean` or `date`.
    pub r#type: String,
    /// A hint, for example `name` for the column that names the object.
    pub format: String,
    /// What the column means.
    pub description: String,
    /// 0 is always shown; more is shown only when asked for, as by `kubectl -o wide`.
    pub priority: i32,
}

/// A row of a [`Table`].
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TableRow {
    /// One value for each column.
    #[serde(deserialize_with = "null_as_default")]
    pub cells: Vec<Value>,
    /// The object, as far as the server sends it along: its metadata unless asked otherwise.
    pub object: Option<RowObject>,
}

/// The object behind a row.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
pub struct RowObject {
    /// Its metadata.
    #[serde(default)]
    pub metadata: Meta,
}

impl<K> Api<K> {
    /// Lists the collection as the server prints it.
    ///
    /// # Errors
    /// As [`Self::list`]; [`Error::Malformed`] when the server does not know tables.
    pub async fn table(&self, params: &ListParams) -> Result<Table, Error> {
        checked(self.on_collection(self.client.get()).checked_params(params.query())).await
    }

    /// One object as the server prints it.
    ///
    /// # Errors
    /// `NotFound` when there is no such object.
    pub async fn table_of(&self, name: &str) -> Result<Table, Error> {
        checked(self.on_object(self.client.get(), name)).await
    }
}

async fn checked(request: Request) -> Result<Table, Error> {
    let table: Table = request.accept(ACCEPT).send().await?;
    if table.kind == "Table" {
        return Ok(table);
    }
    let problem = format!("asked for a Table, got {:?}: this server prints no tables of it", table.kind);
    Err(Error::Malformed { request: "a table".to_owned(), problem })
}

impl Table {
    /// The cell of a row under a heading.
    pub fn cell<'t>(&self, row: &'t TableRow, heading: &str) -> Option<&'t Value> {
        let at = self.column_definitions.iter().position(|it| it.name == heading)?;
        row.cells.get(at)
    }
}
