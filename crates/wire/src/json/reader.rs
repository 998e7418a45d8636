//! A serde `Deserializer` over a scanned value.
//!
//! It behaves like serde_json's, with two differences: values that the type ignores are skipped,
//! not parsed; and the `managedFields` of the object's own `metadata` are never shown to the type,
//! unless they are to be kept.

use serde::de::{
    DeserializeSeed, Deserializer, EnumAccess, Expected, MapAccess, SeqAccess, Unexpected, VariantAccess,
    Visitor,
};
use serde::forward_to_deserialize_any;

use super::cursor::{Cursor, ReadError, Text};
use super::number::{Number, number};
use crate::fields::Fields;

/// The role of the next object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Role {
    /// Any object, all of whose members are read.
    #[default]
    Plain,
    /// The Kubernetes object itself; its `metadata` is recognized.
    Root,
    /// The metadata of the Kubernetes object; its managed fields are skipped.
    Metadata,
}

/// Reads one value into any type that serde supports.
#[derive(Debug)]
pub(super) struct Reader<'de> {
    pub(super) cursor: Cursor<'de>,
    role: Role,
}

impl<'de> Reader<'de> {
    /// Creates a reader of the Kubernetes object at the cursor.
    pub(super) fn new(cursor: Cursor<'de>, fields: Fields) -> Self {
        let role = if fields.keeps_managed_fields() { Role::Plain } else { Role::Root };
        Self { cursor, role }
    }

    #[inline]
    fn visit_text<V: Visitor<'de>>(&mut self, visitor: V) -> Result<V::Value, ReadError> {
        match self.cursor.string()? {
            Text::Borrowed(text) => visitor.visit_borrowed_str(text),
            Text::Unescaped(text) => visitor.visit_str(text),
        }
    }

    #[inline]
    fn visit_number<V: Visitor<'de>>(&mut self, visitor: V) -> Result<V::Value, ReadError> {
        match self.cursor.number()? {
            Number::Unsigned(number) => visitor.visit_u64(number),
            Number::Signed(number) => visitor.visit_i64(number),
            Number::Float(number) => visitor.visit_f64(number),
        }
    }

    #[inline]
    fn visit_object<V: Visitor<'de>>(&mut self, visitor: V) -> Result<V::Value, ReadError> {
        let role = std::mem::take(&mut self.role);
        self.cursor.enter()?;
        let value = visitor.visit_map(Entries { reader: self, role, first: true, key: 0 })?;
        self.cursor.leave(b'}')?;
        Ok(value)
    }

    #[inline]
    fn visit_array<V: Visitor<'de>>(&mut self, visitor: V) -> Result<V::Value, ReadError> {
        self.role = Role::Plain;
        self.cursor.enter()?;
        let value = visitor.visit_seq(Elements { reader: self, next: 0 })?;
        self.cursor.leave(b']')?;
        Ok(value)
    }

    /// Adds the position to an error that does not know it: those of the type come without.
    #[cold]
    fn positioned(&self, error: ReadError) -> ReadError {
        error.or_at(self.cursor.at())
    }

    /// Adds the member whose key is at `key` to the path of an error in its value.
    #[cold]
    fn within_member(&mut self, key: usize, error: ReadError) -> ReadError {
        let error = self.positioned(error);
        self.cursor.in_member(key, error)
    }

    /// Returns an error that names the actual value and the expected one.
    #[cold]
    fn mismatch(&mut self, byte: u8, wanted: &dyn Expected) -> ReadError {
        let found = match byte {
            b'{' => Ok(Unexpected::Map),
            b'[' => Ok(Unexpected::Seq),
            b'n' => self.cursor.word("null").map(|()| Unexpected::Unit),
            b't' => self.cursor.word("true").map(|()| Unexpected::Bool(true)),
            b'f' => self.cursor.word("false").map(|()| Unexpected::Bool(false)),
            b'"' => {
                return match self.cursor.string() {
                    Ok(text) => serde::de::Error::invalid_type(Unexpected::Str(text.as_str()), wanted),
                    Err(error) => error,
                };
            }
            _ => self.cursor.number().map(|number| match number {
                Number::Unsigned(number) => Unexpected::Unsigned(number),
                Number::Signed(number) => Unexpected::Signed(number),
                Number::Float(number) => Unexpected::Float(number),
            }),
        };
        match found {
            Ok(found) => serde::de::Error::invalid_type(found, wanted),
            Err(error) => error,
        }
    }
}

/// Defines methods for one kind of value: visits it, or returns a mismatch for any other kind.
macro_rules! deserialize_only {
    ($($method:ident => $($byte:pat_param)|+ => $visit:ident,)*) => {$(
        #[inline]
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
            match self.cursor.peek()? {
                $($byte)|+ => self.$visit(visitor),
                byte => Err(self.mismatch(byte, &visitor)),
            }
        }
    )*};
}

impl<'de> Deserializer<'de> for &mut Reader<'de> {
    type Error = ReadError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        match self.cursor.peek()? {
            b'{' => self.visit_object(visitor),
            b'[' => self.visit_array(visitor),
            b'"' => self.visit_text(visitor),
            b'n' => self.deserialize_unit(visitor),
            b't' | b'f' => self.deserialize_bool(visitor),
            _ => self.visit_number(visitor),
        }
    }

    deserialize_only! {
        deserialize_str => b'"' => visit_text,
        deserialize_string => b'"' => visit_text,
        deserialize_char => b'"' => visit_text,
        deserialize_identifier => b'"' => visit_text,
        deserialize_map => b'{' => visit_object,
        deserialize_seq => b'[' => visit_array,
        deserialize_i8 => b'-' | b'0'..=b'9' => visit_number,
        deserialize_i16 => b'-' | b'0'..=b'9' => visit_number,
        deserialize_i32 => b'-' | b'0'..=b'9' => visit_number,
        deserialize_i64 => b'-' | b'0'..=b'9' => visit_number,
        deserialize_i128 => b'-' | b'0'..=b'9' => visit_number,
        deserialize_u8 => b'-' | b'0'..=b'9' => visit_number,
        deserialize_u16 => b'-' | b'0'..=b'9' => visit_number,
        deserialize_u32 => b'-' | b'0'..=b'9' => visit_number,
        deserialize_u64 => b'-' | b'0'..=b'9' => visit_number,
        deserialize_u128 => b'-' | b'0'..=b'9' => visit_number,
        deserialize_f32 => b'-' | b'0'..=b'9' => visit_number,
        deserialize_f64 => b'-' | b'0'..=b'9' => visit_number,
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        match self.cursor.peek()? {
            b't' => self.cursor.word("true").and_then(|()| visitor.visit_bool(true)),
            b'f' => self.cursor.word("false").and_then(|()| visitor.visit_bool(false)),
            byte => Err(self.mismatch(byte, &visitor)),
        }
    }

    fn deserialize_unit<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        match self.cursor.peek()? {
            b'n' => self.cursor.word("null").and_then(|()| visitor.visit_unit()),
            byte => Err(self.mismatch(byte, &visitor)),
        }
    }

    #[inline]
    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        match self.cursor.peek()? {
            b'n' => self.cursor.word("null").and_then(|()| visitor.visit_none()),
            _ => visitor.visit_some(self),
        }
    }

    #[inline]
    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, ReadError> {
        match self.cursor.peek()? {
            b'{' => self.visit_object(visitor),
            b'[' => self.visit_array(visitor),
            byte => Err(self.mismatch(byte, &visitor)),
        }
    }

    #[inline]
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
        match self.cursor.peek()? {
            b'"' => visitor.visit_enum(UnitOnly(self)),
            b'{' => {
                self.role = Role::Plain;
                self.cursor.enter()?;
                let value = visitor.visit_enum(OneOf(self))?;
                self.cursor.leave(b'}')?;
                Ok(value)
            }
            byte => Err(self.mismatch(byte, &visitor)),
        }
    }

    /// The value is ignored, so it is not parsed.
    #[inline]
    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        self.cursor.skip()?;
        visitor.visit_unit()
    }

    fn deserialize_bytes<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        match self.cursor.peek()? {
            b'"' => visitor.visit_bytes(self.cursor.string()?.as_str().as_bytes()),
            b'[' => self.visit_array(visitor),
            byte => Err(self.mismatch(byte, &visitor)),
        }
    }

    fn deserialize_byte_buf<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        self.deserialize_bytes(visitor)
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, ReadError> {
        self.deserialize_unit(visitor)
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, _length: usize, visitor: V) -> Result<V::Value, ReadError> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _length: usize,
        visitor: V,
    ) -> Result<V::Value, ReadError> {
        self.deserialize_seq(visitor)
    }
}

/// Reads the key of a map, which JSON always writes as a string, into numbers and booleans as well.
struct KeyReader<'r, 'de>(&'r mut Reader<'de>);

macro_rules! parse_key {
    ($($method:ident)*) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
            self.visit_parsed(visitor)
        }
    )*};
}

impl<'de> KeyReader<'_, 'de> {
    fn visit_parsed<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        let text = self.0.cursor.string()?;
        let text = text.as_str();
        // JSON's grammar, not Rust's, which accepts `+1` and `inf` as well.
        match (number(text.as_bytes()).filter(|it| it.1 == text.len()), text) {
            (Some((Number::Unsigned(number), _)), _) => visitor.visit_u64(number),
            (Some((Number::Signed(number), _)), _) => visitor.visit_i64(number),
            (Some((Number::Float(number), _)), _) => visitor.visit_f64(number),
            (None, "true") => visitor.visit_bool(true),
            (None, "false") => visitor.visit_bool(false),
            (None, _) => visitor.visit_str(text),
        }
    }
}

impl<'de> Deserializer<'de> for KeyReader<'_, 'de> {
    type Error = ReadError;

    #[inline]
    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        self.0.visit_text(visitor)
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

/// The members of an object, one by one.
struct Entries<'r, 'de> {
    reader: &'r mut Reader<'de>,
    role: Role,
    first: bool,
    /// The position of the last key.
    key: usize,
}

impl Entries<'_, '_> {
    /// Compares the next key without consuming it.
    fn next_key_is(&mut self, key: &str) -> Result<bool, ReadError> {
        let start = self.reader.cursor.at();
        let same = self.reader.cursor.string()?.as_str() == key;
        self.reader.cursor.go_to(start);
        Ok(same)
    }

    /// Moves to the next key. Returns false at the end of the object.
    #[inline]
    fn next(&mut self) -> Result<bool, ReadError> {
        let more = self.reader.cursor.next(self.first, b'}')?;
        self.first = false;
        if more && self.reader.cursor.peek()? != b'"' {
            return Err(self.reader.cursor.expected('"'));
        }
        Ok(more)
    }
}

impl<'de> MapAccess<'de> for Entries<'_, 'de> {
    type Error = ReadError;

    #[inline]
    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, ReadError> {
        let mut more = self.next()?;
        while more && self.role == Role::Metadata && self.next_key_is("managedFields")? {
            self.reader.cursor.skip()?;
            self.reader.cursor.expect(b':')?;
            self.reader.cursor.skip()?;
            more = self.next()?;
        }
        if !more {
            return Ok(None);
        }
        let is_metadata = self.role == Role::Root && self.next_key_is("metadata")?;
        self.reader.role = if is_metadata { Role::Metadata } else { Role::Plain };
        self.key = self.reader.cursor.at();
        seed.deserialize(KeyReader(self.reader)).map(Some)
    }

    #[inline]
    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, ReadError> {
        self.reader.cursor.expect(b':')?;
        seed.deserialize(&mut *self.reader).map_err(|error| self.reader.within_member(self.key, error))
    }
}

/// The elements of an array, one by one.
struct Elements<'r, 'de> {
    reader: &'r mut Reader<'de>,
    /// The index of the next element.
    next: usize,
}

impl<'de> SeqAccess<'de> for Elements<'_, 'de> {
    type Error = ReadError;

    #[inline]
    fn next_element_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, ReadError> {
        if !self.reader.cursor.next(self.next == 0, b']')? {
            return Ok(None);
        }
        let index = self.next;
        self.next += 1;
        match seed.deserialize(&mut *self.reader) {
            Ok(element) => Ok(Some(element)),
            Err(error) => Err(self.reader.positioned(error).in_element(index)),
        }
    }

    fn size_hint(&self) -> Option<usize> {
        (self.next == 0).then(|| self.reader.cursor.elements_ahead())
    }
}

/// A variant written as an object of one member: `{"Name": content}`.
struct OneOf<'r, 'de>(&'r mut Reader<'de>);

impl<'de> EnumAccess<'de> for OneOf<'_, 'de> {
    type Error = ReadError;
    type Variant = Self;

    fn variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<(S::Value, Self), ReadError> {
        if self.0.cursor.peek()? != b'"' {
            return Err(self.0.cursor.expected('"'));
        }
        let name = seed.deserialize(KeyReader(self.0))?;
        self.0.cursor.expect(b':')?;
        Ok((name, self))
    }
}

impl<'de> VariantAccess<'de> for OneOf<'_, 'de> {
    type Error = ReadError;

    fn unit_variant(self) -> Result<(), ReadError> {
        serde::Deserialize::deserialize(self.0)
    }

    fn newtype_variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<S::Value, ReadError> {
        seed.deserialize(self.0)
    }

    fn tuple_variant<V: Visitor<'de>>(self, _length: usize, visitor: V) -> Result<V::Value, ReadError> {
        self.0.deserialize_seq(visitor)
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        _fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, ReadError> {
        self.0.deserialize_struct("", &[], visitor)
    }
}

/// A variant written as a string: its name and nothing else.
struct UnitOnly<'r, 'de>(&'r mut Reader<'de>);

impl<'de> EnumAccess<'de> for UnitOnly<'_, 'de> {
    type Error = ReadError;
    type Variant = Self;

    fn variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<(S::Value, Self), ReadError> {
        let name = seed.deserialize(KeyReader(self.0))?;
        Ok((name, self))
    }
}

impl<'de> VariantAccess<'de> for UnitOnly<'_, 'de> {
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
