//! The connector of the HTTP/1.1 pool, whose connections outlive the requests that they were opened
//! for.
//!
//! The pool of hyper-util opens a connection inside the request that needs it, and drops it midway
//! with that request. A client with a time limit shorter than the connection setup would never
//! connect. So connections are opened in tasks; one whose request was dropped is left to the next
//! request, as in Go's transport (`dialConnFor` in `net/http/transport.go`).

use parking_lot::{Mutex, MutexGuard};
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use http::Uri;
use tokio::sync::oneshot;
use tokio::task::AbortHandle;
use tower_service::Service;

use super::connector::{Connector, ServerConnection};
use super::error::{TransportError, TransportErrorKind};
use crate::tls::Alpn;

/// The time an open connection waits for a request. Servers wait longer than this for the first
/// request, so a connection found here is still open.
const UNCLAIMED: Duration = Duration::from_secs(10);

/// The connector of the HTTP/1.1 pool. Clones share the unclaimed connections.
#[derive(Clone)]
pub(super) struct Http1Connector {
    connector: Connector,
    unclaimed: Arc<Unclaimed>,
}

/// Connections, open or being opened, whose requests were dropped.
#[derive(Default)]
struct Unclaimed {
    /// A std mutex: never held across an await.
    dials: Mutex<Vec<Dial>>,
    next: AtomicU64,
}

/// A connection that a task opens.
struct Dial {
    number: u64,
    target: Uri,
    opened: oneshot::Receiver<Result<ServerConnection, TransportError>>,
    task: AbortHandle,
}

/// A request's wait for its connection. If dropped early, it leaves the connection to the next
/// request.
pub(super) struct Opening {
    dial: Option<Dial>,
    unclaimed: Arc<Unclaimed>,
}

impl Http1Connector {
    pub(super) fn new(connector: Connector) -> Self {
        Self { connector, unclaimed: Arc::default() }
    }

    fn dial(&self, target: Uri) -> Dial {
        let number = self.unclaimed.next.fetch_add(1, Ordering::Relaxed);
        let (done, opened) = oneshot::channel();
        let (connector, unclaimed) = (self.connector.clone(), Arc::downgrade(&self.unclaimed));
        let address = target.clone();
        let task = tokio::spawn(async move {
            let dialed = connector.connect(&address, Alpn::Http1).await;
            drop(connector);
            let failed = dialed.is_err();
            if failed {
                // A later request makes its own attempt.
                Unclaimed::forget(&unclaimed, number);
            }
            if done.send(dialed).is_ok() && !failed {
                tokio::time::sleep(UNCLAIMED).await;
                Unclaimed::forget(&unclaimed, number);
            }
        });
        Dial { number, target, opened, task: task.abort_handle() }
    }
}

impl Unclaimed {
    fn dials(&self) -> MutexGuard<'_, Vec<Dial>> {
        self.dials.lock()
    }

    fn claim(&self, target: &Uri) -> Option<Dial> {
        let mut dials = self.dials();
        // A task that ended has removed its own entry, unless its runtime was shut down.
        dials.retain(|it| !it.task.is_finished());
        let at = dials.iter().position(|it| it.target == *target)?;
        Some(dials.swap_remove(at))
    }

    fn forget(this: &Weak<Self>, number: u64) {
        if let Some(this) = this.upgrade() {
            this.dials().retain(|it| it.number != number);
        }
    }
}

impl Service<Uri> for Http1Connector {
    type Response = ServerConnection;
    type Error = TransportError;
    type Future = Opening;

    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), TransportError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, target: Uri) -> Opening {
        let dial = self.unclaimed.claim(&target).unwrap_or_else(|| self.dial(target));
        Opening { dial: Some(dial), unclaimed: Arc::clone(&self.unclaimed) }
    }
}

impl Future for Opening {
    type Output = Result<ServerConnection, TransportError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let dial = self.dial.as_mut().expect("a future is not polled after its end");
        let opened = ready!(Pin::new(&mut dial.opened).poll(cx));
        self.dial = None;
        Poll::Ready(opened.unwrap_or_else(|_| {
            let message = "the runtime ended while a connection was opened";
            Err(TransportError::new(TransportErrorKind::Lost, message))
        }))
    }
}

impl Drop for Opening {
    fn drop(&mut self) {
        if let Some(dial) = self.dial.take() {
            self.unclaimed.dials().push(dial);
        }
    }
}
