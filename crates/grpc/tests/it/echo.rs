//! The service that tests call, and a client for it: hand-written in place of generated code, with
//! four methods.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use dogwatch_grpc::KubeChannel;
use futures_util::{Stream, StreamExt};
use grpc_testkit::{Handler, MessageStream, MethodKind};
use http::uri::PathAndQuery;
use tokio::sync::Semaphore;
use tonic::body::Body;
use tonic::{Code, Request, Response, Status, Streaming};
use tonic_prost::ProstCodec;

const ONE: &str = "/test.Echo/One";
const MANY: &str = "/test.Echo/Many";
const GATHER: &str = "/test.Echo/Gather";
const BOTH: &str = "/test.Echo/Both";

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Message {
    #[prost(string, tag = "1")]
    pub(crate) text: String,
    #[prost(uint32, tag = "2")]
    pub(crate) count: u32,
}

/// The recorded calls of a server, and its behaviour.
#[derive(Debug)]
pub(crate) struct EchoState {
    pub(crate) calls: AtomicUsize,
    /// The `:authority` of the last call.
    pub(crate) authority: std::sync::Mutex<String>,
    /// The number of times that a call with this text was started.
    pub(crate) begun: std::sync::Mutex<HashMap<String, usize>>,
    /// Calls and messages whose text begins with "wait" take a permit each, in order.
    pub(crate) gate: Semaphore,
    /// This many calls fail with that code before the others succeed.
    pub(crate) failing: AtomicU32,
    pub(crate) code: AtomicU32,
}

impl Default for EchoState {
    fn default() -> Self {
        Self {
            calls: AtomicUsize::new(0),
            authority: std::sync::Mutex::default(),
            begun: std::sync::Mutex::default(),
            gate: Semaphore::new(0),
            failing: AtomicU32::new(0),
            code: AtomicU32::new(Code::Unavailable as u32),
        }
    }
}

impl EchoState {
    pub(crate) fn calls(&self) -> usize {
        self.calls.load(Ordering::SeqCst)
    }

    /// Fails the next calls.
    pub(crate) fn fail(&self, calls: u32, code: Code) {
        self.code.store(code as u32, Ordering::SeqCst);
        self.failing.store(calls, Ordering::SeqCst);
    }

    /// Returns the number of times that a call with this text was started.
    pub(crate) fn begun(&self, text: &str) -> usize {
        self.begun.lock().unwrap().get(text).copied().unwrap_or(0)
    }
}

impl Handler for EchoState {
    const NAME: &'static str = "test.Echo";
    const METHODS: &'static [(&'static str, MethodKind)] = &[
        (ONE, MethodKind::Unary),
        (MANY, MethodKind::ServerStreaming),
        (GATHER, MethodKind::ClientStreaming),
        (BOTH, MethodKind::Bidirectional),
    ];
    type Message = Message;

    fn observe(&self, request: &http::Request<Body>) {
        *self.authority.lock().unwrap() =
            request.uri().authority().map(ToString::to_string).unwrap_or_default();
    }

    async fn unary(self: Arc<Self>, message: Message) -> Result<Message, Status> {
        *self.begun.lock().unwrap().entry(message.text.clone()).or_default() += 1;
        self.calls.fetch_add(1, Ordering::SeqCst);
        let less = |it: u32| it.checked_sub(1);
        if self.failing.fetch_update(Ordering::SeqCst, Ordering::SeqCst, less).is_ok() {
            return Err(Status::new(
                Code::from_i32(self.code.load(Ordering::SeqCst) as i32),
                "injected failure",
            ));
        }
        if message.text.starts_with("wait") {
            self.gate.acquire().await.unwrap().forget();
        }
        Ok(message)
    }

    /// Responds with the requested number of messages.
    fn server_streaming(self: Arc<Self>, message: Message) -> MessageStream<Message> {
        self.calls.fetch_add(1, Ordering::SeqCst);
        let answers = futures_util::stream::unfold(0, move |count| {
            let (seen, text) = (Arc::clone(&self), message.text.clone());
            let last = message.count;
            async move {
                if count == last {
                    return None;
                }
                if text == "wait" && count > 0 {
                    seen.gate.acquire().await.unwrap().forget();
                }
                Some((Ok(Message { text, count }), count + 1))
            }
        });
        answers.boxed()
    }

    /// Responds with the number of messages, and of their bytes.
    async fn client_streaming(self: Arc<Self>, mut messages: Streaming<Message>) -> Result<Message, Status> {
        self.calls.fetch_add(1, Ordering::SeqCst);
        let (mut count, mut bytes) = (0, 0);
        while let Some(next) = messages.message().await? {
            (count, bytes) = (count + 1, bytes + next.text.len());
        }
        Ok(message(&bytes.to_string(), count))
    }

    fn bidirectional(self: Arc<Self>, messages: Streaming<Message>) -> MessageStream<Message> {
        self.calls.fetch_add(1, Ordering::SeqCst);
        messages.boxed()
    }
}

/// The client that a generator would write.
#[derive(Debug, Clone)]
pub(crate) struct EchoClient(tonic::client::Grpc<KubeChannel>);

pub(crate) fn message(text: &str, count: u32) -> Message {
    Message { text: text.to_owned(), count }
}

impl EchoClient {
    pub(crate) fn new(channel: &KubeChannel) -> Self {
        Self(tonic::client::Grpc::new(channel.clone()))
    }

    pub(crate) async fn one(&self, text: &str) -> Result<Message, Status> {
        self.ask(Request::new(message(text, 0))).await
    }

    pub(crate) async fn ask(&self, request: Request<Message>) -> Result<Message, Status> {
        let mut grpc = self.0.clone();
        let path = PathAndQuery::from_static(ONE);
        let codec = ProstCodec::<Message, Message>::default();
        grpc.unary(request, path, codec).await.map(Response::into_inner)
    }

    pub(crate) async fn many(&self, text: &str, count: u32) -> Result<Streaming<Message>, Status> {
        let mut grpc = self.0.clone();
        let path = PathAndQuery::from_static(MANY);
        let codec = ProstCodec::<Message, Message>::default();
        let answers = grpc.server_streaming(Request::new(message(text, count)), path, codec).await;
        answers.map(Response::into_inner)
    }

    pub(crate) async fn both(
        &self,
        messages: impl Stream<Item = Message> + Send + 'static,
    ) -> Result<Streaming<Message>, Status> {
        let mut grpc = self.0.clone();
        let path = PathAndQuery::from_static(BOTH);
        let codec = ProstCodec::<Message, Message>::default();
        grpc.streaming(Request::new(messages), path, codec).await.map(Response::into_inner)
    }
}
