//! The rule for unset values: YAML's `key:` without a value and the empty value both count as
//! unset, as in Go.
//!
//! All configuration modules use this one, so that `namespace: ""` means the same everywhere.

use std::path::PathBuf;

use secrecy::{ExposeSecret as _, SecretString};
use serde::{Deserialize, Deserializer, Serializer};

/// A value whose empty form means "unset".
pub(super) trait Absent {
    /// Returns true for the empty form.
    fn is_absent(&self) -> bool;
}

impl Absent for String {
    fn is_absent(&self) -> bool {
        self.is_empty()
    }
}

impl Absent for SecretString {
    fn is_absent(&self) -> bool {
        self.expose_secret().is_empty()
    }
}

impl Absent for PathBuf {
    fn is_absent(&self) -> bool {
        self.as_os_str().is_empty()
    }
}

/// Returns the value, unless it is missing or empty.
pub(super) fn given<T: Absent>(value: &Option<T>) -> Option<&T> {
    value.as_ref().filter(|value| !value.is_absent())
}

/// Replaces `slot` by `over` if `over` is set.
pub(super) fn overlay<T: Absent + Clone>(slot: &mut Option<T>, over: &Option<T>) {
    if let Some(value) = given(over) {
        *slot = Some(value.clone());
    }
}

/// Deserialises `null` as the type's default.
pub(super) fn as_default<'de, T, D>(deserializer: D) -> Result<T, D::Error>
where
    T: Default + Deserialize<'de>,
    D: Deserializer<'de>,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// Deserialises a string into a secret.
pub(super) fn read_secret<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<SecretString>, D::Error> {
    Ok(Option::<String>::deserialize(deserializer)?.map(SecretString::from))
}

/// Serialises a secret in clear text; used only to write a kubeconfig.
pub(super) fn write_secret<S: Serializer>(
    secret: &Option<SecretString>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match secret {
        Some(secret) => serializer.serialize_some(secret.expose_secret()),
        None => serializer.serialize_none(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_empty_value_counts_as_unset() {
        assert_eq!(given(&Some(String::new())), None);
        assert_eq!(given(&Some("a".to_owned())), Some(&"a".to_owned()));
        assert!(given(&Some(SecretString::from(""))).is_none());
        assert!(given(&Some(PathBuf::new())).is_none());
    }

    #[test]
    fn an_overlay_replaces_only_with_values_that_are_set() {
        let mut slot = Some("kept".to_owned());
        overlay(&mut slot, &Some(String::new()));
        overlay(&mut slot, &None);
        assert_eq!(slot.as_deref(), Some("kept"));
        overlay(&mut slot, &Some("new".to_owned()));
        assert_eq!(slot.as_deref(), Some("new"));
    }
}
