//! The service that is called: a unary echo of a number, and a method that responds with a stream.
//! Both client and server, written by hand.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use dogwatch_grpc::KubeChannel;
use futures_util::StreamExt;
use futures_util::stream::unfold;
use grpc_testkit::{Handler, MessageStream, MethodKind};
use http::uri::PathAndQuery;
use tokio::time::{MissedTickBehavior, interval};
use tonic::client::Grpc;
use tonic::{Request, Status, Streaming};
use tonic_prost::ProstCodec;

const ONE: &str = "/soak.Echo/One";
const MANY: &str = "/soak.Echo/Many";

/// A request or response. Of `One`: a number that is echoed. Of `Many`: the number of messages and
/// their distance.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Message {
    #[prost(uint64, tag = "1")]
    pub(super) number: u64,
    #[prost(uint64, tag = "2")]
    pub(super) milliseconds: u64,
}

fn codec() -> ProstCodec<Message, Message> {
    ProstCodec::default()
}

/// Makes one call, to the end of its response.
///
/// # Errors
/// The status of the channel or the server, or `DATA_LOSS` for a response to another request.
pub(super) async fn one(mut client: Grpc<KubeChannel>, number: u64) -> Result<(), Status> {
    let request = Request::new(Message { number, milliseconds: 0 });
    let answer = client.unary(request, PathAndQuery::from_static(ONE), codec()).await?;
    match answer.into_inner().number == number {
        true => Ok(()),
        false => Err(Status::data_loss("the response belongs to another request")),
    }
}

/// Starts a stream of `messages` messages, one in each interval of `every`.
///
/// # Errors
/// The status of the channel or the server.
pub(super) async fn many(
    mut client: Grpc<KubeChannel>,
    messages: u64,
    every: Duration,
) -> Result<Streaming<Message>, Status> {
    let request = Request::new(Message { number: messages, milliseconds: every.as_millis() as u64 });
    let answer = client.server_streaming(request, PathAndQuery::from_static(MANY), codec()).await?;
    Ok(answer.into_inner())
}

/// The number of calls and streams of a server.
#[derive(Debug, Default)]
pub(super) struct CallCounts {
    calls: AtomicU64,
    streams: AtomicU64,
}

impl CallCounts {
    /// Returns the number of unary calls it has served.
    pub(super) fn calls(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
    }

    pub(super) fn streams(&self) -> u64 {
        self.streams.load(Ordering::Relaxed)
    }
}

impl Handler for CallCounts {
    const NAME: &'static str = "soak.Echo";
    const METHODS: &'static [(&'static str, MethodKind)] =
        &[(ONE, MethodKind::Unary), (MANY, MethodKind::ServerStreaming)];
    type Message = Message;

    async fn unary(self: Arc<Self>, message: Message) -> Result<Message, Status> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        Ok(message)
    }

    fn server_streaming(self: Arc<Self>, message: Message) -> MessageStream<Message> {
        self.streams.fetch_add(1, Ordering::Relaxed);
        let Message { number: last, milliseconds } = message;
        let mut ticks = interval(Duration::from_millis(milliseconds.max(1)));
        // Catch up after a late tick, so that the stream lasts as long as requested.
        ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
        let answers = unfold((ticks, 0), move |(mut ticks, number)| async move {
            // The first tick is immediate, and the stream ends one tick after its last message.
            ticks.tick().await;
            let message = Message { number, milliseconds };
            (number < last).then_some((Ok(message), (ticks, number + 1)))
        });
        answers.boxed()
    }
}
