//! YAML's `key:` with nothing behind it means "the default", as it does in Go.

use serde::{Deserialize, Deserializer};

/// Reads `null` as the type's default.
pub(super) fn as_default<'de, T, D>(deserializer: D) -> Result<T, D::Error>
where
    T: Default + Deserialize<'de>,
    D: Deserializer<'de>,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}
