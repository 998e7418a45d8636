//! The bytes of a packed object: its metadata, which can be borrowed, and the rest in the encoding
//! in which the server sent it.
//!
//! ```text
//! flags │ message number │ API version, kind │ header │ body
//!         protobuf only    if there are any
//! ```
//!
//! In JSON, the body is the object without white space. In protobuf, it is the message without the
//! parts of the metadata that are in the header (`protobuf/metadata.rs`).

use dogwatch_core::Header;

const PROTOBUF: u8 = 1;
const TYPED: u8 = 2;
const COMPRESSED: u8 = 4;

/// A packed object.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PackedParts<'a> {
    /// The protobuf message of the object; `None` in JSON.
    pub(crate) message: Option<u16>,
    /// The API version and the kind, if they are not in the body.
    pub(crate) types: Option<(&'a str, &'a str)>,
    pub(crate) header: Header<'a>,
    pub(crate) is_compressed: bool,
    pub(crate) body: &'a [u8],
}

impl<'a> PackedParts<'a> {
    /// Returns the bytes of the packed object.
    pub(crate) fn write(&self) -> Vec<u8> {
        let types = self.types.and_then(|it| Some((it, [length(it.0)?, length(it.1)?])));
        let mut flags = 0;
        flags |= if self.message.is_some() { PROTOBUF } else { 0 };
        flags |= if types.is_some() { TYPED } else { 0 };
        flags |= if self.is_compressed { COMPRESSED } else { 0 };
        // The header of most objects is smaller.
        let mut out = Vec::with_capacity(self.body.len() + 512);
        out.push(flags);
        if let Some(message) = self.message {
            out.extend_from_slice(&message.to_le_bytes());
        }
        if let Some(((api_version, kind), lengths)) = types {
            out.extend_from_slice(&lengths);
            out.extend_from_slice(api_version.as_bytes());
            out.extend_from_slice(kind.as_bytes());
        }
        self.header.write(&mut out);
        out.extend_from_slice(self.body);
        out
    }

    /// Reads the bytes of a packed object. Returns `None` if they are something else.
    pub(crate) fn read(bytes: &'a [u8]) -> Option<Self> {
        let (flags, mut rest) = bytes.split_first()?;
        let (mut message, mut types) = (None, None);
        if flags & PROTOBUF != 0 {
            let (number, after) = rest.split_first_chunk()?;
            (message, rest) = (Some(u16::from_le_bytes(*number)), after);
        }
        if flags & TYPED != 0 {
            let ([first, second], after) = rest.split_first_chunk()?;
            let (api_version, after) = after.split_at_checked((*first).into())?;
            let (kind, after) = after.split_at_checked((*second).into())?;
            let text = |bytes| std::str::from_utf8(bytes).ok();
            (types, rest) = (Some((text(api_version)?, text(kind)?)), after);
        }
        let (header, body) = Header::read(rest)?;
        Some(Self { message, types, header, is_compressed: flags & COMPRESSED != 0, body })
    }
}

/// Returns the length of an API version or a kind. Those of the API are short.
fn length(text: &str) -> Option<u8> {
    u8::try_from(text.len()).ok()
}

#[cfg(test)]
mod tests {
    use dogwatch_core::Meta;

    use super::*;

    #[test]
    fn parts_are_the_same_after_writing_and_reading() {
        let mut meta = Meta::default().with_labels([("app", "web")]);
        (meta.name, meta.uid) = ("web-0".into(), "u".into());
        let header = meta.header();
        for message in [None, Some(7), Some(700)] {
            for types in [None, Some(("apps/v1", "Deployment"))] {
                for is_compressed in [false, true] {
                    let parts = PackedParts { message, types, header, is_compressed, body: b"body" };
                    let bytes = parts.write();
                    let read = PackedParts::read(&bytes).expect("packed");
                    assert_eq!((read.message, read.types), (message, types));
                    assert_eq!((read.is_compressed, read.body), (is_compressed, &b"body"[..]));
                    assert_eq!((read.header.name, read.header.uid), ("web-0", "u"));
                    assert_eq!(read.header.labels.get("app"), Some("web"));
                }
            }
        }
        assert!(PackedParts::read(&[]).is_none());
        assert!(PackedParts::read(&[3, 0]).is_none());
    }
}
