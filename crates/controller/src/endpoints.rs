//! The HTTP endpoints of a manager: health, readiness, metrics.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderValue, X_CONTENT_TYPE_OPTIONS};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, ToSocketAddrs};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::timeout;

use crate::checks::{Checks, HealthQuery, HealthReport};

/// The maximum number of open connections; a further one closes the oldest. Probes and scrapes are
/// few and short, so the oldest is nearly always idle.
const MAX_CONNECTIONS: usize = 100;

/// The timeout for the headers of a request, including the idle time before them.
const HEADER_TIMEOUT: Duration = Duration::from_secs(30);

/// The time after which a connection serves no further request.
const CONNECTION_LIFETIME: Duration = Duration::from_secs(60);

/// The time for the last response of a connection after its lifetime.
const LAST_RESPONSE_TIMEOUT: Duration = Duration::from_secs(30);

/// The pause after a failed accept, for example when the process is out of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The content type of the Prometheus text format.
const METRICS_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// One address at which a [`Manager`](crate::Manager) serves plain HTTP/1.1.
///
/// - `/healthz` fails if the process should be restarted; `/readyz` fails if it cannot do its work.
///   Both return `ok`, or 500 with the name of the failed check. `?verbose` lists each check, and
///   `?exclude=name` skips one. `/healthz/name` runs a single check.
/// - `/metrics` returns the output of the function given to [`Self::metrics`]; without one, 404.
///
/// It accepts connections from the moment it is bound, and responds while the manager runs, until
/// everything else has shut down. At most 100 connections are open at once: a further one closes
/// the oldest. A connection serves requests for at most a minute.
///
/// ```
/// use dogwatch_controller::{Endpoints, Manager};
/// use tokio::io::{AsyncReadExt, AsyncWriteExt};
/// use tokio::net::TcpStream;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = dogwatch_apiserver::ApiServer::in_process().await?;
/// # let url = server.url().parse()?;
/// # let client = dogwatch_client::Client::from_service(url, "default", server.service());
/// let endpoints = Endpoints::bind("127.0.0.1:0").await?.metrics(|| "up 1\n".to_owned());
/// let address = endpoints.local_addr()?;
/// let scrape = async move {
///     let mut stream = TcpStream::connect(address).await.expect("the port is bound");
///     let request = b"GET /metrics HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
///     stream.write_all(request).await.expect("the manager reads");
///     let mut response = String::new();
///     stream.read_to_string(&mut response).await.expect("the response is text");
///     assert!(response.ends_with("up 1\n"), "{response}");
/// };
/// Manager::new(client).serve(endpoints).run_until(scrape).await?;
/// # Ok(())
/// # }
/// ```
pub struct Endpoints {
    listener: TcpListener,
    health: bool,
    render: Option<Arc<Render>>,
}

type Render = dyn Fn() -> String + Send + Sync;

impl Endpoints {
    /// Binds the address for health and readiness.
    ///
    /// # Errors
    /// Returns an error if the address cannot be bound, for example because it is in use.
    pub async fn bind(address: impl ToSocketAddrs) -> io::Result<Self> {
        Ok(Self { listener: TcpListener::bind(address).await?, health: true, render: None })
    }

    /// Also serves metrics in the Prometheus text format. The function comes from the exporter of
    /// the program's choice and is called for each scrape; it must not block.
    #[must_use]
    pub fn metrics(mut self, render: impl Fn() -> String + Send + Sync + 'static) -> Self {
        self.render = Some(Arc::new(render));
        self
    }

    /// Serves no health and readiness at this address, so that metrics can have an address of their
    /// own.
    #[must_use]
    pub fn without_health(mut self) -> Self {
        self.health = false;
        self
    }

    /// Returns the bound address; for port 0, with the port that the system assigned.
    ///
    /// # Errors
    /// Returns an error if the operating system cannot report the address.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves requests until the future is dropped.
    pub(crate) async fn serve(self, healthz: Checks, readyz: Checks) {
        let checks = self.health.then_some((healthz, readyz));
        let service_state = Arc::new(EndpointService { checks, render: self.render });
        let mut connections = JoinSet::new();
        // The open connections, oldest first.
        let mut open: VecDeque<AbortHandle> = VecDeque::with_capacity(MAX_CONNECTIONS);
        loop {
            tokio::select! {
                biased;
                Some(_) = connections.join_next() => open.retain(|it| !it.is_finished()),
                // Never disabled: idle connections of other clients would keep probes out.
                accepted = self.listener.accept() => match accepted {
                    Ok((stream, _)) => {
                        if open.len() == MAX_CONNECTIONS {
                            open.pop_front().iter().for_each(AbortHandle::abort);
                        }
                        open.push_back(connections.spawn(connection(stream, Arc::clone(&service_state))));
                    }
                    Err(error) => {
                        tracing::warn!(%error, "cannot accept a connection");
                        tokio::time::sleep(ACCEPT_PAUSE).await;
                    }
                },
            }
        }
    }
}

impl fmt::Debug for Endpoints {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoints")
            .field("listener", &self.listener)
            .field("health", &self.health)
            .field("metrics", &self.render.is_some())
            .finish()
    }
}

async fn connection(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    service_state: Arc<EndpointService>,
) {
    let service = service_fn(move |request: Request<Incoming>| {
        let service_state = Arc::clone(&service_state);
        async move {
            let uri = request.uri();
            Ok::<_, Infallible>(
                service_state.to(request.method(), uri.path(), uri.query().unwrap_or_default()).await,
            )
        }
    });
    let mut server = http1::Builder::new();
    server.timer(TokioTimer::new()).header_read_timeout(HEADER_TIMEOUT);
    let mut connection = pin!(server.serve_connection(TokioIo::new(stream), service));
    // The result is ignored: a client that disconnects in the middle of a request does not need a
    // response.
    if timeout(CONNECTION_LIFETIME, connection.as_mut()).await.is_err() {
        connection.as_mut().graceful_shutdown();
        let _ = timeout(LAST_RESPONSE_TIMEOUT, connection).await;
    }
}

/// The content served at one address.
struct EndpointService {
    /// The checks of `/healthz` and of `/readyz`.
    checks: Option<(Checks, Checks)>,
    render: Option<Arc<Render>>,
}

impl EndpointService {
    async fn to(&self, method: &Method, path: &str, query: &str) -> Response<Full<Bytes>> {
        if method != Method::GET && method != Method::HEAD {
            return plain(StatusCode::METHOD_NOT_ALLOWED, "method not allowed\n");
        }
        if let ("/metrics", Some(render)) = (path, &self.render) {
            let mut response = plain(StatusCode::OK, render());
            response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(METRICS_TYPE));
            return response;
        }
        match self.health(path, query).await {
            Some(HealthReport { ok: true, text }) => plain(StatusCode::OK, text),
            Some(HealthReport { ok: false, text }) => plain(StatusCode::INTERNAL_SERVER_ERROR, text),
            None => plain(StatusCode::NOT_FOUND, "404 page not found\n"),
        }
    }

    async fn health(&self, path: &str, query: &str) -> Option<HealthReport> {
        let (healthz, readyz) = self.checks.as_ref()?;
        let path = path.strip_prefix('/')?;
        let (endpoint, name) = path.split_once('/').unwrap_or((path, ""));
        let checks = match endpoint {
            "healthz" => healthz,
            "readyz" => readyz,
            _ => return None,
        };
        match name {
            "" => Some(checks.all(endpoint, health_query(query)).await),
            name => checks.one(name).await,
        }
    }
}

fn health_query(text: &str) -> HealthQuery {
    let mut query = HealthQuery::default();
    for (key, value) in form_urlencoded::parse(text.as_bytes()) {
        match &*key {
            "verbose" => query.verbose = true,
            "exclude" => drop(query.exclude.insert(value.into_owned())),
            _ => {}
        }
    }
    query
}

fn plain(status: StatusCode, text: impl Into<Bytes>) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(text.into()));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
    use tokio::task::JoinHandle;
    use tokio::time::{Instant, sleep};

    use super::*;

    const REQUEST: &[u8] = b"GET /metrics HTTP/1.1\r\nhost: x\r\n\r\n";
    const HOUR: Duration = Duration::from_secs(3600);

    /// Serves one connection, with metrics of this length and a small buffer.
    fn open(length: usize) -> (DuplexStream, JoinHandle<()>) {
        let (client, server) = duplex(1024);
        let render: Arc<Render> = Arc::new(move || "x".repeat(length));
        let service_state = Arc::new(EndpointService { checks: None, render: Some(render) });
        (client, tokio::spawn(connection(server, service_state)))
    }

    /// Each request restarts the timeout for headers.
    #[tokio::test(start_paused = true)]
    async fn a_connection_that_sends_requests_is_closed_after_a_minute() {
        let (mut client, served) = open(1);
        let begun = Instant::now();
        let mut answers = 0;
        let mut buffer = [0; 1024];
        while begun.elapsed() < HOUR && client.write_all(REQUEST).await.is_ok() {
            match client.read(&mut buffer).await {
                Ok(read) if read > 0 => answers += 1,
                _ => break,
            }
            sleep(Duration::from_secs(25)).await;
        }
        assert!(begun.elapsed() <= Duration::from_secs(80), "open for {:?}", begun.elapsed());
        assert_eq!(answers, 3);
        served.await.expect("no panic");
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_whose_client_does_not_read_is_closed() {
        let (mut client, served) = open(100_000);
        client.write_all(REQUEST).await.expect("read by the server");
        timeout(HOUR, served).await.expect("it is closed").expect("no panic");
    }

    #[tokio::test(start_paused = true)]
    async fn a_response_that_is_being_sent_at_the_end_of_the_minute_is_completed() {
        let (mut client, served) = open(1500);
        sleep(Duration::from_secs(29)).await;
        client.write_all(REQUEST).await.expect("read by the server");
        sleep(Duration::from_secs(35)).await;
        let mut answer = Vec::new();
        timeout(HOUR, client.read_to_end(&mut answer)).await.expect("it is closed").expect("read");
        assert!(answer.ends_with(&[b'x'; 1500]));
        served.await.expect("no panic");
    }
}
