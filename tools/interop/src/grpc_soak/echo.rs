//! The service that is called: a unary echo of a number, and a method that responds with a stream.
//! Both client and server, written by hand.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use dogwatch_grpc::KubeChannel;
use futures_util::Stream;
use futures_util::stream::unfold;
use http::uri::PathAndQuery;
use tokio::time::{MissedTickBehavior, interval};
use tonic::body::Body;
use tonic::client::Grpc;
use tonic::server::NamedService;
use tonic::{Request, Response, Status, Streaming};
use tonic_prost::ProstCodec;
use tower_service::Service;

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

#[derive(Debug, Clone)]
pub(super) struct EchoServer(pub(super) Arc<CallCounts>);

impl NamedService for EchoServer {
    const NAME: &'static str = "soak.Echo";
}

type Answers = Pin<Box<dyn Stream<Item = Result<Message, Status>> + Send>>;

async fn answer_one(counts: Arc<CallCounts>, request: Request<Message>) -> Result<Response<Message>, Status> {
    counts.calls.fetch_add(1, Ordering::Relaxed);
    Ok(Response::new(request.into_inner()))
}

async fn answer_many(
    counts: Arc<CallCounts>,
    request: Request<Message>,
) -> Result<Response<Answers>, Status> {
    counts.streams.fetch_add(1, Ordering::Relaxed);
    let Message { number: last, milliseconds } = request.into_inner();
    let mut ticks = interval(Duration::from_millis(milliseconds.max(1)));
    // Catch up after a late tick, so that the stream lasts as long as requested.
    ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
    let answers = unfold((ticks, 0), move |(mut ticks, number)| async move {
        // The first tick is immediate, and the stream ends one tick after its last message.
        ticks.tick().await;
        let message = Message { number, milliseconds };
        (number < last).then_some((Ok(message), (ticks, number + 1)))
    });
    Ok(Response::new(Box::pin(answers)))
}

impl Service<http::Request<Body>> for EchoServer {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let counts = Arc::clone(&self.0);
        Box::pin(async move {
            let mut grpc = tonic::server::Grpc::new(codec());
            Ok(match request.uri().path() {
                MANY => {
                    let many = move |it| answer_many(Arc::clone(&counts), it);
                    grpc.server_streaming(tower::service_fn(many), request).await
                }
                _ => {
                    let one = move |it| answer_one(Arc::clone(&counts), it);
                    grpc.unary(tower::service_fn(one), request).await
                }
            })
        })
    }
}
