//! The forwarder: passes a request on to upstream and its response back, both as streams.
//!
//! Nothing is buffered: each part of a body is passed on when it arrives, and read when the other
//! side takes it. A client that disconnects cancels its request upstream, and an upstream that
//! breaks off ends the client's response with an error.

use std::net::IpAddr;
use std::sync::Arc;

use bytes::Bytes;
use dogwatch_client::{BoxError, ResponseBody, boxed};
use http::header::{HeaderMap, HeaderName, HeaderValue};
use http::{Method, Request, Response, StatusCode, Version};
use http_body::Body;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::answer::{self, Answer};
use crate::client_certificate::ClientCertificate;
use crate::ending_body::{Ending, cut_at, ending_watch};
use crate::event_boundaries::EventBoundaries;
use crate::headers;
use crate::tunnel;
use crate::upstream::{Unanswered, Upstream};
use crate::user::User;

const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// The pause that clients are asked for while upstream cannot be reached, in seconds.
const RETRY_SECONDS: u32 = 1;

/// The caller of a request, as its connection shows it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Peer {
    pub(crate) address: Option<IpAddr>,
    /// The client certificate, if one was verified.
    pub(crate) certificate: Option<Arc<ClientCertificate>>,
}

impl Peer {
    /// Returns the user of the client certificate.
    fn user(&self) -> Option<&User> {
        self.certificate.as_deref().map(|it| &**it.user())
    }
}

/// The early end of a response.
pub(crate) struct Until {
    pub(crate) ending: Ending,
    /// Set for a watch: its client has to list again.
    pub(crate) is_watch: bool,
}

impl Until {
    fn limit(self, answer: Answer) -> Answer {
        let is_watch = self.is_watch && answer.status().is_success();
        if let Some(events) = EventBoundaries::of(answer.headers()).filter(|_| is_watch) {
            return answer.map(|body| ending_watch(body, self.ending, events));
        }
        answer.map(|body| cut_at(body, self.ending))
    }
}

/// Passes requests on.
#[derive(Clone)]
pub(crate) struct Forwarder {
    upstream: Arc<Upstream>,
    tasks: TaskTracker,
    stop: CancellationToken,
}

impl Forwarder {
    /// Creates a forwarder whose tunnels are tracked by `tasks` and end with `stop`.
    pub(crate) fn new(upstream: Arc<Upstream>, tasks: TaskTracker, stop: CancellationToken) -> Self {
        Self { upstream, tasks, stop }
    }

    /// Passes a request on and returns the response, or an error of the proxy.
    pub(crate) async fn forward<B>(&self, request: Request<B>, peer: &Peer) -> Answer
    where
        B: Body<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
    {
        self.forward_until(request, peer, None).await
    }

    /// Passes a request on, like [`Self::forward`]. The response, and a connection that has
    /// switched protocols, end with `until`.
    pub(crate) async fn forward_until<B>(
        &self,
        mut request: Request<B>,
        peer: &Peer,
        until: Option<Until>,
    ) -> Answer
    where
        B: Body<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
    {
        if request.method() == Method::CONNECT {
            return answer::error(
                StatusCode::METHOD_NOT_ALLOWED,
                "MethodNotAllowed",
                "CONNECT is not supported",
            );
        }
        if peer.certificate.is_some()
            && self.upstream.impersonates()
            && headers::impersonates(request.headers())
        {
            return answer::error(StatusCode::FORBIDDEN, "Forbidden", NESTED);
        }
        let mut upgrade = headers::remove_hop_by_hop(request.headers_mut());
        if request.version() != Version::HTTP_11 {
            upgrade = None;
        }
        let client = upgrade.is_some().then(|| tunnel::of_request(&mut request));
        let (parts, body) = request.into_parts();
        // A new request: the version, and what this connection added, belong to this connection.
        let mut sent = Request::new(boxed(body));
        *sent.method_mut() = parts.method;
        *sent.uri_mut() = parts.uri;
        *sent.headers_mut() = parts.headers;
        headers::remove_of_proxy(sent.headers_mut());
        forwarded_for(sent.headers_mut(), peer.address);
        if let Some(protocol) = upgrade {
            tunnel::announce(sent.headers_mut(), protocol);
        }
        match self.upstream.send(sent, peer.user()).await {
            Ok(response) => self.answered(response, client, until),
            Err(unanswered) => self.unanswered(unanswered),
        }
    }

    fn answered(
        &self,
        mut response: Response<ResponseBody>,
        client: Option<hyper::upgrade::OnUpgrade>,
        until: Option<Until>,
    ) -> Answer {
        let switched = (response.status() == StatusCode::SWITCHING_PROTOCOLS)
            .then(|| tunnel::of_response(&mut response));
        let (parts, body) = response.into_parts();
        let mut answer = Response::new(body);
        *answer.status_mut() = parts.status;
        *answer.headers_mut() = parts.headers;
        let protocol = headers::remove_hop_by_hop(answer.headers_mut());
        match (switched, client) {
            (None, _) => match until {
                Some(until) => until.limit(answer),
                None => answer,
            },
            (Some(server), Some(client)) => {
                if let Some(protocol) = protocol {
                    tunnel::announce(answer.headers_mut(), protocol);
                }
                let ending =
                    until.map_or_else(|| -> Ending { Box::pin(std::future::pending()) }, |it| it.ending);
                tunnel::spawn(client, server, &self.tasks, self.stop.clone(), ending);
                answer
            }
            (Some(_), None) => {
                let message = "the API server switched protocols, which the request did not ask for";
                answer::error(StatusCode::BAD_GATEWAY, "", message)
            }
        }
    }

    fn unanswered(&self, unanswered: Unanswered) -> Answer {
        match unanswered {
            Unanswered::Transport(error) => {
                let cause: &dyn std::error::Error = &error;
                tracing::warn!(error = cause, "a request was not answered by the API server");
                if error.request_was_sent() {
                    // It may have been carried out: without `Retry-After` clients do not repeat a
                    // write.
                    let message =
                        "the connection to the API server was lost; it may have carried out the request";
                    return answer::error(StatusCode::BAD_GATEWAY, "", message);
                }
                answer::unavailable("the proxy cannot reach the API server", RETRY_SECONDS)
            }
            Unanswered::Credentials(reason) => {
                tracing::warn!(reason, "the proxy's own credentials cannot be used");
                answer::unavailable("the proxy cannot authenticate to the API server", RETRY_SECONDS)
            }
            Unanswered::Unnameable => {
                let message = "the user of the client certificate cannot be named in a header";
                answer::error(StatusCode::UNAUTHORIZED, "Unauthorized", message)
            }
            Unanswered::Path => answer::error(
                StatusCode::BAD_REQUEST,
                "BadRequest",
                "the path leads out of the API server's address",
            ),
        }
    }
}

const NESTED: &str = "this proxy passes users of client certificates on by impersonation, and cannot impersonate \
                      another user on top; use a token";

/// Appends the address of the caller, as reverse proxies do: upstream's audit log has it.
fn forwarded_for(headers: &mut HeaderMap, address: Option<IpAddr>) {
    let Some(address) = address else { return };
    let before: Vec<&str> =
        headers.get_all(&FORWARDED_FOR).iter().filter_map(|it| it.to_str().ok()).collect();
    let all =
        if before.is_empty() { address.to_string() } else { format!("{}, {address}", before.join(", ")) };
    if let Ok(value) = HeaderValue::from_str(&all) {
        headers.insert(FORWARDED_FOR, value);
    }
}
