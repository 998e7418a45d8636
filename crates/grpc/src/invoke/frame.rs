//! gRPC message framing: a flag, a length, then the bytes. Outgoing messages are one piece each;
//! incoming ones may be split anywhere.

use std::collections::VecDeque;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use grpc::StatusCodeError;

/// The length of the flag and the length field.
const PREFIX: usize = 5;

/// An invalid message, or one that exceeds the limit.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum FrameError {
    #[error("a message of {size} bytes exceeds the limit of {limit}")]
    TooLarge { size: usize, limit: usize },
    #[error("a message is compressed, but no compression was negotiated")]
    Compressed,
    #[error("a message begins with {0}, which is not a valid flag")]
    Flag(u8),
}

impl FrameError {
    /// Returns the status code of the call.
    pub(super) fn code(&self) -> StatusCodeError {
        match self {
            Self::TooLarge { .. } => StatusCodeError::ResourceExhausted,
            Self::Compressed | Self::Flag(_) => StatusCodeError::Internal,
        }
    }
}

/// Encodes a message with its prefix, uncompressed.
///
/// # Errors
/// Returns an error if the message is larger than the limit, or than the prefix can express.
pub(super) fn encode_frame(message: &mut dyn Buf, limit: usize) -> Result<Bytes, FrameError> {
    let size = message.remaining();
    let limit = limit.min(u32::MAX as usize);
    let length = u32::try_from(size).ok().filter(|_| size <= limit);
    let length = length.ok_or(FrameError::TooLarge { size, limit })?;
    let mut frame = BytesMut::with_capacity(PREFIX + size);
    frame.put_u8(0);
    frame.put_u32(length);
    frame.put(message);
    Ok(frame.freeze())
}

/// Received bytes that are not yet messages.
///
/// Holds only what was pushed and not yet taken: nothing is allocated for a length that was only
/// announced. A message that arrived in one piece is returned without copying; one that arrived in
/// several is copied once.
#[derive(Debug)]
pub(super) struct MessageDecoder {
    pieces: VecDeque<Bytes>,
    /// The total size of the pieces.
    held: usize,
    /// The length of the message whose prefix was read.
    due: Option<usize>,
    limit: usize,
}

impl MessageDecoder {
    pub(super) fn new(limit: usize) -> Self {
        Self { pieces: VecDeque::new(), held: 0, due: None, limit }
    }

    pub(super) fn push(&mut self, piece: Bytes) {
        if !piece.is_empty() {
            self.held += piece.len();
            self.pieces.push_back(piece);
        }
    }

    /// Returns true if the received bytes end within a message.
    pub(super) fn is_within_message(&self) -> bool {
        self.due.is_some() || self.held > 0
    }

    /// Returns the next message, if it is complete.
    ///
    /// # Errors
    /// Returns an error if the prefix is invalid. The stream cannot continue after that.
    pub(super) fn next(&mut self) -> Result<Option<Bytes>, FrameError> {
        let size = match self.due {
            Some(size) => size,
            None if self.held < PREFIX => return Ok(None),
            None => {
                let mut prefix = self.take(PREFIX);
                let (flag, length) = (prefix.get_u8(), prefix.get_u32());
                match flag {
                    0 => {}
                    1 => return Err(FrameError::Compressed),
                    other => return Err(FrameError::Flag(other)),
                }
                let size = usize::try_from(length).unwrap_or(usize::MAX);
                if size > self.limit {
                    return Err(FrameError::TooLarge { size, limit: self.limit });
                }
                *self.due.insert(size)
            }
        };
        if self.held < size {
            return Ok(None);
        }
        self.due = None;
        Ok(Some(self.take(size)))
    }

    /// Takes the first `size` bytes, which must be available.
    fn take(&mut self, size: usize) -> Bytes {
        self.held -= size;
        match self.pieces.front_mut() {
            Some(first) if first.len() > size => return first.split_to(size),
            Some(first) if first.len() == size => return self.pieces.pop_front().unwrap_or_default(),
            _ => {}
        }
        let mut whole = BytesMut::with_capacity(size);
        while whole.len() < size {
            let Some(mut piece) = self.pieces.pop_front() else { break };
            let rest = piece.split_off(piece.len().min(size - whole.len()));
            whole.put(piece);
            if !rest.is_empty() {
                self.pieces.push_front(rest);
            }
        }
        whole.freeze()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn frame(message: &[u8]) -> Bytes {
        encode_frame(&mut Bytes::copy_from_slice(message), usize::MAX).unwrap()
    }

    fn all(decoder: &mut MessageDecoder) -> Vec<Bytes> {
        std::iter::from_fn(|| decoder.next().unwrap()).collect()
    }

    #[test]
    fn a_frame_is_a_flag_a_length_and_the_message() {
        assert_eq!(frame(b"hello").as_ref(), b"\0\0\0\0\x05hello");
        assert_eq!(frame(b"").as_ref(), b"\0\0\0\0\0");
        let refused = encode_frame(&mut Bytes::from_static(b"hello"), 4).unwrap_err();
        assert_eq!(refused, FrameError::TooLarge { size: 5, limit: 4 });
    }

    #[test]
    fn an_invalid_prefix_is_reported_before_the_message_arrives() {
        let error = |prefix: &'static [u8]| {
            let mut decoder = MessageDecoder::new(10);
            decoder.push(Bytes::from_static(prefix));
            decoder.next().unwrap_err()
        };
        assert_eq!(error(&[0, 0, 0, 0, 11]), FrameError::TooLarge { size: 11, limit: 10 });
        assert_eq!(error(&[1, 0, 0, 0, 3]), FrameError::Compressed);
        assert_eq!(error(&[7, 0, 0, 0, 3]), FrameError::Flag(7));
    }

    #[test]
    fn an_end_within_a_message_is_detected() {
        let mut decoder = MessageDecoder::new(10);
        assert!(!decoder.is_within_message());
        decoder.push(Bytes::from_static(&[0, 0]));
        assert!(decoder.next().unwrap().is_none() && decoder.is_within_message());
        decoder.push(Bytes::from_static(&[0, 0, 1]));
        assert!(decoder.next().unwrap().is_none() && decoder.is_within_message());
        decoder.push(Bytes::from_static(b"x"));
        assert_eq!(decoder.next().unwrap().as_deref(), Some(b"x".as_slice()));
        assert!(!decoder.is_within_message());
    }

    proptest! {
        #[test]
        fn messages_are_reassembled_however_they_are_split(
            messages in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..8),
            cuts in prop::collection::vec(1_usize..30, 1..20),
        ) {
            let mut wire: Bytes = messages.iter().flat_map(|it| frame(it)).collect();
            let (mut decoder, mut heard, mut cuts) = (MessageDecoder::new(40), Vec::new(), cuts.into_iter().cycle());
            while !wire.is_empty() {
                let cut = cuts.next().unwrap_or(1).min(wire.len());
                decoder.push(wire.split_to(cut));
                heard.extend(all(&mut decoder));
            }
            prop_assert!(!decoder.is_within_message());
            prop_assert_eq!(heard, messages);
        }
    }
}
