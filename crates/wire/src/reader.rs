//! A serde `Deserializer` over one object, in either encoding.
//!
//! It behaves like serde_json's, with two differences: values that the type ignores are skipped,
//! not parsed; and the `managedFields` of the object's own `metadata` are never shown to the type,
//! unless they are to be kept.
//!
//! Everything that does not depend on the type is in functions that are compiled once, and both
//! encodings share one deserializer: its code is compiled again for every type of object.

use dogwatch_core::Meta;
use serde::Deserialize;
use serde::de::{
    DeserializeSeed, Deserializer, EnumAccess, Expected, MapAccess, SeqAccess, VariantAccess, Visitor,
};

use crate::fields::Role;
use crate::key::{Key, UnitOnly};
use crate::packed_bytes::PackedParts;
use crate::read_error::ReadError;
use crate::token::{Number, Text, Token};
use crate::{json, protobuf};

/// The name of the newtype that receives an object as the bytes of a packed one.
pub(crate) const PACKED: &str = "dogwatch::Packed";

/// The part of an object that identifies it.
#[derive(Deserialize)]
struct Identified {
    #[serde(default)]
    metadata: Meta,
}

/// Reads one value into any type that serde supports.
#[derive(Debug)]
pub(crate) struct Reader<'de> {
    /// The value, or the JSON that is inside of a protobuf message.
    pub(crate) json: json::Cursor<'de>,
    role: Role,
    protobuf: protobuf::Cursor<'de>,
    /// The encoding of the next value.
    encoding: Encoding,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Encoding {
    Json,
    Protobuf,
}

impl<'de> Reader<'de> {
    /// Creates a reader of the value at the cursor.
    pub(crate) fn json(cursor: json::Cursor<'de>, role: Role) -> Self {
        let protobuf = protobuf::Cursor::default();
        Self { json: cursor, role, protobuf, encoding: Encoding::Json }
    }

    /// Creates a reader of the message at the cursor.
    pub(crate) fn protobuf(cursor: protobuf::Cursor<'de>) -> Self {
        let json = json::Cursor::new("", &[], 0, 0);
        Self { json, role: Role::Plain, protobuf: cursor, encoding: Encoding::Protobuf }
    }

    /// Returns the next value: a scalar, which is consumed, or the start of a map or a sequence.
    fn token(&mut self) -> Result<Token<'de, '_>, ReadError> {
        self.enter_json()?;
        match self.encoding {
            Encoding::Json => self.json.token(),
            Encoding::Protobuf => self.protobuf.token(),
        }
    }

    /// Returns the string that must be the next value.
    fn text(&mut self, wanted: &dyn Expected) -> Result<Text<'de, '_>, ReadError> {
        // The most frequent value.
        if self.encoding == Encoding::Json && self.json.peek()? == b'"' {
            return self.json.string();
        }
        match self.token()? {
            Token::Text(text) => Ok(text),
            token => Err(mismatch(token, wanted)),
        }
    }

    /// Returns the number that must be the next value.
    fn number(&mut self, wanted: &dyn Expected) -> Result<Number, ReadError> {
        match self.token()? {
            Token::Number(number) => Ok(number),
            token => Err(mismatch(token, wanted)),
        }
    }

    /// Consumes the next value if it is null.
    fn take_null(&mut self) -> Result<bool, ReadError> {
        self.enter_json()?;
        match self.encoding {
            Encoding::Json if self.json.peek()? == b'n' => self.json.word("null").map(|()| true),
            Encoding::Json => Ok(false),
            Encoding::Protobuf => self.protobuf.take_null(),
        }
    }

    fn skip(&mut self) -> Result<(), ReadError> {
        match self.encoding {
            Encoding::Json => self.json.skip(),
            // The next value replaces it.
            Encoding::Protobuf => Ok(()),
        }
    }

    /// Continues with the JSON that the next value is, if it is JSON in a protobuf message.
    #[inline]
    fn enter_json(&mut self) -> Result<(), ReadError> {
        if self.encoding == Encoding::Protobuf
            && let Some(text) = self.protobuf.json()
        {
            self.json = json::Cursor::scan(text, self.protobuf.depth())?;
            self.encoding = Encoding::Json;
        }
        Ok(())
    }

    /// Continues with the protobuf message after JSON that was inside of it.
    #[inline]
    fn leave_json(&mut self) -> Result<(), ReadError> {
        if self.encoding == Encoding::Json {
            self.encoding = Encoding::Protobuf;
            self.json.end()?;
        }
        Ok(())
    }

    /// Returns the bytes of the next value as a packed object.
    fn pack(&mut self) -> Result<Vec<u8>, ReadError> {
        self.enter_json()?;
        match self.encoding {
            Encoding::Json => self.pack_json(),
            Encoding::Protobuf => self.pack_message(),
        }
    }

    fn pack_json(&mut self) -> Result<Vec<u8>, ReadError> {
        self.json.peek()?;
        let (start, role) = (self.json.at(), self.role);
        let Identified { metadata } = Identified::deserialize(&mut *self)?;
        self.json.rewind(start);
        let managed = if role == Role::Root { self.json.managed_fields()? } else { Vec::new() };
        let body = json::compact(self.json.take_value()?, &managed);
        let parts = PackedParts {
            message: None,
            types: None,
            header: metadata.header(),
            is_compressed: false,
            body: &body,
        };
        Ok(parts.write())
    }

    fn pack_message(&mut self) -> Result<Vec<u8>, ReadError> {
        let Some((object, known_only)) = self.protobuf.message() else {
            return Err(ReadError::new("not an object", None));
        };
        let protobuf::MessageValue { message, bytes, role, types } = object;
        protobuf::check(message, bytes, known_only)?;
        let mut reader = Reader::protobuf(protobuf::Cursor::new(message, bytes, Role::Root, None));
        let Identified { metadata } = Identified::deserialize(&mut reader)?;
        let body = protobuf::split(message, bytes, role != Role::Root)?;
        let parts = PackedParts {
            message: Some(message),
            types,
            header: metadata.header(),
            is_compressed: false,
            body: &body,
        };
        Ok(parts.write())
    }

    fn enter_map(&mut self) -> Result<MapState<'de>, ReadError> {
        let role = std::mem::take(&mut self.role);
        match self.encoding {
            Encoding::Json => {
                self.json.enter()?;
                Ok(MapState::Json { role, first: true, key: 0 })
            }
            Encoding::Protobuf => self.protobuf.enter().map(|()| MapState::Protobuf { key: "" }),
        }
    }

    fn leave_map(&mut self, encoding: Encoding) -> Result<(), ReadError> {
        match encoding {
            Encoding::Json => self.json.leave(b'}'),
            Encoding::Protobuf => {
                self.leave_json()?;
                self.protobuf.leave();
                Ok(())
            }
        }
    }

    /// Moves to the next member of a map, and returns its key. Returns `None` at the end.
    fn next_key(&mut self, state: &mut MapState<'de>) -> Result<Option<Text<'de, '_>>, ReadError> {
        match state {
            MapState::Json { role, first, key } => {
                let mut more = self.json.next_key(*first)?;
                *first = false;
                while more && *role == Role::Metadata && self.json.key_is("managedFields")? {
                    self.json.skip()?;
                    self.json.expect(b':')?;
                    self.json.skip()?;
                    more = self.json.next_key(false)?;
                }
                if !more {
                    return Ok(None);
                }
                let is_metadata = *role == Role::Root && self.json.key_is("metadata")?;
                self.role = if is_metadata { Role::Metadata } else { Role::Plain };
                *key = self.json.at();
                self.json.string().and_then(checked).map(Some)
            }
            MapState::Protobuf { key } => {
                self.leave_json()?;
                let name = self.protobuf.next_key()?.map(checked).transpose()?;
                if let Some(Text::Borrowed(name)) = name {
                    *key = name;
                }
                Ok(name)
            }
        }
    }

    /// Moves from the key of a member to its value.
    #[inline]
    fn next_value(&mut self, state: &MapState<'de>) -> Result<(), ReadError> {
        match state {
            MapState::Json { .. } => self.json.expect(b':'),
            MapState::Protobuf { .. } => Ok(()),
        }
    }

    /// Starts a sequence, and returns its encoding.
    fn enter_seq(&mut self) -> Result<Encoding, ReadError> {
        self.role = Role::Plain;
        match self.encoding {
            Encoding::Json => self.json.enter()?,
            Encoding::Protobuf => self.protobuf.enter()?,
        }
        Ok(self.encoding)
    }

    fn leave_seq(&mut self, encoding: Encoding) -> Result<(), ReadError> {
        match encoding {
            Encoding::Json => self.json.leave(b']'),
            Encoding::Protobuf => self.leave_map(Encoding::Protobuf),
        }
    }

    /// Moves to the next element of a sequence. Returns false at the end.
    fn next_element(&mut self, encoding: Encoding, index: usize) -> Result<bool, ReadError> {
        match encoding {
            Encoding::Json => self.json.next(index == 0, b']'),
            Encoding::Protobuf => {
                self.leave_json()?;
                self.protobuf.next_element()
            }
        }
    }

    /// Returns a lower bound of the number of elements of a sequence that was just entered.
    fn elements_ahead(&self, encoding: Encoding) -> usize {
        match encoding {
            Encoding::Json => self.json.elements_ahead(),
            Encoding::Protobuf => self.protobuf.count(),
        }
    }

    /// Adds the position to an error that does not know it: those of the type come without.
    #[cold]
    fn positioned(&self, error: ReadError) -> ReadError {
        match self.encoding {
            Encoding::Json => error.or_at(self.json.at()),
            Encoding::Protobuf => error,
        }
    }

    /// Adds a member to the path of an error in its value.
    #[cold]
    fn within_member(&mut self, state: &MapState<'de>, error: ReadError) -> ReadError {
        let error = self.positioned(error);
        match state {
            MapState::Json { key, .. } => error.in_member(&self.json.key_at(*key)),
            MapState::Protobuf { key } => error.in_member(key),
        }
    }

    #[inline]
    fn visit_text<V: Visitor<'de>>(&mut self, visitor: V) -> Result<V::Value, ReadError> {
        match self.text(&visitor)? {
            Text::Borrowed(text) => visitor.visit_borrowed_str(text),
            Text::Composed(text) => visitor.visit_str(text),
        }
    }

    #[inline]
    fn visit_number<V: Visitor<'de>>(&mut self, visitor: V) -> Result<V::Value, ReadError> {
        match self.number(&visitor)? {
            Number::Unsigned(number) => visitor.visit_u64(number),
            Number::Signed(number) => visitor.visit_i64(number),
            Number::Float(number) => visitor.visit_f64(number),
        }
    }

    #[inline]
    fn visit_map<V: Visitor<'de>>(&mut self, visitor: V) -> Result<V::Value, ReadError> {
        let state = self.enter_map()?;
        let encoding = state.encoding();
        let value = visitor.visit_map(Entries { reader: self, state })?;
        self.leave_map(encoding)?;
        Ok(value)
    }

    #[inline]
    fn visit_seq<V: Visitor<'de>>(&mut self, visitor: V) -> Result<V::Value, ReadError> {
        let encoding = self.enter_seq()?;
        let value = visitor.visit_seq(Elements { reader: self, encoding, next: 0 })?;
        self.leave_seq(encoding)?;
        Ok(value)
    }
}

/// Returns a key, unless serde_json's values give it a meaning: with the feature `raw_value`, which
/// any crate of a program may enable, they parse the text of that key as JSON again, with a depth
/// limit of its own, and nested texts overflow the stack. No object of Kubernetes has such keys.
fn checked<'de, 's>(key: Text<'de, 's>) -> Result<Text<'de, 's>, ReadError> {
    match key.as_str().starts_with("$serde_json::private::") {
        true => Err(ReadError::new("a key that is reserved by serde_json", None)),
        false => Ok(key),
    }
}

/// Returns an error that names the actual value and the expected one.
#[cold]
fn mismatch(token: Token<'_, '_>, wanted: &dyn Expected) -> ReadError {
    serde::de::Error::invalid_type(token.unexpected(), wanted)
}

/// Defines methods that visit one kind of value.
macro_rules! deserialize_with {
    ($($visit:ident => $($method:ident)*,)*) => {$($(
        #[inline]
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
            self.$visit(visitor)
        }
    )*)*};
}

impl<'de> Deserializer<'de> for &mut Reader<'de> {
    type Error = ReadError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        match self.token()? {
            Token::Null => visitor.visit_unit(),
            Token::Bool(value) => visitor.visit_bool(value),
            Token::Number(Number::Unsigned(number)) => visitor.visit_u64(number),
            Token::Number(Number::Signed(number)) => visitor.visit_i64(number),
            Token::Number(Number::Float(number)) => visitor.visit_f64(number),
            Token::Text(Text::Borrowed(text)) => visitor.visit_borrowed_str(text),
            Token::Text(Text::Composed(text)) => visitor.visit_str(text),
            Token::Map => self.visit_map(visitor),
            Token::Seq => self.visit_seq(visitor),
        }
    }

    deserialize_with! {
        visit_text => deserialize_str deserialize_string deserialize_char deserialize_identifier,
        visit_number => deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64 deserialize_i128
            deserialize_u8 deserialize_u16 deserialize_u32 deserialize_u64 deserialize_u128
            deserialize_f32 deserialize_f64,
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        match self.token()? {
            Token::Map => self.visit_map(visitor),
            token => Err(mismatch(token, &visitor)),
        }
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        match self.token()? {
            Token::Seq => self.visit_seq(visitor),
            token => Err(mismatch(token, &visitor)),
        }
    }

    #[inline]
    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, ReadError> {
        match self.token()? {
            Token::Map => self.visit_map(visitor),
            Token::Seq => self.visit_seq(visitor),
            token => Err(mismatch(token, &visitor)),
        }
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        match self.token()? {
            Token::Bool(value) => visitor.visit_bool(value),
            token => Err(mismatch(token, &visitor)),
        }
    }

    fn deserialize_unit<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        match self.token()? {
            Token::Null => visitor.visit_unit(),
            token => Err(mismatch(token, &visitor)),
        }
    }

    #[inline]
    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        if self.take_null()? { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    #[inline]
    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, ReadError> {
        if name == PACKED {
            return visitor.visit_byte_buf(self.pack()?);
        }
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, ReadError> {
        match self.token()? {
            Token::Text(text) => visitor.visit_enum(UnitOnly(text)),
            Token::Map => {
                self.role = Role::Plain;
                let state = self.enter_map()?;
                let encoding = state.encoding();
                let value = visitor.visit_enum(OneOf { reader: self, state })?;
                self.leave_map(encoding)?;
                Ok(value)
            }
            token => Err(mismatch(token, &visitor)),
        }
    }

    /// The value is ignored, so it is not parsed.
    #[inline]
    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        self.skip()?;
        visitor.visit_unit()
    }

    fn deserialize_bytes<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        match self.token()? {
            Token::Text(text) => visitor.visit_bytes(text.as_str().as_bytes()),
            Token::Seq => self.visit_seq(visitor),
            token => Err(mismatch(token, &visitor)),
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

/// The position in a map.
#[derive(Debug)]
enum MapState<'de> {
    Json {
        role: Role,
        first: bool,
        /// The position of the last key.
        key: usize,
    },
    Protobuf {
        /// The last key that is UTF-8.
        key: &'de str,
    },
}

impl MapState<'_> {
    fn encoding(&self) -> Encoding {
        match self {
            Self::Json { .. } => Encoding::Json,
            Self::Protobuf { .. } => Encoding::Protobuf,
        }
    }
}

/// The members of a map, one by one.
struct Entries<'r, 'de> {
    reader: &'r mut Reader<'de>,
    state: MapState<'de>,
}

impl<'de> MapAccess<'de> for Entries<'_, 'de> {
    type Error = ReadError;

    #[inline]
    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, ReadError> {
        match self.reader.next_key(&mut self.state)? {
            Some(key) => seed.deserialize(Key(key)).map(Some),
            None => Ok(None),
        }
    }

    #[inline]
    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, ReadError> {
        self.reader.next_value(&self.state)?;
        seed.deserialize(&mut *self.reader).map_err(|error| self.reader.within_member(&self.state, error))
    }
}

/// The elements of a sequence, one by one.
struct Elements<'r, 'de> {
    reader: &'r mut Reader<'de>,
    encoding: Encoding,
    /// The index of the next element.
    next: usize,
}

impl<'de> SeqAccess<'de> for Elements<'_, 'de> {
    type Error = ReadError;

    #[inline]
    fn next_element_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, ReadError> {
        if !self.reader.next_element(self.encoding, self.next)? {
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
        (self.next == 0).then(|| self.reader.elements_ahead(self.encoding))
    }
}

/// A variant written as an object of one member: `{"Name": content}`.
struct OneOf<'r, 'de> {
    reader: &'r mut Reader<'de>,
    state: MapState<'de>,
}

impl<'de> EnumAccess<'de> for OneOf<'_, 'de> {
    type Error = ReadError;
    type Variant = Self;

    fn variant_seed<S: DeserializeSeed<'de>>(mut self, seed: S) -> Result<(S::Value, Self), ReadError> {
        let Some(key) = self.reader.next_key(&mut self.state)? else {
            return Err(ReadError::new("expected the name of a variant", None));
        };
        let name = seed.deserialize(Key(key))?;
        self.reader.next_value(&self.state)?;
        Ok((name, self))
    }
}

impl<'de> VariantAccess<'de> for OneOf<'_, 'de> {
    type Error = ReadError;

    fn unit_variant(self) -> Result<(), ReadError> {
        serde::Deserialize::deserialize(self.reader)
    }

    fn newtype_variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<S::Value, ReadError> {
        seed.deserialize(self.reader)
    }

    fn tuple_variant<V: Visitor<'de>>(self, _length: usize, visitor: V) -> Result<V::Value, ReadError> {
        self.reader.deserialize_seq(visitor)
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        _fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, ReadError> {
        self.reader.deserialize_struct("", &[], visitor)
    }
}
