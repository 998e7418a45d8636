//! Requests to a server in this process, with and without a wire between, and a reader of watches. No client: what a test
//! sees is what the server said.

use std::time::Duration;

use bytes::Bytes;
use dogwatch_apiserver::ApiServer;
use dogwatch_apiserver::http::Service;
use dogwatch_apiserver::serving::{BoxError, Connector, InProcess};
use http::{Method, Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use serde_json::Value;
use tokio::time::timeout;
use tower_service::Service as _;

/// Longer than anything takes that happens at all. The clock is paused, so waiting for nothing costs nothing.
const LONG: Duration = Duration::from_secs(600);

type AnswerBody = UnsyncBoxBody<Bytes, BoxError>;

/// How requests get to a server.
#[derive(Clone)]
pub(crate) enum Road {
    /// Requests are calls.
    Direct(InProcess<Service>),
    /// HTTP/1.1 or HTTP/2 over a pipe.
    Wire(Box<Client<Connector, Full<Bytes>>>),
}

/// A code and a body.
#[derive(Debug)]
pub(crate) struct Answered {
    pub(crate) code: u16,
    pub(crate) retry_after: Option<String>,
    pub(crate) body: Value,
}

/// The connection was cut.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Broken;

/// A watch that is open.
pub(crate) struct Watching {
    body: AnswerBody,
    buffer: Vec<u8>,
    /// The sizes of the pieces in which everything came.
    pub(crate) pieces: Vec<usize>,
    over: bool,
}

/// What a watch tells next.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Told {
    Event {
        kind: String,
        object: Value,
    },
    /// It is over, as it should be.
    End,
    /// The connection was cut.
    Cut,
}

impl Road {
    pub(crate) fn direct(server: &ApiServer) -> Self {
        Self::Direct(server.service())
    }

    pub(crate) fn wire(server: &ApiServer, http2: bool) -> Self {
        let client = Client::builder(TokioExecutor::new())
            .pool_max_idle_per_host(0)
            .retry_canceled_requests(false)
            .http2_only(http2)
            .build(server.connector());
        Self::Wire(Box::new(client))
    }

    async fn send(&self, request: Request<Full<Bytes>>) -> Result<Response<AnswerBody>, Broken> {
        let answer = match self {
            Self::Direct(service) => {
                timeout(LONG, service.clone().call(request)).await.expect("answered").map_err(|_| Broken)?
            }
            Self::Wire(client) => {
                let answer = timeout(LONG, client.request(request)).await.expect("answered");
                answer.map_err(|_| Broken)?.map(|body| body.map_err(Into::into).boxed_unsync())
            }
        };
        Ok(answer)
    }

    /// Asks, and reads the whole answer.
    pub(crate) async fn ask(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Answered, Broken> {
        let media = if method == Method::PATCH { "application/merge-patch+json" } else { "application/json" };
        let bytes = body.map(|it| Bytes::from(it.to_string())).unwrap_or_default();
        let request = Request::builder()
            .method(method)
            .uri(format!("http://server.test{path}"))
            .header("content-type", media)
            .body(Full::new(bytes))
            .unwrap();
        let answer = self.send(request).await?;
        let code = answer.status().as_u16();
        let retry_after = answer.headers().get("retry-after").map(|it| it.to_str().unwrap().to_owned());
        let bytes = answer.into_body().collect().await.map_err(|_| Broken)?.to_bytes();
        // Some refusals are plain text.
        let text = || Value::from(String::from_utf8_lossy(&bytes));
        let body = serde_json::from_slice(&bytes).unwrap_or_else(|_| text());
        Ok(Answered { code, retry_after, body })
    }

    pub(crate) async fn get(&self, path: &str) -> Result<Answered, Broken> {
        self.ask(Method::GET, path, None).await
    }

    /// Opens a watch; the answer when it was refused.
    pub(crate) async fn watch(&self, path: &str) -> Result<Result<Watching, Answered>, Broken> {
        let request = Request::get(format!("http://server.test{path}")).body(Full::default()).unwrap();
        let answer = self.send(request).await?;
        if answer.status().is_success() {
            return Ok(Ok(Watching {
                body: answer.into_body(),
                buffer: Vec::new(),
                pieces: Vec::new(),
                over: false,
            }));
        }
        let code = answer.status().as_u16();
        let bytes = answer.into_body().collect().await.map_err(|_| Broken)?.to_bytes();
        let body = serde_json::from_slice(&bytes).expect("answers are JSON");
        Ok(Err(Answered { code, retry_after: None, body }))
    }
}

impl Watching {
    /// What it tells next, as soon as it does.
    pub(crate) async fn next(&mut self) -> Told {
        loop {
            if let Some(end) = self.buffer.iter().position(|it| *it == b'\n') {
                let line: Vec<u8> = self.buffer.drain(..=end).collect();
                let mut event: Value = serde_json::from_slice(&line).expect("a line of JSON");
                let kind = event["type"].as_str().expect("an event").to_owned();
                return Told::Event { kind, object: event["object"].take() };
            }
            match self.body.frame().await {
                None => {
                    assert!(self.buffer.is_empty(), "a watch ended in the middle of an event");
                    self.over = true;
                    return Told::End;
                }
                Some(Err(_)) => {
                    self.over = true;
                    return Told::Cut;
                }
                Some(Ok(frame)) => {
                    let data = frame.into_data().unwrap_or_default();
                    self.pieces.push(data.len());
                    self.buffer.extend_from_slice(&data);
                }
            }
        }
    }

    /// Whether it has ended or was cut.
    pub(crate) fn is_over(&self) -> bool {
        self.over
    }

    /// The kind and the name of the next event.
    pub(crate) async fn event(&mut self) -> (String, String) {
        match timeout(LONG, self.next()).await.expect("it comes") {
            Told::Event { kind, object } => {
                (kind, object["metadata"]["name"].as_str().unwrap_or_default().to_owned())
            }
            other => panic!("instead of an event: {other:?}"),
        }
    }

    /// What it tells within a second, if anything.
    pub(crate) async fn soon(&mut self) -> Option<Told> {
        timeout(Duration::from_secs(1), self.next()).await.ok()
    }
}

/// The version of an object or a list.
pub(crate) fn version(object: &Value) -> u64 {
    let version = object["metadata"]["resourceVersion"].as_str();
    version.and_then(|it| it.parse().ok()).unwrap_or_else(|| panic!("no version in {object}"))
}
