//! The request log: the requests that a server received, for tests to inspect.
//!
//! ```
//! # use dogwatch_apiserver::log::RequestLog;
//! # let log = RequestLog::keeping(100);
//! let patches = log.requests().verb("patch").resource("pods").manager("my-controller").count();
//! # assert_eq!(patches, 0);
//! ```
//!
//! Off by default; a disabled log costs one check of an `Option` per request. Bodies and headers
//! are not recorded.

use parking_lot::{Mutex, MutexGuard};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use crate::faults::names_resource;

/// The maximum number of bytes of text in all records together. A path can be 100 KB long and is
/// chosen by unauthenticated callers, so the number of records alone is no bound.
const MAX_BYTES: usize = 32 * 1024 * 1024;

/// A log of the requests that a server received. Clones share it. [`RequestLog::default`] keeps
/// nothing.
///
/// ```
/// use bytes::Bytes;
/// use dogwatch_apiserver::ApiServer;
/// use http_body_util::Empty;
/// use tower::ServiceExt;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let server = ApiServer::in_process().await?;
/// let request = http::Request::get("http://localhost/api/v1/pods").body(Empty::<Bytes>::new())?;
/// let response = server.service().oneshot(request).await;
/// assert!(response.is_ok());
/// let lists = server.request_log().wait_for(|it| it.verb == "list", 1).await;
/// assert_eq!(lists.count(), 1);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
pub struct RequestLog {
    ring: Option<Arc<Ring>>,
}

#[derive(Debug)]
struct Ring {
    /// The maximum number of records; beyond it, the oldest are dropped.
    capacity: usize,
    /// Never held across an await.
    kept: Mutex<Records>,
    /// Notified after each request.
    appended: watch::Sender<()>,
}

#[derive(Debug, Default)]
struct Records {
    /// Oldest first, at most `capacity` of them.
    records: VecDeque<Arc<Record>>,
    /// The bytes of text in all records.
    bytes: usize,
    /// The number of records dropped from the front, so that positions stay valid.
    dropped: u64,
}

/// One request and its outcome. A watch is recorded when it starts.
///
/// ```
/// use dogwatch_apiserver::log::{Record, RequestLog};
///
/// let log = RequestLog::keeping(100);
/// log.record(|| Record { verb: "get".to_owned(), status: 404, ..Record::default() });
/// assert_eq!(log.requests().last().map(|it| it.status), Some(404));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// The verb, as in discovery.
    pub verb: String,
    /// The group of the resource; empty for the core group and for requests that are not about a
    /// resource.
    pub group: String,
    /// The plural name of the resource; empty for requests that are not about a resource.
    pub resource: String,
    /// The namespace, if the request names one.
    pub namespace: Option<String>,
    /// The name of the object, if the request names one.
    pub name: Option<String>,
    /// The subresource; empty for the object itself.
    pub part: String,
    /// The path of the request.
    pub path: String,
    /// The query as it was sent; empty if there is none.
    pub query: String,
    /// The name of the user who sent the request.
    pub user: String,
    /// The decision of the authorizer, `allow` or `forbid`; empty if the user was not
    /// authenticated.
    pub decision: String,
    /// The reason of the decision: the binding that allows the request, or what is wrong with one.
    /// May be empty.
    pub reason: String,
    /// The field manager of a write.
    pub manager: String,
    /// The status code of the response; 0 if the connection was cut instead.
    pub status: u16,
    /// The time until the response started.
    pub duration: Duration,
}

/// A snapshot of the logged requests, oldest first, narrowed by chained filters.
///
/// ```
/// use dogwatch_apiserver::log::{Record, RequestLog};
///
/// let log = RequestLog::keeping(100);
/// let (verb, resource) = ("patch".to_owned(), "pods".to_owned());
/// log.record(|| Record { verb, resource, status: 409, ..Record::default() });
/// let conflicts = log.requests().verb("patch").resource("pods").status(409);
/// assert_eq!(conflicts.count(), 1);
/// ```
#[derive(Clone, Debug)]
#[must_use = "this only selects requests; call `count` or `iter` on it"]
pub struct Requests {
    records: Vec<Arc<Record>>,
}

impl RequestLog {
    /// Creates a log that keeps the newest `capacity` requests, or fewer if they would take more
    /// than 32 MiB.
    pub fn keeping(capacity: usize) -> Self {
        let ring = Ring { capacity, kept: Mutex::default(), appended: watch::Sender::new(()) };
        Self { ring: Some(Arc::new(ring)) }
    }

    /// Returns true if the log keeps anything.
    pub fn is_on(&self) -> bool {
        self.ring.is_some()
    }

    /// Records a request. The closure is not called if the log is off.
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
        ring.appended.send_replace(());
    }

    /// Returns the requests that the log holds now.
    pub fn requests(&self) -> Requests {
        let records = self.ring.as_ref().map(|it| it.kept().records.iter().cloned().collect());
        Requests { records: records.unwrap_or_default() }
    }

    /// Drops all requests.
    pub fn clear(&self) {
        if let Some(ring) = &self.ring {
            let mut kept = ring.kept();
            kept.dropped += kept.records.len() as u64;
            kept.records.clear();
            kept.bytes = 0;
        }
    }

    /// Waits until `count` requests that match the predicate are logged, including those logged
    /// before the call, and returns them, oldest first.
    ///
    /// Never returns if they do not arrive or the log is off: put a timeout around it. A request
    /// that is dropped from a full log before this task sees it is not counted.
    pub async fn wait_for(&self, mut of_kind: impl FnMut(&Record) -> bool, count: usize) -> Requests {
        let Some(ring) = &self.ring else { return std::future::pending().await };
        let (mut found, mut position) = (Vec::new(), 0);
        let mut appended = ring.appended.subscribe();
        loop {
            for record in ring.since(&mut position) {
                if found.len() < count && of_kind(&record) {
                    found.push(record);
                }
            }
            if found.len() >= count {
                return Requests { records: found };
            }
            // The sender is in `ring`, so it cannot be closed.
            let _ = appended.changed().await;
        }
    }
}

impl Record {
    /// Returns the bytes of all its texts.
    fn bytes(&self) -> usize {
        let texts = [
            &self.verb,
            &self.group,
            &self.resource,
            &self.part,
            &self.path,
            &self.query,
            &self.user,
            &self.decision,
            &self.reason,
            &self.manager,
        ];
        let named = [&self.namespace, &self.name];
        texts.into_iter().chain(named.into_iter().flatten()).map(String::len).sum()
    }
}

impl Ring {
    fn kept(&self) -> MutexGuard<'_, Records> {
        self.kept.lock()
    }

    /// Returns the records from a position on, and moves the position past them.
    fn since(&self, position: &mut u64) -> Vec<Arc<Record>> {
        let kept = self.kept();
        let skip = usize::try_from(position.saturating_sub(kept.dropped)).unwrap_or(usize::MAX);
        *position = kept.dropped + kept.records.len() as u64;
        kept.records.iter().skip(skip).cloned().collect()
    }
}

impl Requests {
    /// Keeps only requests with this verb, such as `list`.
    pub fn verb(self, verb: &str) -> Self {
        self.filter(|it| it.verb == verb)
    }

    /// Keeps only requests for this resource: its plural name in any group, or `plural.group`.
    pub fn resource(self, resource: &str) -> Self {
        self.filter(|it| names_resource(resource, &it.group, &it.resource))
    }

    /// Keeps only requests in this namespace. A request for all namespaces is in none.
    pub fn namespace(self, namespace: &str) -> Self {
        self.filter(|it| it.namespace.as_deref() == Some(namespace))
    }

    /// Keeps only requests for the object of this name.
    pub fn name(self, name: &str) -> Self {
        self.filter(|it| it.name.as_deref() == Some(name))
    }

    /// Keeps only requests for this subresource, such as `status`; the empty string is the object
    /// itself.
    pub fn part(self, part: &str) -> Self {
        self.filter(|it| it.part == part)
    }

    /// Keeps only requests of this user.
    pub fn user(self, user: &str) -> Self {
        self.filter(|it| it.user == user)
    }

    /// Keeps only requests that the authorizer did not allow.
    pub fn forbidden(self) -> Self {
        self.filter(|it| it.decision == "forbid")
    }

    /// Keeps only writes of this field manager.
    pub fn manager(self, manager: &str) -> Self {
        self.filter(|it| it.manager == manager)
    }

    /// Keeps only requests that were answered with this status code.
    pub fn status(self, code: u16) -> Self {
        self.filter(|it| it.status == code)
    }

    /// Keeps only requests that match the predicate.
    pub fn filter(mut self, of_kind: impl FnMut(&Record) -> bool) -> Self {
        let mut of_kind = of_kind;
        self.records.retain(|it| of_kind(it));
        self
    }

    /// Returns the number of requests.
    pub fn count(&self) -> usize {
        self.records.len()
    }

    /// Iterates over the requests, oldest first.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Record> {
        self.records.iter().map(|it| &**it)
    }

    /// Returns the newest request.
    pub fn last(&self) -> Option<&Record> {
        self.iter().next_back()
    }
}
