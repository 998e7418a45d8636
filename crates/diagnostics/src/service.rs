//! The requests of the page and their responses.

use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::Bytes;
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue};
use hyper::{Method, Response, StatusCode};
use tokio::sync::mpsc;

use crate::action::Action;
use crate::activity::Activity;
use crate::assets::asset;
use crate::broadcast::Broadcast;
use crate::sources::Sources;
use crate::web_guard;

/// The time after which a response does not wait for its action any more. The action goes on.
const ACTION_WAIT: Duration = Duration::from_secs(20);

/// The headers of every response. The page loads nothing from elsewhere, and no other page can
/// embed it, so that no one can be made to click its buttons unknowingly.
const HEADERS: [(HeaderName, HeaderValue); 6] = [
    (
        HeaderName::from_static("content-security-policy"),
        HeaderValue::from_static(
            "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
        ),
    ),
    (HeaderName::from_static("x-content-type-options"), HeaderValue::from_static("nosniff")),
    (HeaderName::from_static("x-frame-options"), HeaderValue::from_static("DENY")),
    (HeaderName::from_static("referrer-policy"), HeaderValue::from_static("no-referrer")),
    (HeaderName::from_static("cross-origin-resource-policy"), HeaderValue::from_static("same-origin")),
    (CACHE_CONTROL, HeaderValue::from_static("no-store")),
];

/// The body of a response.
pub(crate) type Body = UnsyncBoxBody<Bytes, Infallible>;

/// An action that was requested, and the sender of its outcome.
pub(crate) type Requested = (Arc<Action>, tokio::sync::oneshot::Sender<Option<Result<String, String>>>);

/// Answers requests.
#[derive(Debug)]
pub(crate) struct PageService {
    sources: Arc<Sources>,
    broadcast: Arc<Broadcast>,
    /// Further names of this server.
    names: Vec<String>,
    /// The task that runs actions, so that they do not end with the connection of a browser.
    actions: mpsc::Sender<Requested>,
}

impl PageService {
    pub(crate) fn new(
        sources: Arc<Sources>,
        broadcast: Arc<Broadcast>,
        names: Vec<String>,
        actions: mpsc::Sender<Requested>,
    ) -> Self {
        Self { sources, broadcast, names, actions }
    }

    /// Answers one request on a connection to the address `local`. The body of the request is not
    /// read.
    pub(crate) async fn answer(
        &self,
        parts: &http::request::Parts,
        local: IpAddr,
        activity: &Activity,
    ) -> Response<Body> {
        activity.record();
        if let Err(rejection) = web_guard::check(parts, local, &self.names) {
            return text(StatusCode::FORBIDDEN, rejection.message());
        }
        let path = parts.uri.path();
        if let Some(number) = path.strip_prefix("/actions/") {
            return match parts.method {
                Method::POST => self.run(number).await,
                _ => text(StatusCode::METHOD_NOT_ALLOWED, "actions need POST\n"),
            };
        }
        if !matches!(parts.method, Method::GET | Method::HEAD) {
            return text(StatusCode::METHOD_NOT_ALLOWED, "method not allowed\n");
        }
        match path {
            "/events" if parts.method == Method::GET => self.events(activity),
            "/snapshot.json" => content("application/json", self.broadcast.snapshot()),
            _ => match asset(path) {
                Some(asset) => content(asset.content_type, asset.text),
                None => text(StatusCode::NOT_FOUND, "not found\n"),
            },
        }
    }

    fn events(&self, activity: &Activity) -> Response<Body> {
        match self.broadcast.subscribe(activity.clone()) {
            Some(stream) => {
                response(StatusCode::OK, "text/event-stream", StreamBody::new(stream).boxed_unsync())
            }
            None => text(StatusCode::SERVICE_UNAVAILABLE, "too many browsers look at this page\n"),
        }
    }

    async fn run(&self, number: &str) -> Response<Body> {
        let action = number.parse().ok().and_then(|it| self.sources.action(it));
        let Some(action) = action else { return text(StatusCode::NOT_FOUND, "there is no such action\n") };
        let (sender, outcome) = tokio::sync::oneshot::channel();
        if self.actions.try_send((action, sender)).is_err() {
            return text(StatusCode::SERVICE_UNAVAILABLE, "too many actions are running\n");
        }
        match tokio::time::timeout(ACTION_WAIT, outcome).await {
            Ok(Ok(Some(Ok(done)))) => text(StatusCode::OK, crate::document::bounded(&done) + "\n"),
            Ok(Ok(Some(Err(error)))) => {
                text(StatusCode::INTERNAL_SERVER_ERROR, crate::document::bounded(&error))
            }
            Ok(Ok(None)) => text(StatusCode::CONFLICT, "it is already running\n"),
            Ok(Err(_)) => text(StatusCode::INTERNAL_SERVER_ERROR, "it panicked\n"),
            Err(_) => text(StatusCode::ACCEPTED, "it is still running\n"),
        }
    }
}

fn text(status: StatusCode, text: impl Into<Bytes>) -> Response<Body> {
    response(status, "text/plain; charset=utf-8", Full::new(text.into()).boxed_unsync())
}

fn content(content_type: &'static str, content: impl Into<Bytes>) -> Response<Body> {
    response(StatusCode::OK, content_type, Full::new(content.into()).boxed_unsync())
}

fn response(status: StatusCode, content_type: &'static str, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.extend(HEADERS);
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}
