//! What the informers of a run hold: an object's metadata, and one value that makes it undecodable while the value is [`POISON`].
//!
//! The server takes such an object like any other. Only the informers cannot decode it, as with a field whose type changed.

use dogwatch_core::{Header, Meta, Object};
use serde::de::Error;
use serde::{Deserialize, Deserializer};

/// The value with which an object cannot be decoded.
pub(crate) const POISON: &str = "poison";

/// An object of any kind.
#[derive(Debug, Deserialize)]
pub(crate) struct Sample {
    metadata: Meta,
    #[serde(default, rename = "data")]
    _data: Data,
}

#[derive(Debug, Default, Deserialize)]
struct Data {
    #[serde(default, rename = "value", deserialize_with = "sound")]
    _value: Option<String>,
}

impl Object for Sample {
    fn header(&self) -> Header<'_> {
        self.metadata.header()
    }
}

fn sound<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    let value = Option::<String>::deserialize(from)?;
    match value.as_deref() {
        Some(POISON) => Err(D::Error::custom("a value that nobody can read")),
        _ => Ok(value),
    }
}
