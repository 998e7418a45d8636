//! The loop of the view: feeds the state with keys, changes and results, carries out its effects,
//! and draws it.
//!
//! Each watched kind has an informer of rows. At most one object is read and one log followed at a
//! time; both end when another is opened or the view ends. The kinds of the server are requested
//! again from time to time.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Context;
use dogwatch::discovery::CachedDiscovery;
use dogwatch::informer::{Change, NotFound, OnGone};
use dogwatch::{Client, SharedInformer};
use futures_util::stream::{self, BoxStream, SelectAll, StreamExt};
use jiff::Timestamp;
use tokio::sync::mpsc;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{Instant, MissedTickBehavior};

use super::draw::{self, Now};
use super::kinds::Target;
use super::pane::CacheReport;
use super::requests;
use super::screen::{Input, Screen};
use super::state::{Effect, State};
use super::theme::Theme;
use super::update::Event;
use crate::watch::rows::{Columns, PlainObject, Row, Rows};
use crate::watch::view::RETRY_INTERVAL;

/// The interval at which the screen is redrawn after changes. Faster changes would not be readable.
const DRAW_INTERVAL: Duration = Duration::from_millis(200);
/// The number of results and lines of a log that may wait.
const QUEUE_LENGTH: usize = 256;
/// The time that informers get to stop.
const STOP_TIMEOUT: Duration = Duration::from_secs(2);

/// The view and the work that it has under way.
pub(super) struct Runtime {
    state: State,
    client: Client,
    theme: Theme,
    informers: BTreeMap<usize, Started>,
    /// The number of informers that were started so far.
    started: u64,
    feeds: SelectAll<BoxStream<'static, Feed>>,
    events: mpsc::Sender<Event>,
    reading: Option<Job>,
    following: Option<Job>,
    /// Looks for new kinds.
    _discovering: Job,
    stopping: JoinSet<()>,
}

/// The informer of a kind.
struct Started {
    informer: SharedInformer<Row>,
    /// Changes of an earlier informer of the same kind have another number.
    number: u64,
}

/// An item of the streams that the loop reads.
enum Feed {
    Change { kind: usize, number: u64, change: Change<Row> },
    Event(Event),
}

/// A task that ends when it is dropped.
struct Job(JoinHandle<()>);

impl Drop for Job {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Runtime {
    pub(super) fn new(state: State, discovery: CachedDiscovery) -> Self {
        let client = discovery.client().clone();
        let (events, mut results) = mpsc::channel(QUEUE_LENGTH);
        let mut feeds = SelectAll::new();
        let results = stream::poll_fn(move |context| results.poll_recv(context));
        feeds.push(results.map(Feed::Event).boxed());
        let discovering = Job(tokio::spawn(requests::rediscover(discovery, events.clone())));
        Self {
            state,
            client,
            theme: Theme { coloured: crate::terminal::allows_colour() },
            informers: BTreeMap::new(),
            started: 0,
            feeds,
            events,
            reading: None,
            following: None,
            _discovering: discovering,
            stopping: JoinSet::new(),
        }
    }

    /// Shows the view, beginning with these kinds, until it is quit or `end` resolves.
    ///
    /// # Errors
    /// Returns an error if the terminal fails.
    pub(super) async fn run(mut self, kinds: &[usize], end: impl Future<Output = ()>) -> anyhow::Result<()> {
        // The first one is shown; the others are watched.
        for kind in kinds.iter().rev() {
            let effects = self.state.open(*kind);
            self.perform(effects);
        }
        let mut screen = Screen::enter().context("cannot prepare the terminal")?;
        let done = self.show(&mut screen, end).await;
        drop(screen);
        self.stop().await;
        done
    }

    async fn show(&mut self, screen: &mut Screen, end: impl Future<Output = ()>) -> anyhow::Result<()> {
        let mut inputs = screen.read_keys().context("cannot start a thread to read keys")?;
        let mut draws = tokio::time::interval(DRAW_INTERVAL);
        draws.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut end = std::pin::pin!(end);
        loop {
            let go_on = tokio::select! {
                // In this order, however fast the changes are.
                biased;
                () = &mut end => false,
                input = inputs.recv() => match input.context("the terminal sends no keys any more")? {
                    Input::Key(key) => self.apply(Event::Key(key)) && self.draw(screen)?,
                    Input::Resized => self.draw(screen)?,
                },
                _ = draws.tick() => {
                    self.report();
                    self.draw(screen)?
                }
                Some(feed) = self.feeds.next() => self.take(feed),
            };
            if screen.is_left() {
                anyhow::bail!("a task of the view has panicked");
            }
            if !go_on {
                return Ok(());
            }
        }
    }

    fn take(&mut self, feed: Feed) -> bool {
        match feed {
            Feed::Event(event) => self.apply(event),
            Feed::Change { kind, number, change } => {
                let is_current = self.informers.get(&kind).is_some_and(|it| it.number == number);
                !is_current || self.apply(Event::Change(kind, change))
            }
        }
    }

    /// Applies an event. Returns false to quit.
    fn apply(&mut self, event: Event) -> bool {
        let effects = self.state.apply(event, Instant::now());
        self.perform(effects)
    }

    /// Carries out effects. Returns false to quit.
    fn perform(&mut self, effects: Vec<Effect>) -> bool {
        for effect in effects {
            match effect {
                Effect::Start { kind, columns } => self.start(kind, columns),
                Effect::Stop { kind } => {
                    if let Some(it) = self.informers.remove(&kind) {
                        self.stopping.spawn(async move { it.informer.stop().await });
                    }
                }
                Effect::Read { request, form, target } => {
                    let Target { kind, key } = target;
                    let Some(kind) = self.state.kinds.get(kind) else { continue };
                    let (resource, client) = (kind.served.resource.clone(), self.client.clone());
                    let events = self.events.clone();
                    self.reading = Some(Job(tokio::spawn(async move {
                        let read = requests::read(&client, resource, &key, form).await;
                        let _ = events.send(Event::Document(request, read)).await;
                    })));
                }
                Effect::Follow { request, key, container } => {
                    let (client, events) = (self.client.clone(), self.events.clone());
                    let follow = requests::follow(client, request, key, container, events);
                    self.following = Some(Job(tokio::spawn(follow)));
                }
                Effect::Unfollow => self.following = None,
                Effect::Quit => return false,
            }
        }
        true
    }

    fn start(&mut self, kind: usize, columns: Columns) {
        let Some(found) = self.state.kinds.get(kind).map(|it| &it.served) else { return };
        let namespace = self.state.kinds.namespace_of(kind).map(str::to_owned);
        let rows = Rows::<PlainObject>::new(self.client.clone(), found.resource.clone(), namespace);
        let informer = SharedInformer::builder(rows.share_columns(columns))
            .name(found.group_resource())
            .measure(Row::memory)
            // This is only a view of the server, as in `dogwatch watch`.
            .on_gone(OnGone::Clear)
            .reflector(|it| it.not_found(NotFound::GoneAfter(RETRY_INTERVAL)))
            .retry_not_served_after(Some(RETRY_INTERVAL))
            .build();
        self.started += 1;
        let number = self.started;
        if let Ok(changes) = informer.changes() {
            let feed = changes.map(move |change| Feed::Change { kind, number, change });
            self.feeds.push(feed.boxed());
        }
        informer.start();
        self.informers.insert(kind, Started { informer, number });
    }

    /// Takes the state of every cache.
    fn report(&mut self) {
        let now = Instant::now();
        for (kind, started) in &self.informers {
            let (health, store) = (started.informer.health(), started.informer.store());
            let report = CacheReport { health, objects: store.len(), bytes: store.memory() };
            self.state.apply(Event::Report(*kind, Box::new(report)), now);
        }
    }

    /// Draws the view. Returns true to go on.
    fn draw(&mut self, screen: &mut Screen) -> anyhow::Result<bool> {
        if screen.is_left() {
            return Ok(true);
        }
        let now = Now { instant: Instant::now(), time: Timestamp::now() };
        let effects = self.state.refresh(now.instant);
        let go_on = self.perform(effects);
        let size = screen.update_size().context("cannot draw on the terminal")?;
        let (page, rows) = draw::page_sizes(size, &self.state, now);
        self.state.apply(Event::Resize { page, rows }, now.instant);
        let (state, theme) = (&mut self.state, self.theme);
        screen.draw(|frame| draw::draw(frame, state, theme, now)).context("cannot draw on the terminal")?;
        Ok(go_on)
    }

    /// Stops all informers.
    async fn stop(mut self) {
        for (_, started) in std::mem::take(&mut self.informers) {
            self.stopping.spawn(async move { started.informer.stop().await });
        }
        let stopped = async { while self.stopping.join_next().await.is_some() {} };
        let _ = tokio::time::timeout(STOP_TIMEOUT, stopped).await;
    }
}
