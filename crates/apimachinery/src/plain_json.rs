//! JSON values in which every key is a key.
//!
//! With its feature `raw_value`, which any crate of a program may enable, serde_json parses the
//! text of the key `$serde_json::private::RawValue` as JSON again, with a depth limit of its own:
//! nested texts then overflow the stack, and an object that was stored may not be readable. Text
//! from outside is parsed here instead. With the feature `arbitrary_precision`, floats themselves
//! come as such a key, and only serde_json can distinguish them: then its values are used.

use std::cell::Cell;
use std::fmt;
use std::sync::LazyLock;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::de::Read;
use serde_json::{Map, Number, Value};

use crate::memory;

/// Parses a text.
///
/// # Errors
///
/// Returns the syntax error, or an error if the value takes too much memory.
pub fn from_str(text: &str) -> serde_json::Result<Value> {
    match *HAS_NUMBERS_AS_MAPS {
        true => serde_json::from_str(text),
        false => parse(&mut serde_json::Deserializer::from_str(text), memory::TEXT),
    }
}

/// Parses a text in bytes.
///
/// # Errors
///
/// Returns the syntax error, or an error if the value takes too much memory.
pub fn from_slice(text: &[u8]) -> serde_json::Result<Value> {
    match *HAS_NUMBERS_AS_MAPS {
        true => serde_json::from_slice(text),
        false => parse(&mut serde_json::Deserializer::from_slice(text), memory::TEXT),
    }
}

/// Parses a text that was formatted from a value here, whatever memory it takes.
///
/// # Errors
///
/// Returns the syntax error.
pub fn from_own_slice(text: &[u8]) -> serde_json::Result<Value> {
    match *HAS_NUMBERS_AS_MAPS {
        true => serde_json::from_slice(text),
        false => parse(&mut serde_json::Deserializer::from_slice(text), usize::MAX),
    }
}

/// True if a crate of the program enables serde_json's feature `arbitrary_precision`.
static HAS_NUMBERS_AS_MAPS: LazyLock<bool> = LazyLock::new(|| {
    parse(&mut serde_json::Deserializer::from_str("1.5"), memory::TEXT).is_ok_and(|it| it.is_object())
});

fn parse<'de, R: Read<'de>>(
    deserializer: &mut serde_json::Deserializer<R>,
    memory: usize,
) -> serde_json::Result<Value> {
    let memory = Cell::new(memory);
    let value = Plain { memory: &memory }.deserialize(&mut *deserializer)?;
    deserializer.end()?;
    Ok(value)
}

/// A value without special keys that takes no more than this memory.
#[derive(Clone, Copy)]
struct Plain<'a> {
    /// The memory that is left, in bytes.
    memory: &'a Cell<usize>,
}

impl Plain<'_> {
    fn take<E: Error>(self, bytes: usize) -> Result<(), E> {
        let left = self.memory.get().checked_sub(bytes).ok_or_else(|| E::custom(memory::exceeded()))?;
        self.memory.set(left);
        Ok(())
    }
}

impl<'de> DeserializeSeed<'de> for Plain<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Plain<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any valid JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element_seed(self)? {
            // The first item allocates several slots.
            self.take(if list.is_empty() { 4 * memory::SLOT } else { memory::SLOT })?;
            list.push(item);
        }
        Ok(list.into())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(key) = entries.next_key::<String>()? {
            if map.is_empty() {
                self.take(memory::MAP_NODE)?;
            }
            map.insert(key, entries.next_value_seed(self)?);
        }
        Ok(map.into())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    /// Regression test: the feature `raw_value` is on in this test, as it may be in any program.
    #[test]
    fn the_special_keys_of_serde_json_are_keys() {
        for key in ["$serde_json::private::RawValue", "$serde_json::private::Number"] {
            let object = json!({ key: "{" });
            assert_eq!(from_str(&object.to_string()).expect("JSON"), object);
            assert_eq!(from_slice(object.to_string().as_bytes()).expect("JSON"), object);
        }
    }

    proptest! {
        #[test]
        fn a_text_is_the_same_value_as_for_serde_json(text in "[\\[\\]{}\",:0-9.eE+ \\-a-z\\\\]{0,40}") {
            prop_assert_eq!(from_str(&text).ok(), serde_json::from_str::<Value>(&text).ok());
        }
    }

    #[test]
    fn numbers_texts_and_depth_are_those_of_serde_json() {
        for text in [
            "1",
            "-1",
            "18446744073709551615",
            "1.5",
            "1e3",
            "-0",
            "-0.0",
            "1e400",
            "99999999999999999999",
            "null",
            "true",
            r#""\u00e9\n""#,
            r#"{"a":[1,{"a":2,"a":3}]}"#,
            "",
            "{",
            "[1,]",
            "1 2",
        ] {
            assert_eq!(from_str(text).ok(), serde_json::from_str::<Value>(text).ok(), "{text}");
        }
        assert!(from_str(&"[".repeat(200)).is_err());
    }

    #[test]
    fn a_value_that_takes_too_much_memory_is_not_built() {
        let maps = |count: usize| format!("[{}0]", r#"{"":0},"#.repeat(count));
        assert!(from_str(&maps(100_000)).is_ok());
        let error = from_str(&maps(memory::TEXT / memory::MAP_NODE)).expect_err("it is too large");
        assert!(error.to_string().starts_with("exceeded max memory of "), "{error}");
        assert!(from_own_slice(maps(memory::TEXT / memory::MAP_NODE).as_bytes()).is_ok());
    }
}
