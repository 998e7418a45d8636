//! The common parts of controllers: futures that never return, the built-in kinds they rely on, and
//! the names they write under.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use crate::cluster::{Cluster, Writer};
use crate::registry::Kind;

/// A background loop, which never returns.
pub(crate) type Running = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Runs all loops in one task until `shutdown` is ready, polling them one after the other in this
/// order. So runs with the same seed are identical, on one thread and with a paused clock.
pub(crate) async fn together(mut all: Vec<Running>, shutdown: impl Future<Output = ()>) {
    let every = std::future::poll_fn(move |context| {
        all.retain_mut(|it| it.as_mut().poll(context).is_pending());
        Poll::<()>::Pending
    });
    tokio::select! {
        biased;
        () = shutdown => {}
        () = every => {}
    }
}

/// Returns a kind that is always served.
pub(crate) fn builtin(cluster: &Cluster, group: &str, version: &str, plural: &str) -> Arc<Kind> {
    cluster.catalog().kind(group, version, plural).expect("built-in kinds are always served")
}

/// Returns a writer for a component of the server, with the field manager that this component has
/// in Kubernetes.
pub(crate) fn writer(part: &str, manager: &str) -> Writer {
    Writer { manager: manager.to_owned(), ..Writer::server(part) }
}
