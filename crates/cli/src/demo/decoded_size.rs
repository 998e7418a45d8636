//! The memory of a decoded object, for the caches of the demo.
//!
//! A decoded object is a tree of structs, strings, lists and maps, and its `Serialize` visits all of
//! it: so this serializer adds up what the parts take instead of writing them. It does not see spare
//! capacity, nor what the allocator adds.

use std::fmt::Display;

use serde::Serialize;
use serde::de::value::Error;
use serde::ser::{
    SerializeMap, SerializeSeq, SerializeStruct, SerializeStructVariant, SerializeTuple,
    SerializeTupleStruct, SerializeTupleVariant, Serializer,
};

/// Returns the memory of an object: of its struct, and of everything that it points to.
pub(super) fn decoded_size<T: Serialize>(object: &T) -> usize {
    size_of::<T>().saturating_add(pointed_to(object).unwrap_or_default())
}

/// Returns the memory that a value points to, without the value itself.
fn pointed_to<T: Serialize + ?Sized>(value: &T) -> Result<usize, Error> {
    value.serialize(PointedTo)
}

/// Adds up the memory that one value points to.
struct PointedTo;

/// The sum of the parts of a value.
#[derive(Default)]
struct Sum(usize);

impl Sum {
    /// Adds a part that is inside the value.
    fn add_inline<T: Serialize + ?Sized>(&mut self, part: &T) -> Result<(), Error> {
        self.0 = self.0.saturating_add(pointed_to(part)?);
        Ok(())
    }

    /// Adds a part in memory of its own: an element of a list, a key or a value of a map.
    fn add_element<T: Serialize + ?Sized>(&mut self, part: &T) -> Result<(), Error> {
        self.0 = self.0.saturating_add(size_of_val(part));
        self.add_inline(part)
    }
}

/// Implements methods for types that point to nothing.
macro_rules! nothing {
    ($($method:ident($($type:ty),*);)*) => {
        $(fn $method(self $(, _: $type)*) -> Result<usize, Error> {
            Ok(0)
        })*
    };
}

impl Serializer for PointedTo {
    type Ok = usize;
    type Error = Error;
    type SerializeSeq = Sum;
    type SerializeTuple = Sum;
    type SerializeTupleStruct = Sum;
    type SerializeTupleVariant = Sum;
    type SerializeMap = Sum;
    type SerializeStruct = Sum;
    type SerializeStructVariant = Sum;

    nothing! {
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
        serialize_none();
        serialize_unit();
        serialize_unit_struct(&'static str);
        serialize_unit_variant(&'static str, u32, &'static str);
    }

    fn serialize_str(self, text: &str) -> Result<usize, Error> {
        Ok(text.len())
    }

    fn serialize_bytes(self, bytes: &[u8]) -> Result<usize, Error> {
        Ok(bytes.len())
    }

    /// A time, for example, which is written as text and held as a number.
    fn collect_str<T: Display + ?Sized>(self, _: &T) -> Result<usize, Error> {
        Ok(0)
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<usize, Error> {
        pointed_to(value)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        value: &T,
    ) -> Result<usize, Error> {
        pointed_to(value)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        value: &T,
    ) -> Result<usize, Error> {
        pointed_to(value)
    }

    fn serialize_seq(self, _: Option<usize>) -> Result<Sum, Error> {
        Ok(Sum::default())
    }

    fn serialize_tuple(self, _: usize) -> Result<Sum, Error> {
        Ok(Sum::default())
    }

    fn serialize_tuple_struct(self, _: &'static str, _: usize) -> Result<Sum, Error> {
        Ok(Sum::default())
    }

    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Sum, Error> {
        Ok(Sum::default())
    }

    fn serialize_map(self, _: Option<usize>) -> Result<Sum, Error> {
        Ok(Sum::default())
    }

    fn serialize_struct(self, _: &'static str, _: usize) -> Result<Sum, Error> {
        Ok(Sum::default())
    }

    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Sum, Error> {
        Ok(Sum::default())
    }
}

/// Implements a trait for [`Sum`]: its method, the method of `Sum` that it calls, and the names of
/// its arguments before the value.
macro_rules! sum {
    ($($interface:ident: $method:ident($($name:ident: $type:ty),*) => $add:ident;)*) => {
        $(impl $interface for Sum {
            type Ok = usize;
            type Error = Error;

            fn $method<T: Serialize + ?Sized>(&mut self $(, $name: $type)*, value: &T) -> Result<(), Error> {
                self.$add(value)
            }

            fn end(self) -> Result<usize, Error> {
                Ok(self.0)
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

impl SerializeMap for Sum {
    type Ok = usize;
    type Error = Error;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), Error> {
        self.add_element(key)
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
        self.add_element(value)
    }

    fn end(self) -> Result<usize, Error> {
        Ok(self.0)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

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
