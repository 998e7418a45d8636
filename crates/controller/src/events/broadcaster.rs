//! The broadcaster: takes what recorders tell, makes series of it, and hands it to the workers.

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

use super::note::{EventKey, InvalidReporter, Note, Reporter};
use super::series::{Remembered, Write};
use super::sink::EventSink;
use super::spam::SpamFilter;
use super::worker::work;

/// How many notes wait to be looked at, and how many workers write, as client-go has it since 1.37.
const QUEUE: usize = 1000;
const WORKERS: usize = 8;
/// How many writes wait for one worker. When they are that many, the queue fills next.
const WORKER_QUEUE: usize = 64;
/// How often series are looked at.
const TICK: Duration = Duration::from_secs(30);

/// Owns the tasks that write events. Dropping it ends them at once; [`Self::shutdown`] lets them finish.
#[derive(Debug)]
pub struct EventBroadcaster {
    notes: mpsc::Sender<Told>,
    tasks: JoinSet<()>,
    meter: Meter,
    instance: String,
}

/// What can be chosen about a broadcaster. Each method says what happens without it.
#[must_use]
pub struct EventBroadcasterBuilder {
    sink: Arc<dyn EventSink>,
    instance: Option<String>,
    queue: usize,
    workers: usize,
}

/// Tells what happened, in the name of one controller. Cheap to clone.
#[derive(Clone, Debug)]
pub struct EventRecorder {
    notes: mpsc::WeakSender<Told>,
    reporter: Arc<Reporter>,
    meter: Meter,
}

/// A note on its way.
#[derive(Debug)]
struct Told {
    reporter: Arc<Reporter>,
    regarding: ObjectReference,
    note: Note,
    at: Timestamp,
}

/// What was lost, by reason.
#[derive(Clone, Debug)]
struct Meter {
    full: Counter,
    spam: Counter,
    invalid: Counter,
    refused: Counter,
}

impl EventBroadcaster {
    /// A broadcaster that writes through this client. It must be built in a tokio runtime.
    pub fn builder(client: Client) -> EventBroadcasterBuilder {
        Self::over(client)
    }

    /// A broadcaster that writes elsewhere.
    pub fn over(sink: impl EventSink) -> EventBroadcasterBuilder {
        EventBroadcasterBuilder { sink: Arc::new(sink), instance: None, queue: QUEUE, workers: WORKERS }
    }

    /// A recorder for the controller of this name, such as `example.com/my-controller`.
    ///
    /// # Errors
    /// When a server would not take the name.
    pub fn recorder(&self, controller: &str) -> Result<EventRecorder, InvalidReporter> {
        let reporter = Arc::new(Reporter::new(controller, &self.instance)?);
        Ok(EventRecorder { notes: self.notes.downgrade(), reporter, meter: self.meter.clone() })
    }

    /// Takes no more notes, and waits until what was told has been written, at most this long. `true` when all was.
    ///
    /// Counts of series that go on are written too. Without it, dropping the broadcaster loses what is on its way.
    pub async fn shutdown(mut self, patience: Duration) -> bool {
        drop(self.notes);
        let finished = async { while self.tasks.join_next().await.is_some() {} };
        tokio::time::timeout(patience, finished).await.is_ok()
    }
}

impl EventRecorder {
    /// Tells what happened to an object of a type that is known.
    ///
    /// It never waits and never fails: when too much is told, notes are dropped and counted in `event_recorder_dropped_total`.
    pub fn record<K: Resource<DynamicType = ()>>(&self, object: &K, note: Note) {
        self.record_for(object.object_ref(&()), note);
    }

    /// Tells what happened to whatever a reference is to.
    pub fn record_for(&self, regarding: ObjectReference, note: Note) {
        if !note.is_complete() {
            tracing::warn!(?note, "an event without a reason or an action is not told");
            self.meter.invalid.increment(1);
            return;
        }
        let told = Told { reporter: Arc::clone(&self.reporter), regarding, note, at: Timestamp::now() };
        let sent = match self.notes.upgrade() {
            Some(notes) => notes.try_send(told),
            None => Err(TrySendError::Closed(told)),
        };
        if let Err(TrySendError::Full(told) | TrySendError::Closed(told)) = sent {
            tracing::debug!(note = ?told.note, "an event is dropped");
            self.meter.full.increment(1);
        }
    }
}

impl EventBroadcasterBuilder {
    /// Which of several processes this is. The name of the host otherwise.
    pub fn instance(mut self, instance: impl Into<String>) -> Self {
        self.instance = Some(instance.into());
        self
    }

    /// How many notes may wait. 1000 otherwise; at least one.
    pub fn queue(mut self, notes: usize) -> Self {
        self.queue = notes.max(1);
        self
    }

    /// How many requests may be under way. 8 otherwise; at least one.
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
        let meter = Meter::new();
        let mut tasks = JoinSet::new();
        let workers = (0..self.workers).map(|_| {
            let (sender, receiver) = mpsc::channel(WORKER_QUEUE);
            tasks.spawn(work(Arc::clone(&self.sink), receiver, meter.refused.clone()));
            sender
        });
        let workers: Vec<_> = workers.collect();
        let (notes, queue) = mpsc::channel(self.queue);
        tasks.spawn(correlate(queue, workers, meter.clone()));
        EventBroadcaster { notes, tasks, meter, instance }
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

impl Meter {
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

/// Reads notes until there can be no more, and gives writes to the workers. What is about one object and source goes to one
/// worker, so that a series never overtakes its event.
async fn correlate(mut notes: mpsc::Receiver<Told>, workers: Vec<mpsc::Sender<Write>>, meter: Meter) {
    let start = Instant::now();
    let mut remembered = Remembered::default();
    let filter = SpamFilter::new();
    let mut ticks = tokio::time::interval(TICK);
    loop {
        tokio::select! {
            biased;
            _ = ticks.tick() => {
                filter.tidy();
                for write in remembered.tick(start.elapsed()) {
                    hand_on(&workers, write).await;
                }
            }
            told = notes.recv() => {
                let Some(told) = told else { break };
                let key = told.note.key(&told.reporter, &told.regarding);
                if !remembered.is_counted(&key) && !filter.admits(&key) {
                    meter.spam.increment(1);
                    continue;
                }
                for write in hear(&mut remembered, key, told, start.elapsed()) {
                    hand_on(&workers, write).await;
                }
            }
        }
    }
    for write in remembered.finish() {
        hand_on(&workers, write).await;
    }
}

fn hear(
    remembered: &mut Remembered,
    key: EventKey,
    told: Told,
    now: Duration,
) -> impl Iterator<Item = Write> {
    let Told { reporter, regarding, note, at } = told;
    let (write, forgotten) = remembered.hear(key, now, at, || note.event(&reporter, regarding, at));
    write.into_iter().chain(forgotten)
}

async fn hand_on(workers: &[mpsc::Sender<Write>], write: Write) {
    let mut hasher = DefaultHasher::new();
    write.event().metadata.name.hash(&mut hasher);
    let worker = hasher.finish() as usize % workers.len();
    // A worker ends only when this task has.
    let _ = workers[worker].send(write).await;
}
