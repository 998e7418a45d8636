//! What counts as "not given": YAML's `key:` with nothing behind it, and the empty value, as in Go.
//!
//! Every file of the configuration asks here, so that `namespace: ""` means the same thing everywhere.

use std::path::PathBuf;

use secrecy::{ExposeSecret as _, SecretString};
use serde::{Deserialize, Deserializer, Serializer};

/// A value whose empty form stands for "not given".
pub(super) trait Absent {
    /// Whether this is the empty form.
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

/// The value, unless it is missing or empty.
pub(super) fn given<T: Absent>(value: &Option<T>) -> Option<&T> {
    value.as_ref().filter(|value| !value.is_absent())
}

/// Puts `over` into `slot` if it is given.
pub(super) fn overlay<T: Absent + Clone>(slot: &mut Option<T>, over: &Option<T>) {
    if let Some(value) = given(over) {
        *slot = Some(value.clone());
    }
}

/// Reads `null` as the type's default.
pub(super) fn as_default<'de, T, D>(deserializer: D) -> Result<T, D::Error>
where
    T: Default + Deserialize<'de>,
    D: Deserializer<'de>,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// Reads text straight into a secret.
pub(super) fn read_secret<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<SecretString>, D::Error> {
    Ok(Option::<String>::deserialize(deserializer)?.map(SecretString::from))
}

/// Writes a secret in clear: only a kubeconfig that is being written calls this.
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
    fn the_empty_value_is_not_given() {
        assert_eq!(given(&Some(String::new())), None);
        assert_eq!(given(&Some("a".to_owned())), Some(&"a".to_owned()));
        assert!(given(&Some(SecretString::from(""))).is_none());
        assert!(given(&Some(PathBuf::new())).is_none());
    }

    #[test]
    fn an_overlay_replaces_only_by_what_is_given() {
        let mut slot = Some("kept".to_owned());
        overlay(&mut slot, &Some(String::new()));
        overlay(&mut slot, &None);
        assert_eq!(slot.as_deref(), Some("kept"));
        overlay(&mut slot, &Some("new".to_owned()));
        assert_eq!(slot.as_deref(), Some("new"));
    }
}
