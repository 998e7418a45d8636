//! A server with fixed responses by path: enough of an API server for discovery.

use std::net::SocketAddr;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode, server::conn::http1};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;

/// The path and query, and the body of the response. Everything else is 404.
pub(crate) type Answers = Vec<(&'static str, serde_json::Value)>;

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
