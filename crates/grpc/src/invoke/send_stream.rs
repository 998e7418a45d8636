//! The sending side of a call.

use std::fmt;
use std::sync::Arc;

use grpc::client::{SendOptions, SendStream};
use grpc::core::SendMessage;
use grpc::{StatusCodeError, StatusError};
use tokio::sync::{mpsc, oneshot};

use super::call_setup::{CallSetup, ResponseFuture, SendTarget};
use super::frame::encode_frame;
use super::upload::Piece;

/// The messages of a request.
///
/// A message that is both the first and the last is sent together with the head of the request. Of
/// others, one is buffered until the peer accepts it, and `send` waits for that. Dropping the
/// stream ends the request; the response may still be read. A message that cannot be encoded, or is
/// too large, ends the call with a corresponding status.
///
/// # Cancel safety
///
/// A `send` that is dropped while it waits has sent nothing, and the stream can continue.
///
/// # Examples
/// ```
/// use dogwatch_grpc::invoke::KubeSendStream;
/// use grpc::client::{SendOptions, SendStream};
/// use grpc::core::SendMessage;
///
/// /// Sends one message, and ends the request by dropping the stream.
/// async fn send(mut request: KubeSendStream, message: &dyn SendMessage) {
///     let _ = request.send(message, SendOptions::new()).await; // the response has the reason
/// }
/// # let _ = send;
/// ```
pub struct KubeSendStream {
    setup: Arc<CallSetup>,
    stage: SendStage,
    limit: usize,
}

enum SendStage {
    /// Nothing was sent. If this side starts the call, the other one gets the response here.
    Fresh(oneshot::Sender<ResponseFuture>),
    Flowing(mpsc::Sender<Piece>),
    Over,
}

impl fmt::Debug for KubeSendStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let open = !matches!(self.stage, SendStage::Over);
        f.debug_struct("KubeSendStream").field("open", &open).finish_non_exhaustive()
    }
}

impl KubeSendStream {
    pub(super) fn new(setup: Arc<CallSetup>, answer: oneshot::Sender<ResponseFuture>, limit: usize) -> Self {
        Self { setup, stage: SendStage::Fresh(answer), limit }
    }

    /// Ends the call: there is no message to continue with.
    async fn withdraw(&mut self, why: StatusError) {
        self.setup.fail(why);
        let flow = match std::mem::replace(&mut self.stage, SendStage::Over) {
            SendStage::Flowing(sender) => SendTarget::Flow(sender),
            // The other side notices when its end of this channel is dropped.
            SendStage::Fresh(_) => self.setup.first_to_send(),
            SendStage::Over => SendTarget::Nothing,
        };
        if let SendTarget::Flow(sender) = flow {
            // If nothing receives it, the call is already over.
            let _ = sender.send(Piece::Withdrawn).await;
        }
    }

    /// Sends a piece when there is room for it. Dropping the future before that sends nothing.
    async fn push(&mut self, sender: mpsc::Sender<Piece>, piece: Piece) -> Result<(), ()> {
        let last = matches!(piece, Piece::Message { last: true, .. });
        self.stage = SendStage::Flowing(sender.clone());
        let room = sender.reserve().await;
        if last || room.is_err() {
            self.stage = SendStage::Over;
        }
        room.map_err(drop)?.send(piece);
        Ok(())
    }
}

impl SendStream for KubeSendStream {
    async fn send(&mut self, msg: &dyn SendMessage, options: SendOptions) -> Result<(), ()> {
        if matches!(self.stage, SendStage::Over) {
            return Err(());
        }
        let encoded = msg.encode().map_err(|why| {
            StatusError::new(StatusCodeError::Internal, format!("a message could not be encoded: {why}"))
        });
        let frame = encoded.and_then(|mut message| {
            encode_frame(&mut message, self.limit)
                .map_err(|why| StatusError::new(why.code(), why.to_string()))
        });
        let frame = match frame {
            Ok(frame) => frame,
            Err(why) => {
                self.withdraw(why).await;
                return Err(());
            }
        };
        let last = options.final_msg;
        match std::mem::replace(&mut self.stage, SendStage::Over) {
            SendStage::Flowing(sender) => self.push(sender, Piece::Message { frame, last }).await,
            SendStage::Fresh(answers) => match self.setup.first_to_send() {
                SendTarget::Start(start) if last => answers.send(start.whole(frame).await).map_err(drop),
                SendTarget::Start(start) => {
                    let (answer, sender) = start.flowing(frame);
                    self.stage = SendStage::Flowing(sender);
                    answers.send(answer).map_err(drop)
                }
                SendTarget::Flow(sender) => self.push(sender, Piece::Message { frame, last }).await,
                SendTarget::Nothing => Err(()),
            },
            SendStage::Over => Err(()),
        }
    }
}

impl Drop for KubeSendStream {
    fn drop(&mut self) {
        if let SendStage::Fresh(_) = self.stage {
            self.setup.sender_dropped();
        }
    }
}
