//! The broadcaster: takes events from recorders, merges them into series, and passes them to the
//! workers.

use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use dogwatch_client::Client;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use kube_core::Resource;
use metrics::{Counter, counter, describe_counter};
use tokio::sync::mpsc::{self, error::TrySendError};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::new_event::{EventKey, InvalidReporter, NewEvent, Reporter};
use super::series::{SeriesCache, Write};
use super::sink::EventSink;
use super::spam::SpamFilter;
use super::worker::work;

/// The number of events that may wait to be processed, and the number of workers, as in client-go
/// since 1.37.
const QUEUE: usize = 1000;
const WORKERS: usize = 8;
/// The number of writes that may wait for one worker. When a worker's queue is full, the main queue
/// fills up next.
const WORKER_QUEUE: usize = 64;
/// The interval at which series are checked.
const TICK: Duration = Duration::from_secs(30);

/// The owner of the tasks that write events. Dropping it ends them at once; [`Self::shutdown`] lets
/// them finish.
///
/// ```
/// use std::time::Duration;
///
/// use dogwatch_client::Api;
/// use dogwatch_controller::{EventBroadcaster, NewEvent};
/// use dogwatch_core::ListParams;
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use k8s_openapi::api::events::v1::Event;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let builder = dogwatch_apiserver::ApiServer::builder().in_process();
/// # let yaml = "{apiVersion: v1, kind: ConfigMap, metadata: {name: settings}}";
/// # let server = builder.yaml(yaml).start().await?;
/// # let url = server.url().parse()?;
/// # let client = dogwatch_client::Client::from_service(url, "default", server.service());
/// let map = Api::<ConfigMap>::default_namespaced(client.clone()).get("settings").await?;
/// let broadcaster = EventBroadcaster::builder(client.clone()).start();
/// let recorder = broadcaster.recorder("example.com/my-controller")?;
/// recorder.record(&map, NewEvent::normal("Loaded", "Loading").message("the settings are loaded"));
/// assert!(broadcaster.shutdown(Duration::from_secs(10)).await, "the event was written");
///
/// let events = Api::<Event>::default_namespaced(client).list(&ListParams::default()).await?;
/// assert_eq!(events.items[0].reason.as_deref(), Some("Loaded"));
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct EventBroadcaster {
    notes: mpsc::Sender<QueuedEvent>,
    tasks: JoinSet<()>,
    dropped: DropCounters,
    instance: String,
}

/// Builds an [`EventBroadcaster`].
///
/// ```
/// use dogwatch_controller::EventBroadcaster;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = dogwatch_apiserver::ApiServer::in_process().await?;
/// # let url = server.url().parse()?;
/// # let client = dogwatch_client::Client::from_service(url, "default", server.service());
/// let builder = EventBroadcaster::builder(client).instance("replica-1").queue(100);
/// let broadcaster = builder.workers(2).start();
/// # drop(broadcaster);
/// # Ok(())
/// # }
/// ```
#[must_use]
pub struct EventBroadcasterBuilder {
    sink: Arc<dyn EventSink>,
    instance: Option<String>,
    queue: usize,
    workers: usize,
}

/// Records events in the name of one controller. Cheap to clone.
///
/// ```
/// use dogwatch_client::Api;
/// use dogwatch_controller::{Manager, NewEvent};
/// use k8s_openapi::api::core::v1::ConfigMap;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let builder = dogwatch_apiserver::ApiServer::builder().in_process();
/// # let yaml = "{apiVersion: v1, kind: ConfigMap, metadata: {name: settings}}";
/// # let server = builder.yaml(yaml).start().await?;
/// # let url = server.url().parse()?;
/// # let client = dogwatch_client::Client::from_service(url, "default", server.service());
/// let map = Api::<ConfigMap>::default_namespaced(client.clone()).get("settings").await?;
/// let manager = Manager::new(client);
/// let recorder = manager.events("example.com/my-controller")?; // for the reconciler
/// recorder.record(&map, NewEvent::warning("NoColour", "Loading").message("data.colour is missing"));
/// manager.run_until(async {}).await?; // writes the event before it returns
/// # let path = "/apis/events.k8s.io/v1/namespaces/default/events";
/// # assert!(server.requests().verb("create").resource("events").count() == 1, "{path}");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct EventRecorder {
    notes: mpsc::WeakSender<QueuedEvent>,
    reporter: Arc<Reporter>,
    dropped: DropCounters,
}

/// An event on its way to the broadcaster.
#[derive(Debug)]
struct QueuedEvent {
    reporter: Arc<Reporter>,
    regarding: ObjectReference,
    note: NewEvent,
    at: Timestamp,
}

/// The counters of dropped events, by reason.
#[derive(Clone, Debug)]
struct DropCounters {
    full: Counter,
    spam: Counter,
    invalid: Counter,
    refused: Counter,
}

impl EventBroadcaster {
    /// Creates a builder for a broadcaster that writes through this client.
    /// [`EventBroadcasterBuilder::start`] must be called within a tokio runtime.
    pub fn builder(client: Client) -> EventBroadcasterBuilder {
        Self::over(client)
    }

    /// Creates a builder for a broadcaster that writes to another sink.
    pub fn over(sink: impl EventSink) -> EventBroadcasterBuilder {
        EventBroadcasterBuilder { sink: Arc::new(sink), instance: None, queue: QUEUE, workers: WORKERS }
    }

    /// Returns a recorder for the controller of this name, such as `example.com/my-controller`.
    ///
    /// # Errors
    /// Returns an error if a server would reject the name.
    pub fn recorder(&self, controller: &str) -> Result<EventRecorder, InvalidReporter> {
        let reporter = Arc::new(Reporter::new(controller, &self.instance)?);
        Ok(EventRecorder { notes: self.notes.downgrade(), reporter, dropped: self.dropped.clone() })
    }

    /// Accepts no more events, and waits until the accepted ones have been written, at most this
    /// long. Returns true if all were written or given up.
    ///
    /// The counts of ongoing series are written too. Dropping the broadcaster instead loses events
    /// that are on their way.
    pub async fn shutdown(mut self, timeout: Duration) -> bool {
        drop(self.notes);
        let finished = async { while self.tasks.join_next().await.is_some() {} };
        tokio::time::timeout(timeout, finished).await.is_ok()
    }
}

impl EventRecorder {
    /// Records an event about an object of a statically known type.
    ///
    /// It never waits and never fails: when the queue is full, events are dropped and counted in
    /// `event_recorder_dropped_total`.
    pub fn record<K: Resource<DynamicType = ()>>(&self, object: &K, note: NewEvent) {
        self.record_for(object.object_ref(&()), note);
    }

    /// Records an event about the object that the reference names.
    pub fn record_for(&self, regarding: ObjectReference, note: NewEvent) {
        if !note.is_complete() {
            tracing::warn!(?note, "event dropped: it has no reason or no action");
            self.dropped.invalid.increment(1);
            return;
        }
        let queued =
            QueuedEvent { reporter: Arc::clone(&self.reporter), regarding, note, at: Timestamp::now() };
        let sent = match self.notes.upgrade() {
            Some(notes) => notes.try_send(queued),
            None => Err(TrySendError::Closed(queued)),
        };
        if let Err(TrySendError::Full(queued) | TrySendError::Closed(queued)) = sent {
            tracing::debug!(note = ?queued.note, "event dropped: the queue is full or closed");
            self.dropped.full.increment(1);
        }
    }
}

impl EventBroadcasterBuilder {
    /// Sets the reporting instance: which of several processes this is. Defaults to the host name.
    pub fn instance(mut self, instance: impl Into<String>) -> Self {
        self.instance = Some(instance.into());
        self
    }

    /// Sets the number of events that may wait, at least one. Defaults to 1000.
    pub fn queue(mut self, notes: usize) -> Self {
        self.queue = notes.max(1);
        self
    }

    /// Sets the number of concurrent requests, at least one. Defaults to 8.
    pub fn workers(mut self, workers: usize) -> Self {
        self.workers = workers.max(1);
        self
    }

    /// Starts the tasks.
    pub fn start(self) -> EventBroadcaster {
        let instance = self.instance.filter(|it| !it.is_empty()).unwrap_or_else(|| {
            let host = hostname::get().map(|it| it.to_string_lossy().into_owned()).unwrap_or_default();
            if host.is_empty() { "unknown".to_owned() } else { host }
        });
        let dropped = DropCounters::new();
        let mut tasks = JoinSet::new();
        let workers = (0..self.workers).map(|_| {
            let (sender, receiver) = mpsc::channel(WORKER_QUEUE);
            tasks.spawn(work(Arc::clone(&self.sink), receiver, dropped.refused.clone()));
            sender
        });
        let workers: Vec<_> = workers.collect();
        let (notes, queue) = mpsc::channel(self.queue);
        tasks.spawn(correlate(queue, workers, dropped.clone()));
        EventBroadcaster { notes, tasks, dropped, instance }
    }
}

impl fmt::Debug for EventBroadcasterBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventBroadcasterBuilder")
            .field("instance", &self.instance)
            .field("queue", &self.queue)
            .field("workers", &self.workers)
            .finish_non_exhaustive()
    }
}

impl DropCounters {
    fn new() -> Self {
        describe_counter!("event_recorder_dropped_total", "events that were not written, by reason");
        let dropped = |reason: &'static str| counter!("event_recorder_dropped_total", "reason" => reason);
        Self {
            full: dropped("full"),
            spam: dropped("spam"),
            invalid: dropped("invalid"),
            refused: dropped("refused"),
        }
    }
}

/// Reads events until the channel closes, and passes writes to the workers. All writes about one
/// event go to the same worker, so that a series never overtakes its event.
async fn correlate(
    mut notes: mpsc::Receiver<QueuedEvent>,
    workers: Vec<mpsc::Sender<Write>>,
    dropped: DropCounters,
) {
    let start = Instant::now();
    let mut series = SeriesCache::default();
    let filter = SpamFilter::new();
    let mut ticks = tokio::time::interval(TICK);
    loop {
        tokio::select! {
            biased;
            _ = ticks.tick() => {
                filter.tidy();
                for write in series.tick(start.elapsed()) {
                    dispatch(&workers, write).await;
                }
            }
            queued = notes.recv() => {
                let Some(queued) = queued else { break };
                let key = queued.note.key(&queued.reporter, &queued.regarding);
                if !series.is_counted(&key) && !filter.admits(&key) {
                    dropped.spam.increment(1);
                    continue;
                }
                for write in observe(&mut series, key, queued, start.elapsed()) {
                    dispatch(&workers, write).await;
                }
            }
        }
    }
    for write in series.finish() {
        dispatch(&workers, write).await;
    }
}

fn observe(
    series: &mut SeriesCache,
    key: EventKey,
    queued: QueuedEvent,
    now: Duration,
) -> impl Iterator<Item = Write> {
    let QueuedEvent { reporter, regarding, note, at } = queued;
    let (write, forgotten) = series.observe(key, now, at, || note.event(&reporter, regarding, at));
    write.into_iter().chain(forgotten)
}

async fn dispatch(workers: &[mpsc::Sender<Write>], write: Write) {
    let mut hasher = DefaultHasher::new();
    write.event().metadata.name.hash(&mut hasher);
    let worker = hasher.finish() as usize % workers.len();
    // A worker ends only after this task has.
    let _ = workers[worker].send(write).await;
}
