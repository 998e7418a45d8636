//! The bytes around objects that are encoded already, so that a list or an event is assembled from
//! them without encoding them again.

use std::ops::Range;

use super::envelope::Envelope;
use super::fields::{Fields, Raw};
use super::output::{push, push_length};

/// The field of an envelope with the message of its object, and the field of every list with the
/// messages of its items: an entry of a list is a part of the envelope of its item.
pub(super) const MESSAGE: u32 = 2;
/// The field of every object with its metadata.
const METADATA: u32 = 1;

impl Envelope<'_> {
    /// The bytes after the message: no content encoding and no content type, as Go writes them.
    pub const TAIL: &'static [u8] = &[0x1a, 0, 0x22, 0];

    /// Returns the bytes before a message of this length. [`Self::TAIL`] follows the message.
    ///
    /// ```
    /// use dogwatch_wire::{Envelope, list_entry, to_protobuf};
    /// use k8s_openapi::api::core::v1::Pod;
    ///
    /// let pod = to_protobuf(&Pod::default())?;
    /// let entry = &pod[list_entry(&pod).expect("an object in its envelope")];
    /// let list = [&Envelope::head("v1", "PodList", 2 * entry.len())[..], entry, entry, Envelope::TAIL];
    /// assert_eq!(Envelope::read(&list.concat())?.kind, "PodList");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn head(api_version: &str, kind: &str, length: usize) -> Vec<u8> {
        let mut types = Vec::with_capacity(api_version.len() + kind.len() + 8);
        push(1, Raw::Bytes(api_version.as_bytes()), &mut types);
        push(2, Raw::Bytes(kind.as_bytes()), &mut types);
        let mut head = Vec::with_capacity(types.len() + 24);
        head.extend_from_slice(Self::MAGIC);
        push(1, Raw::Bytes(&types), &mut head);
        push_length(MESSAGE, length, &mut head);
        head
    }
}

/// Returns the part of an encoded object that is its entry in a list of its kind; `None` if the
/// bytes are not an object in its envelope.
///
/// A list is the head of its envelope, its metadata, the entries, and the tail:
/// see [`Envelope::head`].
pub fn list_entry(object: &[u8]) -> Option<Range<usize>> {
    let message = Envelope::read(object).ok()?.message;
    let head = entry_head(message.len());
    let entry = head.len() + message.len();
    // Kubernetes writes the fields of an envelope in their order, so the message is followed by the
    // tail at most.
    let end = [object.len().checked_sub(Envelope::TAIL.len()), Some(object.len())];
    let at = |end: usize| Some(end.checked_sub(entry)?..end);
    let is_entry = |it: &Range<usize>| {
        let bytes = &object[it.clone()];
        bytes.starts_with(&head) && &bytes[head.len()..] == message
    };
    end.into_iter().flatten().filter_map(at).find(is_entry)
}

/// Returns the bytes before a message of this length that is an entry of a list.
pub fn entry_head(length: usize) -> Vec<u8> {
    let mut head = Vec::with_capacity(6);
    push_length(MESSAGE, length, &mut head);
    head
}

/// Returns the part of an encoded object that is the message of its metadata alone, a
/// `PartialObjectMetadata` of `meta.k8s.io/v1`; `None` if the bytes are not an object in its
/// envelope, or if its metadata is not first.
///
/// ```
/// use dogwatch_wire::{metadata_message, to_protobuf};
/// use k8s_openapi::api::core::v1::Pod;
///
/// let mut pod = Pod::default();
/// pod.metadata.name = Some("a".to_owned());
/// let body = to_protobuf(&pod)?;
/// assert_eq!(metadata_message(&body).map(|it| &body[it]), Some(&[0x0a, 3, 0x0a, 1, b'a'][..]));
/// # Ok::<(), dogwatch_wire::EncodeError>(())
/// ```
pub fn metadata_message(object: &[u8]) -> Option<Range<usize>> {
    let entry = list_entry(object)?;
    let message = Envelope::read(object).ok()?.message;
    let mut fields = Fields::new(message);
    let (number, _) = fields.next().ok()??;
    let start = entry.end - message.len();
    (number == METADATA).then(|| start..entry.end - fields.rest().len())
}

/// Returns the bytes before an encoded object of this length in the frame of a watch event, which
/// ends with the object.
///
/// A frame has the length of its event, in four bytes, and the event, whose object is in its
/// envelope. An event of 4 GiB or more, which cannot be framed, has the length 2^32 - 1.
///
/// ```
/// use dogwatch_wire::{WatchDecoder, WatchEvent, to_protobuf, watch_head};
/// use k8s_openapi::api::core::v1::Pod;
///
/// let pod = to_protobuf(&Pod::default())?;
/// let frame = [watch_head("ADDED", pod.len()), pod].concat();
/// let mut watch = WatchDecoder::<Pod>::protobuf();
/// watch.feed(&frame, |event| assert!(matches!(event, Ok(WatchEvent::Added(_)))))?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn watch_head(event_type: &str, length: usize) -> Vec<u8> {
    let (mut head, mut raw) = (vec![0; 4], Vec::new());
    push_length(1, length, &mut raw);
    push(1, Raw::Bytes(event_type.as_bytes()), &mut head);
    push_length(2, raw.len().saturating_add(length), &mut head);
    head.extend_from_slice(&raw);
    let event = (head.len() - 4).saturating_add(length);
    head[..4].copy_from_slice(&u32::try_from(event).unwrap_or(u32::MAX).to_be_bytes());
    head
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_entry_is_found_with_and_without_a_tail() {
        let entry = [0x12, 3, 1, 2, 3];
        let head = Envelope::head("v1", "Pod", 3);
        let head = &head[..head.len() - 2];
        for tail in [Envelope::TAIL, b""] {
            let object = [head, &entry, tail].concat();
            assert_eq!(list_entry(&object).map(|it| &object[it]), Some(&entry[..]), "{tail:?}");
        }
        // The message is not where Go writes it, or there is none.
        let early = [Envelope::MAGIC, &entry, &head[4..]].concat();
        for bad in [&early[..], head, b"k8s", b"{}"] {
            assert_eq!(list_entry(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn the_head_of_a_frame_counts_all_bytes_behind_it() {
        for length in [0, 1, 117, 127, 128, 300, 20_000] {
            let head = watch_head("MODIFIED", length);
            let event = u32::from_be_bytes([head[0], head[1], head[2], head[3]]) as usize;
            assert_eq!(event, head.len() - 4 + length);
        }
        assert_eq!(watch_head("ADDED", usize::MAX)[..4], [0xff; 4]);
    }
}
