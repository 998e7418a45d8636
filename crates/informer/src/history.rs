//! The history of an informer's connection to its server: its last lists with their reasons, and
//! the interruptions of its watches.
//!
//! Written by reflectors when a list is complete or a watch ends, never for an event; read by
//! diagnostics. Bounded: the last [`SyncHistory::RELISTS`] lists, and one interruption.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use dogwatch_core::ResourceVersion;
use parking_lot::Mutex;
use tokio::time::Instant;

/// The number of bytes of a message that is kept.
const MESSAGE_LIMIT: usize = 300;

/// A list of a collection that was received completely.
///
/// ```
/// use dogwatch_client::Api;
/// use dogwatch_informer::{RelistReason, SharedInformer};
/// use k8s_openapi::api::core::v1::ConfigMap;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = dogwatch_apiserver::ApiServer::in_process().await?;
/// # let url = server.url().parse()?;
/// # let client = dogwatch_client::Client::from_service(url, "default", server.service());
/// let maps = SharedInformer::new(Api::<ConfigMap>::all(client));
/// maps.start();
/// maps.synced().await?;
/// let lists = maps.stats().relists;
/// assert_eq!(lists[0].reason, RelistReason::Start);
/// println!("{} objects after {:?}", lists[0].objects, lists[0].took);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Relist {
    /// The number of the list, counted from 1 for each informer.
    pub number: u64,
    /// The reason for which the collection was listed.
    pub reason: RelistReason,
    /// The problem that led to the list, if there was one.
    pub message: Option<String>,
    /// The time at which it was complete.
    pub completed_at: Instant,
    /// The time from the request that succeeded to the last object.
    pub took: Duration,
    /// The number of objects in it.
    pub objects: u64,
    /// Its version.
    pub version: ResourceVersion,
}

/// The reason for which a collection was listed.
///
/// A list that fails is tried again for the same reason.
///
/// ```
/// use dogwatch_informer::RelistReason;
///
/// assert_eq!(RelistReason::Expired.to_string(), "history expired (410)");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RelistReason {
    /// The informer started.
    Start,
    /// The reflector ended unexpectedly and was started again.
    Restarted,
    /// The server did not serve the collection for a while.
    NotServed,
    /// The server does not keep the events after the last version any more.
    Expired,
    /// The server reports an older version than before.
    HistoryReset,
    /// Watches could not be opened, or brought nothing, several times.
    Connection,
    /// Watches brought nothing for long, although they were open.
    Silence,
    /// The server ended the watch with an error other than an expired history.
    ServerError,
}

/// The watches of an informer.
///
/// ```
/// use dogwatch_client::Api;
/// use dogwatch_informer::SharedInformer;
/// use k8s_openapi::api::core::v1::ConfigMap;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = dogwatch_apiserver::ApiServer::in_process().await?;
/// # let url = server.url().parse()?;
/// # let client = dogwatch_client::Client::from_service(url, "default", server.service());
/// let maps = SharedInformer::new(Api::<ConfigMap>::all(client));
/// maps.start();
/// maps.synced().await?;
/// let watches = maps.stats().watches;
/// assert!(watches.interrupted <= watches.requested);
/// assert_eq!(watches.last_interruption, None);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct WatchStats {
    /// The number of watches that were requested.
    pub requested: u64,
    /// The number of watches that ended before their timeout.
    pub interrupted: u64,
    /// The last of those.
    pub last_interruption: Option<Interruption>,
}

/// A watch that ended before its timeout.
///
/// ```
/// use dogwatch_client::Api;
/// use dogwatch_informer::{Interruption, SharedInformer};
/// use k8s_openapi::api::core::v1::ConfigMap;
///
/// fn describe(it: &Interruption) -> String {
///     format!("{} seconds ago: {}", it.at.elapsed().as_secs(), it.message)
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = dogwatch_apiserver::ApiServer::in_process().await?;
/// # let url = server.url().parse()?;
/// # let client = dogwatch_client::Client::from_service(url, "default", server.service());
/// let maps = SharedInformer::new(Api::<ConfigMap>::all(client));
/// maps.start();
/// maps.synced().await?;
/// let last = maps.stats().watches.last_interruption.as_ref().map(describe);
/// assert_eq!(last, None, "the server works");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Interruption {
    /// The time at which it ended.
    pub at: Instant,
    /// A description of the end.
    pub message: String,
}

/// The history of one informer, shared by its reflectors.
#[derive(Clone, Debug, Default)]
pub(crate) struct SyncHistory(Arc<Mutex<Entries>>);

#[derive(Debug, Default)]
struct Entries {
    /// The last lists, newest first.
    relists: VecDeque<Relist>,
    listed: u64,
    watches: WatchStats,
}

impl SyncHistory {
    /// The number of lists that are kept.
    pub(crate) const RELISTS: usize = 32;

    /// Adds a list, and gives it its number.
    pub(crate) fn listed(&self, relist: Relist) {
        let mut entries = self.0.lock();
        entries.listed += 1;
        let number = entries.listed;
        entries.relists.truncate(Self::RELISTS - 1);
        entries.relists.push_front(Relist { number, ..relist });
    }

    /// Counts a request for a watch.
    pub(crate) fn watching(&self) {
        self.0.lock().watches.requested += 1;
    }

    /// Records that a watch ended before its timeout.
    pub(crate) fn interrupted(&self, at: Instant, message: &str) {
        let mut entries = self.0.lock();
        entries.watches.interrupted += 1;
        entries.watches.last_interruption = Some(Interruption { at, message: shortened(message) });
    }

    /// Returns the last lists, newest first, and the watches.
    pub(crate) fn get(&self) -> (Vec<Relist>, WatchStats) {
        let entries = self.0.lock();
        (entries.relists.iter().cloned().collect(), entries.watches.clone())
    }
}

/// Returns the beginning of a message.
pub(crate) fn shortened(message: &str) -> String {
    message[..message.floor_char_boundary(MESSAGE_LIMIT)].to_owned()
}

impl fmt::Display for RelistReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Start => "start",
            Self::Restarted => "the reflector was restarted",
            Self::NotServed => "the collection is served again",
            Self::Expired => "history expired (410)",
            Self::HistoryReset => "version went backwards",
            Self::Connection => "connection",
            Self::Silence => "silent watches",
            Self::ServerError => "error of the server",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn relist(reason: RelistReason) -> Relist {
        Relist {
            number: 0,
            reason,
            message: None,
            completed_at: Instant::now(),
            took: Duration::ZERO,
            objects: 7,
            version: "7".into(),
        }
    }

    #[test]
    fn the_last_lists_are_kept_newest_first() {
        let history = SyncHistory::default();
        history.listed(relist(RelistReason::Start));
        for _ in 0..100 {
            history.listed(relist(RelistReason::Expired));
        }
        let (lists, _) = history.get();
        assert_eq!(lists.len(), SyncHistory::RELISTS);
        assert_eq!((lists[0].number, lists[31].number), (101, 70));
    }

    #[test]
    fn a_million_interruptions_take_no_more_memory_than_one() {
        let history = SyncHistory::default();
        let long = "\u{e9}".repeat(1_000_000);
        for _ in 0..3 {
            history.watching();
            history.interrupted(Instant::now(), &long);
        }
        let (_, watches) = history.get();
        assert_eq!((watches.requested, watches.interrupted), (3, 3));
        assert_eq!(watches.last_interruption.map(|it| it.message.len()), Some(MESSAGE_LIMIT));
    }
}
