//! What a kubeconfig holds for others: extensions, and fields this library does not know.
//!
//! Both are kept and written back, and neither is shown, since nobody here can tell whether it is secret.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::absent::as_default;
use super::loose;

/// Data of another program under its name.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(expecting = "an extension with its name")]
pub struct NamedExtension {
    /// The name of the data.
    #[serde(default, deserialize_with = "as_default")]
    pub name: String,
    /// The data, not looked into.
    #[serde(default, deserialize_with = "loose::read")]
    pub extension: Value,
    /// Fields this library does not know.
    #[serde(flatten)]
    pub other: OtherFields,
}

/// Fields this library does not know, kept as they were found. `Debug` shows their names only.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct OtherFields(#[serde(deserialize_with = "loose::read_fields")] pub BTreeMap<String, Value>);

/// What the three kinds of entry and extensions share: a name that is unique in its section.
pub(super) trait Named {
    /// The name.
    fn name(&self) -> &str;
}

impl Named for NamedExtension {
    fn name(&self) -> &str {
        &self.name
    }
}

impl fmt::Debug for NamedExtension {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NamedExtension").field("name", &self.name).finish_non_exhaustive()
    }
}

impl fmt::Debug for OtherFields {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}
