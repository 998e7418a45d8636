//! Credentials, tested through the requests that carry them.

#![allow(clippy::unwrap_used)] // All of this is tests, also where clippy cannot see it.

mod headers;
mod oidc;
mod plugin;
mod plugin_errors;
mod secrets;
mod token_file;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use bytes::Bytes;
use dogwatch_client::auth::{AuthError, AuthLayer, Credentials, Ticket};
use dogwatch_client::{BoxError, Config, RequestBody, ResponseBody, boxed};
use http::header::AUTHORIZATION;
use http::{HeaderMap, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use tower::ServiceExt;
use tower_layer::Layer;
use tower_service::Service;

/// A server that answers with the given statuses, then with 200, and records the requests.
#[derive(Clone, Default)]
struct Server {
    answers: Arc<Mutex<VecDeque<StatusCode>>>,
    seen: Arc<Mutex<Vec<Seen>>>,
}

#[derive(Clone, Debug)]
struct Seen {
    headers: HeaderMap,
    method: http::Method,
    body: Bytes,
}

impl Server {
    fn answering(answers: &[StatusCode]) -> Self {
        Self { answers: Arc::new(Mutex::new(answers.iter().copied().collect())), seen: Arc::default() }
    }

    fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }

    /// Returns the `Authorization` headers seen, oldest first.
    fn authorizations(&self) -> Vec<String> {
        self.seen().iter().map(|seen| authorization(&seen.headers)).collect()
    }

    /// Sends one request through the credentials.
    async fn send(&self, credentials: &Credentials) -> Result<StatusCode, BoxError> {
        let service = AuthLayer::new(credentials.clone()).layer(self.clone());
        let request = Request::post("/api").body(Full::from("payload"))?;
        Ok(service.oneshot(request).await?.status())
    }
}

impl Service<Request<RequestBody>> for Server {
    type Response = Response<ResponseBody>;
    type Error = BoxError;
    type Future = futures_core::future::BoxFuture<'static, Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<RequestBody>) -> Self::Future {
        let server = self.clone();
        Box::pin(async move {
            let (parts, body) = request.into_parts();
            let body = body.collect().await?.to_bytes();
            server.seen.lock().unwrap().push(Seen { headers: parts.headers, method: parts.method, body });
            let status = server.answers.lock().unwrap().pop_front().unwrap_or(StatusCode::OK);
            Ok(Response::builder().status(status).body(boxed(Full::<Bytes>::default()))?)
        })
    }
}

fn config() -> Config {
    Config::new("https://cluster.example:6443".parse().expect("an address"))
}

/// Returns the text of `Authorization`, or an empty string.
fn authorization(headers: &HeaderMap) -> String {
    headers.get(AUTHORIZATION).map(|value| value.to_str().unwrap().to_owned()).unwrap_or_default()
}

/// Authorizes a request without headers.
async fn authorize(credentials: &Credentials) -> Result<(String, Ticket), AuthError> {
    let mut headers = HeaderMap::new();
    let ticket = credentials.authorize(&mut headers).await?;
    Ok((authorization(&headers), ticket))
}

/// Returns an error and all its causes, in every form a log could show.
fn full_text(error: &(dyn std::error::Error + 'static)) -> String {
    let mut words = String::new();
    let mut next = Some(error);
    while let Some(error) = next {
        words.push_str(&format!("{error} {error:?} {error:#?}\n"));
        next = error.source();
    }
    words
}
