//! The fault-injection API over HTTP, for programs that are not in this process.

use bytes::Bytes;
use http::StatusCode;
use http::request::Parts;
use http_body::Body;

use super::answer::{self, Answer};
use super::incoming::BodyReader;
use super::negotiated::Negotiated;
use super::query::Query;
use super::settings::Settings;
use crate::cluster::Cluster;
use crate::faults::{self, FaultInjector};

/// The paths below [`faults::PREFIX`].
#[derive(Debug)]
pub(super) struct FaultAdmin<'a> {
    pub(super) faults: &'a FaultInjector,
    pub(super) cluster: &'a Cluster,
    pub(super) settings: &'a Settings,
}

impl FaultAdmin<'_> {
    /// Serves a request, if the API is enabled. `bodies` reads its body.
    pub(super) async fn serve<B: Body<Data = Bytes>>(
        &self,
        parts: &Parts,
        query: &Query,
        body: B,
        bodies: BodyReader<'_>,
    ) -> Answer {
        if !self.settings.fault_admin {
            return answer::page_not_found();
        }
        let bytes = match bodies.read(body, &parts.headers, parts.extensions.get()).await {
            Ok(bytes) => bytes,
            Err(refusal) => {
                let negotiated = Negotiated::of_refusal(&parts.headers, query);
                return answer::refusal(&refusal, None, &negotiated, self.settings);
            }
        };
        let (code, value) =
            faults::admin(parts.method.as_str(), parts.uri.path(), &bytes, self.faults, self.cluster);
        let code = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        answer::value(code, &value, &Negotiated::plain(&parts.headers, query), self.settings)
    }
}
