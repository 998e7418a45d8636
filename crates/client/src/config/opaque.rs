//! Opaque data in a kubeconfig: extensions, and fields that this library does not know.
//!
//! Both are kept and written back, and neither is shown, since it may be secret.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::absent::as_default;
use super::any_value;

/// Data of another program, with its name.
///
/// ```
/// use dogwatch_client::config::Kubeconfig;
///
/// let text = "extensions: [{name: editor, extension: {theme: dark}}]";
/// let kubeconfig = Kubeconfig::from_yaml(text)?;
/// assert_eq!(kubeconfig.extensions[0].extension["theme"], "dark");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(expecting = "an extension with its name")]
pub struct NamedExtension {
    /// The name of the data.
    #[serde(default, deserialize_with = "as_default")]
    pub name: String,
    /// The data, uninterpreted.
    #[serde(default, deserialize_with = "any_value::read")]
    pub extension: Value,
    /// Fields that this library does not know.
    #[serde(flatten)]
    pub other: OtherFields,
}

/// Fields that this library does not know, kept unchanged. `Debug` shows only their names.
///
/// ```
/// use dogwatch_client::config::Kubeconfig;
///
/// let kubeconfig = Kubeconfig::from_yaml("a-later-field: 3")?;
/// assert_eq!(kubeconfig.other.0["a-later-field"], 3);
/// assert!(kubeconfig.to_yaml()?.contains("a-later-field")); // it is not lost
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct OtherFields(#[serde(deserialize_with = "any_value::read_fields")] pub BTreeMap<String, Value>);

/// An entry or extension with a name that is unique in its section.
pub(super) trait Named {
    /// Returns the name.
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
