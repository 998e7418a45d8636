//! The body of a request: one available message, or messages as the caller sends them.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame};
use tokio::sync::mpsc;

/// One step of a streamed body.
#[derive(Debug)]
pub(super) enum Piece {
    Message {
        frame: Bytes,
        /// True for the last message.
        last: bool,
    },
    /// The call must fail: the next message could not be encoded.
    Withdrawn,
}

/// An error of a caller that could not encode a message.
#[derive(Debug, thiserror::Error)]
#[error("a message could not be encoded")]
pub(super) struct Withdrawn;

#[derive(Debug)]
pub(super) enum Upload {
    Whole(Bytes),
    /// Ends with its last message, or when the caller drops the sender.
    Flowing(mpsc::Receiver<Piece>),
    Ended,
}

impl Upload {
    /// Creates a body of this frame alone; an empty one if it is empty.
    pub(super) fn whole(frame: Bytes) -> Self {
        if frame.is_empty() { Self::Ended } else { Self::Whole(frame) }
    }

    /// Creates a streamed body and its sender. It buffers one message that the peer does not accept
    /// yet; further sends wait.
    pub(super) fn flowing() -> (mpsc::Sender<Piece>, Self) {
        let (sender, receiver) = mpsc::channel(1);
        (sender, Self::Flowing(receiver))
    }
}

impl Body for Upload {
    type Data = Bytes;
    type Error = Withdrawn;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Withdrawn>>> {
        let frame = match &mut *self {
            Self::Ended => return Poll::Ready(None),
            Self::Whole(frame) => std::mem::take(frame),
            Self::Flowing(pieces) => match ready!(pieces.poll_recv(cx)) {
                Some(Piece::Message { frame, last: false }) => {
                    return Poll::Ready(Some(Ok(Frame::data(frame))));
                }
                Some(Piece::Message { frame, last: true }) => frame,
                Some(Piece::Withdrawn) => {
                    *self = Self::Ended;
                    return Poll::Ready(Some(Err(Withdrawn)));
                }
                None => {
                    *self = Self::Ended;
                    return Poll::Ready(None);
                }
            },
        };
        *self = Self::Ended;
        Poll::Ready(Some(Ok(Frame::data(frame))))
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Self::Ended)
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;

    use super::*;

    fn piece(text: &'static str, last: bool) -> Piece {
        Piece::Message { frame: Bytes::from_static(text.as_bytes()), last }
    }

    #[tokio::test]
    async fn the_last_message_ends_the_body() {
        let (sender, mut body) = Upload::flowing();
        sender.send(piece("one", false)).await.unwrap();
        assert_eq!(body.frame().await.unwrap().unwrap().into_data().unwrap(), "one");
        assert!(!body.is_end_stream());
        sender.send(piece("two", true)).await.unwrap();
        assert_eq!(body.frame().await.unwrap().unwrap().into_data().unwrap(), "two");
        assert!(body.is_end_stream());
        assert!(
            sender.send(piece("three", false)).await.is_err(),
            "sending after the last message should fail"
        );
        let mut whole = Upload::whole(Bytes::from_static(b"all"));
        assert_eq!(whole.frame().await.unwrap().unwrap().into_data().unwrap(), "all");
        assert!(whole.is_end_stream() && Upload::whole(Bytes::new()).is_end_stream());
    }

    #[tokio::test]
    async fn a_dropped_sender_ends_the_body_and_a_withdrawn_message_fails_it() {
        let (sender, mut body) = Upload::flowing();
        drop(sender);
        assert!(body.frame().await.is_none() && body.is_end_stream());
        let (sender, mut body) = Upload::flowing();
        sender.send(Piece::Withdrawn).await.unwrap();
        assert!(body.frame().await.unwrap().is_err() && body.is_end_stream());
    }
}
