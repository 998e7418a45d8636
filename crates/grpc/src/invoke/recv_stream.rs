//! The receiving side of a call.

use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use grpc::StatusCodeError;
use grpc::client::{RecvStream, ResponseStreamItem};
use grpc::core::{RecvMessage, ResponseHeaders, Trailers};
use http::Response;
use http_body::Body;
use tokio::sync::oneshot;

use super::call_setup::{CallSetup, ResponseFuture};
use super::frame::MessageDecoder;
use super::metadata::from_headers;
use super::trailers::{failed, from_server, interrupted_trailers};
use crate::channel::{Code, ResponseBody};

/// The response to a call: its headers, its messages, and its status.
///
/// The call counts as in flight until its end was read or the stream is dropped; dropping it early
/// cancels the call.
///
/// # Cancel safety
///
/// `recv` is cancel safe: if it is dropped before it completes, the next one continues where it
/// was.
///
/// # Examples
/// ```
/// use dogwatch_grpc::invoke::KubeRecvStream;
/// use grpc::client::{RecvStream, ResponseStreamItem};
/// use grpc::core::RecvMessage;
///
/// /// Reads a response to its end; `buffer` decodes each message.
/// async fn drain(mut response: KubeRecvStream, buffer: &mut dyn RecvMessage) {
///     loop {
///         match response.recv(buffer).await {
///             ResponseStreamItem::Headers(headers) => println!("{headers:?}"),
///             ResponseStreamItem::Message => println!("a message is in the buffer"),
///             ResponseStreamItem::Trailers(trailers) => println!("{:?}", trailers.status()),
///             ResponseStreamItem::StreamClosed => break,
///         }
///     }
/// }
/// # let _ = drain;
/// ```
pub struct KubeRecvStream {
    setup: Arc<CallSetup>,
    stage: RecvStage,
    limit: usize,
}

enum RecvStage {
    /// Nothing was requested. If the sending side starts the call, it sends the response here.
    Fresh(oneshot::Receiver<ResponseFuture>),
    /// The call has started.
    Awaiting(ResponseFuture),
    Reading(Reading),
    Over,
}

struct Reading {
    body: ResponseBody,
    decoder: MessageDecoder,
}

impl fmt::Debug for KubeRecvStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stage = match self.stage {
            RecvStage::Fresh(_) => "fresh",
            RecvStage::Awaiting(_) => "awaiting",
            RecvStage::Reading(_) => "reading",
            RecvStage::Over => "over",
        };
        f.debug_struct("KubeRecvStream").field("stage", &stage).finish_non_exhaustive()
    }
}

impl KubeRecvStream {
    pub(super) fn new(
        setup: Arc<CallSetup>,
        answer: oneshot::Receiver<ResponseFuture>,
        limit: usize,
    ) -> Self {
        Self { setup, stage: RecvStage::Fresh(answer), limit }
    }

    /// Handles the head of a response: headers, or trailers if the response consists of nothing
    /// else.
    fn begin(&mut self, response: Response<ResponseBody>) -> ResponseStreamItem {
        let (head, body) = response.into_parts();
        if Code::of(&head.headers).is_some() {
            return self.end(from_server(head.headers));
        }
        match from_headers(head.headers) {
            Ok(metadata) => {
                self.stage = RecvStage::Reading(Reading { body, decoder: MessageDecoder::new(self.limit) });
                ResponseStreamItem::Headers(ResponseHeaders::new().with_metadata(metadata))
            }
            Err(why) => self.end(failed(StatusCodeError::Internal, why)),
        }
    }

    /// Ends the call, and drops what is still in transit.
    fn end(&mut self, trailers: Trailers) -> ResponseStreamItem {
        self.stage = RecvStage::Over;
        let trailers = match self.setup.failure() {
            Some(why) => Trailers::new(Err(why.clone())),
            None => trailers,
        };
        ResponseStreamItem::Trailers(trailers)
    }
}

impl Reading {
    /// Returns the next message, or the trailers.
    async fn next(&mut self) -> Result<Bytes, Trailers> {
        loop {
            match self.decoder.next() {
                Ok(Some(message)) => return Ok(message),
                Ok(None) => {}
                Err(why) => return Err(failed(why.code(), why.to_string())),
            }
            match poll_fn(|cx| Pin::new(&mut self.body).poll_frame(cx)).await {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => self.decoder.push(data),
                    Err(frame) => {
                        return Err(self.ended(from_server(frame.into_trailers().unwrap_or_default())));
                    }
                },
                Some(Err(interrupted)) => return Err(interrupted_trailers(&interrupted)),
                None => return Err(failed(StatusCodeError::Internal, "the response ended without a status")),
            }
        }
    }

    /// Turns a success into a failure if the last message is incomplete.
    fn ended(&self, trailers: Trailers) -> Trailers {
        if trailers.status().is_ok() && self.decoder.is_within_message() {
            return failed(StatusCodeError::Internal, "the response ended within a message");
        }
        trailers
    }
}

impl RecvStream for KubeRecvStream {
    async fn recv(&mut self, msg: &mut dyn RecvMessage) -> ResponseStreamItem {
        loop {
            match &mut self.stage {
                RecvStage::Fresh(answers) => {
                    let answer = match self.setup.first_to_receive() {
                        Some(answer) => Some(answer),
                        None if self.setup.failure().is_some() => None,
                        None => answers.await.ok(),
                    };
                    let Some(answer) = answer else {
                        let why = "the message was not sent completely";
                        return self.end(failed(StatusCodeError::Cancelled, why));
                    };
                    self.stage = RecvStage::Awaiting(answer);
                }
                RecvStage::Awaiting(answer) => {
                    let Ok(response) = answer.await;
                    return self.begin(response);
                }
                RecvStage::Reading(reading) => {
                    let mut message = match reading.next().await {
                        Ok(message) => message,
                        Err(trailers) => return self.end(trailers),
                    };
                    return match msg.decode(&mut message) {
                        Ok(()) => ResponseStreamItem::Message,
                        Err(why) => {
                            let why = format!("a message could not be decoded: {why}");
                            self.end(failed(StatusCodeError::Internal, why))
                        }
                    };
                }
                RecvStage::Over => return ResponseStreamItem::StreamClosed,
            }
        }
    }
}

impl Drop for KubeRecvStream {
    fn drop(&mut self) {
        self.setup.receiver_dropped();
    }
}
