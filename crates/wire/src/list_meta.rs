//! The metadata of a list.

use dogwatch_core::ResourceVersion;
use serde::Deserialize;

/// The metadata of a list; known once the list has been decoded to its end.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ListMeta {
    /// The kind of the list, for example `PodList`. Items of a typed list do not repeat theirs.
    pub kind: String,
    /// The group and version of the list, for example `apps/v1`.
    pub api_version: String,
    /// The version of the collection, from which a watch can start.
    pub version: ResourceVersion,
    /// The token of the next page; `None` on the last one.
    pub continue_token: Option<String>,
    /// The number of items on the remaining pages, if the server reports it.
    pub remaining_item_count: Option<i64>,
    /// The part of a sharded list that this is, as the server reports it.
    pub shard_info: Option<serde_json::Value>,
}

/// The `metadata` of a list, as encoded.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct EncodedListMeta {
    resource_version: Option<ResourceVersion>,
    #[serde(rename = "continue")]
    continue_token: Option<String>,
    remaining_item_count: Option<i64>,
    shard_info: Option<serde_json::Value>,
}

impl ListMeta {
    pub(crate) fn new(kind: String, api_version: String, encoded: EncodedListMeta) -> Self {
        Self {
            kind,
            api_version,
            version: encoded.resource_version.unwrap_or_default(),
            continue_token: encoded.continue_token.filter(|it| !it.is_empty()),
            remaining_item_count: encoded.remaining_item_count,
            shard_info: encoded.shard_info,
        }
    }
}
