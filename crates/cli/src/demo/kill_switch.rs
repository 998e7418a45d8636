//! The way from a button of the live page to the gRPC servers of the pods.
//!
//! The servers come and go with the acts, and the button stays. So the servers take requests while
//! they run, and a request at any other time is answered with the reason.

use std::sync::Arc;

use anyhow::Context as _;
use parking_lot::Mutex;
use tokio::sync::{mpsc, oneshot};

/// The error of a request when there are no servers.
const NO_SERVERS: &str = "there are no gRPC servers now: they run in act 5, and after the story";

/// A request to kill one server, which is answered with what was done.
pub(super) type KillRequest = oneshot::Sender<anyhow::Result<String>>;

/// Kills one gRPC server at a time; clones are for the same servers.
#[derive(Clone, Debug, Default)]
pub(super) struct KillSwitch(Arc<Mutex<Option<mpsc::Sender<KillRequest>>>>);

impl KillSwitch {
    /// Returns the requests from now on, for the servers that run now.
    pub(super) fn requests(&self) -> mpsc::Receiver<KillRequest> {
        let (sender, requests) = mpsc::channel(1);
        *self.0.lock() = Some(sender);
        requests
    }

    /// Kills a server. Returns a text that says which.
    ///
    /// # Errors
    /// Returns an error if there are no servers.
    pub(super) async fn kill(&self) -> anyhow::Result<String> {
        let servers = self.0.lock().clone().context(NO_SERVERS)?;
        let (request, outcome) = oneshot::channel();
        servers.send(request).await.ok().context(NO_SERVERS)?;
        outcome.await.ok().context(NO_SERVERS)?
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_request_is_answered_by_the_servers_or_with_the_reason_that_there_are_none() {
        let switch = KillSwitch::default();
        let refused = switch.kill().await.expect_err("no servers have run yet");
        assert!(refused.to_string().contains("no gRPC servers now"), "{refused}");
        let mut requests = switch.requests();
        let (outcome, ()) = tokio::join!(switch.kill(), async {
            let request = requests.recv().await.expect("a request");
            request.send(Ok("killed".to_owned())).expect("it is waited for");
        });
        assert_eq!(outcome.expect("killed"), "killed");
        drop(requests);
        assert!(switch.kill().await.is_err(), "the servers have stopped");
    }
}
