//! Requests to answers.

use std::sync::Arc;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;

use crate::auth::{Authenticator, PeerIdentity};
use crate::cluster::Cluster;
use crate::faults::Lab;
use crate::log::RequestLog;

/// The body of an answer.
pub type AnswerBody = Full<Bytes>;

/// The connection is to be cut without an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut;

/// Answers requests.
#[derive(Clone, Debug)]
pub struct Service {
    cluster: Arc<Cluster>,
    authenticator: Authenticator,
}

/// What can be set about answering requests.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How often a watch that allows it is sent a bookmark.
    pub bookmark_period: std::time::Duration,
    /// Whether the fault lab can be used over HTTP.
    pub fault_admin: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self { bookmark_period: std::time::Duration::from_secs(60), fault_admin: false }
    }
}

impl Service {
    /// Answers for a cluster.
    pub fn new(cluster: Arc<Cluster>, authenticator: Authenticator) -> Self {
        Self { cluster, authenticator }
    }

    /// With the rules of this lab.
    #[must_use]
    pub fn lab(self, _: Lab) -> Self {
        self
    }

    /// Writes down what it was asked.
    #[must_use]
    pub fn log(self, _: RequestLog) -> Self {
        self
    }

    /// With these settings.
    #[must_use]
    pub fn settings(self, _: Settings) -> Self {
        self
    }

    /// The cluster it answers for.
    pub fn cluster(&self) -> &Arc<Cluster> {
        &self.cluster
    }

    /// Answers a request.
    pub async fn respond<B>(
        &self,
        request: Request<B>,
        peer: Option<&PeerIdentity>,
    ) -> Result<Response<AnswerBody>, Cut> {
        let (path, headers) = (request.uri().path(), request.headers());
        match self.authenticator.authenticate_for(path, headers, peer, &self.cluster) {
            Ok(user) => Ok(Response::new(Full::new(Bytes::from(user.name)))),
            Err(refusal) => {
                let mut response = Response::new(Full::new(Bytes::from(refusal.0.message.clone())));
                *response.status_mut() = http::StatusCode::from_u16(refusal.0.code).map_err(|_| Cut)?;
                Ok(response)
            }
        }
    }
}
