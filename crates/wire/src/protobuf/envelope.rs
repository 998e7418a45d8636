//! The envelope of a protobuf body: the kind of an object, and its message.

use dogwatch_core::ResourceVersion;

use super::fields::{Fields, malformed};
use crate::bad_item::UndecodableItem;
use crate::read_error::ReadError;

/// The envelope of a protobuf body: the kind of an object, and its message. Objects and lists have
/// one; the items of a list do not.
///
/// ```
/// use dogwatch_wire::Envelope;
///
/// let body = b"k8s\0\x0a\x09\x0a\x02v1\x12\x03Pod\x12\x00";
/// let envelope = Envelope::read(body)?;
/// assert_eq!((envelope.api_version, envelope.kind), ("v1", "Pod"));
/// # Ok::<(), dogwatch_wire::UndecodableItem>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Envelope<'de> {
    /// The API version, such as `apps/v1`.
    pub api_version: &'de str,
    /// The kind, such as `Deployment`.
    pub kind: &'de str,
    /// The message of the object.
    pub message: &'de [u8],
}

impl<'de> Envelope<'de> {
    /// The bytes with which every body starts.
    pub const MAGIC: &'static [u8] = b"k8s\0";

    /// Reads an envelope with its object, whose message is not examined.
    ///
    /// # Errors
    /// Returns an error if the bytes do not start with [`Self::MAGIC`], or are not an envelope.
    pub fn read(body: &'de [u8]) -> Result<Self, UndecodableItem> {
        Self::parse(body).map_err(|error| UndecodableItem {
            key: None,
            version: ResourceVersion::default(),
            event: None,
            path: String::new(),
            reason: error.reason(0),
        })
    }

    pub(crate) fn parse(body: &'de [u8]) -> Result<Self, ReadError> {
        let Some(body) = body.strip_prefix(Self::MAGIC) else {
            return Err(malformed("the body does not start with the bytes 6b 38 73 00"));
        };
        let mut envelope = Self::default();
        let mut fields = Fields::new(body);
        while let Some((number, raw)) = fields.next()? {
            match number {
                1 => envelope.read_type(raw.bytes()?)?,
                2 => envelope.message = raw.bytes()?,
                _ => {}
            }
        }
        Ok(envelope)
    }

    /// Reads the part of the envelope with the API version and the kind.
    pub(crate) fn read_type(&mut self, bytes: &'de [u8]) -> Result<(), ReadError> {
        let mut fields = Fields::new(bytes);
        while let Some((number, raw)) = fields.next()? {
            match number {
                1 => self.api_version = raw.text()?,
                2 => self.kind = raw.text()?,
                _ => {}
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_envelope_has_a_kind_and_a_message() {
        let body = b"k8s\0\x0a\x0b\x0a\x02v1\x12\x05Event\x12\x02\x08\x01\x1a\x00";
        let envelope = Envelope::read(body).expect("an envelope");
        assert_eq!(envelope, Envelope { api_version: "v1", kind: "Event", message: &[8, 1] });
        for bad in [&b"k8s"[..], b"{}", b"", b"k8s\0\x0a\xff", b"k8s\0\x08\x01\x0a"] {
            assert!(Envelope::read(bad).is_err(), "{bad:?}");
        }
    }
}
