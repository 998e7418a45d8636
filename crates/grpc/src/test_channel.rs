//! A channel and frame-level test servers on one paused clock, connected by pipes, so that a day
//! passes in a moment.

use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use tokio::sync::watch;
use tower_service::Service;

use crate::channel::{ChannelBuilder, KubeChannel, ResponseBody};
use crate::connection::TestPipes;
use crate::connection::enforcing_server::EnforcingServer;
use crate::endpoints::{Endpoint, EndpointId, EndpointSet};

pub(crate) fn endpoint(number: u8) -> Arc<Endpoint> {
    let address = SocketAddr::from(([10, 0, 0, number], 80));
    Arc::new(Endpoint { id: EndpointId::new(number.to_string()), ..Endpoint::at(address) })
}

/// The servers 10.0.0.1 and 10.0.0.2, and a channel to the first of them.
pub(crate) struct TestChannel {
    pub(crate) servers: Arc<[EnforcingServer; 2]>,
    sets: watch::Sender<Arc<EndpointSet>>,
    pub(crate) channel: KubeChannel,
}

impl TestChannel {
    pub(crate) fn new(set_up: impl FnOnce(ChannelBuilder) -> ChannelBuilder) -> Self {
        let servers = Arc::new([EnforcingServer::new(), EnforcingServer::new()]);
        let serving = Arc::clone(&servers);
        let pipes = TestPipes(Arc::new(move |address| {
            let (ours, theirs) = tokio::io::duplex(1 << 16);
            let number = if address.ip() == SocketAddr::from(([10, 0, 0, 1], 80)).ip() { 0 } else { 1 };
            serving[number].serve(theirs);
            ours
        }));
        let (sets, set) = watch::channel(Arc::default());
        let channel = set_up(KubeChannel::builder(set).pipes(pipes)).build().unwrap();
        let test = Self { servers, sets, channel };
        test.list(&[1]);
        test
    }

    pub(crate) fn list(&self, numbers: &[u8]) {
        self.sets.send_modify(|set| {
            let mut next = EndpointSet::clone(set);
            next.generation += 1;
            next.endpoints = numbers.iter().copied().map(endpoint).collect();
            *set = Arc::new(next);
        });
    }

    /// Returns the head of the response to a call with this text.
    pub(crate) async fn call(&self, text: &str) -> Response<ResponseBody> {
        ask(&self.channel, text, None).await
    }

    /// Returns true if a call gets a complete response.
    pub(crate) async fn works(&self) -> bool {
        let answer = self.call("hello").await;
        let all = pin!(answer.into_body()).collect().await;
        all.is_ok_and(|it| it.trailers().is_some_and(|it| it["grpc-status"] == "0"))
    }
}

/// Returns the head of the response to a call with this text and this `grpc-timeout`.
pub(crate) async fn ask(
    channel: &KubeChannel,
    text: &str,
    timeout: Option<&'static str>,
) -> Response<ResponseBody> {
    let size = (text.len() as u32).to_be_bytes();
    let message = [&[0], &size[..], text.as_bytes()].concat();
    let mut request = Request::post("/test.Echo/One").header("content-type", "application/grpc");
    if let Some(timeout) = timeout {
        request = request.header("grpc-timeout", timeout);
    }
    let Ok(answer) = channel.clone().call(request.body(Full::new(Bytes::from(message))).unwrap()).await;
    answer
}
