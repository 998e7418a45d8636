//! Watches: a cursor in the log of changes, pulled by whoever takes the bytes.
//!
//! ```text
//! Awaiting (a version of the future) ─► Initial (what is there) ─► Live (what changes) ─► Over
//!        `──── too late ────────────────────────────────────────────── ERROR ────────────►'
//! ```
//!
//! A watch from a version of the future that does not come about in time fails with 410. kube-apiserver stays silent, but
//! there such a version is one that another replica has seen already. Here it is one from before a restart, and a client
//! that waits for it would miss everything until then.
//!
//! One step of the stream is one batch of at most 64 KiB, and so one chunk on the wire. Between two steps a watch is its
//! place in the log and two points in time: nothing is collected for a client that does not read.
//!
//! There are many watches, each is asked several times for every event it tells, and nearly all of them only follow the log.
//! So that is done in place; what may take a while is a future, made when it comes to it.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use dogwatch_core::{Reason, Status};
use tokio::time::{Instant, Sleep, sleep_until, timeout_at};

use super::answer::{self, Answer};
use super::asked::Asked;
use super::body::{AnswerBody, Cut};
use super::counters::CountedWatch;
use super::ending::Definition;
use super::guard::GuardedEvents;
use super::pieces::Pieces;
use super::query::Query;
use super::read::too_large;
use super::service::Service;
use super::stepping::{Step, Stepping, Stepwise};
use super::telling::Telling;
use super::wish::Wish;
use crate::cluster::Cluster;
use crate::faults::{Disturbance, WatchLab};
use crate::reading::{Frame, Selection, tell};
use crate::refusal::Refusal;
use crate::registry::Kind;
use crate::request::{InitialEvents, WatchOptions};
use crate::store::{Change, Compacted, Cursor, Encoded};
use crate::time;

/// How many bytes of events go out together: enough for one write, little enough to share the connection.
const BATCH: usize = 64 * 1024;
/// How many objects a watch begins with at once. A webhook may have to convert them, which takes a while.
const AHEAD: usize = 500;
/// How long before its end a watch is sent a last bookmark, as in the original.
const LAST_BOOKMARK: Duration = Duration::from_secs(2);

/// How long what was told has to leave before the connection is cut on purpose.
const FLUSHED: Duration = Duration::from_millis(1);

/// One watch.
#[derive(Debug)]
struct Watch {
    cluster: Arc<Cluster>,
    kind: Arc<Kind>,
    selection: Selection,
    telling: Telling,
    lab: WatchLab,
    definition: Definition,
    /// Whether bookmarks are wanted.
    bookmarks: bool,
    bookmark_period: Duration,
    next_bookmark: Instant,
    deadline: Instant,
    /// Rings at the next bookmark or the end. One for the whole life of the watch: most events come and go without it.
    alarm: Pin<Box<Sleep>>,
    /// Whom it wakes, since it was last set.
    alarmed: Option<Waker>,
    stage: Stage,
    /// Everything up to this version was told; changes up to it are not told again.
    told: u64,
    /// Writes that are ready.
    ready: VecDeque<Pieces>,
    _counted: CountedWatch,
}

/// How far a watch has come.
#[derive(Debug)]
enum Stage {
    /// It waits for a version of the future, until then, and begins as `InitialEvents` says.
    Awaiting(u64, Instant, InitialEvents),
    /// It tells what there was at a version.
    Initial(std::vec::IntoIter<Arc<Encoded>>, Cursor),
    /// It tells what changes.
    Live(Cursor),
    /// It has nothing more to tell.
    Over,
    /// It ends with a cut, as soon as what was told has left.
    Broken,
    /// It ends with a cut.
    Cut,
}

/// What may take a while.
#[derive(Debug)]
enum Act {
    /// To wait for a version of the future, until then.
    Await(u64, Instant, InitialEvents),
    /// To tell what there is.
    TellInitial,
    /// To tell this change, and those behind it.
    Tell(Arc<Change>),
    /// To tell how far it has come.
    Bookmark,
    /// To let leave what was told.
    Flush,
}

/// What is written together.
#[derive(Default)]
struct Batch {
    pieces: Pieces,
    events: usize,
}

impl Service {
    /// A watch. What is wrong with the request is refused here; what goes wrong later is an event.
    pub(super) fn watch(
        &self,
        asked: &Asked,
        query: &Query,
        wish: &Wish,
        lab: WatchLab,
    ) -> Result<Answer, Refusal> {
        wish.check_stream()?;
        let options = WatchOptions::parse(query.pairs())?;
        let name = asked.place().name;
        let selects = options.fields.terms().next().is_some();
        if !name.is_empty()
            && selects
            && !options.fields.terms().any(|it| it == ("metadata.name", name, true))
        {
            return Err(Refusal::bad_request("fieldSelector metadata.name doesn't match requested name"));
        }
        let selection = self.selection(asked, query, &options.labels, &options.fields)?;
        let now = Instant::now();
        let timeout = options.timeout.unwrap_or_else(|| {
            time::scaled(self.settings.watch_timeout, 1.0 + self.cluster.source().fraction())
        });
        let mut watch = Watch {
            cluster: Arc::clone(&self.cluster),
            kind: Arc::clone(&asked.kind),
            selection,
            telling: Telling::new(Arc::clone(&asked.kind), *wish),
            lab,
            definition: Definition::of(&self.cluster, &asked.kind),
            bookmarks: options.bookmarks,
            bookmark_period: self.settings.bookmark_period,
            next_bookmark: now,
            deadline: time::after(now, timeout),
            alarm: Box::pin(sleep_until(time::after(now, timeout))),
            alarmed: None,
            stage: Stage::Over,
            told: options.version,
            ready: VecDeque::new(),
            _counted: self.counters.watch(&asked.kind.def.group, &asked.kind.def.plural),
        };
        watch.plan_bookmark(now);
        watch.begin(&options, time::after(now, self.settings.version_wait));
        let kind = Arc::clone(&asked.kind);
        let events = GuardedEvents::new(Stepping::Resting(watch), self.panics.clone(), kind);
        Ok(answer::events(AnswerBody::events(events)))
    }
}

impl Stepwise for Watch {
    type Act = Act;

    fn step(&mut self, context: &mut Context<'_>) -> Step<Act> {
        loop {
            if let Some(write) = self.ready.pop_front() {
                return Step::Write(Ok(write));
            }
            match &self.stage {
                Stage::Over => return Step::End,
                Stage::Broken => return Step::Act(Act::Flush),
                Stage::Cut => {
                    self.stage = Stage::Over;
                    return Step::Write(Err(Cut));
                }
                Stage::Awaiting(version, until, initial) => {
                    return Step::Act(Act::Await(*version, *until, *initial));
                }
                Stage::Initial(..) => return Step::Act(Act::TellInitial),
                Stage::Live(_) => {}
            }
            if let Some(step) = self.follow(context) {
                return step;
            }
        }
    }

    async fn act(&mut self, act: Act) {
        match act {
            Act::Await(version, until, initial) => self.await_version(version, until, initial).await,
            Act::TellInitial => self.tell_initial().await,
            Act::Tell(change) => self.tell_from(change).await,
            Act::Bookmark => self.tell_bookmark().await,
            Act::Flush => {
                // What was told before is on its way by then, and not cut off too.
                sleep_until(time::from_now(FLUSHED)).await;
                self.stage = Stage::Cut;
            }
        }
    }
}

impl Watch {
    fn begin(&mut self, options: &WatchOptions, patience: Instant) {
        match options.initial {
            InitialEvents::Send | InitialEvents::None
                if options.version > self.cluster.store().revision() =>
            {
                self.stage = Stage::Awaiting(options.version, patience, options.initial);
            }
            InitialEvents::Send => self.begin_with_state(),
            InitialEvents::FromNow => self.begin_after(self.cluster.store().revision()),
            InitialEvents::None => self.begin_after(options.version),
        }
    }

    fn begin_after(&mut self, version: u64) {
        self.told = version;
        match self.cluster.store().watch(&self.kind.collection, version) {
            Ok(cursor) => self.stage = Stage::Live(cursor),
            Err(compacted) => self.fail(&too_old(version, compacted)),
        }
    }

    /// Takes what there is now. The place in the log is right behind it, so that nothing falls between.
    fn begin_with_state(&mut self) {
        let cluster = Arc::clone(&self.cluster);
        let store = cluster.store();
        let (state, revision) = store.read(&self.kind.collection, |history, revision| {
            let all = history.list_in(revision, self.selection.namespace.as_deref(), None);
            let all = all.into_iter().flatten();
            (all.filter(|it| self.selection.holds(it)).cloned().collect::<Vec<_>>(), revision)
        });
        match store.watch(&self.kind.collection, revision) {
            Ok(cursor) => {
                self.told = revision;
                self.stage = Stage::Initial(state.into_iter(), cursor);
            }
            Err(compacted) => self.fail(&too_old(revision, compacted)),
        }
    }

    async fn await_version(&mut self, version: u64, until: Instant, initial: InitialEvents) {
        let store = self.cluster.store();
        let in_time = timeout_at(until.min(self.deadline), store.reach(version)).await.is_ok();
        match initial {
            InitialEvents::None if in_time => self.begin_after(version),
            InitialEvents::None if self.deadline <= until => self.stage = Stage::Over,
            InitialEvents::None => self.fail(&unknown(version, store.revision())),
            _ if in_time => self.begin_with_state(),
            _ => self.fail(&too_large(version, store.revision())),
        }
    }

    async fn tell_initial(&mut self) {
        if !self.may_deliver().await {
            return;
        }
        let Stage::Initial(state, _) = &mut self.stage else { return };
        let ahead = state.as_slice().len().min(AHEAD);
        if let Err(refusal) = self.cluster.ready_to_show(&self.kind, &state.as_slice()[..ahead]).await {
            return self.fail(&refusal);
        }
        let mut batch = Batch::default();
        let room = self.lab.room().min(AHEAD);
        while batch.pieces.len() < BATCH
            && batch.events < room
            && let Some(object) = state.next()
        {
            self.telling.event(&Frame::initial(object), self.cluster.source(), &mut batch.pieces);
            batch.events += 1;
        }
        if state.len() == 0 {
            if self.bookmarks {
                batch.pieces.push(self.telling.bookmark(self.told, true, self.cluster.source().now()));
            }
            if let Stage::Initial(_, cursor) = std::mem::replace(&mut self.stage, Stage::Over) {
                self.stage = Stage::Live(cursor);
            }
        }
        self.deliver(batch);
    }

    /// A step of a watch that tells what changes; nothing where the stage is to be looked at again.
    fn follow(&mut self, context: &mut Context<'_>) -> Option<Step<Act>> {
        let (now, time) = (Instant::now(), self.deadline.min(self.next_bookmark));
        if now >= self.deadline {
            self.stage = Stage::Over;
            return None;
        }
        if now >= time {
            self.plan_bookmark(now);
            return Some(Step::Act(Act::Bookmark));
        }
        let Stage::Live(cursor) = &mut self.stage else { return None };
        match cursor.poll_next(context) {
            Poll::Ready(Ok(change)) => return self.tell(change),
            Poll::Ready(Err(compacted)) => {
                // The collection of a custom kind goes with its definition, and then there is nothing to list again.
                if self.definition.poll_changed(context).is_ready() {
                    self.stage = Stage::Over;
                } else {
                    self.fail(&too_old(self.told, compacted));
                }
                return None;
            }
            Poll::Pending => {}
        }
        match self.lab.poll_disturbed(context) {
            Poll::Ready(Disturbance::Bookmark) => return Some(Step::Act(Act::Bookmark)),
            Poll::Ready(_) => {
                self.end();
                return None;
            }
            Poll::Pending => {}
        }
        if self.definition.poll_changed(context).is_ready() {
            self.stage = Stage::Over;
            return None;
        }
        self.wake_at(time, context).then_some(Step::Wait)
    }

    /// Has the task woken at that time; false if it is that late already. An alarm that is set is left alone.
    fn wake_at(&mut self, time: Instant, context: &mut Context<'_>) -> bool {
        if self.alarm.deadline() != time {
            self.alarm.as_mut().reset(time);
            self.alarmed = None;
        }
        if self.alarmed.as_ref().is_some_and(|it| it.will_wake(context.waker())) {
            return true;
        }
        let rings = self.alarm.as_mut().poll(context).is_pending();
        self.alarmed = rings.then(|| context.waker().clone());
        rings
    }

    /// Tells a change, and those that happened behind it as far as they fit: at once, where nothing has to be waited for.
    fn tell(&mut self, first: Arc<Change>) -> Option<Step<Act>> {
        if !self.lab.is_open() || self.kind.converted_by_webhook().is_some() {
            return Some(Step::Act(Act::Tell(first)));
        }
        let (mut next, mut batch) = (Some(first), Batch::default());
        while let Some(change) = next.take() {
            if let Some(frame) = self.due(&change) {
                self.add(&frame, &mut batch);
            }
            next = self.behind(&batch);
        }
        if self.lab.reshapes() {
            self.deliver(batch);
            return None;
        }
        self.lab.told(batch.events);
        (!batch.pieces.is_empty()).then(|| Step::Write(Ok(batch.pieces)))
    }

    /// The same where the lab or a webhook may have to be waited for.
    async fn tell_from(&mut self, first: Arc<Change>) {
        let (mut next, mut batch) = (Some(first), Batch::default());
        while let Some(change) = next.take() {
            if let Some(frame) = self.due(&change) {
                if batch.events == 0 && !self.may_deliver().await {
                    return;
                }
                let shown = std::slice::from_ref(&frame.object);
                if let Err(refusal) = self.cluster.ready_to_show(&self.kind, shown).await {
                    return self.fail(&refusal);
                }
                self.add(&frame, &mut batch);
            }
            next = self.behind(&batch);
        }
        self.deliver(batch);
    }

    /// What is to be told of a change that comes next.
    fn due(&mut self, change: &Change) -> Option<Frame> {
        // A watch from a version of the future is told nothing of what comes before it.
        if change.version <= self.told {
            return None;
        }
        self.told = change.version;
        tell(change, &self.selection)
    }

    fn add(&mut self, frame: &Frame, batch: &mut Batch) {
        self.telling.event(frame, self.cluster.source(), &mut batch.pieces);
        batch.events += 1;
    }

    /// The next change, if it has happened already and there is room for it.
    fn behind(&mut self, batch: &Batch) -> Option<Arc<Change>> {
        if batch.pieces.len() >= BATCH || batch.events >= self.lab.room() {
            return None;
        }
        let Stage::Live(cursor) = &mut self.stage else { return None };
        // A cursor that was overtaken says so at the next step.
        cursor.try_next().unwrap_or_default()
    }

    /// Tells how far it has come, if nothing is left to be told before.
    async fn tell_bookmark(&mut self) {
        let revision = self.cluster.store().revision();
        let Stage::Live(cursor) = &mut self.stage else { return };
        // All that was committed up to the revision is in the log: when it is told, so is everything up to there.
        match cursor.try_next() {
            Ok(None) => {}
            Ok(Some(change)) => {
                self.tell_from(change).await;
                self.next_bookmark = Instant::now();
                return;
            }
            // The next step finds out why, and how the watch ends.
            Err(_) => return,
        }
        if self.bookmarks && revision >= self.told && self.may_deliver().await {
            self.told = revision;
            let bookmark = self.telling.bookmark(revision, false, self.cluster.source().now());
            self.deliver(Batch { pieces: Pieces::from_iter([bookmark]), events: 0 });
        }
    }

    /// Waits as long as the lab holds delivery up; false when the watch has ended instead.
    async fn may_deliver(&mut self) -> bool {
        if self.lab.is_open() {
            return true;
        }
        match timeout_at(self.deadline, self.lab.gate()).await {
            Ok(true) => true,
            Ok(false) => {
                self.end();
                false
            }
            Err(_) => {
                self.stage = Stage::Over;
                false
            }
        }
    }

    fn deliver(&mut self, batch: Batch) {
        self.lab.told(batch.events);
        if batch.pieces.is_empty() {
            return;
        }
        if self.lab.reshapes() {
            let writes = self.lab.frames(batch.pieces.into_iter().collect());
            self.ready.extend(writes.into_iter().map(Pieces::from_iter));
        } else {
            self.ready.push_back(batch.pieces);
        }
    }

    fn fail(&mut self, refusal: &Refusal) {
        self.ready.push_back(Pieces::from_iter([Telling::error(refusal)]));
        self.stage = Stage::Over;
    }

    /// Ends as the lab wants it.
    fn end(&mut self) {
        self.stage = if self.lab.cuts() { Stage::Broken } else { Stage::Over };
    }

    /// Bookmarks come every period, and once more shortly before the end.
    fn plan_bookmark(&mut self, now: Instant) {
        let last = self.deadline.checked_sub(LAST_BOOKMARK).filter(|it| *it > now);
        self.next_bookmark = match last {
            _ if !self.bookmarks => self.deadline,
            Some(last) => last.min(time::after(now, self.bookmark_period)),
            None => time::after(now, self.bookmark_period),
        };
    }
}

/// 410: the server has never come to this version. Clients list again after 410 and after nothing else: kube-rs repeats a
/// watch that ended with 504 at the same version for ever.
fn unknown(version: u64, revision: u64) -> Refusal {
    let message = format!("unknown resource version: {version}, the newest is {revision}");
    Refusal(Box::new(Status::failure(Reason::Expired, message)))
}

/// 410: the changes behind a version are no longer kept.
fn too_old(version: u64, compacted: Compacted) -> Refusal {
    let message = format!("too old resource version: {version} ({})", compacted.oldest);
    Refusal(Box::new(Status::failure(Reason::Expired, message)))
}
