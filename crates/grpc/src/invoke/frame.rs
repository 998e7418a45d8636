//! Messages as gRPC frames them: a flag, a length, then the bytes. They go out in one piece each and come in cut anywhere.

use std::collections::VecDeque;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use grpc::StatusCodeError;

/// The flag and the length.
const PREFIX: usize = 5;

/// Why something is no message, or none that we take.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum FrameError {
    #[error("a message of {size} bytes exceeds the limit of {limit}")]
    TooLarge { size: usize, limit: usize },
    #[error("a message is compressed, which nobody asked for")]
    Compressed,
    #[error("a message begins with {0}, which is no flag")]
    Flag(u8),
}

impl FrameError {
    /// What it means to the call.
    pub(super) fn code(&self) -> StatusCodeError {
        match self {
            Self::TooLarge { .. } => StatusCodeError::ResourceExhausted,
            Self::Compressed | Self::Flag(_) => StatusCodeError::Internal,
        }
    }
}

/// A message with its prefix, uncompressed.
///
/// # Errors
/// When it is larger than the limit, or than the prefix can say.
pub(super) fn framed(message: &mut dyn Buf, limit: usize) -> Result<Bytes, FrameError> {
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

/// Bytes that arrived and are not yet messages.
///
/// It holds what was pushed and not yet taken: nothing is set aside for a length that was only announced. A message that came in one piece is handed
/// on as it is; one that came in several is copied once.
#[derive(Debug)]
pub(super) struct Incoming {
    pieces: VecDeque<Bytes>,
    /// The sum of the pieces.
    held: usize,
    /// The length of the message whose prefix was read.
    due: Option<usize>,
    limit: usize,
}

impl Incoming {
    pub(super) fn new(limit: usize) -> Self {
        Self { pieces: VecDeque::new(), held: 0, due: None, limit }
    }

    pub(super) fn push(&mut self, piece: Bytes) {
        if !piece.is_empty() {
            self.held += piece.len();
            self.pieces.push_back(piece);
        }
    }

    /// Whether what was pushed ends within a message.
    pub(super) fn is_within_message(&self) -> bool {
        self.due.is_some() || self.held > 0
    }

    /// The next message, if all of it is there.
    ///
    /// # Errors
    /// When its prefix is none that we take. There is no going on after that.
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

    /// The first `size` bytes, which must be there.
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
        framed(&mut Bytes::copy_from_slice(message), usize::MAX).unwrap()
    }

    fn all(incoming: &mut Incoming) -> Vec<Bytes> {
        std::iter::from_fn(|| incoming.next().unwrap()).collect()
    }

    #[test]
    fn a_frame_is_a_flag_a_length_and_the_message() {
        assert_eq!(frame(b"hello").as_ref(), b"\0\0\0\0\x05hello");
        assert_eq!(frame(b"").as_ref(), b"\0\0\0\0\0");
        let refused = framed(&mut Bytes::from_static(b"hello"), 4).unwrap_err();
        assert_eq!(refused, FrameError::TooLarge { size: 5, limit: 4 });
    }

    #[test]
    fn what_we_do_not_take_is_told_before_its_bytes_are_there() {
        let told = |prefix: &'static [u8]| {
            let mut incoming = Incoming::new(10);
            incoming.push(Bytes::from_static(prefix));
            incoming.next().unwrap_err()
        };
        assert_eq!(told(&[0, 0, 0, 0, 11]), FrameError::TooLarge { size: 11, limit: 10 });
        assert_eq!(told(&[1, 0, 0, 0, 3]), FrameError::Compressed);
        assert_eq!(told(&[7, 0, 0, 0, 3]), FrameError::Flag(7));
    }

    #[test]
    fn an_end_within_a_message_is_seen() {
        let mut incoming = Incoming::new(10);
        assert!(!incoming.is_within_message());
        incoming.push(Bytes::from_static(&[0, 0]));
        assert!(incoming.next().unwrap().is_none() && incoming.is_within_message());
        incoming.push(Bytes::from_static(&[0, 0, 1]));
        assert!(incoming.next().unwrap().is_none() && incoming.is_within_message());
        incoming.push(Bytes::from_static(b"x"));
        assert_eq!(incoming.next().unwrap().as_deref(), Some(b"x".as_slice()));
        assert!(!incoming.is_within_message());
    }

    proptest! {
        #[test]
        fn messages_come_out_as_they_went_in_wherever_they_are_cut(
            messages in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..8),
            cuts in prop::collection::vec(1_usize..30, 1..20),
        ) {
            let mut wire: Bytes = messages.iter().flat_map(|it| frame(it)).collect();
            let (mut incoming, mut heard, mut cuts) = (Incoming::new(40), Vec::new(), cuts.into_iter().cycle());
            while !wire.is_empty() {
                let cut = cuts.next().unwrap_or(1).min(wire.len());
                incoming.push(wire.split_to(cut));
                heard.extend(all(&mut incoming));
            }
            prop_assert!(!incoming.is_within_message());
            prop_assert_eq!(heard, messages);
        }
    }
}
