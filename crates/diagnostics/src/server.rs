//! The server of the page: its connections, within limits, and the tasks next to them.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinSet};

use crate::activity::Activity;
use crate::broadcast::Broadcast;
use crate::service::{PageService, Requested};
use crate::sources::Sources;

/// The number of open connections. A further one closes the oldest that is not a stream.
const MAX_CONNECTIONS: usize = 64;

/// The time for the headers of a request, including the idle time before them.
const HEADER_TIMEOUT: Duration = Duration::from_secs(10);

/// The bytes that a connection buffers: for a browser that does not read, a few snapshots.
const BUFFER: usize = 64 * 1024;

/// The number of actions that run at the same time.
const MAX_ACTIONS: usize = 8;

/// The pause after a failed accept, for example when the process is out of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Serves the page until the future is dropped, which closes all connections and ends all actions.
pub(crate) async fn serve(listener: TcpListener, sources: Arc<Sources>, names: Vec<String>) {
    let broadcast = Arc::new(Broadcast::new(Arc::clone(&sources)));
    let (actions, requested) = mpsc::channel(MAX_ACTIONS);
    let service = Arc::new(PageService::new(sources, Arc::clone(&broadcast), names, actions));
    tokio::select! {
        biased;
        () = broadcast.run() => {}
        () = run_actions(requested) => {}
        () = accept(listener, service) => {}
    }
}

async fn accept(listener: TcpListener, service: Arc<PageService>) {
    let mut connections = JoinSet::new();
    // The open connections, oldest first.
    let mut open: VecDeque<(AbortHandle, Activity)> = VecDeque::with_capacity(MAX_CONNECTIONS);
    loop {
        tokio::select! {
            biased;
            Some(_) = connections.join_next() => open.retain(|(it, _)| !it.is_finished()),
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    if open.len() >= MAX_CONNECTIONS {
                        let oldest = open.iter().position(|(_, it)| !it.is_streaming()).unwrap_or(0);
                        open.remove(oldest).iter().for_each(|(it, _)| it.abort());
                    }
                    let activity = Activity::new();
                    let connection = connection(stream, Arc::clone(&service), activity.clone());
                    open.push_back((connections.spawn(connection), activity));
                }
                Err(error) => {
                    tracing::warn!(%error, "the live page cannot accept a connection");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            },
        }
    }
}

async fn connection(stream: TcpStream, service: Arc<PageService>, activity: Activity) {
    let Ok(local) = stream.local_addr().map(|it| it.ip()) else { return };
    let answers = service_fn(|request: Request<Incoming>| answer(&service, request, local, &activity));
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(HEADER_TIMEOUT).max_buf_size(BUFFER);
    tokio::select! {
        biased;
        // The result is ignored: a browser that disconnects does not need a response.
        _ = http.serve_connection(TokioIo::new(stream), answers) => {}
        () = activity.ceased() => {}
    }
}

async fn answer(
    service: &PageService,
    request: Request<Incoming>,
    local: IpAddr,
    activity: &Activity,
) -> Result<hyper::Response<crate::service::Body>, Infallible> {
    // The body is dropped unread; hyper closes the connection if the client sends one.
    let (parts, _) = request.into_parts();
    Ok(service.answer(&parts, local, activity).await)
}

/// Runs the actions that are requested, until the future is dropped.
async fn run_actions(mut requested: mpsc::Receiver<Requested>) {
    let mut running = JoinSet::new();
    loop {
        tokio::select! {
            biased;
            Some(_) = running.join_next() => {}
            Some((action, outcome)) = requested.recv(), if running.len() < MAX_ACTIONS => {
                running.spawn(async move {
                    tracing::info!(action = action.name, "an action of the live page was requested");
                    // Fails if the browser does not wait any more.
                    let _ = outcome.send(action.run().await);
                });
            }
            else => return,
        }
    }
}
