//! The request log: what a server was asked, for tests that want to know.
//!
//! ```
//! # use dogwatch_apiserver::log::RequestLog;
//! # let log = RequestLog::keeping(100);
//! let patches = log.requests().verb("patch").resource("pods").manager("my-controller").count();
//! # assert_eq!(patches, 0);
//! ```
//!
//! Off unless asked for, and then it costs one look at an option. It knows nothing of bodies and headers.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;

use crate::faults::names_resource;

/// How many bytes of text the records may have together: a path may have 100 KB, and callers without credentials choose it.
const MAX_BYTES: usize = 32 * 1024 * 1024;

/// What a server was asked. Clones share it. [`RequestLog::default`] keeps nothing.
#[derive(Clone, Debug, Default)]
pub struct RequestLog {
    ring: Option<Arc<Ring>>,
}

#[derive(Debug)]
struct Ring {
    /// The oldest are forgotten when there are more than this.
    capacity: usize,
    /// Never held across an await.
    kept: Mutex<Kept>,
    /// Rung after each request.
    bell: watch::Sender<()>,
}

#[derive(Debug, Default)]
struct Kept {
    /// Oldest first, at most as many as the capacity says.
    records: VecDeque<Arc<Record>>,
    /// The bytes of text in them.
    bytes: usize,
    /// How many were dropped from the front, so that a position stays valid.
    dropped: u64,
}

/// One request and how it ended. A watch is recorded when it begins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// The verb, as in discovery.
    pub verb: String,
    /// The group of the resource; empty for the core group, and for what is no resource.
    pub group: String,
    /// The plural of the resource; empty for what is no resource.
    pub resource: String,
    /// The namespace, where the request names one.
    pub namespace: Option<String>,
    /// The object, where the request names one.
    pub name: Option<String>,
    /// The part of the object; empty for the object itself.
    pub part: String,
    /// The path of the request.
    pub path: String,
    /// The query as it was sent; empty without one.
    pub query: String,
    /// Who asked.
    pub user: String,
    /// Who owns what was written, for writes.
    pub manager: String,
    /// The code of the answer; 0 when the connection was cut instead.
    pub status: u16,
    /// How long it took until the answer began.
    pub duration: Duration,
}

/// The requests that were kept when it was made, oldest first, narrowed step by step.
#[derive(Clone, Debug)]
#[must_use = "it only holds requests; ask for their count or go through them"]
pub struct Requests {
    records: Vec<Arc<Record>>,
}

impl RequestLog {
    /// A log that keeps the newest `capacity` requests; fewer where they are so long that they would take more than 32 MiB.
    pub fn keeping(capacity: usize) -> Self {
        let ring = Ring { capacity, kept: Mutex::default(), bell: watch::Sender::new(()) };
        Self { ring: Some(Arc::new(ring)) }
    }

    /// Whether it keeps anything.
    pub fn is_on(&self) -> bool {
        self.ring.is_some()
    }

    /// Keeps a request. Nothing is made where nothing is kept.
    pub fn record(&self, record: impl FnOnce() -> Record) {
        let Some(ring) = &self.ring else { return };
        let record = Arc::new(record());
        let mut kept = ring.kept();
        kept.bytes += record.bytes();
        kept.records.push_back(record);
        while kept.records.len() > ring.capacity || kept.bytes > MAX_BYTES {
            let Some(oldest) = kept.records.pop_front() else { break };
            kept.bytes -= oldest.bytes();
            kept.dropped += 1;
        }
        drop(kept);
        ring.bell.send_replace(());
    }

    /// The requests that are kept now.
    pub fn requests(&self) -> Requests {
        let records = self.ring.as_ref().map(|it| it.kept().records.iter().cloned().collect());
        Requests { records: records.unwrap_or_default() }
    }

    /// Forgets all requests.
    pub fn clear(&self) {
        if let Some(ring) = &self.ring {
            let mut kept = ring.kept();
            kept.dropped += kept.records.len() as u64;
            kept.records.clear();
            kept.bytes = 0;
        }
    }

    /// Waits until `count` requests of this kind are there or have come, and gives them, oldest first. For ever if they do not
    /// come or the log is off: put a timeout around it. Counts what it sees; requests that come faster than they can be
    /// looked at, so that they are forgotten before, are not seen.
    pub async fn wait_for(&self, mut of_kind: impl FnMut(&Record) -> bool, count: usize) -> Requests {
        let Some(ring) = &self.ring else { return std::future::pending().await };
        let (mut found, mut position) = (Vec::new(), 0);
        let mut bell = ring.bell.subscribe();
        loop {
            for record in ring.since(&mut position) {
                if found.len() < count && of_kind(&record) {
                    found.push(record);
                }
            }
            if found.len() >= count {
                return Requests { records: found };
            }
            // The sender is in `ring`, so it is never gone.
            let _ = bell.changed().await;
        }
    }
}

impl Record {
    /// The bytes of its texts.
    fn bytes(&self) -> usize {
        let texts = [
            &self.verb,
            &self.group,
            &self.resource,
            &self.part,
            &self.path,
            &self.query,
            &self.user,
            &self.manager,
        ];
        let named = [&self.namespace, &self.name];
        texts.into_iter().chain(named.into_iter().flatten()).map(String::len).sum()
    }
}

impl Ring {
    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is kept from a position on; moves the position behind it.
    fn since(&self, position: &mut u64) -> Vec<Arc<Record>> {
        let kept = self.kept();
        let skip = usize::try_from(position.saturating_sub(kept.dropped)).unwrap_or(usize::MAX);
        *position = kept.dropped + kept.records.len() as u64;
        kept.records.iter().skip(skip).cloned().collect()
    }
}

impl Requests {
    /// Only those with this verb, such as `list`.
    pub fn verb(self, verb: &str) -> Self {
        self.filter(|it| it.verb == verb)
    }

    /// Only those about this resource: by its plural in whatever group, or as `plural.group`.
    pub fn resource(self, resource: &str) -> Self {
        self.filter(|it| names_resource(resource, &it.group, &it.resource))
    }

    /// Only those in this namespace. A request for all namespaces is in none.
    pub fn namespace(self, namespace: &str) -> Self {
        self.filter(|it| it.namespace.as_deref() == Some(namespace))
    }

    /// Only those about the object of this name.
    pub fn name(self, name: &str) -> Self {
        self.filter(|it| it.name.as_deref() == Some(name))
    }

    /// Only those about this part, such as `status`; the empty part is the object itself.
    pub fn part(self, part: &str) -> Self {
        self.filter(|it| it.part == part)
    }

    /// Only those from this user.
    pub fn user(self, user: &str) -> Self {
        self.filter(|it| it.user == user)
    }

    /// Only writes of this field manager.
    pub fn manager(self, manager: &str) -> Self {
        self.filter(|it| it.manager == manager)
    }

    /// Only those that were answered with this code.
    pub fn status(self, code: u16) -> Self {
        self.filter(|it| it.status == code)
    }

    /// Only those of this kind.
    pub fn filter(mut self, of_kind: impl FnMut(&Record) -> bool) -> Self {
        let mut of_kind = of_kind;
        self.records.retain(|it| of_kind(it));
        self
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.records.len()
    }

    /// Goes through them, oldest first.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Record> {
        self.records.iter().map(|it| &**it)
    }

    /// The newest.
    pub fn last(&self) -> Option<&Record> {
        self.iter().next_back()
    }
}
