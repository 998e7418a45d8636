//! Strings that stand for something else: the keys of maps, and variants without content.

use serde::de::{DeserializeSeed, Deserializer, EnumAccess, Unexpected, VariantAccess, Visitor};
use serde::forward_to_deserialize_any;

use crate::json;
use crate::read_error::ReadError;
use crate::token::{Number, Text};

/// The key of a map, which is always a string, read into numbers and booleans as well.
pub(crate) struct Key<'de, 's>(pub(crate) Text<'de, 's>);

macro_rules! parse_key {
    ($($method:ident)*) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
            self.visit_parsed(visitor)
        }
    )*};
}

impl Key<'_, '_> {
    fn visit_parsed<'de, V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        let text = self.0.as_str();
        // JSON's grammar, not Rust's, which accepts `+1` and `inf` as well.
        match (json::number(text.as_bytes()).filter(|it| it.1 == text.len()), text) {
            (Some((Number::Unsigned(number), _)), _) => visitor.visit_u64(number),
            (Some((Number::Signed(number), _)), _) => visitor.visit_i64(number),
            (Some((Number::Float(number), _)), _) => visitor.visit_f64(number),
            (None, "true") => visitor.visit_bool(true),
            (None, "false") => visitor.visit_bool(false),
            (None, _) => visitor.visit_str(text),
        }
    }
}

impl<'de> Deserializer<'de> for Key<'de, '_> {
    type Error = ReadError;

    #[inline]
    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        match self.0 {
            Text::Borrowed(text) => visitor.visit_borrowed_str(text),
            Text::Composed(text) => visitor.visit_str(text),
        }
    }

    parse_key! {
        deserialize_bool deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64 deserialize_u8
        deserialize_u16 deserialize_u32 deserialize_u64 deserialize_f32 deserialize_f64
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, ReadError> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, ReadError> {
        visitor.visit_enum(UnitOnly(self.0))
    }

    forward_to_deserialize_any! {
        i128 u128 char str string bytes byte_buf unit unit_struct seq tuple tuple_struct map struct identifier
        ignored_any
    }
}

/// A variant written as a string: its name and nothing else.
pub(crate) struct UnitOnly<'de, 's>(pub(crate) Text<'de, 's>);

impl<'de> EnumAccess<'de> for UnitOnly<'de, '_> {
    type Error = ReadError;
    type Variant = UnitVariant;

    fn variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<(S::Value, UnitVariant), ReadError> {
        seed.deserialize(Key(self.0)).map(|name| (name, UnitVariant))
    }
}

/// The content of a variant without content.
pub(crate) struct UnitVariant;

impl<'de> VariantAccess<'de> for UnitVariant {
    type Error = ReadError;

    fn unit_variant(self) -> Result<(), ReadError> {
        Ok(())
    }

    fn newtype_variant_seed<S: DeserializeSeed<'de>>(self, _seed: S) -> Result<S::Value, ReadError> {
        Err(serde::de::Error::invalid_type(Unexpected::UnitVariant, &"newtype variant"))
    }

    fn tuple_variant<V: Visitor<'de>>(self, _length: usize, _visitor: V) -> Result<V::Value, ReadError> {
        Err(serde::de::Error::invalid_type(Unexpected::UnitVariant, &"tuple variant"))
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        _fields: &'static [&'static str],
        _visitor: V,
    ) -> Result<V::Value, ReadError> {
        Err(serde::de::Error::invalid_type(Unexpected::UnitVariant, &"struct variant"))
    }
}
