//! The transport with real servers on loopback, by concern.

mod protocol;
mod sharing;
mod certificates;
mod proxies;
mod failures;
mod unprocessed;

use std::error::Error;

use bytes::Bytes;
use dogwatch_client::config::{Identity, Pem};
use dogwatch_client::transport::{Transport, TransportError, TransportOptions};
use dogwatch_client::{Config, RequestBody, ResponseBody};
use http::{Request, Response};
use http_body_util::BodyExt;
use tokio::sync::watch;
use tower::ServiceExt;

use crate::support::{Authority, Server, soon};

/// A channel without a plugin's certificate.
fn no_plugin() -> watch::Receiver<Option<Identity>> {
    watch::channel(None).1
}

/// Settings that trust this authority.
fn trusting(url: &str, authority: &Authority) -> Config {
    let mut config = Config::new(url.parse().unwrap());
    config.tls.ca = Some(Pem::Data(authority.pem().into()));
    config
}

fn transport(config: &Config) -> Transport {
    Transport::with_options(config, no_plugin(), TransportOptions::default()).unwrap()
}

fn get(url: &str) -> Request<RequestBody> {
    Request::get(url).body(RequestBody::default()).unwrap()
}

async fn send(
    transport: &Transport,
    request: Request<RequestBody>,
) -> Result<Response<ResponseBody>, TransportError> {
    soon(transport.clone().oneshot(request)).await
}

/// Returns the whole text of a response.
async fn fetch(transport: &Transport, url: &str) -> String {
    let response = send(transport, get(url)).await.unwrap();
    read(response).await
}

async fn read(response: Response<ResponseBody>) -> String {
    let bytes: Bytes = soon(response.into_body().collect()).await.unwrap().to_bytes();
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// Returns an error with all its causes, as in a log.
fn chain(error: &dyn Error) -> String {
    let causes = std::iter::successors(Some(error), |&error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

/// A TLS server for 127.0.0.1 with its authority.
async fn secure_server<F, H>(handler: H) -> (Server, Authority)
where
    F: Future<Output = Response<crate::support::Body>> + Send + 'static,
    H: Fn(Request<hyper::body::Incoming>, crate::support::Peer) -> F + Send + Sync + 'static,
{
    let authority = Authority::new("cluster");
    let leaf = authority.server(&["127.0.0.1"]);
    (crate::support::ServerSetup::tls(leaf).start(handler).await, authority)
}
