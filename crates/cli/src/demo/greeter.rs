//! The gRPC service of the demo: a greeting with the name of its server. Hand-written equivalent of
//! the generated code for one method.

use std::convert::Infallible;
use std::sync::Arc;
use std::task::{Context, Poll};

use dogwatch::grpc::KubeChannel;
use dogwatch::http;
use dogwatch::http::uri::PathAndQuery;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tonic::body::Body;
use tonic::server::{NamedService, UnaryService};
use tonic::{Request, Response, Status};
use tonic_prost::ProstCodec;

const GREET: &str = "/demo.Greeter/Greet";

/// The request and the response: a name.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Greeting {
    #[prost(string, tag = "1")]
    pub(super) name: String,
}

/// A server that greets with its name.
#[derive(Clone, Debug)]
pub(super) struct Greeter(pub(super) Arc<str>);

impl NamedService for Greeter {
    const NAME: &'static str = "demo.Greeter";
}

impl UnaryService<Greeting> for Greeter {
    type Response = Greeting;
    type Future = BoxFuture<'static, Result<Response<Greeting>, Status>>;

    fn call(&mut self, _: Request<Greeting>) -> Self::Future {
        let name = self.0.to_string();
        async move { Ok(Response::new(Greeting { name })) }.boxed()
    }
}

impl tower_service::Service<http::Request<Body>> for Greeter {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let greeter = self.clone();
        async move {
            let mut grpc = tonic::server::Grpc::new(ProstCodec::<Greeting, Greeting>::default());
            Ok(grpc.unary(greeter, request).await)
        }
        .boxed()
    }
}

/// Calls the service. Returns the name of the server that responded.
pub(super) async fn greet(channel: &KubeChannel) -> Result<String, Status> {
    let mut grpc = tonic::client::Grpc::new(channel.clone());
    grpc.ready().await.map_err(|error| Status::unavailable(error.to_string()))?;
    let codec = ProstCodec::<Greeting, Greeting>::default();
    let asked = Request::new(Greeting { name: "demo".to_owned() });
    let answer = grpc.unary(asked, PathAndQuery::from_static(GREET), codec).await?;
    Ok(answer.into_inner().name)
}
