//! The memory of a decoded object, for the caches of the demo.
//!
//! A decoded object is a tree of structs, strings, lists and maps, and its `Serialize` visits all
//! of it: so this serializer adds up what the parts take instead of writing them. It does not see
//! spare capacity, what the allocator adds, nor the room for absent fields of structs in lists.

use std::collections::BTreeMap;
use std::fmt::Display;

use serde::Serialize;
use serde::de::value::Error;
use serde::ser::{
    SerializeMap, SerializeSeq, SerializeStruct, SerializeStructVariant, SerializeTuple,
    SerializeTupleStruct, SerializeTupleVariant, Serializer,
};

/// Returns the memory of an object: of its struct, and of everything that it points to.
pub(super) fn decoded_size<T: Serialize>(object: &T) -> usize {
    size_of::<T>().saturating_add(object.serialize(Measure).unwrap_or_default().pointed_to)
}

/// Measures one value.
struct Measure;

/// The memory of a value.
#[derive(Clone, Copy, Default)]
struct Size {
    /// The value itself, where it is.
    own: usize,
    /// The memory that it points to.
    pointed_to: usize,
}

impl Size {
    /// Returns the size of a value of this type that points to this many bytes.
    fn of<T>(pointed_to: usize) -> Self {
        Self { own: size_of::<T>(), pointed_to }
    }

    /// Adds a part that is inside the value.
    fn add_inline<T: Serialize + ?Sized>(&mut self, part: &T) -> Result<(), Error> {
        let part = part.serialize(Measure)?;
        self.own = self.own.saturating_add(part.own);
        self.pointed_to = self.pointed_to.saturating_add(part.pointed_to);
        Ok(())
    }

    /// Adds a part in memory of its own: an element of a list, a key or a value of a map.
    fn add_element<T: Serialize + ?Sized>(&mut self, part: &T) -> Result<(), Error> {
        // Not the size of `T`, which is that of a reference to the element.
        let part = part.serialize(Measure)?;
        self.pointed_to = self.pointed_to.saturating_add(part.own).saturating_add(part.pointed_to);
        Ok(())
    }
}

/// Implements methods for types that point to nothing.
macro_rules! scalars {
    ($($method:ident($type:ty);)*) => {
        $(fn $method(self, _: $type) -> Result<Size, Error> {
            Ok(Size::of::<$type>(0))
        })*
    };
}

impl Serializer for Measure {
    type Ok = Size;
    type Error = Error;
    type SerializeSeq = Size;
    type SerializeTuple = Size;
    type SerializeTupleStruct = Size;
    type SerializeTupleVariant = Size;
    type SerializeMap = Size;
    type SerializeStruct = Size;
    type SerializeStructVariant = Size;

    scalars! {
        serialize_bool(bool);
        serialize_i8(i8);
        serialize_i16(i16);
        serialize_i32(i32);
        serialize_i64(i64);
        serialize_u8(u8);
        serialize_u16(u16);
        serialize_u32(u32);
        serialize_u64(u64);
        serialize_f32(f32);
        serialize_f64(f64);
        serialize_char(char);
    }

    fn serialize_none(self) -> Result<Size, Error> {
        Ok(Size::default())
    }

    fn serialize_unit(self) -> Result<Size, Error> {
        Ok(Size::default())
    }

    fn serialize_unit_struct(self, _: &'static str) -> Result<Size, Error> {
        Ok(Size::default())
    }

    fn serialize_unit_variant(self, _: &'static str, _: u32, _: &'static str) -> Result<Size, Error> {
        Ok(Size::of::<u8>(0))
    }

    fn serialize_str(self, text: &str) -> Result<Size, Error> {
        Ok(Size::of::<String>(text.len()))
    }

    fn serialize_bytes(self, bytes: &[u8]) -> Result<Size, Error> {
        Ok(Size::of::<Vec<u8>>(bytes.len()))
    }

    /// A time, for example, which is written as text and held as a number.
    fn collect_str<T: Display + ?Sized>(self, _: &T) -> Result<Size, Error> {
        Ok(Size::of::<u128>(0))
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<Size, Error> {
        value.serialize(Measure)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        value: &T,
    ) -> Result<Size, Error> {
        value.serialize(Measure)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        value: &T,
    ) -> Result<Size, Error> {
        value.serialize(Measure)
    }

    fn serialize_seq(self, _: Option<usize>) -> Result<Size, Error> {
        Ok(Size::of::<Vec<()>>(0))
    }

    fn serialize_tuple(self, _: usize) -> Result<Size, Error> {
        Ok(Size::default())
    }

    fn serialize_tuple_struct(self, _: &'static str, _: usize) -> Result<Size, Error> {
        Ok(Size::default())
    }

    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Size, Error> {
        Ok(Size::default())
    }

    fn serialize_map(self, _: Option<usize>) -> Result<Size, Error> {
        Ok(Size::of::<BTreeMap<(), ()>>(0))
    }

    fn serialize_struct(self, _: &'static str, _: usize) -> Result<Size, Error> {
        Ok(Size::default())
    }

    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Size, Error> {
        Ok(Size::default())
    }
}

/// Implements a trait for [`Size`]: its method, the method of `Size` that it calls, and the names
/// of its arguments before the value.
macro_rules! sum {
    ($($interface:ident: $method:ident($($name:ident: $type:ty),*) => $add:ident;)*) => {
        $(impl $interface for Size {
            type Ok = Size;
            type Error = Error;

            fn $method<T: Serialize + ?Sized>(&mut self $(, $name: $type)*, value: &T) -> Result<(), Error> {
                self.$add(value)
            }

            fn end(self) -> Result<Size, Error> {
                Ok(self)
            }
        })*
    };
}

sum! {
    SerializeSeq: serialize_element() => add_element;
    SerializeTuple: serialize_element() => add_inline;
    SerializeTupleStruct: serialize_field() => add_inline;
    SerializeTupleVariant: serialize_field() => add_inline;
    SerializeStruct: serialize_field(_name: &'static str) => add_inline;
    SerializeStructVariant: serialize_field(_name: &'static str) => add_inline;
}

impl SerializeMap for Size {
    type Ok = Size;
    type Error = Error;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), Error> {
        self.add_element(key)
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
        self.add_element(value)
    }

    fn end(self) -> Result<Size, Error> {
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default, Serialize)]
    struct Part {
        text: String,
        number: u64,
    }

    #[derive(Default, Serialize)]
    struct Whole {
        part: Option<Part>,
        parts: Vec<Part>,
        labels: BTreeMap<String, String>,
    }

    #[test]
    fn lists_maps_and_texts_count_where_they_are() {
        let part = |text: &str| Part { text: text.to_owned(), number: 7 };
        assert_eq!(decoded_size(&Whole::default()), size_of::<Whole>());
        let whole = Whole {
            // Its struct is inside the other.
            part: Some(part("12345")),
            parts: vec![part("a"), part("bc")],
            labels: [("key".to_owned(), "value".to_owned())].into(),
        };
        let lists = 2 * size_of::<Part>() + "abc".len();
        let labels = 2 * size_of::<String>() + "keyvalue".len();
        assert_eq!(decoded_size(&whole), size_of::<Whole>() + "12345".len() + lists + labels);
    }
}
