//! Requests to answers.

use std::sync::Arc;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;

use crate::auth::{Authenticator, PeerIdentity};
use crate::cluster::Cluster;

/// The body of an answer.
pub type AnswerBody = Full<Bytes>;

/// The connection is to be cut without an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut;

/// Answers requests.
#[derive(Debug)]
pub struct Service {
    /// What is asked about.
    pub cluster: Arc<Cluster>,
    /// Who asks.
    pub authenticator: Authenticator,
}

impl Service {
    /// Answers a request.
    pub async fn respond<B>(
        &self,
        request: Request<B>,
        peer: Option<PeerIdentity>,
    ) -> Result<Response<AnswerBody>, Cut> {
        let (path, headers) = (request.uri().path(), request.headers());
        match self.authenticator.authenticate_for(path, headers, peer.as_ref(), &self.cluster) {
            Ok(user) => Ok(Response::new(Full::new(Bytes::from(user.name)))),
            Err(refusal) => {
                let mut response = Response::new(Full::new(Bytes::from(refusal.0.message.clone())));
                *response.status_mut() = http::StatusCode::from_u16(refusal.0.code).map_err(|_| Cut)?;
                Ok(response)
            }
        }
    }
}
