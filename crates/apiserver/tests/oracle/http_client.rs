//! Requests and responses over HTTP/1.1, on connections from any source: a socket, TLS, a pipe in
//! memory.
//!
//! Built on hyper's plain connection, without a pool or redirects: a scenario sees exactly what the
//! server sends.

use std::collections::BTreeMap;
use std::future::Future;
use std::io::{self, Read};
use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Request, Response, header};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::timeout;

use super::selection::{Content, Reply};

/// The limit for one response.
const TIMEOUT: Duration = Duration::from_secs(30);

/// A connection to a server.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// The future of [`Dial::dial`].
pub(crate) type Dialing<'a> = Pin<Box<dyn Future<Output = io::Result<Box<dyn Stream>>> + Send + 'a>>;

/// Opens connections to one server.
pub(crate) trait Dial: Send + Sync {
    fn dial(&self) -> Dialing<'_>;
}

/// A client of one server. Requests share one connection, one after the other; each stream has its
/// own.
pub(crate) struct Client {
    server: Box<dyn Dial>,
    token: Option<String>,
    idle: Option<SendRequest<Full<Bytes>>>,
}

/// Headers of a request; `None` removes one that is sent by default.
pub(crate) type Headers = BTreeMap<String, Option<String>>;

impl Client {
    pub(crate) fn new(server: Box<dyn Dial>, token: Option<String>) -> Self {
        Self { server, token, idle: None }
    }

    /// Returns true if requests carry a token.
    pub(crate) fn has_token(&self) -> bool {
        self.token.is_some()
    }

    /// Sends a request and reads the whole response, on the previous connection if the server kept
    /// it open.
    pub(crate) async fn request(
        &mut self,
        method: &str,
        path: &str,
        headers: &Headers,
        body: Option<Bytes>,
    ) -> Result<Reply, String> {
        let exchange = async {
            if let Some(mut kept) = self.idle.take()
                && let Ok(response) = kept.send_request(self.build(method, path, headers, &body)?).await
            {
                return Ok((kept, read(response).await?));
            }
            let mut fresh = self.connect().await?;
            let response = fresh.send_request(self.build(method, path, headers, &body)?).await;
            let response = response.map_err(|it| error_chain(&it))?;
            Ok::<_, String>((fresh, read(response).await?))
        };
        let (mut connection, reply) =
            timeout(TIMEOUT, exchange).await.map_err(|_| timed_out(method, path))??;
        let closing = reply.headers.get("connection").is_some_and(|it| it.eq_ignore_ascii_case("close"));
        if !closing && connection.ready().await.is_ok() {
            self.idle = Some(connection);
        }
        Ok(reply)
    }

    /// Opens a stream on a connection of its own. Returns the response without its body, and the
    /// body.
    pub(crate) async fn open(
        &self,
        path: &str,
        headers: &Headers,
    ) -> Result<(Reply, Option<Incoming>), String> {
        let exchange = async {
            let mut connection = self.connect().await?;
            let request = self.build("GET", path, headers, &None)?;
            let response = connection.send_request(request).await.map_err(|it| error_chain(&it))?;
            if response.status() != http::StatusCode::OK {
                return Ok((read(response).await?, None));
            }
            let reply = Reply { status: 200, headers: lines(response.headers()), content: Content::None };
            Ok((reply, Some(response.into_body())))
        };
        timeout(TIMEOUT, exchange).await.map_err(|_| timed_out("GET", path))?
    }

    async fn connect(&self) -> Result<SendRequest<Full<Bytes>>, String> {
        let stream = self.server.dial().await.map_err(|it| error_chain(&it))?;
        let (sender, connection) =
            http1::handshake(TokioIo::new(stream)).await.map_err(|it| error_chain(&it))?;
        // Ends when the sender and the body are dropped; errors surface there.
        tokio::spawn(connection);
        Ok(sender)
    }

    fn build(
        &self,
        method: &str,
        path: &str,
        headers: &Headers,
        body: &Option<Bytes>,
    ) -> Result<Request<Full<Bytes>>, String> {
        let mut all = BTreeMap::from([
            ("host".to_owned(), Some("localhost".to_owned())),
            ("accept".to_owned(), Some("application/json".to_owned())),
            ("accept-encoding".to_owned(), Some("identity".to_owned())),
            ("authorization".to_owned(), self.token.as_ref().map(|it| format!("Bearer {it}"))),
            ("content-type".to_owned(), body.as_ref().map(|_| "application/json".to_owned())),
        ]);
        all.extend(headers.iter().map(|(name, value)| (name.to_ascii_lowercase(), value.clone())));
        let mut request = Request::builder().method(method).uri(path);
        for (name, value) in all {
            if let Some(value) = value {
                request = request.header(name, value);
            }
        }
        request.body(Full::new(body.clone().unwrap_or_default())).map_err(|it| format!("{path}: {it}"))
    }
}

fn error_chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

fn timed_out(method: &str, path: &str) -> String {
    format!("{method} {path} got no response within {TIMEOUT:?}")
}

async fn read(response: Response<Incoming>) -> Result<Reply, String> {
    let (head, body) = response.into_parts();
    let bytes = body.collect().await.map_err(|it| error_chain(&it))?.to_bytes();
    let text = match head.headers.get(header::CONTENT_ENCODING) {
        Some(encoding) if encoding == "gzip" => {
            let mut text = Vec::new();
            flate2::read::MultiGzDecoder::new(&bytes[..])
                .read_to_end(&mut text)
                .map_err(|it| error_chain(&it))?;
            text
        }
        _ => bytes.to_vec(),
    };
    let text = String::from_utf8_lossy(&text).into_owned();
    // /openapi/v3 sends JSON as text/plain.
    let declared = head.headers.get(header::CONTENT_TYPE).and_then(|it| it.to_str().ok());
    let json = declared.is_some_and(|it| it.contains("json")) || text.starts_with('{');
    let value: Option<Value> = json.then(|| serde_json::from_str(&text).ok()).flatten();
    let content = value.map_or(Content::Text(text), Content::Json);
    Ok(Reply { status: head.status.as_u16(), headers: lines(&head.headers), content })
}

fn lines(headers: &HeaderMap) -> BTreeMap<String, String> {
    let mut lines = BTreeMap::<String, String>::new();
    for (name, value) in headers {
        let value = String::from_utf8_lossy(value.as_bytes()).into_owned();
        let add = |it: &mut String| *it = format!("{it}\n{value}");
        lines.entry(name.as_str().to_owned()).and_modify(add).or_insert(value.clone());
    }
    lines
}
