//! The boundaries between the events of a watch that is passed on: an event of the proxy can only
//! follow a complete one.

use bytes::Bytes;
use dogwatch_apimachinery::protobuf;
use http::HeaderMap;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE};

use crate::answer;

/// The encoding of a watch, and the position in its body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum EventBoundaries {
    /// Lines of JSON.
    Json {
        /// False while a line was sent in part.
        is_between: bool,
    },
    /// Protobuf, each event after its length in four bytes.
    Protobuf {
        /// The bytes of the length that have been sent.
        length: Vec<u8>,
        /// The bytes of the event that have not been sent.
        rest: usize,
    },
}

impl EventBoundaries {
    /// Returns the boundaries of a watch with these headers; `None` for an unknown encoding.
    pub(crate) fn of(headers: &HeaderMap) -> Option<Self> {
        let content_type = headers.get(CONTENT_TYPE)?.to_str().ok()?;
        let media = content_type.split(';').next().unwrap_or_default().trim();
        match media {
            _ if headers.contains_key(CONTENT_ENCODING) => None,
            "application/json" => Some(Self::Json { is_between: true }),
            "application/vnd.kubernetes.protobuf" => Some(Self::Protobuf { length: Vec::new(), rest: 0 }),
            _ => None,
        }
    }

    /// Returns the last event of a watch in this encoding: its client has to list again.
    pub(crate) fn expired_event(&self) -> Bytes {
        let status = answer::expired();
        match self {
            Self::Json { .. } => answer::error_event(&status),
            Self::Protobuf { .. } => {
                let object = protobuf::encode(&status).unwrap_or_default();
                Bytes::from([protobuf::watch_head("ERROR", object.len()), object].concat())
            }
        }
    }

    /// Returns true if everything that was sent is complete.
    pub(crate) fn is_between(&self) -> bool {
        match self {
            Self::Json { is_between } => *is_between,
            Self::Protobuf { length, rest } => length.is_empty() && *rest == 0,
        }
    }

    /// Records the next bytes of the body.
    pub(crate) fn pass(&mut self, bytes: &[u8]) {
        match self {
            Self::Json { is_between } => *is_between = bytes.last().map_or(*is_between, |it| *it == b'\n'),
            Self::Protobuf { .. } => {
                let mut passed = 0;
                while passed < bytes.len() {
                    passed += self.pass_event(&bytes[passed..]);
                }
            }
        }
    }

    /// Records the next bytes up to the end of the event that was sent in part, and returns their
    /// number.
    pub(crate) fn pass_event(&mut self, bytes: &[u8]) -> usize {
        match self {
            Self::Json { is_between } => {
                let end = bytes.iter().position(|it| *it == b'\n');
                *is_between = end.is_some();
                end.map_or(bytes.len(), |it| it + 1)
            }
            Self::Protobuf { length, rest } => {
                let of_length = if *rest == 0 { bytes.len().min(4 - length.len()) } else { 0 };
                length.extend_from_slice(&bytes[..of_length]);
                if let Ok(complete) = <[u8; 4]>::try_from(&length[..]) {
                    *rest = u32::from_be_bytes(complete) as usize;
                    length.clear();
                }
                let of_event = (*rest).min(bytes.len() - of_length);
                *rest -= of_event;
                of_length + of_event
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn boundaries(content_type: &str) -> Option<EventBoundaries> {
        EventBoundaries::of(&[(CONTENT_TYPE, content_type.parse().unwrap())].into_iter().collect())
    }

    const JSON: &str = "application/json;stream=watch";
    const PROTOBUF: &str = "application/vnd.kubernetes.protobuf;stream=watch";

    #[test]
    fn events_end_at_the_same_places_however_they_are_divided() {
        for (content_type, events) in [
            (JSON, [&b"{\"a\":1}\n"[..], b"\n", b"{}\n"]),
            (PROTOBUF, [&b"\0\0\0\x03abc"[..], b"\0\0\0\0", b"\0\0\0\x01\n"]),
        ] {
            let body = events.concat();
            let ends: Vec<usize> = (1..=3).map(|it| events[..it].concat().len()).collect();
            for step in 1..=body.len() {
                let (mut passed, mut at) = (boundaries(content_type).unwrap(), 0);
                for part in body.chunks(step) {
                    passed.pass(part);
                    at += part.len();
                    assert_eq!(passed.is_between(), ends.contains(&at), "{content_type} {at}");
                }
            }
            for cut in 1..body.len() {
                let mut passed = boundaries(content_type).unwrap();
                passed.pass(&body[..cut]);
                if !passed.is_between() {
                    let end = cut + passed.pass_event(&body[cut..]);
                    assert!(ends.contains(&end) && passed.is_between(), "{content_type} {cut} {end}");
                }
            }
        }
    }

    #[test]
    fn a_watch_in_another_encoding_has_no_boundaries() {
        assert_eq!(boundaries("application/cbor-seq"), None);
        let packed = [(CONTENT_TYPE, JSON), (CONTENT_ENCODING, "gzip")];
        let packed = packed.map(|(name, value)| (name, value.parse().unwrap()));
        assert_eq!(EventBoundaries::of(&packed.into_iter().collect()), None);
    }
}
