//! A server with fixed responses by path: enough of an API server for discovery. An API server with
//! logs of containers.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;

use dogwatch_apiserver::{ApiServer, InProcess};
use futures_util::future::BoxFuture;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode, server::conn::http1};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tower_service::Service;

/// The path and query, and the body of the response. Everything else is 404.
pub(crate) type Answers = Vec<(&'static str, serde_json::Value)>;

/// The names of containers, and their logs.
pub(crate) type Logs = &'static [(&'static str, &'static str)];

/// A response, or the end of the connection.
type Answered = io::Result<Response<UnsyncBoxBody<Bytes, io::Error>>>;

/// Serves an API server with the logs of the containers of each pod, until the runtime of the test
/// ends. Our server passes requests for logs on to a kubelet, and no test has one.
pub(crate) async fn with_logs(server: &ApiServer, logs: Logs) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback has a free port");
    let address = listener.local_addr().expect("a bound listener has an address");
    let api = server.service();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let api = api.clone();
            tokio::spawn(async move {
                let service = service_fn(move |request| respond(api.clone(), logs, request));
                // A client may hang up at any time.
                let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
            });
        }
    });
    address
}

/// Answers with a log, or passes the request on.
fn respond(mut api: InProcess, logs: Logs, request: Request<Incoming>) -> BoxFuture<'static, Answered> {
    Box::pin(async move {
        let Some(text) = log(logs, &request) else {
            let response = api.call(request).await.map_err(io::Error::other)?;
            return Ok(response.map(|it| it.map_err(io::Error::other).boxed_unsync()));
        };
        let body = Full::new(Bytes::from(text)).map_err(|never: Infallible| -> io::Error { match never {} });
        Ok(Response::new(body.boxed_unsync()))
    })
}

/// Returns the log that is requested.
fn log(logs: Logs, request: &Request<Incoming>) -> Option<&'static str> {
    let query = request.uri().query().unwrap_or_default();
    let is_it = |name: &str| query.split('&').any(|it| it.strip_prefix("container=") == Some(name));
    let found = logs.iter().find(|(name, _)| request.uri().path().ends_with("/log") && is_it(name));
    found.map(|(_, text)| *text)
}

/// Serves until the runtime of the test ends.
pub(crate) async fn serve(answers: Answers) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback has a free port");
    let address = listener.local_addr().expect("a bound listener has an address");
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let answers = answers.clone();
            tokio::spawn(async move {
                let service = service_fn(|request| {
                    std::future::ready(Ok::<_, hyper::Error>(answer(&answers, &request)))
                });
                // A client may hang up at any time.
                let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
            });
        }
    });
    address
}

fn answer(answers: &Answers, request: &Request<Incoming>) -> Response<Full<Bytes>> {
    let asked = request.uri().path_and_query().map_or("/", |it| it.as_str());
    // The timeout parameter does not change the response.
    let asked = asked.split_once("?timeout=").map_or(asked, |(path, _)| path);
    let (code, body) = match answers.iter().find(|(path, _)| *path == asked) {
        Some((_, body)) if body["kind"] == "Status" => (StatusCode::FORBIDDEN, body.clone()),
        Some((_, body)) => (StatusCode::OK, body.clone()),
        None => (StatusCode::NOT_FOUND, serde_json::json!({ "asked": asked })),
    };
    let mut response = Response::new(Full::new(Bytes::from(body.to_string())));
    *response.status_mut() = code;
    response
        .headers_mut()
        .insert("content-type", hyper::header::HeaderValue::from_static("application/json"));
    response
}
