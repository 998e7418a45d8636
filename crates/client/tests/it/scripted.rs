//! A scripted server: the next response for each request, in order, and a record of the requests.
//!
//! No socket and no task, so paused time is exact. A request beyond the script is answered
//! with 599.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use dogwatch_client::{BoxError, Client, ClientBuilder, Config, RequestBody, ResponseBody};
use futures_util::{StreamExt, future, stream};
use http::{HeaderMap, Method, Request, Response};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use tower::Service;

/// One response of the script.
#[derive(Debug)]
pub(crate) struct Reply {
    code: u16,
    headers: Vec<(&'static str, String)>,
    body: Vec<Step>,
    fails: Option<BoxError>,
}

#[derive(Clone, Debug)]
enum Step {
    Chunk(Bytes),
    Lost(io::ErrorKind),
    Pause(Duration),
    Silence,
}

/// A request as it arrived.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) method: Method,
    /// Path and query.
    pub(crate) target: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: String,
    pub(crate) at: tokio::time::Instant,
}

/// The script; clones share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Script {
    replies: Arc<Mutex<VecDeque<Reply>>>,
    seen: Arc<Mutex<Vec<Seen>>>,
    open: Arc<AtomicUsize>,
}

/// A guard that counts a body until it is dropped or read to its end.
struct OpenBody(Arc<AtomicUsize>);

impl OpenBody {
    fn new(open: &Arc<AtomicUsize>) -> Self {
        open.fetch_add(1, Ordering::SeqCst);
        Self(Arc::clone(open))
    }
}

impl Drop for OpenBody {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

pub(crate) fn reply(code: u16) -> Reply {
    Reply { code, headers: Vec::new(), body: Vec::new(), fails: None }
}

/// A JSON response.
pub(crate) fn json(code: u16, body: impl Into<String>) -> Reply {
    reply(code).header("content-type", "application/json").chunk(body.into())
}

/// An error response with a `Status`.
pub(crate) fn refusal(code: u16, reason: &str) -> Reply {
    let body = format!(
        r#"{{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"{reason}","code":{code},"message":"{reason}"}}"#
    );
    json(code, body)
}

/// No response: the connection fails.
pub(crate) fn fails(kind: io::ErrorKind) -> Reply {
    fails_with(io::Error::from(kind))
}

/// No response: the request fails with this error.
pub(crate) fn fails_with(error: impl Into<BoxError>) -> Reply {
    Reply { fails: Some(error.into()), ..reply(200) }
}

impl Reply {
    pub(crate) fn header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    pub(crate) fn chunk(mut self, chunk: impl Into<Bytes>) -> Self {
        self.body.push(Step::Chunk(chunk.into()));
        self
    }

    /// Loses the connection at this point of the body.
    pub(crate) fn lost(mut self) -> Self {
        self.body.push(Step::Lost(io::ErrorKind::ConnectionReset));
        self
    }

    /// Sends nothing for this duration.
    pub(crate) fn pause(mut self, duration: Duration) -> Self {
        self.body.push(Step::Pause(duration));
        self
    }

    /// Sends nothing more, and keeps the connection open.
    pub(crate) fn silence(mut self) -> Self {
        self.body.push(Step::Silence);
        self
    }

    fn into_response(self, open: OpenBody) -> Response<ResponseBody> {
        let steps = stream::iter(self.body).flat_map(move |step| match step {
            Step::Chunk(chunk) => stream::once(future::ready(Ok(Frame::data(chunk)))).boxed(),
            Step::Lost(kind) => {
                stream::once(future::ready(Err(BoxError::from(io::Error::from(kind))))).boxed()
            }
            Step::Pause(duration) => {
                stream::once(tokio::time::sleep(duration)).filter_map(|()| future::ready(None)).boxed()
            }
            Step::Silence => stream::pending().boxed(),
        });
        let steps = steps.inspect(move |_| _ = &open);
        let mut response = Response::builder().status(self.code);
        for (name, value) in self.headers {
            response = response.header(name, value);
        }
        response.body(BodyExt::boxed_unsync(StreamBody::new(steps))).expect("a valid response")
    }
}

impl Script {
    pub(crate) fn new(replies: impl IntoIterator<Item = Reply>) -> Self {
        let script = Self::default();
        script.then(replies);
        script
    }

    /// Adds responses.
    pub(crate) fn then(&self, replies: impl IntoIterator<Item = Reply>) {
        self.replies.lock().expect("not poisoned").extend(replies);
    }

    /// Returns a client whose server is this script.
    pub(crate) fn client(&self) -> Client {
        Client::from_service("https://script.test/base/".parse().expect("a URL"), "default", self.clone())
    }

    /// Returns a builder of a client with all its layers over this script, with adjusted settings.
    pub(crate) fn builder(&self, adjust: impl FnOnce(&mut Config)) -> ClientBuilder {
        let mut config = Config::new("http://127.0.0.1:1/".parse().expect("a URL"));
        adjust(&mut config);
        let script = self.clone();
        Client::builder(config).layer(tower::layer::layer_fn(move |_| script.clone()))
    }

    /// Returns all requests so far.
    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.seen.lock().expect("not poisoned").clone()
    }

    /// Returns the number of response bodies that are still open.
    pub(crate) fn open_bodies(&self) -> usize {
        self.open.load(Ordering::SeqCst)
    }

    /// Returns the targets of all requests so far.
    pub(crate) fn targets(&self) -> Vec<String> {
        self.seen().into_iter().map(|it| it.target).collect()
    }
}

impl Service<Request<RequestBody>> for Script {
    type Response = Response<ResponseBody>;
    type Error = BoxError;
    type Future = future::BoxFuture<'static, Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<RequestBody>) -> Self::Future {
        let this = self.clone();
        Box::pin(async move {
            let (parts, body) = request.into_parts();
            let body: Result<_, Infallible> = body.collect().await;
            let body = body.expect("held in memory").to_bytes();
            this.seen.lock().expect("not poisoned").push(Seen {
                method: parts.method,
                target: parts.uri.path_and_query().map(ToString::to_string).unwrap_or_default(),
                headers: parts.headers,
                body: String::from_utf8_lossy(&body).into_owned(),
                at: tokio::time::Instant::now(),
            });
            let reply = this.replies.lock().expect("not poisoned").pop_front().unwrap_or_else(|| reply(599));
            match reply.fails {
                Some(error) => Err(error),
                None => Ok(reply.into_response(OpenBody::new(&this.open))),
            }
        })
    }
}
