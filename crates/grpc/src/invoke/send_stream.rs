//! The sending side of a call.

use std::fmt;
use std::sync::Arc;

use grpc::client::{SendOptions, SendStream};
use grpc::core::SendMessage;
use grpc::{StatusCodeError, StatusError};
use tokio::sync::{mpsc, oneshot};

use super::call_setup::{Answer, Found, Opening};
use super::frame::framed;
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
pub struct KubeSendStream {
    opening: Arc<Opening>,
    stage: Stage,
    limit: usize,
}

enum Stage {
    /// Nothing was sent. If this side starts the call, the other one gets the response here.
    Fresh(oneshot::Sender<Answer>),
    Flowing(mpsc::Sender<Piece>),
    Over,
}

impl fmt::Debug for KubeSendStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let open = !matches!(self.stage, Stage::Over);
        f.debug_struct("KubeSendStream").field("open", &open).finish_non_exhaustive()
    }
}

impl KubeSendStream {
    pub(super) fn new(opening: Arc<Opening>, answer: oneshot::Sender<Answer>, limit: usize) -> Self {
        Self { opening, stage: Stage::Fresh(answer), limit }
    }

    /// Ends the call: there is no message to continue with.
    async fn withdraw(&mut self, why: StatusError) {
        self.opening.fail(why);
        let flow = match std::mem::replace(&mut self.stage, Stage::Over) {
            Stage::Flowing(sender) => Found::Flow(sender),
            // The other side notices when its end of this channel is dropped.
            Stage::Fresh(_) => self.opening.first_to_send(),
            Stage::Over => Found::Nothing,
        };
        if let Found::Flow(sender) = flow {
            // If nothing receives it, the call is already over.
            let _ = sender.send(Piece::Withdrawn).await;
        }
    }

    /// Sends a piece when there is room for it. Dropping the future before that sends nothing.
    async fn push(&mut self, sender: mpsc::Sender<Piece>, piece: Piece) -> Result<(), ()> {
        let last = matches!(piece, Piece::Message { last: true, .. });
        self.stage = Stage::Flowing(sender.clone());
        let room = sender.reserve().await;
        if last || room.is_err() {
            self.stage = Stage::Over;
        }
        room.map_err(drop)?.send(piece);
        Ok(())
    }
}

impl SendStream for KubeSendStream {
    async fn send(&mut self, msg: &dyn SendMessage, options: SendOptions) -> Result<(), ()> {
        if matches!(self.stage, Stage::Over) {
            return Err(());
        }
        let encoded = msg.encode().map_err(|why| {
            StatusError::new(StatusCodeError::Internal, format!("a message could not be encoded: {why}"))
        });
        let frame = encoded.and_then(|mut message| {
            framed(&mut message, self.limit).map_err(|why| StatusError::new(why.code(), why.to_string()))
        });
        let frame = match frame {
            Ok(frame) => frame,
            Err(why) => {
                self.withdraw(why).await;
                return Err(());
            }
        };
        let last = options.final_msg;
        match std::mem::replace(&mut self.stage, Stage::Over) {
            Stage::Flowing(sender) => self.push(sender, Piece::Message { frame, last }).await,
            Stage::Fresh(answers) => match self.opening.first_to_send() {
                Found::Start(start) if last => answers.send(start.whole(frame).await).map_err(drop),
                Found::Start(start) => {
                    let (answer, sender) = start.flowing(frame);
                    self.stage = Stage::Flowing(sender);
                    answers.send(answer).map_err(drop)
                }
                Found::Flow(sender) => self.push(sender, Piece::Message { frame, last }).await,
                Found::Nothing => Err(()),
            },
            Stage::Over => Err(()),
        }
    }
}

impl Drop for KubeSendStream {
    fn drop(&mut self) {
        if let Stage::Fresh(_) = self.stage {
            self.opening.nothing_to_send();
        }
    }
}
