//! The loop of a reflector: waits for what happens next, asks the state machine, does what it says.

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

use super::explain::named;
use super::meter::Meter;
use super::moves::Machine;
use super::options::{ReflectorOptions, Transform};
use super::signals::{Command, Ended, Input, Moment};
use super::source::Activity;
use super::vitals::News;
use crate::backoff::{AGES, later};
use crate::health::{Health, Problem};
use crate::health_watch::{HealthSender, HealthWatch, ReflectorHealth};
use crate::list_watch::ListWatch;
use crate::queue::DeltaSender;

/// So many objects that cannot be decoded are warned of, one by one; more of them are only counted.
const POISON_WARNINGS: u64 = 10;

/// How long a small request may take.
const QUICK: Duration = Duration::from_secs(30);

/// Follows one collection, and writes what it learns to a queue.
///
/// It lists, watches, resumes, waits and begins anew as the server makes it necessary, and never gives up by itself, except where
/// [`NotFound`](crate::NotFound) says so. What it has told stays true: after any failure it goes on from the last version, or tells the
/// whole state again as a list. It holds no objects. A queue that is full lets it wait, and the server with it.
pub struct Reflector<T> {
    source: Arc<dyn ListWatch<T>>,
    name: String,
    resync: Option<Duration>,
    transform: Option<Transform<T>>,
    /// What is left to chance.
    chances: StdRng,
    machine: Machine,
    sender: DeltaSender<T>,
    health: HealthSender,
}

impl<T: Object> Reflector<T> {
    /// A reflector of this collection, not started: nothing is asked before [`Reflector::run`] is polled.
    pub fn new(source: Arc<dyn ListWatch<T>>, options: ReflectorOptions<T>, sender: DeltaSender<T>) -> Self {
        let machine = Machine::new(source.resource().clone(), &options, !source.lacks_initial_events());
        let name = options.name.unwrap_or_else(|| named(source.resource()));
        let chances = StdRng::seed_from_u64(options.seed.unwrap_or_else(rand::random));
        let (resync, transform) = (options.resync, options.transform);
        Self { source, name, resync, transform, chances, machine, sender, health: HealthSender::new() }
    }

    /// Goes on where another reflector of the same collection ended: its numbers count on, and nothing older than what it has
    /// delivered is read. If it ended because the collection was gone, that is shown until there is something newer to tell, and
    /// one more answer that it is gone ends this one too.
    pub(crate) fn after(mut self, ended: Health) -> Self {
        self.machine.once_more(ended);
        self.health.publish(self.machine.vitals.health());
        self
    }

    /// How it is doing. May be taken before it runs, and read after it has ended.
    pub fn health(&self) -> HealthWatch {
        self.health.watch()
    }

    /// The same, for an informer.
    pub(crate) fn published(&self) -> ReflectorHealth {
        self.health.subscribe()
    }

    /// Follows the collection until the receiver of the queue is dropped, or the collection is gone. Dropping the future stops it
    /// at once, whatever it is at, and closes its requests.
    pub async fn run(self) -> Ended {
        let meter = Meter::new(&self.name, &named(self.source.resource()));
        let resync = self.resync.map(|period| {
            // A period of zero, which only the field itself can be set to, would panic.
            let period = period.clamp(Duration::from_millis(1), AGES);
            let mut timer = tokio::time::interval_at(later(Instant::now(), period), period);
            timer.set_missed_tick_behavior(MissedTickBehavior::Delay);
            timer
        });
        let silence = Silence::new();
        let poison = self.machine.vitals.health().poison;
        let running = Running {
            reflector: self,
            activity: Activity::Nothing,
            silence,
            resync,
            meter,
            poison,
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

/// A reflector and what it is at.
struct Running<T> {
    reflector: Reflector<T>,
    activity: Activity<T>,
    silence: Silence,
    resync: Option<Interval>,
    meter: Meter,
    /// How many objects that cannot be decoded have been reported.
    poison: u64,
    /// The problem that was last reported.
    warned: Option<Problem>,
}

impl<T: Object> Running<T> {
    async fn run(mut self) -> Ended {
        if self.reflector.sender.is_closed() {
            return Ended::QueueClosed;
        }
        let mut commands = Vec::new();
        let mut input = Input::Start;
        loop {
            let idle = matches!(input, Input::Silence(_) | Input::ResyncDue);
            let at = Moment { now: Instant::now(), chance: self.reflector.chances.random() };
            self.reflector.machine.step(at, input, &mut commands);
            self.publish();
            let moves = commands.iter().any(|it| !matches!(it, Command::Emit(_) | Command::Measure(_)));
            for command in commands.drain(..) {
                if let Some(ended) = self.perform(command).await {
                    return ended;
                }
            }
            // Only now: the time in which the queue was full is ours, and no silence of the server's.
            if !idle || moves {
                self.silence.broken();
            }
            input = match self.next().await {
                Some(input) => input,
                None => return Ended::QueueClosed,
            };
        }
    }

    /// What happens next; `None` when nobody reads the queue any more.
    async fn next(&mut self) -> Option<Input<T>> {
        let Self { reflector, activity, silence, resync, .. } = self;
        let patience = reflector.machine.patience();
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
            length = silence.length(patience) => Some(Input::Silence(length)),
        }
    }

    async fn perform(&mut self, command: Command<T>) -> Option<Ended> {
        match command {
            Command::Emit(delta) => {
                return self.reflector.sender.send(delta).await.is_err().then_some(Ended::QueueClosed);
            }
            Command::List(params) => {
                self.meter.listing();
                tracing::debug!(name = %self.reflector.name, version = %params.version, limit = params.limit, "listing");
                self.activity = Activity::Listing(self.reflector.source.list(params));
            }
            Command::Watch(params) => {
                if params.send_initial_events == Some(true) {
                    self.meter.listing();
                }
                self.meter.watching();
                tracing::debug!(
                    name = %self.reflector.name, version = %params.version, initial_events = params.send_initial_events,
                    "watching"
                );
                self.activity = Activity::Opening(self.reflector.source.watch(params));
            }
            Command::Newest(fields) => {
                tracing::debug!(name = %self.reflector.name, "asking for the server's newest version");
                self.activity = Activity::Comparing(quick(self.reflector.source.newest_version(fields)));
            }
            Command::Discover => {
                tracing::debug!(name = %self.reflector.name, "asking whether the collection is served");
                self.activity = Activity::Discovering(quick(self.reflector.source.is_served()));
            }
            Command::Wait(wait) => self.activity = Activity::Waiting(Box::pin(tokio::time::sleep(wait))),
            Command::Measure(measure) => self.meter.measured(measure),
            Command::End(ended) => return Some(ended),
        }
        None
    }

    /// Shows how it is going to whoever looks.
    fn publish(&mut self) {
        let news = self.reflector.machine.vitals.take_news();
        let health = self.reflector.machine.vitals.health();
        match news {
            News::None => return,
            News::Progress => self.reflector.health.publish_progress(health),
            News::Change => {
                self.reflector.health.publish(health);
                if let Some(problem) = health.problem.as_ref().filter(|it| self.warned.as_ref() != Some(*it))
                {
                    tracing::warn!(name = %self.reflector.name, count = problem.count, "{}", problem.message);
                    self.warned = Some(problem.clone());
                }
                self.report_poison();
            }
        }
        self.meter.reached(&self.reflector.machine.vitals.health().last_version);
    }

    fn report_poison(&mut self) {
        let health = self.reflector.machine.vitals.health();
        let Some(bad) = health.last_poison.as_ref().filter(|_| health.poison > self.poison) else { return };
        self.meter.poison(health.poison - self.poison);
        self.poison = health.poison;
        if health.poison <= POISON_WARNINGS {
            tracing::warn!(name = %self.reflector.name, version = %bad.version, "skipped: {bad}");
        } else {
            tracing::debug!(name = %self.reflector.name, version = %bad.version, "skipped: {bad}");
        }
    }
}

/// Gives a small request up that takes too long: nothing is followed while it is under way.
fn quick<R: Send + 'static>(
    asking: BoxFuture<'static, Result<R, Error>>,
) -> BoxFuture<'static, Result<R, Error>> {
    Box::pin(async move {
        let answer = tokio::time::timeout(QUICK, asking).await;
        answer.unwrap_or_else(|_| Err(Error::TimedOut(QUICK)))
    })
}

/// Measures how long nothing comes.
struct Silence {
    /// When something last came.
    since: Instant,
    /// How often it was told since.
    told: u32,
    timer: Pin<Box<Sleep>>,
}

impl Silence {
    fn new() -> Self {
        Self { since: Instant::now(), told: 0, timer: Box::pin(tokio::time::sleep(Duration::ZERO)) }
    }

    fn broken(&mut self) {
        self.since = Instant::now();
        self.told = 0;
    }

    /// Waits until nothing has come for that long, for twice that long the next time, and so on; for ever without patience to
    /// measure by. Sets the timer only when it has to wait.
    async fn length(&mut self, patience: Option<Duration>) -> Duration {
        let Some(patience) = patience else { return std::future::pending().await };
        let due = later(self.since, patience.saturating_mul(self.told.saturating_add(1)));
        if self.timer.deadline() != due || self.timer.is_elapsed() {
            self.timer.as_mut().reset(due);
        }
        self.timer.as_mut().await;
        self.told = self.told.saturating_add(1);
        self.since.elapsed()
    }
}
