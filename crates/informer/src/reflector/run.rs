//! The loop of a reflector: waits for the next input, passes it to the state machine, performs its
//! commands.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use dogwatch_client::Error;
use dogwatch_core::Object;
use futures_core::future::BoxFuture;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use tokio::time::{Instant, Interval, MissedTickBehavior, Sleep};

use super::activity::Activity;
use super::explain::named;
use super::health_tracker::Significance;
use super::machine::Machine;
use super::metrics::ReflectorMetrics;
use super::options::{ReflectorOptions, Transform};
use super::signals::{Command, Input, Measure, Moment, ReflectorEnded};
use crate::backoff::{MAX_WAIT, instant_after};
use crate::delta::Delta;
use crate::health::{Health, Problem};
use crate::health_watch::{HealthSender, HealthWatch, ReflectorHealth};
use crate::history::SyncHistory;
use crate::list_watch::ListWatch;
use crate::queue::{DeltaSender, QueueGauge};
use crate::rewind_count::RewindCount;

/// The number of undecodable objects that are logged as warnings; further ones are logged at debug
/// level.
const UNDECODABLE_WARNINGS: u64 = 10;

/// The timeout of a small request.
const SMALL_REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// Follows one collection, and writes deltas to a queue.
///
/// It lists, watches, resumes, waits and lists again as needed, and never gives up by itself,
/// except as [`NotFound`](crate::NotFound) specifies. After any failure it resumes from the last
/// version, or sends the whole state again as a list, so what it sent stays valid. It holds no
/// objects. When the queue is full it waits, and so does the server.
///
/// ```
/// use std::sync::Arc;
///
/// use dogwatch_client::Api;
/// use dogwatch_informer::{DeltaQueue, Reflector, ReflectorOptions, StoreWriter};
/// use k8s_openapi::api::core::v1::ConfigMap;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let builder = dogwatch_apiserver::ApiServer::builder().in_process();
/// # let yaml = "{apiVersion: v1, kind: ConfigMap, metadata: {name: settings}}";
/// # let server = builder.yaml(yaml).start().await?;
/// # let url = server.url().parse()?;
/// # let client = dogwatch_client::Client::from_service(url, "default", server.service());
/// let (sender, mut deltas) = DeltaQueue::channel(DeltaQueue::CAPACITY);
/// let maps = Arc::new(Api::<ConfigMap>::all(client));
/// tokio::spawn(Reflector::new(maps, ReflectorOptions::default(), sender).run());
///
/// let mut writer = StoreWriter::new();
/// let (mut batch, mut changes) = (Vec::new(), Vec::new());
/// while !writer.store().is_synced() && deltas.recv_batch(&mut batch, 100).await {
///     writer.apply(batch.drain(..), &mut changes);
/// }
/// assert!(writer.store().get_named(Some("default"), "settings").is_some());
/// # Ok(())
/// # }
/// ```
pub struct Reflector<T> {
    source: Arc<dyn ListWatch<T>>,
    name: String,
    resync: Option<Duration>,
    transform: Option<Transform<T>>,
    /// The source of random numbers.
    rng: StdRng,
    machine: Machine,
    sender: DeltaSender<T>,
    health: HealthSender,
    rewinds: RewindCount,
    history: SyncHistory,
}

impl<T: Object> Reflector<T> {
    /// Creates a reflector of this collection. Nothing is requested before [`Reflector::run`] is
    /// polled.
    pub fn new(source: Arc<dyn ListWatch<T>>, options: ReflectorOptions<T>, sender: DeltaSender<T>) -> Self {
        let machine = Machine::new(source.resource().clone(), &options, !source.lacks_initial_events());
        let name = options.name.unwrap_or_else(|| named(source.resource()));
        let rng = StdRng::seed_from_u64(options.seed.unwrap_or_else(rand::random));
        let (resync, transform) = (options.resync, options.transform);
        let (health, rewinds) = (HealthSender::new(), RewindCount::default());
        let history = SyncHistory::default();
        Self { source, name, resync, transform, rng, machine, sender, health, rewinds, history }
    }

    /// Continues where another reflector of the same collection ended: its counters continue, and
    /// no state older than what it delivered is read. If it ended because the collection was gone,
    /// the health keeps showing that until there is something newer, and one more answer that it is
    /// gone ends this reflector too.
    pub(crate) fn after(mut self, ended: Health) -> Self {
        self.machine.continue_after(ended);
        self.health.publish(self.machine.tracker.health());
        self
    }

    /// Counts its rewinds in this counter.
    pub(crate) fn counting_rewinds(self, rewinds: RewindCount) -> Self {
        Self { rewinds, ..self }
    }

    /// Records its lists and the ends of its watches in this history.
    pub(crate) fn recording(self, history: SyncHistory) -> Self {
        Self { history, ..self }
    }

    /// Returns a reader of the length of its queue.
    pub(crate) fn queue(&self) -> QueueGauge<T> {
        self.sender.gauge()
    }

    /// Returns a watch of its health, which can be created before it runs and read after it has
    /// ended.
    pub fn health(&self) -> HealthWatch {
        self.health.watch()
    }

    /// Returns the health channel, for an informer.
    pub(crate) fn published(&self) -> ReflectorHealth {
        self.health.subscribe()
    }

    /// Follows the collection until the receiver of the queue is dropped, or the collection is
    /// gone.
    ///
    /// # Cancel safety
    /// Dropping the future stops the reflector at once and closes its requests.
    pub async fn run(self) -> ReflectorEnded {
        let metrics = ReflectorMetrics::new(&self.name, &named(self.source.resource()));
        let resync = self.resync.map(|period| {
            // An interval of zero panics; the builder method maps it to `None`, but the public
            // field can be set to it.
            let period = period.clamp(Duration::from_millis(1), MAX_WAIT);
            let mut timer = tokio::time::interval_at(instant_after(Instant::now(), period), period);
            timer.set_missed_tick_behavior(MissedTickBehavior::Delay);
            timer
        });
        let silence = Silence::new();
        let reported_undecodable = self.machine.tracker.health().decode_failures;
        let running = Running {
            reflector: self,
            activity: Activity::Nothing,
            silence,
            resync,
            metrics,
            reported_undecodable,
            warned: None,
        };
        running.run().await
    }
}

impl<T> fmt::Debug for Reflector<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reflector").field("name", &self.name).finish_non_exhaustive()
    }
}

/// A running reflector and its current activity.
struct Running<T> {
    reflector: Reflector<T>,
    activity: Activity<T>,
    silence: Silence,
    resync: Option<Interval>,
    metrics: ReflectorMetrics,
    /// The number of undecodable objects that have been reported.
    reported_undecodable: u64,
    /// The last reported problem.
    warned: Option<Problem>,
}

impl<T: Object> Running<T> {
    async fn run(mut self) -> ReflectorEnded {
        if self.reflector.sender.is_closed() {
            return ReflectorEnded::QueueClosed;
        }
        let mut commands = Vec::new();
        let mut input = Input::Start;
        loop {
            let idle = matches!(input, Input::Silence(_) | Input::ResyncDue);
            let at = Moment { now: Instant::now(), chance: self.reflector.rng.random() };
            self.reflector.machine.step(at, input, &mut commands);
            // Counted before anything is sent: while the queue is full, readers of the store must
            // know that its versions belong to the old history.
            let rewinds = commands.iter().filter(|it| matches!(it, Command::Emit(Delta::Rewound)));
            self.reflector.rewinds.add(rewinds.count() as u64);
            self.publish();
            let moves = commands.iter().any(|it| !matches!(it, Command::Emit(_) | Command::Measure(_)));
            for command in commands.drain(..) {
                if let Some(ended) = self.perform(command).await {
                    return ended;
                }
            }
            // Reset only after the commands: the time for which the queue was full is not a silence
            // of the server.
            if !idle || moves {
                self.silence.reset();
            }
            input = match self.next().await {
                Some(input) => input,
                None => return ReflectorEnded::QueueClosed,
            };
        }
    }

    /// Waits for the next input; `None` if the receiver of the queue was dropped.
    async fn next(&mut self) -> Option<Input<T>> {
        let Self { reflector, activity, silence, resync, .. } = self;
        let timeout = reflector.machine.silence_timeout();
        let resync = async {
            match resync {
                Some(timer) => timer.tick().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            _ = resync => Some(Input::ResyncDue),
            input = activity.next(reflector.transform.as_ref()) => Some(input),
            () = reflector.sender.closed() => None,
            length = silence.length(timeout) => Some(Input::Silence(length)),
        }
    }

    async fn perform(&mut self, command: Command<T>) -> Option<ReflectorEnded> {
        match command {
            Command::Emit(delta) => {
                return self
                    .reflector
                    .sender
                    .send(delta)
                    .await
                    .is_err()
                    .then_some(ReflectorEnded::QueueClosed);
            }
            Command::List(params) => {
                self.metrics.listing();
                tracing::debug!(name = %self.reflector.name, version = %params.version, limit = params.limit, "listing");
                self.activity = Activity::Listing(self.reflector.source.list(params));
            }
            Command::Watch(params) => {
                if params.send_initial_events == Some(true) {
                    self.metrics.listing();
                }
                self.metrics.watching();
                self.reflector.history.watching();
                tracing::debug!(
                    name = %self.reflector.name, version = %params.version, initial_events = params.send_initial_events,
                    "watching"
                );
                self.activity = Activity::Opening(self.reflector.source.watch(params));
            }
            Command::Newest(fields) => {
                tracing::debug!(name = %self.reflector.name, "asking for the server's newest version");
                self.activity =
                    Activity::Comparing(with_timeout(self.reflector.source.newest_version(fields)));
            }
            Command::Discover => {
                tracing::debug!(name = %self.reflector.name, "asking whether the collection is served");
                self.activity = Activity::Discovering(with_timeout(self.reflector.source.is_served()));
            }
            Command::Wait(wait) => self.activity = Activity::Waiting(Box::pin(tokio::time::sleep(wait))),
            Command::Measure(measure) => self.measured(measure),
            Command::End(ended) => return Some(ended),
        }
        None
    }

    fn measured(&self, measure: Measure) {
        self.metrics.measured(&measure);
        match measure {
            Measure::Listed(list) => self.reflector.history.listed(*list),
            Measure::Interrupted(message) => self.reflector.history.interrupted(Instant::now(), &message),
            Measure::Watched { .. } => {}
        }
    }

    /// Publishes the health, and logs new problems.
    fn publish(&mut self) {
        let changes = self.reflector.machine.tracker.take_changes();
        let health = self.reflector.machine.tracker.health();
        match changes {
            Significance::None => return,
            Significance::Progress => self.reflector.health.publish_progress(health),
            Significance::Change => {
                self.reflector.health.publish(health);
                if let Some(problem) = health.problem.as_ref().filter(|it| self.warned.as_ref() != Some(*it))
                {
                    tracing::warn!(name = %self.reflector.name, count = problem.count, "{}", problem.message);
                    self.warned = Some(problem.clone());
                }
                self.report_undecodable();
            }
        }
        self.metrics.reached(&self.reflector.machine.tracker.health().last_version);
    }

    fn report_undecodable(&mut self) {
        let health = self.reflector.machine.tracker.health();
        let Some(bad) = health
            .last_decode_failure
            .as_ref()
            .filter(|_| health.decode_failures > self.reported_undecodable)
        else {
            return;
        };
        self.metrics.undecodable(health.decode_failures - self.reported_undecodable);
        self.reported_undecodable = health.decode_failures;
        if health.decode_failures <= UNDECODABLE_WARNINGS {
            tracing::warn!(name = %self.reflector.name, version = %bad.version, "skipped: {bad}");
        } else {
            tracing::debug!(name = %self.reflector.name, version = %bad.version, "skipped: {bad}");
        }
    }
}

/// Applies a timeout to a small request: nothing is followed while it is pending.
fn with_timeout<R: Send + 'static>(
    asking: BoxFuture<'static, Result<R, Error>>,
) -> BoxFuture<'static, Result<R, Error>> {
    Box::pin(async move {
        let answer = tokio::time::timeout(SMALL_REQUEST_TIMEOUT, asking).await;
        answer.unwrap_or_else(|_| Err(Error::TimedOut(SMALL_REQUEST_TIMEOUT)))
    })
}

/// Measures for how long nothing has been received.
struct Silence {
    /// The time of the last input.
    since: Instant,
    /// The number of reports since.
    reports: u32,
    timer: Pin<Box<Sleep>>,
}

impl Silence {
    fn new() -> Self {
        Self { since: Instant::now(), reports: 0, timer: Box::pin(tokio::time::sleep(Duration::ZERO)) }
    }

    fn reset(&mut self) {
        self.since = Instant::now();
        self.reports = 0;
    }

    /// Waits until nothing has been received for `timeout`, for twice as long the next time, and so
    /// on; for ever if it is `None`. Resets the timer only if needed.
    async fn length(&mut self, timeout: Option<Duration>) -> Duration {
        let Some(timeout) = timeout else { return std::future::pending().await };
        let due = instant_after(self.since, timeout.saturating_mul(self.reports.saturating_add(1)));
        if self.timer.deadline() != due || self.timer.is_elapsed() {
            self.timer.as_mut().reset(due);
        }
        self.timer.as_mut().await;
        self.reports = self.reports.saturating_add(1);
        self.since.elapsed()
    }
}
