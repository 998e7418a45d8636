//! Connections that switched protocols (SPDY, WebSocket): bytes both ways, until one side ends.

use http::header::{CONNECTION, UPGRADE};
use http::{HeaderMap, HeaderValue, Request, Response};
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::ending_body::Ending;

/// Adds the headers of a switch of protocols.
pub(crate) fn announce(headers: &mut HeaderMap, protocol: HeaderValue) {
    headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
    headers.insert(UPGRADE, protocol);
}

/// Returns the client's connection, once the server has switched protocols.
pub(crate) fn of_request<B>(request: &mut Request<B>) -> OnUpgrade {
    hyper::upgrade::on(request)
}

/// Returns the connection of a server that has switched protocols.
pub(crate) fn of_response<B>(response: &mut Response<B>) -> OnUpgrade {
    hyper::upgrade::on(response)
}

/// Copies bytes in both directions in a task, until both sides have ended, one of them fails,
/// `ending` resolves, or the proxy stops.
pub(crate) fn spawn(
    client: OnUpgrade,
    server: OnUpgrade,
    tasks: &TaskTracker,
    stop: CancellationToken,
    ending: Ending,
) {
    let copying = async move {
        // The client's side switches when it has read the response.
        let (client, server) = match tokio::try_join!(client, server) {
            Ok(switched) => switched,
            Err(error) => return tracing::debug!(%error, "a connection did not switch protocols"),
        };
        let (mut client, mut server) = (TokioIo::new(client), TokioIo::new(server));
        if let Err(error) = tokio::io::copy_bidirectional(&mut client, &mut server).await {
            tracing::debug!(%error, "a tunnel broke");
        }
    };
    let copying = async move {
        tokio::select! {
            biased;
            () = ending => {}
            () = copying => {}
        }
    };
    tasks.spawn(async move {
        // Both outcomes are the same to the client: its connection ends.
        let _ = stop.run_until_cancelled_owned(copying).await;
    });
}
