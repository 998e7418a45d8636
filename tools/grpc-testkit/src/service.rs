//! The tower service around a handler, in place of the code that tonic would generate.

use std::convert::Infallible;
use std::fmt::Debug;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::StreamExt;
use futures_util::future::ready;
use futures_util::stream::{BoxStream, once};
use tonic::body::Body;
use tonic::server::{Grpc, NamedService};
use tonic::{Request, Response, Status, Streaming};
use tonic_prost::ProstCodec;
use tower::service_fn;
use tower_service::Service;

/// The messages of a response.
pub type MessageStream<M> = BoxStream<'static, Result<M, Status>>;

/// The streaming of a method: which of its two sides send more than one message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MethodKind {
    /// One request, one response.
    Unary,
    /// One request, many responses.
    ServerStreaming,
    /// Many requests, one response.
    ClientStreaming,
    /// Many requests, many responses, independently of each other.
    Bidirectional,
}

/// The methods of a service, at most one implementation for each kind. All requests and responses
/// have the same type.
///
/// A method that [`METHODS`](Self::METHODS) does not name, or that has no implementation, fails
/// with `UNIMPLEMENTED`.
pub trait Handler: Debug + Send + Sync + Sized + 'static {
    /// The name of the service with its package, as in `test.Echo`.
    const NAME: &'static str;

    /// The methods by their paths, as in `/test.Echo/One`.
    const METHODS: &'static [(&'static str, MethodKind)];

    /// The type of all requests and responses.
    type Message: prost::Message + Default + 'static;

    /// Observes each request before its method is called. Does nothing by default.
    fn observe(&self, request: &http::Request<Body>) {
        let _ = request;
    }

    /// Responds to a unary call.
    fn unary(
        self: Arc<Self>,
        message: Self::Message,
    ) -> impl Future<Output = Result<Self::Message, Status>> + Send {
        drop(message);
        ready(Err(unimplemented()))
    }

    /// Responds to one message with a stream.
    fn server_streaming(self: Arc<Self>, message: Self::Message) -> MessageStream<Self::Message> {
        drop(message);
        once(ready(Err(unimplemented()))).boxed()
    }

    /// Responds to a stream with one message.
    fn client_streaming(
        self: Arc<Self>,
        messages: Streaming<Self::Message>,
    ) -> impl Future<Output = Result<Self::Message, Status>> + Send {
        drop(messages);
        ready(Err(unimplemented()))
    }

    /// Responds to a stream with a stream.
    fn bidirectional(self: Arc<Self>, messages: Streaming<Self::Message>) -> MessageStream<Self::Message> {
        drop(messages);
        once(ready(Err(unimplemented()))).boxed()
    }
}

fn unimplemented() -> Status {
    Status::unimplemented("the service has no such method")
}

/// A handler as a service for tonic's server. Clones share the handler.
#[derive(Debug)]
pub struct HandlerService<H>(pub Arc<H>);

impl<H> Clone for HandlerService<H> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<H: Handler> NamedService for HandlerService<H> {
    const NAME: &'static str = H::NAME;
}

impl<H: Handler> Service<http::Request<Body>> for HandlerService<H> {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let handler = Arc::clone(&self.0);
        handler.observe(&request);
        Box::pin(async move { Ok(respond(handler, request).await) })
    }
}

async fn respond<H: Handler>(handler: Arc<H>, request: http::Request<Body>) -> http::Response<Body> {
    let mut grpc = Grpc::new(ProstCodec::<H::Message, H::Message>::default());
    let path = request.uri().path();
    let Some((_, kind)) = H::METHODS.iter().find(|it| it.0 == path) else {
        return unimplemented().into_http();
    };
    match kind {
        MethodKind::Unary => {
            let method = move |it: Request<H::Message>| {
                let response = Arc::clone(&handler).unary(it.into_inner());
                async move { response.await.map(Response::new) }
            };
            grpc.unary(service_fn(method), request).await
        }
        MethodKind::ServerStreaming => {
            let method = move |it: Request<H::Message>| {
                ready(Ok(Response::new(Arc::clone(&handler).server_streaming(it.into_inner()))))
            };
            grpc.server_streaming(service_fn(method), request).await
        }
        MethodKind::ClientStreaming => {
            let method = move |it: Request<Streaming<H::Message>>| {
                let response = Arc::clone(&handler).client_streaming(it.into_inner());
                async move { response.await.map(Response::new) }
            };
            grpc.client_streaming(service_fn(method), request).await
        }
        MethodKind::Bidirectional => {
            let method = move |it: Request<Streaming<H::Message>>| {
                ready(Ok(Response::new(Arc::clone(&handler).bidirectional(it.into_inner()))))
            };
            grpc.streaming(service_fn(method), request).await
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::stream::iter;
    use http::uri::PathAndQuery;
    use tonic::{Code, IntoRequest};

    use super::*;

    #[derive(Clone, PartialEq, prost::Message)]
    struct Number {
        #[prost(uint32, tag = "1")]
        value: u32,
    }

    /// A service that counts down and adds up, without a bidirectional implementation.
    #[derive(Debug)]
    struct Counter;

    impl Handler for Counter {
        const NAME: &'static str = "test.Counter";
        const METHODS: &'static [(&'static str, MethodKind)] = &[
            ("/test.Counter/Next", MethodKind::Unary),
            ("/test.Counter/Down", MethodKind::ServerStreaming),
            ("/test.Counter/Sum", MethodKind::ClientStreaming),
            ("/test.Counter/Sums", MethodKind::Bidirectional),
        ];
        type Message = Number;

        async fn unary(self: Arc<Self>, message: Number) -> Result<Number, Status> {
            Ok(Number { value: message.value + 1 })
        }

        fn server_streaming(self: Arc<Self>, message: Number) -> MessageStream<Number> {
            iter((0..message.value).rev().map(|value| Ok(Number { value }))).boxed()
        }

        async fn client_streaming(
            self: Arc<Self>,
            mut messages: Streaming<Number>,
        ) -> Result<Number, Status> {
            let mut value = 0;
            while let Some(next) = messages.message().await? {
                value += next.value;
            }
            Ok(Number { value })
        }
    }

    /// Calls the service in process, and returns the values of all responses.
    async fn call(method: &'static str, values: &[u32]) -> Result<Vec<u32>, Status> {
        let mut client = tonic::client::Grpc::new(HandlerService(Arc::new(Counter)));
        let values: Vec<_> = values.iter().map(|value| Number { value: *value }).collect();
        let codec = ProstCodec::<Number, Number>::default();
        let path = PathAndQuery::from_static(method);
        let mut responses = client.streaming(iter(values).into_request(), path, codec).await?.into_inner();
        let mut received = Vec::new();
        while let Some(next) = responses.message().await? {
            received.push(next.value);
        }
        Ok(received)
    }

    #[tokio::test]
    async fn each_kind_of_method_is_called_by_its_path() {
        assert_eq!(call("/test.Counter/Next", &[1]).await.unwrap(), [2]);
        assert_eq!(call("/test.Counter/Down", &[3]).await.unwrap(), [2, 1, 0]);
        assert_eq!(call("/test.Counter/Sum", &[1, 2, 3]).await.unwrap(), [6]);
    }

    #[tokio::test]
    async fn unknown_methods_and_kinds_without_an_implementation_are_unimplemented() {
        for method in ["/test.Counter/Sums", "/test.Counter/Product"] {
            assert_eq!(call(method, &[1]).await.unwrap_err().code(), Code::Unimplemented, "{method}");
        }
    }
}
