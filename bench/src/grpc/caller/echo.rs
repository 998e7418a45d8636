//! The method that is called: a unary echo of 1 KiB.

use std::future::Future;

use http::uri::PathAndQuery;
use prost::bytes::Bytes;
use tonic::Status;
use tonic::body::Body;
use tonic::client::{Grpc, GrpcService};
use tonic::codegen::StdError;
use tonic_prost::ProstCodec;

/// The size of a payload, in both directions.
pub(super) const PAYLOAD: usize = 1_024;

/// The path of the method.
pub(crate) const METHOD: &str = "/bench.Echo/Call";

/// The request and the response.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Echo {
    #[prost(bytes = "bytes", tag = "1")]
    pub(crate) payload: Bytes,
}

fn codec() -> ProstCodec<Echo, Echo> {
    ProstCodec::default()
}

/// A client of any channel.
pub(crate) trait Callee: Clone + Send + Sync + 'static {
    /// Makes one call, from waiting for the channel to the end of the response.
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
        let path = PathAndQuery::from_static(METHOD);
        self.unary(request, path, codec()).await.map(drop)
    }
}
