//! The garbage collector: deletes dependents after or before their owners, or orphans them, as a
//! deletion asks.
//!
//! ```text
//! caches of all kinds ─► graph (owners) ─► queue ─► read the object and its owners ─► decide ─► write
//! ```
//!
//! The caches and the graph determine which objects to process, and that nothing has to be done for
//! most of them. Before a write, the object and the owners that are not cached are read from the
//! server: an owner is gone only if the server or a watch says so. Every write has the uid and the
//! version of that read as preconditions.
//!
//! An object is processed once at a time, many objects at the same time, but only a few of one kind
//! and namespace: a webhook that does not respond delays only those.
//!
//! The `mod` lines below are in layer order.

mod tracked;
mod graph;
mod decide;
mod slots;
mod deleted_kinds;
mod definition;
mod kinds;
mod monitors;
mod action;
mod owners;
mod definition_follower;
mod collector;
mod work;

use std::sync::Arc;

use dogwatch_client::Client;
use dogwatch_controller::BoxError;

use crate::health::Health;
use crate::recorder::Recorder;
use crate::supervise::Startup;
use collector::Collector;
pub(super) use tracked::NAME;

/// Collects garbage until it fails.
pub(super) async fn run(
    client: Client,
    recorder: Recorder,
    startup: Startup,
    health: Arc<Health>,
) -> Result<(), BoxError> {
    let collector = Collector::start(client, recorder)?;
    tokio::select! {
        // In fixed order, so that runs with the same seed are identical.
        biased;
        ended = collector.follow_kinds() => ended,
        ended = work::run(&collector, startup, &health) => ended,
    }
}
