//! Namespaces that wait for the rest of their content: a watch of what is left wakes them.
//!
//! The watches exist only while something is left. A namespace is woken when all of it is gone, and
//! now and then before that, so that its conditions follow: a pass per object that disappears would
//! make the deletion quadratic in the number of objects.

use std::collections::HashMap;
use std::fmt;
use std::time::Duration;

use dogwatch_client::Api;
use dogwatch_core::{ObjectKey, ResourceVersion, WatchParams};
use dogwatch_wire::WatchEvent;
use futures_util::future::BoxFuture;
use futures_util::stream::{self, Stream};
use futures_util::{FutureExt, StreamExt};
use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::content::Content;

/// The maximum number of namespaces whose content is watched. Others are looked at by a timer.
const MAX_WATCHED: usize = 100;
/// The time from a first change of the content to the next pass, unless everything is gone before.
const REPORT_AFTER: Duration = Duration::from_secs(5);

/// The watches of namespaces that wait. Dropping it ends them.
pub(super) struct Waiting {
    tasks: Mutex<HashMap<ObjectKey, JoinSet<()>>>,
    wake: mpsc::UnboundedSender<ObjectKey>,
}

/// The objects of a collection that are left.
pub(super) struct LeftContent {
    pub(super) api: Api<Content>,
    /// The version at which they were counted.
    pub(super) version: ResourceVersion,
    pub(super) objects: usize,
}

impl Waiting {
    /// Creates a set without watches, and the stream of namespaces that are woken.
    pub(super) fn new() -> (Self, impl Stream<Item = ObjectKey> + Send + 'static) {
        let (wake, woken) = mpsc::unbounded_channel();
        let next = |mut it: mpsc::UnboundedReceiver<ObjectKey>| async { Some((it.recv().await?, it)) };
        (Self { tasks: Mutex::default(), wake }, stream::unfold(woken, next))
    }

    /// Ends the watches of a namespace.
    pub(super) fn end(&self, key: &ObjectKey) {
        self.tasks.lock().remove(key);
    }

    /// Watches what is left of a namespace. Returns false if too many namespaces wait already.
    pub(super) fn begin(&self, key: &ObjectKey, left: Vec<LeftContent>) -> bool {
        let mut tasks = self.tasks.lock();
        if tasks.len() >= MAX_WATCHED && !tasks.contains_key(key) {
            return false;
        }
        let (wake, woken) = (self.wake.clone(), key.clone());
        let mut task = JoinSet::new();
        task.spawn(async move {
            changed(left).await;
            // The receiver is gone only when the controller ends.
            let _ = wake.send(woken);
        });
        tasks.insert(key.clone(), task);
        true
    }
}

/// Waits until a pass is worthwhile.
async fn changed(left: Vec<LeftContent>) {
    let mut objects = left.iter().fold(0_usize, |sum, it| sum.saturating_add(it.objects));
    let watches = left.into_iter().filter_map(|it| it.api.watch_from(WatchParams::after(it.version)).ok());
    let mut events = stream::select_all(watches.map(StreamExt::boxed));
    let mut report: Option<BoxFuture<'static, ()>> = None;
    loop {
        let due = async {
            match &mut report {
                Some(timer) => timer.await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            // In fixed order, so that runs with the same seed are identical.
            biased;
            event = events.next() => match event {
                Some(Ok(WatchEvent::Deleted(_))) => {
                    objects = objects.saturating_sub(1);
                    if objects == 0 {
                        return;
                    }
                    report.get_or_insert_with(|| tokio::time::sleep(REPORT_AFTER).boxed());
                }
                Some(Ok(WatchEvent::Modified(_))) => {
                    report.get_or_insert_with(|| tokio::time::sleep(REPORT_AFTER).boxed());
                }
                Some(Ok(_)) => {}
                // The next pass lists everything again. The pause keeps a server that does not
                // support the watch from being asked all the time.
                Some(Err(_)) | None => return tokio::time::sleep(REPORT_AFTER).await,
            },
            () = due => return,
        }
    }
}

impl fmt::Debug for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Waiting").field("namespaces", &self.tasks.lock().len()).finish_non_exhaustive()
    }
}
