//! A browser as the page sees it: requests with chosen headers, and a stream of snapshots.

use std::net::SocketAddr;
use std::time::Duration;

use dogwatch_diagnostics::Served;
use http_body_util::{BodyExt, Empty};
use hyper::body::{Bytes, Incoming};
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpStream;
use tokio::time::timeout;

/// The time within which anything that is waited for has to happen, on a busy machine.
pub(crate) const LIMIT: Duration = Duration::from_secs(30);

/// Sends a request on a connection of its own. Headers may replace `Host`.
pub(crate) async fn send(
    address: SocketAddr,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
) -> Response<Incoming> {
    let stream = TcpStream::connect(address).await.unwrap();
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let mut request = Request::builder().method(method).uri(path);
    if !headers.iter().any(|(name, _)| *name == "host") {
        request = request.header("host", address.to_string());
    }
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let request = request.body(Empty::<Bytes>::new()).unwrap();
    timeout(LIMIT, sender.send_request(request)).await.expect("the page answers").unwrap()
}

/// Returns the status and the text of a response.
pub(crate) async fn fetch(
    served: &Served,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
) -> (u16, String) {
    let response = send(served.address(), method, path, headers).await;
    let status = response.status().as_u16();
    let body = timeout(LIMIT, response.into_body().collect()).await.expect("the body ends").unwrap();
    (status, String::from_utf8(body.to_bytes().to_vec()).unwrap())
}

/// A stream of snapshots.
pub(crate) struct Snapshots {
    body: Incoming,
    buffer: Vec<u8>,
}

impl Snapshots {
    /// Opens the stream as the page does.
    pub(crate) async fn open(served: &Served) -> Self {
        let response = send(served.address(), "GET", "/events", &[("sec-fetch-site", "same-origin")]).await;
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        Self { body: response.into_body(), buffer: Vec::new() }
    }

    /// Waits for the next snapshot.
    pub(crate) async fn next(&mut self) -> Value {
        loop {
            if let Some(end) = self.buffer.windows(2).position(|it| it == b"\n\n") {
                let event: Vec<u8> = self.buffer.drain(..end + 2).collect();
                let event = String::from_utf8(event).unwrap();
                if let Some(data) = event.strip_prefix("event: snapshot\ndata: ") {
                    return serde_json::from_str(data.trim()).unwrap();
                }
                continue;
            }
            let frame = timeout(LIMIT, self.body.frame()).await.expect("a snapshot arrives");
            let frame = frame.expect("the stream goes on").unwrap();
            self.buffer.extend(frame.into_data().expect("a stream has no trailers"));
        }
    }

    /// Waits for a snapshot that meets the condition; `what` describes it.
    pub(crate) async fn wait_for(&mut self, what: &str, condition: impl Fn(&Value) -> bool) -> Value {
        let waiting = async {
            loop {
                let snapshot = self.next().await;
                if condition(&snapshot) {
                    return snapshot;
                }
            }
        };
        timeout(LIMIT, waiting).await.unwrap_or_else(|_| panic!("not within {LIMIT:?}: {what}"))
    }

    /// Waits until the stream ends, without an error or with one.
    pub(crate) async fn ended(mut self) {
        let ending = async { while let Some(Ok(_)) = self.body.frame().await {} };
        timeout(LIMIT, ending).await.expect("the stream ends");
    }
}
