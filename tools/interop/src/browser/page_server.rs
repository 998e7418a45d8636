//! The attacker's web site: it serves the page, receives the page's report, and forwards everything
//! else to the server.
//!
//! Forwarding has the effect of DNS rebinding: to the browser it is one origin, which leads to the
//! page's own server first and to the attacked one later. Here both are behind one address, and
//! requests are forwarded unchanged.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONTENT_TYPE, HOST, HeaderName, HeaderValue, ORIGIN};
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde::Deserialize;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::scenario::Scenario;

const PAGE: &str = include_str!("page.html");
/// The timeout of a forwarded request.
const TIMEOUT: Duration = Duration::from_secs(5);
/// The headers that a browser adds by itself and a page cannot change.
const BROWSER_HEADERS: [HeaderName; 5] = [
    ORIGIN,
    HeaderName::from_static("sec-fetch-site"),
    HeaderName::from_static("sec-fetch-mode"),
    HeaderName::from_static("sec-fetch-dest"),
    HeaderName::from_static("referer"),
];

/// The page's report of one attempt.
#[derive(Debug, Deserialize)]
pub(super) struct Attempt {
    pub(super) name: String,
    pub(super) outcome: String,
}

/// The attacker's site. Dropping this stops it.
#[derive(Debug)]
pub(super) struct PageServer {
    reports: mpsc::UnboundedReceiver<Vec<Attempt>>,
    _accepting: JoinSet<()>,
}

struct Site {
    /// The server that the page attacks.
    attacked: SocketAddr,
    reports: mpsc::UnboundedSender<Vec<Attempt>>,
}

impl PageServer {
    /// Serves a page on `address` that attacks the server at `attacked`.
    pub(super) async fn start(address: SocketAddr, attacked: SocketAddr) -> Result<Self> {
        let listener = TcpListener::bind(address).await;
        let listener = listener.with_context(|| format!("cannot listen on {address}"))?;
        let (sender, reports) = mpsc::unbounded_channel();
        let site = Arc::new(Site { attacked, reports: sender });
        let mut accepting = JoinSet::new();
        accepting.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let site = Arc::clone(&site);
                connections.spawn(async move {
                    let service = service_fn(|request| site.answer(request));
                    // A browser that closes the connection is not an error.
                    let http = hyper::server::conn::http1::Builder::new();
                    let _ = http.serve_connection(TokioIo::new(stream), service).await;
                });
                while connections.try_join_next().is_some() {}
            }
        });
        Ok(Self { reports, _accepting: accepting })
    }

    /// Waits for the next page's report.
    pub(super) async fn report(&mut self) -> Result<Vec<Attempt>> {
        self.reports.recv().await.context("the page server has stopped")
    }
}

impl Site {
    async fn answer(&self, request: Request<Incoming>) -> Result<Response<Full<Bytes>>, hyper::Error> {
        let path = request.uri().path();
        if path == "/report" {
            let body = request.into_body().collect().await?.to_bytes();
            if let Ok(report) = serde_json::from_slice(&body) {
                // Fails only if the receiver is gone.
                let _ = self.reports.send(report);
            }
            return Ok(status(StatusCode::NO_CONTENT));
        }
        if let Some(scenario) = Scenario::of_path(path) {
            return Ok(self.page(scenario));
        }
        if path == "/favicon.ico" {
            return Ok(status(StatusCode::NOT_FOUND));
        }
        let passed = tokio::time::timeout(TIMEOUT, self.forward(request)).await;
        Ok(passed.ok().and_then(Result::ok).unwrap_or_else(|| status(StatusCode::BAD_GATEWAY)))
    }

    fn page(&self, scenario: Scenario) -> Response<Full<Bytes>> {
        let server =
            if scenario.is_same_origin() { String::new() } else { format!("http://{}", self.attacked) };
        let page = PAGE.replace("@SERVER@", &server).replace("@SCENARIO@", scenario.name());
        let mut response = Response::new(Full::new(Bytes::from(page)));
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
        response
    }

    /// Forwards a request to the attacked server: unchanged, or for the control without the headers
    /// that browsers add.
    async fn forward(&self, request: Request<Incoming>) -> Result<Response<Full<Bytes>>> {
        let (mut parts, body) = request.into_parts();
        let host = parts.headers.get(HOST).and_then(|it| it.to_str().ok()).unwrap_or_default();
        if Scenario::of_host(host) == Scenario::Control {
            BROWSER_HEADERS.iter().for_each(|it| drop(parts.headers.remove(it)));
            parts.headers.insert(HOST, HeaderValue::from_str(&self.attacked.to_string())?);
        }
        let body = Full::new(body.collect().await?.to_bytes());
        let stream = TcpStream::connect(self.attacked).await?;
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
        let exchange = async {
            let (head, body) = sender.send_request(Request::from_parts(parts, body)).await?.into_parts();
            anyhow::Ok(Response::from_parts(head, Full::new(body.collect().await?.to_bytes())))
        };
        tokio::select! {
            answer = exchange => answer,
            ended = connection => {
                ended?;
                anyhow::bail!("the server closed the connection")
            }
        }
    }
}

fn status(code: StatusCode) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::default());
    *response.status_mut() = code;
    response
}
