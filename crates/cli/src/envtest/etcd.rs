//! The program `etcd` of `envtest`: it answers health checks, and stores nothing, because our
//! server has its data in its own memory.

use std::convert::Infallible;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};

use super::go_flags::{self, SyntaxError};
use super::program_runtime::block_on;
use crate::signals;

/// The name of the program.
pub(super) const NAME: &str = "etcd";

/// The version that is reported: that of the etcd that Kubernetes 1.36 is tested with.
const VERSION: &str = "3.6.8";

const HELP: &str = "\
Usage:

  etcd [flags]
    Answer the health checks of envtest. This is dogwatch: it stores nothing.

  etcd --version
    Show the version of etcd.

Flags:
  --data-dir 'DIR'
    Unused: the API server has its data in memory.
  --listen-client-urls 'http://localhost:2379'
    The URLs to answer at.
  --advertise-client-urls 'URLS'
    Unused.
  --listen-peer-urls 'URLS'
    Unused.
  --unsafe-no-fsync
    Unused.
";

/// The most connections that are served at a time. `envtest` opens one after the other.
const CONNECTIONS: usize = 64;

/// The time after which a connection is closed.
const IDLE: Duration = Duration::from_secs(60);

/// Runs the program until a signal ends it.
pub(super) fn main(words: Vec<String>) -> anyhow::Result<ExitCode> {
    // Flags of etcd without a value are booleans, and none of them matters here.
    let is_switch = |name: &str| Some(matches!(name, "help" | "version") || name.starts_with("unsafe-"));
    let given = match go_flags::read(words, is_switch) {
        Ok(given) => given,
        // A boolean flag that is not known as one, at the end.
        Err(SyntaxError::NoValue(_)) => Vec::new(),
        Err(error) => return Err(error.into()),
    };
    let value = |name: &str| given.iter().rev().find(|it| it.name == name).map(|it| it.value.as_str());
    if value("help").is_some() {
        io::stdout().write_all(HELP.as_bytes())?;
        return Ok(ExitCode::SUCCESS);
    }
    if value("version").is_some() {
        writeln!(io::stdout(), "etcd Version: {VERSION}\nThis is dogwatch, which stores nothing in it.")?;
        return Ok(ExitCode::SUCCESS);
    }
    let addresses = addresses(value("listen-client-urls").unwrap_or("http://localhost:2379"))?;
    block_on(serve(addresses))
}

/// Returns the addresses in a list of URLs.
fn addresses(urls: &str) -> anyhow::Result<Vec<String>> {
    let address = |url: &str| match url.trim().strip_prefix("http://") {
        Some(rest) => Ok(rest.trim_end_matches('/').to_owned()),
        None => bail!("--listen-client-urls: {url:?} is not supported; use a URL that begins with http://"),
    };
    urls.split(',').map(address).collect()
}

async fn serve(addresses: Vec<String>) -> anyhow::Result<ExitCode> {
    let end = signals::shutdown().context("cannot listen for signals")?;
    let mut listening = tokio::task::JoinSet::new();
    for address in addresses {
        let listener = listener(&address).await?;
        listening.spawn(answer(listener));
    }
    end.await;
    Ok(ExitCode::SUCCESS)
}

/// Listens on an address of this machine.
async fn listener(address: &str) -> anyhow::Result<TcpListener> {
    let resolved: Vec<SocketAddr> = tokio::net::lookup_host(address)
        .await
        .with_context(|| format!("--listen-client-urls: {address:?} is not an address"))?
        .collect();
    if let Some(other) = resolved.iter().find(|it| !it.ip().to_canonical().is_loopback()) {
        bail!("--listen-client-urls: {other} is not a loopback address, where envtest needs this program");
    }
    TcpListener::bind(&*resolved).await.with_context(|| format!("cannot listen on {address}"))
}

/// Answers the requests of all connections.
async fn answer(listener: TcpListener) {
    let slots = Arc::new(tokio::sync::Semaphore::new(CONNECTIONS));
    loop {
        let Ok(slot) = Arc::clone(&slots).acquire_owned().await else { return };
        match listener.accept().await {
            Ok((stream, _)) => {
                tokio::spawn(async move {
                    converse(stream).await;
                    drop(slot);
                });
            }
            // Without file descriptors, the next call would fail at once.
            Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
        }
    }
}

async fn converse(stream: TcpStream) {
    let service = service_fn(|request| async move { Ok::<_, Infallible>(response(&request)) });
    let connection = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
    // A client that hangs up has its answer. One that is silent keeps a slot for this long.
    let _ = tokio::time::timeout(IDLE, connection).await;
}

fn response(request: &Request<Incoming>) -> Response<Full<Bytes>> {
    let (status, text) = body(request.uri().path());
    let mut response = Response::new(text.into());
    *response.status_mut() = status;
    response
}

/// Returns the answer to a request for a path.
fn body(path: &str) -> (StatusCode, String) {
    match path {
        "/health" | "/livez" | "/readyz" => {
            (StatusCode::OK, "{\"health\":\"true\",\"reason\":\"\"}\n".to_owned())
        }
        "/version" => {
            (StatusCode::OK, format!("{{\"etcdserver\":\"{VERSION}\",\"etcdcluster\":\"3.6.0\"}}\n"))
        }
        _ => (
            StatusCode::NOT_FOUND,
            "this is the etcd of `dogwatch envtest`: it answers /health and stores nothing\n".to_owned(),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_urls_are_listened_on() {
        let found = addresses("http://127.0.0.1:2379,http://localhost:1/").unwrap();
        assert_eq!(found, ["127.0.0.1:2379", "localhost:1"]);
        let error = addresses("https://127.0.0.1:2379").unwrap_err().to_string();
        assert!(error.contains("https://127.0.0.1:2379") && error.contains("http://"), "{error}");
    }

    #[tokio::test]
    async fn it_listens_on_loopback_only() {
        let error = listener("0.0.0.0:0").await.unwrap_err().to_string();
        assert!(error.contains("0.0.0.0:0 is not a loopback address"), "{error}");
        assert!(listener("127.0.0.1:0").await.is_ok());
    }

    #[test]
    fn it_is_healthy_and_has_no_data() {
        assert_eq!(body("/health").0, StatusCode::OK);
        assert_eq!(body("/v3/kv/range").0, StatusCode::NOT_FOUND);
    }
}
