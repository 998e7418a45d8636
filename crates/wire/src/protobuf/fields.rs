//! The wire format: a message is a sequence of fields, each a number and a value.

use crate::read_error::ReadError;

/// Reads the fields of a message one by one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fields<'de> {
    rest: &'de [u8],
}

/// The value of a field, by its wire type.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Raw<'de> {
    /// An integer or a boolean.
    Varint(u64),
    /// Eight bytes.
    Fixed64(u64),
    /// Four bytes.
    Fixed32(u32),
    /// A string, bytes or a message.
    Bytes(&'de [u8]),
}

impl<'de> Fields<'de> {
    #[inline]
    pub(crate) fn new(message: &'de [u8]) -> Self {
        Self { rest: message }
    }

    /// Returns the bytes that have not been read.
    #[inline]
    pub(crate) fn rest(&self) -> &'de [u8] {
        self.rest
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// Returns the number and the value of the next field; `None` at the end of the message.
    #[inline]
    pub(crate) fn next(&mut self) -> Result<Option<(u32, Raw<'de>)>, ReadError> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let tag = self.varint()?;
        let number = u32::try_from(tag >> 3).map_err(|_| malformed("a field number is out of range"))?;
        let raw = match tag & 7 {
            0 => Raw::Varint(self.varint()?),
            1 => Raw::Fixed64(u64::from_le_bytes(self.array()?)),
            2 => {
                let length = usize::try_from(self.varint()?).map_err(|_| short())?;
                Raw::Bytes(self.take(length)?)
            }
            5 => Raw::Fixed32(u32::from_le_bytes(self.array()?)),
            _ => return Err(malformed("an unknown wire type")),
        };
        Ok(Some((number, raw)))
    }

    /// Skips the fields with this number that follow directly. Returns how many there were.
    pub(crate) fn skip_all(&mut self, number: u32) -> Result<usize, ReadError> {
        let mut count = 0;
        loop {
            let before = self.rest;
            match self.next()? {
                Some((next, _)) if next == number => count += 1,
                _ => {
                    self.rest = before;
                    return Ok(count);
                }
            }
        }
    }

    /// Reads one integer, of a field that holds several without their numbers.
    pub(crate) fn varint(&mut self) -> Result<u64, ReadError> {
        // Most are tags and lengths of one byte.
        if let [byte @ ..0x80, rest @ ..] = self.rest {
            self.rest = rest;
            return Ok((*byte).into());
        }
        match varint(self.rest)? {
            Some((value, length)) => {
                self.rest = &self.rest[length..];
                Ok(value)
            }
            None => Err(short()),
        }
    }

    /// Reads one float, of a field that holds several without their numbers.
    pub(crate) fn fixed64(&mut self) -> Result<u64, ReadError> {
        self.array().map(u64::from_le_bytes)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], ReadError> {
        let (bytes, rest) = self.rest.split_first_chunk().ok_or_else(short)?;
        self.rest = rest;
        Ok(*bytes)
    }

    #[inline]
    fn take(&mut self, length: usize) -> Result<&'de [u8], ReadError> {
        let (bytes, rest) = self.rest.split_at_checked(length).ok_or_else(short)?;
        self.rest = rest;
        Ok(bytes)
    }
}

/// Reads the integer at the start of `bytes`, and returns it with its length. Returns `None` if
/// more bytes are needed.
///
/// # Errors
/// Returns an error if it has more than 64 bits.
pub(crate) fn varint(bytes: &[u8]) -> Result<Option<(u64, usize)>, ReadError> {
    let mut value = 0_u64;
    for (index, byte) in bytes.iter().enumerate().take(10) {
        value |= u64::from(byte & 0x7f) << (7 * index);
        if *byte < 0x80 {
            return if index == 9 && *byte > 1 { Err(too_long()) } else { Ok(Some((value, index + 1))) };
        }
    }
    if bytes.len() < 10 { Ok(None) } else { Err(too_long()) }
}

impl<'de> Raw<'de> {
    #[inline]
    pub(crate) fn bytes(self) -> Result<&'de [u8], ReadError> {
        match self {
            Self::Bytes(bytes) => Ok(bytes),
            _ => Err(wrong_type()),
        }
    }

    #[inline]
    pub(crate) fn text(self) -> Result<&'de str, ReadError> {
        std::str::from_utf8(self.bytes()?).map_err(|_| malformed("invalid UTF-8 in a string"))
    }

    #[inline]
    pub(crate) fn integer(self) -> Result<i64, ReadError> {
        match self {
            Self::Varint(value) => Ok(value.cast_signed()),
            _ => Err(wrong_type()),
        }
    }

    pub(crate) fn double(self) -> Result<f64, ReadError> {
        match self {
            Self::Fixed64(bits) => Ok(f64::from_bits(bits)),
            _ => Err(wrong_type()),
        }
    }

    /// Returns true for the value that Go considers empty.
    #[inline]
    pub(crate) fn is_zero(self) -> bool {
        match self {
            Self::Varint(value) | Self::Fixed64(value) => value == 0,
            Self::Fixed32(value) => value == 0,
            Self::Bytes(bytes) => bytes.is_empty(),
        }
    }
}

#[cold]
pub(super) fn malformed(what: &str) -> ReadError {
    ReadError::new(format_args!("malformed protobuf: {what}"), None)
}

#[cold]
fn short() -> ReadError {
    malformed("a field ends after its message")
}

#[cold]
fn too_long() -> ReadError {
    malformed("an integer has more than 64 bits")
}

#[cold]
fn wrong_type() -> ReadError {
    malformed("a field has the wire type of another field")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_have_up_to_64_bits() {
        for (bytes, expected) in [
            (&[0][..], Some((0, 1))),
            (&[0x96, 0x01, 0x07], Some((150, 2))),
            (&[0xff; 9], None),
            (&[], None),
            (&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01], Some((u64::MAX, 10))),
        ] {
            assert_eq!(varint(bytes).expect("valid"), expected, "{bytes:?}");
        }
        assert!(varint(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02]).is_err());
        assert!(varint(&[0xff; 10]).is_err());
    }

    #[test]
    fn fields_of_each_wire_type_are_read() {
        let message = [0x08, 0x05, 0x12, 0x01, b'x', 0x19, 1, 0, 0, 0, 0, 0, 0, 0, 0x25, 2, 0, 0, 0];
        let mut fields = Fields::new(&message);
        let mut read = Vec::new();
        while let Some(field) = fields.next().expect("a field") {
            read.push(field);
        }
        assert_eq!(
            read,
            [(1, Raw::Varint(5)), (2, Raw::Bytes(b"x")), (3, Raw::Fixed64(1)), (4, Raw::Fixed32(2))]
        );
        for message in [&[0x12, 5, 1][..], &[0x08], &[0x0b], &[0x19, 1], &[0x80]] {
            let mut fields = Fields::new(message);
            assert!(fields.next().is_err(), "{message:?}");
        }
    }

    #[test]
    fn a_run_of_one_field_is_skipped_and_counted() {
        let message = [0x08, 1, 0x08, 2, 0x10, 3, 0x08, 4];
        let mut fields = Fields::new(&message);
        assert_eq!(fields.skip_all(1).expect("valid"), 2);
        assert_eq!(fields.rest(), &message[4..]);
    }
}
