//! The objects of the informers in a run: metadata, and one value that makes the object undecodable
//! while it is [`POISON`].
//!
//! The server accepts such an object like any other. Only the informers cannot decode it, as with a
//! field whose type changed.

use dogwatch_core::{Header, Meta, Object};
use serde::de::Error;
use serde::{Deserialize, Deserializer};

/// The value that makes an object undecodable.
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
        Some(POISON) => Err(D::Error::custom("the value is not decodable")),
        _ => Ok(value),
    }
}
