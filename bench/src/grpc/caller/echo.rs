//! What is called: a unary method that gives back what it gets, with 1 KiB in it.

use std::future::Future;

use http::uri::PathAndQuery;
use prost::bytes::Bytes;
use tonic::Status;
use tonic::body::Body;
use tonic::client::{Grpc, GrpcService};
use tonic::codegen::StdError;
use tonic_prost::ProstCodec;

/// How much goes there and comes back.
pub(super) const PAYLOAD: usize = 1_024;

/// What is sent and comes back.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Echo {
    #[prost(bytes = "bytes", tag = "1")]
    pub(crate) payload: Bytes,
}

pub(crate) fn codec() -> ProstCodec<Echo, Echo> {
    ProstCodec::default()
}

/// Who can be called: a client of any channel.
pub(crate) trait Callee: Clone + Send + Sync + 'static {
    /// Makes one call, from waiting for the channel to the end of the answer.
    fn call(&mut self, payload: Bytes) -> impl Future<Output = Result<(), Status>> + Send;
}

impl<T> Callee for Grpc<T>
where
    T: GrpcService<Body> + Clone + Send + Sync + 'static,
    T::Future: Send,
    T::Error: Into<StdError> + Send,
    T::ResponseBody: http_body::Body<Data = Bytes> + Send + 'static,
    <T::ResponseBody as http_body::Body>::Error: Into<StdError> + Send,
{
    async fn call(&mut self, payload: Bytes) -> Result<(), Status> {
        self.ready().await.map_err(|it| Status::from_error(it.into()))?;
        let request = tonic::Request::new(Echo { payload });
        let path = PathAndQuery::from_static("/bench.Echo/Call");
        self.unary(request, path, codec()).await.map(drop)
    }
}
