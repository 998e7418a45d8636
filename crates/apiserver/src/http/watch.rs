//! Watches: a cursor in the log of changes, pulled by whoever takes the bytes.
//!
//! ```text
//! Awaiting (a version of the future) ─► Initial (what is there) ─► Live (what changes) ─► Over
//!        `──── too late ────────────────────────────────────────────── ERROR ────────────►'
//! ```
//!
//! One step of the stream is one batch of at most 64 KiB, and so one chunk on the wire. Between two steps a watch is its
//! place in the log and two points in time: nothing is collected for a client that does not read.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use dogwatch_core::{Reason, Status};
use futures_util::stream;
use tokio::time::{Instant, Sleep, sleep_until, timeout_at};

use super::answer::{self, Answer};
use super::asked::Asked;
use super::body::{AnswerBody, Cut};
use super::counters::CountedWatch;
use super::ending::Definition;
use super::list::selection;
use super::pieces::Pieces;
use super::query::Query;
use super::read::too_large;
use super::service::Service;
use super::telling::Telling;
use super::wish::Wish;
use crate::cluster::Cluster;
use crate::faults::{Disturbance, WatchLab};
use crate::reading::{Frame, Selection, tell};
use crate::refusal::Refusal;
use crate::registry::Kind;
use crate::request::{InitialEvents, WatchOptions};
use crate::store::{Change, Compacted, Cursor, Encoded};

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
    /// It waits for a version of the future, until then.
    Awaiting(u64, Instant),
    /// It tells what there was at a version.
    Initial(std::vec::IntoIter<Arc<Encoded>>, Cursor),
    /// It tells what changes.
    Live(Cursor),
    /// It has nothing more to tell.
    Over,
    /// It ends with a cut.
    Broken,
}

/// What ends the wait for something to tell.
enum Woken {
    Change(Result<Arc<Change>, Compacted>),
    Time,
    Disturbed(Disturbance),
    Redefined,
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
        let selection = selection(asked, &options.labels, &options.fields)?;
        let now = Instant::now();
        let timeout = options
            .timeout
            .unwrap_or_else(|| self.settings.watch_timeout.mul_f64(1.0 + self.cluster.source().fraction()));
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
            deadline: now + timeout,
            alarm: Box::pin(sleep_until(now + timeout)),
            stage: Stage::Over,
            told: options.version,
            ready: VecDeque::new(),
            _counted: self.counters.watch(&asked.kind.def.group, &asked.kind.def.plural),
        };
        watch.plan_bookmark(now);
        watch.begin(&options, now + self.settings.version_wait);
        let events = stream::unfold(watch, |mut watch| async { watch.next().await.map(|it| (it, watch)) });
        Ok(answer::events(AnswerBody::events(events)))
    }
}

impl Watch {
    /// The next write, as soon as there is one; nothing when the watch is over.
    async fn next(&mut self) -> Option<Result<Pieces, Cut>> {
        loop {
            if let Some(write) = self.ready.pop_front() {
                return Some(Ok(write));
            }
            match &self.stage {
                Stage::Over => return None,
                Stage::Broken => {
                    // What was told before is on its way by then, and not cut off too.
                    sleep_until(Instant::now() + FLUSHED).await;
                    self.stage = Stage::Over;
                    return Some(Err(Cut));
                }
                Stage::Awaiting(version, until) => {
                    let (version, until) = (*version, *until);
                    self.await_version(version, until).await;
                }
                Stage::Initial(..) => self.tell_initial().await,
                Stage::Live(_) => self.tell_changes().await,
            }
        }
    }

    fn begin(&mut self, options: &WatchOptions, patience: Instant) {
        match options.initial {
            InitialEvents::Send if options.version > self.cluster.store().revision() => {
                self.stage = Stage::Awaiting(options.version, patience);
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
            let all = history.list_at(revision, None).into_iter().flatten();
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

    async fn await_version(&mut self, version: u64, until: Instant) {
        let store = self.cluster.store();
        match timeout_at(until.min(self.deadline), store.reach(version)).await {
            Ok(()) => self.begin_with_state(),
            Err(_) => self.fail(&too_large(version, store.revision())),
        }
    }

    async fn tell_initial(&mut self) {
        if !self.may_deliver().await {
            return;
        }
        let now = self.cluster.source().now();
        let Stage::Initial(state, _) = &mut self.stage else { return };
        let ahead = state.as_slice().len().min(AHEAD);
        if let Err(refusal) = self.cluster.ready_to_show(&self.kind, &state.as_slice()[..ahead]).await {
            return self.fail(&refusal);
        }
        let mut batch = Vec::new();
        let (mut length, mut events) = (0, 0);
        let room = self.lab.room().min(AHEAD);
        while length < BATCH
            && events < room
            && let Some(object) = state.next()
        {
            let before = batch.len();
            self.telling.event(&Frame::initial(object), now, &mut batch);
            length += batch[before..].iter().map(Bytes::len).sum::<usize>();
            events += 1;
        }
        if state.len() == 0 {
            if self.bookmarks {
                batch.push(self.telling.bookmark(self.told, true, now));
            }
            if let Stage::Initial(_, cursor) = std::mem::replace(&mut self.stage, Stage::Over) {
                self.stage = Stage::Live(cursor);
            }
        }
        self.deliver(batch, events);
    }

    async fn tell_changes(&mut self) {
        let Stage::Live(cursor) = &mut self.stage else { return };
        let time = self.deadline.min(self.next_bookmark);
        if self.alarm.deadline() != time {
            self.alarm.as_mut().reset(time);
        }
        let woken = if Instant::now() >= time {
            Woken::Time
        } else {
            // What has happened already needs no waiting.
            match cursor.try_next() {
                Ok(Some(change)) => Woken::Change(Ok(change)),
                Err(compacted) => Woken::Change(Err(compacted)),
                Ok(None) => tokio::select! {
                    biased;
                    change = cursor.next() => Woken::Change(change),
                    disturbance = self.lab.disturbed() => Woken::Disturbed(disturbance),
                    () = self.definition.changed() => Woken::Redefined,
                    () = self.alarm.as_mut() => Woken::Time,
                },
            }
        };
        match woken {
            Woken::Change(Ok(change)) => self.tell_from(change).await,
            Woken::Change(Err(compacted)) => self.fail(&too_old(self.told, compacted)),
            Woken::Disturbed(Disturbance::Bookmark) => self.tell_bookmark().await,
            Woken::Disturbed(_) => self.end(),
            Woken::Redefined => self.stage = Stage::Over,
            Woken::Time if Instant::now() >= self.deadline => self.stage = Stage::Over,
            Woken::Time => {
                self.plan_bookmark(Instant::now());
                self.tell_bookmark().await;
            }
        }
    }

    /// Tells a change, and those that happened behind it as far as they fit.
    async fn tell_from(&mut self, first: Arc<Change>) {
        let mut next = Some(first);
        let mut batch = Vec::new();
        let (mut length, mut events) = (0, 0);
        let clock = self.cluster.source().now();
        while let Some(change) = next.take() {
            // A watch from a version of the future is told nothing of what comes before it.
            if change.version > self.told {
                self.told = change.version;
                if let Some(frame) = tell(&change, &self.selection) {
                    if events == 0 && !self.may_deliver().await {
                        return;
                    }
                    let shown = std::slice::from_ref(&frame.object);
                    if let Err(refusal) = self.cluster.ready_to_show(&self.kind, shown).await {
                        return self.fail(&refusal);
                    }
                    let before = batch.len();
                    self.telling.event(&frame, clock, &mut batch);
                    length += batch[before..].iter().map(Bytes::len).sum::<usize>();
                    events += 1;
                }
            }
            if length >= BATCH || events >= self.lab.room() {
                break;
            }
            let Stage::Live(cursor) = &mut self.stage else { return };
            // A cursor that was overtaken says so at the next step.
            next = cursor.try_next().unwrap_or_default();
        }
        self.deliver(batch, events);
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
            Err(compacted) => return self.fail(&too_old(self.told, compacted)),
        }
        if self.bookmarks && revision >= self.told && self.may_deliver().await {
            self.told = revision;
            let bookmark = self.telling.bookmark(revision, false, self.cluster.source().now());
            self.deliver(vec![bookmark], 0);
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

    fn deliver(&mut self, batch: Vec<Bytes>, events: usize) {
        self.lab.told(events);
        if !batch.is_empty() {
            let writes = self.lab.frames(batch).into_iter().map(Pieces::from_iter);
            self.ready.extend(writes);
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
            Some(last) => last.min(now + self.bookmark_period),
            None => now + self.bookmark_period,
        };
    }
}

/// 410: the changes behind a version are no longer kept.
fn too_old(version: u64, compacted: Compacted) -> Refusal {
    let message = format!("too old resource version: {version} ({})", compacted.oldest);
    Refusal(Box::new(Status::failure(Reason::Expired, message)))
}
