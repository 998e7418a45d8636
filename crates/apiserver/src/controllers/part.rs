//! What every controller is: something that runs beside the others, relies on built-in kinds, and writes under its own name.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use crate::cluster::{Cluster, Writer};
use crate::registry::Kind;

/// Something that runs for ever.
pub(crate) type Running = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Runs all of them in one task until `shutdown` is ready, each one a step at a time and always in this order: so the same
/// seed gives the same course of things, on one thread and with a clock that stands still.
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

/// A kind that is always served.
pub(crate) fn builtin(cluster: &Cluster, group: &str, version: &str, plural: &str) -> Arc<Kind> {
    cluster.catalog().kind(group, version, plural).expect("built-in kinds are always served")
}

/// A part of the server that owns what it writes under the name its original has.
pub(crate) fn writer(part: &str, manager: &str) -> Writer {
    Writer { manager: manager.to_owned(), ..Writer::server(part) }
}
