//! Decoding `null` as the default value, as Go does.
//!
//! Servers and plugins that are not written in Go send `null` where Go would omit a field. Without
//! this, one such field makes the whole document undecodable.

use serde::{Deserialize, Deserializer};

/// Decodes `null` as the type's default value, for
/// `#[serde(default, deserialize_with = "null_as_default")]`.
///
/// ```
/// use dogwatch_core::null_as_default;
///
/// #[derive(serde::Deserialize)]
/// struct Answer {
///     #[serde(default, deserialize_with = "null_as_default")]
///     message: String,
/// }
///
/// let answer: Answer = serde_json::from_str(r#"{"message":null}"#)?;
/// assert_eq!(answer.message, "");
/// # Ok::<(), serde_json::Error>(())
/// ```
///
/// # Errors
/// Returns an error if the value is neither `null` nor a `T`.
pub fn null_as_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}
