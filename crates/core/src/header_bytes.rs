//! The metadata that a cache reads, as bytes: the smallest form that can be borrowed from.

use crate::meta::{Header, Labels};
use crate::prefixed::{push_length, push_text, take_bytes, take_text};

impl<'a> Header<'a> {
    /// Appends the header as bytes, from which [`Self::read`] borrows it.
    ///
    /// ```
    /// use dogwatch_core::{Header, Meta};
    ///
    /// let mut meta = Meta::default().with_labels([("app", "web")]);
    /// meta.name = "web".into();
    /// let mut bytes = Vec::new();
    /// meta.header().write(&mut bytes);
    /// let (header, rest) = Header::read(&bytes).expect("a header");
    /// assert_eq!((header.name, header.labels.get("app")), ("web", Some("web")));
    /// assert!(rest.is_empty());
    /// ```
    pub fn write(&self, out: &mut Vec<u8>) {
        for text in [self.name, self.namespace.unwrap_or_default(), self.uid, self.version] {
            push_text(text, out);
        }
        let mut labels = Vec::new();
        for (key, value) in self.labels.iter() {
            push_text(key, &mut labels);
            push_text(value, &mut labels);
        }
        push_length(labels.len(), out);
        out.extend_from_slice(&labels);
    }

    /// Reads a header that [`Self::write`] appended, and returns it with the bytes after it.
    /// Returns `None` if the bytes are something else.
    pub fn read(mut bytes: &'a [u8]) -> Option<(Self, &'a [u8])> {
        let [name, namespace, uid, version] = [(); 4].map(|()| take_text(&mut bytes));
        let labels = Labels::from_bytes(take_bytes(&mut bytes)?);
        let namespace = Some(namespace?).filter(|it| !it.is_empty());
        Some((Self { name: name?, namespace, uid: uid?, version: version?, labels }, bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::meta::Meta;

    #[test]
    fn a_header_is_the_same_after_writing_and_reading() {
        let long = "x".repeat(70_000);
        for (name, namespace, labels) in [
            ("a", "b", vec![("k", "v"), ("l", "")]),
            ("a", "", vec![]),
            ("", "", vec![("", long.as_str())]),
            (long.as_str(), "n", vec![(long.as_str(), "v")]),
        ] {
            let mut meta = Meta::default().with_labels(labels);
            (meta.name, meta.namespace) = (name.into(), namespace.into());
            (meta.uid, meta.resource_version) = ("u".into(), "7".into());
            let mut bytes = Vec::new();
            meta.header().write(&mut bytes);
            bytes.extend_from_slice(b"rest");
            let (header, rest) = Header::read(&bytes).expect("a header");
            assert_eq!((header.name, header.namespace), (meta.header().name, meta.header().namespace));
            assert_eq!((header.uid, header.version, rest), ("u", "7", &b"rest"[..]));
            assert!(header.labels.iter().eq(meta.labels().iter()));
            assert!(meta.labels().iter().all(|(key, value)| header.labels.get(key) == Some(value)));
            assert_eq!(header.labels.get("absent"), None);
        }
    }

    #[test]
    fn other_bytes_are_no_header() {
        for bytes in [&[][..], &[5, b'a'], &[0xff; 20], &[1, 0xff, 0, 0, 0, 0], &[0, 0, 0, 0, 9]] {
            assert!(Header::read(bytes).is_none(), "{bytes:?}");
        }
    }
}
