//! Watches: a cursor in the log of changes, pulled by the reader of the response body.
//!
//! ```text
//! Awaiting (a future version) ─► Initial (existing objects) ─► Live (changes) ─► Over
//!    `──── timeout, or too old ───────────────────────────── ERROR ───────────────────►'
//! ```
//!
//! A watch from a future version that is not reached in time fails with 410. kube-apiserver stays
//! silent, but there such a version is one that another replica has already seen. Here it is one
//! from before a restart, and a client that waits for it would miss all changes until then.
//!
//! One step of the stream is one batch of at most 64 KiB, and so one chunk on the wire. Between two
//! steps a watch consists of its position in the log and two points in time: nothing is buffered
//! for a client that does not read.
//!
//! There are many watches, each is polled several times per event, and nearly all of them only
//! follow the log. So following runs in place; an action that may wait becomes a future only when
//! needed.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep_until, timeout_at};

use super::answer::{self, Answer};
use super::backend::{Backend, Freshness};
use super::body::{Cut, ResponseBody};
use super::definition_follower::DefinitionFollower;
use super::guard::GuardedEvents;
use super::metrics::CountedWatch;
use super::negotiated::Negotiated;
use super::pace::Pace;
use super::parsed_request::ParsedRequest;
use super::pieces::Pieces;
use super::query::Query;
use super::read_error::{too_large, too_old, unknown, view_ended};
use super::reader::Reader;
use super::stepping::{Step, StepStream, Stepwise};
use super::watch_encoder::WatchEncoder;
use crate::ApiError;
use crate::faults::{Disturbance, WatchFaults};
use crate::reading::{Frame, Selection, event_for, initializing};
use crate::registry::Kind;
use crate::request::{InitialEvents, WatchOptions};
use crate::store::{Change, Compacted, Cursor, Encoded};
use crate::time;

/// The maximum number of bytes of events in one batch: enough for one write, few enough to share
/// the connection.
const BATCH: usize = 64 * 1024;
/// The maximum number of initial events in one batch. A webhook may have to convert them, which
/// takes time.
const MAX_INITIAL: usize = 500;
/// The time before its end at which a watch gets a last bookmark: `nextBookmarkTime` in
/// k8s.io/apiserver v0.36.4 pkg/storage/cacher/cache_watcher.go.
const LAST_BOOKMARK: Duration = Duration::from_secs(2);

/// The work of a change that is left out without being shown, in bytes of shown objects: its labels
/// are compared.
const LEFT_OUT: usize = 256;

/// The time for sent events to leave before a fault rule cuts the connection.
const FLUSH_TIME: Duration = Duration::from_millis(1);

/// One watch.
#[derive(Debug)]
struct Watch {
    backend: Arc<dyn Backend>,
    kind: Arc<Kind>,
    selection: Selection,
    /// The conditions that can be checked before an object is converted to the form that the client
    /// sees, if the other conditions can only be checked after that.
    before_conversion: Option<Selection>,
    /// Set if the conversion may have to be waited for.
    waits_to_show: bool,
    encoder: WatchEncoder,
    faults: WatchFaults,
    definition: DefinitionFollower,
    /// Set if the client allows bookmarks.
    bookmarks: bool,
    bookmark_period: Duration,
    next_bookmark: Instant,
    deadline: Instant,
    /// Fires at the next bookmark or the end. One timer for the whole watch: most events come and
    /// go without it.
    timer: Pin<Box<Sleep>>,
    /// The waker that the timer was last polled with, since it was last set.
    timer_waker: Option<Waker>,
    state: WatchState,
    /// Every change before this version was sent or skipped; they are not sent again. Of the
    /// changes at this version itself, those behind the cursor.
    sent_version: u64,
    /// The version that the client has, if the watch began before it had arrived here: changes up
    /// to it are not sent.
    begun_at: u64,
    /// Set if other tasks have their turn before the next step.
    pauses: bool,
    /// Batches that are ready to be written.
    ready: VecDeque<Pieces>,
    _counted: CountedWatch,
}

/// The state of a watch.
#[derive(Debug)]
enum WatchState {
    /// Waiting for a future version until a deadline, to start as `InitialEvents` says.
    Awaiting(u64, Instant, InitialEvents),
    /// Sending the objects that existed at a version.
    Initial(std::vec::IntoIter<Arc<Encoded>>, Cursor),
    /// Sending changes.
    Live(Cursor),
    /// Nothing more to send.
    Over,
    /// To be cut as soon as the sent events have left.
    Broken,
    /// To be cut.
    Cut,
}

/// An action that may wait.
#[derive(Debug)]
enum Action {
    /// Waits for a future version until a deadline.
    Await(u64, Instant, InitialEvents),
    /// Sends initial events.
    SendInitial,
    /// Sends this change and the following ones.
    Send(Arc<Change>),
    /// Sends a bookmark.
    Bookmark,
    /// Lets the sent events leave.
    Flush,
}

/// Events that are written together.
#[derive(Default)]
struct Batch {
    pieces: Pieces,
    events: usize,
}

impl Reader {
    /// Starts a watch. An invalid request is rejected here; a later failure is an `ERROR` event.
    pub(super) async fn watch(
        &self,
        parsed: &ParsedRequest,
        query: &Query,
        negotiated: &Negotiated,
        freshness: &dyn Freshness,
        faults: WatchFaults,
    ) -> Result<Answer, ApiError> {
        negotiated.check_stream()?;
        let mut options = WatchOptions::parse(query.pairs())?;
        let name = parsed.place().name;
        let selects = options.fields.terms().next().is_some();
        if !name.is_empty()
            && selects
            && !options.fields.terms().any(|it| it == ("metadata.name", name, true))
        {
            return Err(ApiError::bad_request("fieldSelector metadata.name doesn't match requested name"));
        }
        let selection = self.selection(parsed, query, &options.labels, &options.fields)?;
        // A list by a watch is as consistent as a list: `getWatchCacheResourceVersion` in
        // k8s.io/apiserver v0.36.4 pkg/storage/cacher/cacher.go.
        if query.get("resourceVersion").is_none() && query.flag("sendInitialEvents").is_some() {
            options.version = freshness.newest().await?;
        }
        let now = Instant::now();
        // Spread over one to two times the minimum, as `handleWatch` does in k8s.io/apiserver
        // v0.36.4 pkg/endpoints/handlers/get.go, so that the watches of one moment do not all end
        // together.
        let timeout = options.timeout.unwrap_or_else(|| {
            time::scaled(self.settings.watch_timeout, 1.0 + self.backend.source().spread())
        });
        let (backend, kind) = (&self.backend, &parsed.kind);
        let mut watch = Watch {
            backend: Arc::clone(backend),
            kind: Arc::clone(kind),
            before_conversion: backend.selects_shown(kind, &selection).then(|| selection.without_content()),
            waits_to_show: backend.waits_to_show(kind, &selection),
            selection,
            encoder: WatchEncoder::new(Arc::clone(kind), *negotiated),
            faults,
            definition: backend.definition(kind),
            bookmarks: options.bookmarks,
            bookmark_period: self.settings.bookmark_period,
            next_bookmark: now,
            deadline: time::after(now, timeout),
            timer: Box::pin(sleep_until(time::after(now, timeout))),
            timer_waker: None,
            state: WatchState::Over,
            sent_version: options.version,
            begun_at: 0,
            pauses: false,
            ready: VecDeque::new(),
            _counted: self.metrics.watch(&kind.def.group, &kind.def.plural),
        };
        watch.plan_bookmark(now);
        let wait = freshness.watch_wait().unwrap_or(self.settings.version_wait);
        watch.begin(&options, time::after(now, wait));
        let kind = Arc::clone(kind);
        let encoding = negotiated.encoding;
        let events = GuardedEvents::new(StepStream::Idle(watch), self.panics.clone(), kind, encoding);
        Ok(answer::events(ResponseBody::events(events), encoding))
    }
}

impl Stepwise for Watch {
    type Action = Action;

    fn step(&mut self, context: &mut Context<'_>) -> Step<Action> {
        loop {
            if let Some(write) = self.ready.pop_front() {
                return Step::Write(Ok(write));
            }
            if std::mem::take(&mut self.pauses) {
                return Step::Yield;
            }
            match &self.state {
                WatchState::Over => return Step::End,
                WatchState::Broken => return Step::Run(Action::Flush),
                WatchState::Cut => {
                    self.state = WatchState::Over;
                    return Step::Write(Err(Cut));
                }
                WatchState::Awaiting(version, until, initial) => {
                    return Step::Run(Action::Await(*version, *until, *initial));
                }
                WatchState::Initial(..) => return Step::Run(Action::SendInitial),
                WatchState::Live(_) => {}
            }
            if let Some(step) = self.follow(context) {
                return step;
            }
        }
    }

    async fn run(&mut self, action: Action) {
        match action {
            Action::Await(version, until, initial) => self.await_version(version, until, initial).await,
            Action::SendInitial => self.send_initial().await,
            Action::Send(change) => self.send_from(change).await,
            Action::Bookmark => self.send_bookmark().await,
            Action::Flush => {
                // The events sent before are on the wire by then, and are not lost in the cut.
                sleep_until(time::from_now(FLUSH_TIME)).await;
                self.state = WatchState::Cut;
            }
        }
    }
}

impl Watch {
    fn begin(&mut self, options: &WatchOptions, await_until: Instant) {
        let known = self.backend.store().known();
        match options.initial {
            InitialEvents::None => self.begin_after(options.version, await_until),
            _ if options.version > known => {
                self.state = WatchState::Awaiting(options.version, await_until, options.initial);
            }
            InitialEvents::Send => self.begin_with_state(options.version, await_until),
            InitialEvents::FromNow => self.begin_after(known, await_until),
        }
    }

    /// Begins after a version, which is waited for if it was not seen yet. A version between two
    /// that were seen is waited for too: if the copy lists then, instead of receiving each change,
    /// a list does not show what came before the version and went after it.
    fn begin_after(&mut self, version: u64, until: Instant) {
        let from = self
            .backend
            .store()
            .read_known(&self.kind.collection, |history, known| history.revision_of(version, known.revision));
        let Some(from) = from else {
            self.state = WatchState::Awaiting(version, until, InitialEvents::None);
            return;
        };
        match self.follow_after(version, from) {
            Ok(cursor) => self.state = WatchState::Live(cursor),
            Err(compacted) => self.fail(&too_old(version, compacted)),
        }
    }

    /// Returns a cursor for the changes after a version, whose state is that of `snapshot`.
    fn follow_after(&mut self, version: u64, snapshot: u64) -> Result<Cursor, Compacted> {
        self.sent_version = version;
        // Of a version that has arrived, a change may still follow: see `is_next`.
        self.begun_at = if version > snapshot { version } else { 0 };
        self.backend.store().watch(&self.kind.collection, snapshot)
    }

    /// Takes the existing objects. The cursor starts right after them, so that no change is missed
    /// in between.
    fn begin_with_state(&mut self, least: u64, until: Instant) {
        let backend = Arc::clone(&self.backend);
        let (state, known) = backend.store().read_known(&self.kind.collection, |history, known| {
            if history.is_closed() {
                return (None, known);
            }
            let all = history.list_in(known.snapshot, self.selection.namespace.as_deref(), None);
            let all = all.into_iter().flatten();
            (Some(all.filter(|it| self.filter().holds(it)).cloned().collect::<Vec<_>>()), known)
        });
        // A copy may have been closed meanwhile: it is not empty.
        let Some(state) = state else { return self.fail(&initializing()) };
        if known.version < least {
            // A copy has begun anew at an older version.
            self.state = WatchState::Awaiting(least, until, InitialEvents::Send);
            return;
        }
        match self.follow_after(known.version, known.snapshot) {
            Ok(cursor) => self.state = WatchState::Initial(state.into_iter(), cursor),
            Err(compacted) => self.fail(&too_old(known.snapshot, compacted)),
        }
    }

    async fn await_version(&mut self, version: u64, until: Instant, initial: InitialEvents) {
        let backend = Arc::clone(&self.backend);
        let store = backend.store();
        let kind = Arc::clone(&self.kind);
        let arrives = async {
            match initial {
                InitialEvents::None => store.see(&kind.collection, version).await,
                _ => store.reach(version).await,
            }
        };
        let in_time = timeout_at(until.min(self.deadline), arrives).await.is_ok();
        match initial {
            InitialEvents::None if in_time => self.begin_after(version, until),
            InitialEvents::FromNow if in_time => self.begin_after(store.known(), until),
            InitialEvents::None if self.deadline <= until => self.state = WatchState::Over,
            InitialEvents::None => self.fail(&unknown(version, store.known())),
            _ if in_time => self.begin_with_state(version, until),
            _ => self.fail(&too_large(version, store.known())),
        }
    }

    async fn send_initial(&mut self) {
        if !self.may_deliver().await {
            return;
        }
        let WatchState::Initial(state, _) = &mut self.state else { return };
        let (room, mut size) = (self.faults.room().min(MAX_INITIAL), 0_usize);
        let fits = |it: &&Arc<Encoded>| {
            let before = size;
            size = size.saturating_add(it.length());
            before < BATCH
        };
        let count = state.as_slice().iter().take(room).take_while(fits).count();
        let objects: Vec<_> = state.by_ref().take(count).collect();
        let is_last = state.len() == 0;
        let objects = match self.backend.show(&self.kind, &objects).await {
            Ok(objects) => objects,
            Err(refusal) => return self.fail(&refusal),
        };
        let mut batch = Batch::default();
        let selects = self.before_conversion.is_some();
        for object in objects.into_iter().flatten() {
            if selects && !self.selection.holds(&object) {
                continue;
            }
            if !self.add(&Frame::initial(object), &mut batch) {
                break;
            }
        }
        if is_last && matches!(self.state, WatchState::Initial(..)) {
            if self.bookmarks {
                let now = self.backend.source().now();
                batch.pieces.push(self.encoder.bookmark(self.sent_version, true, now));
            }
            if let WatchState::Initial(_, cursor) = std::mem::replace(&mut self.state, WatchState::Over) {
                self.state = WatchState::Live(cursor);
            }
        }
        self.pauses = batch.pieces.len() < BATCH / 2 && !is_last;
        self.deliver(batch);
    }

    /// Returns the next step of a live watch, or `None` if the state has changed.
    fn follow(&mut self, context: &mut Context<'_>) -> Option<Step<Action>> {
        let (now, time) = (Instant::now(), self.deadline.min(self.next_bookmark));
        if now >= self.deadline {
            self.state = WatchState::Over;
            return None;
        }
        if now >= time {
            self.plan_bookmark(now);
            return Some(Step::Run(Action::Bookmark));
        }
        if self.definition.poll_view_ended(context).is_ready() {
            self.fail(&view_ended());
            return None;
        }
        let WatchState::Live(cursor) = &mut self.state else { return None };
        match cursor.poll_next(context) {
            Poll::Ready(Ok(change)) => return self.send(change),
            Poll::Ready(Err(compacted)) => {
                // The collection of a custom kind is dropped with its definition; a client could
                // not list it again.
                if self.definition.poll_changed(context).is_ready() {
                    self.state = WatchState::Over;
                } else {
                    self.fail(&too_old(self.sent_version, compacted));
                }
                return None;
            }
            Poll::Pending => {}
        }
        match self.faults.poll_disturbed(context) {
            Poll::Ready(Disturbance::Bookmark) => return Some(Step::Run(Action::Bookmark)),
            Poll::Ready(_) => {
                self.end();
                return None;
            }
            Poll::Pending => {}
        }
        if self.definition.poll_changed(context).is_ready() {
            self.state = WatchState::Over;
            return None;
        }
        self.wake_at(time, context).then_some(Step::Wait)
    }

    /// Arranges for the task to be woken at a time; returns false if that time has passed. A timer
    /// that is already set is left alone.
    fn wake_at(&mut self, time: Instant, context: &mut Context<'_>) -> bool {
        if self.timer.deadline() != time {
            self.timer.as_mut().reset(time);
            self.timer_waker = None;
        }
        if self.timer_waker.as_ref().is_some_and(|it| it.will_wake(context.waker())) {
            return true;
        }
        let pending = self.timer.as_mut().poll(context).is_pending();
        self.timer_waker = pending.then(|| context.waker().clone());
        pending
    }

    /// Sends a change and the following ones as far as they fit: in place, if nothing has to be
    /// waited for.
    fn send(&mut self, first: Arc<Change>) -> Option<Step<Action>> {
        if self.waits_to_show || !self.faults.is_open() {
            return Some(Step::Run(Action::Send(first)));
        }
        let (mut next, mut batch, mut left_out) = (Some(first), Batch::default(), 0_usize);
        while let Some(change) = next.take() {
            let (work, before) = (self.work_of(&change), batch.events);
            if self.is_next(&change)
                && let Some(shown) = self.backend.show_change(change)
                && let Some(frame) = event_for(&shown, &self.selection)
            {
                self.add(&frame, &mut batch);
            }
            if batch.events == before {
                left_out = left_out.saturating_add(work);
            }
            next = self.next_if_room(batch.pieces.len().saturating_add(left_out), batch.events);
        }
        // There may be many more changes that this watch does not show, and a client that gets
        // little of them asks for more at once.
        self.pauses = left_out >= BATCH;
        if self.faults.reshapes() {
            self.deliver(batch);
            return None;
        }
        self.faults.delivered(batch.events);
        (!batch.pieces.is_empty()).then(|| Step::Write(Ok(batch.pieces)))
    }

    /// Returns the work of showing a change, in bytes.
    fn work_of(&self, change: &Change) -> usize {
        if self.before_conversion.is_none() {
            return LEFT_OUT;
        }
        let states = change.before.iter().chain(&change.after);
        states.map(|it| it.length()).fold(LEFT_OUT, usize::saturating_add)
    }

    /// Sends changes like [`Self::send`], where a fault rule or a webhook may have to be waited
    /// for.
    async fn send_from(&mut self, first: Arc<Change>) {
        let (mut next, mut changes, mut size) = (Some(first), Vec::new(), 0_usize);
        let mut pace = Pace::default();
        while let Some(change) = next.take() {
            pace.after(self.work_of(&change)).await;
            if self.is_next(&change)
                && let Some(change) = self.backend.show_change(change)
                && let Some(frame) = event_for(&change, self.filter())
            {
                if changes.is_empty() && !self.may_deliver().await {
                    return;
                }
                size = size.saturating_add(frame.object.length());
                changes.push(change);
            }
            next = self.next_if_room(size, changes.len());
        }
        let frames = match self.frames(&changes).await {
            Ok(frames) => frames,
            Err(refusal) => return self.fail(&refusal),
        };
        let mut batch = Batch::default();
        // Up to one that cannot be sent.
        let _ = frames.iter().all(|it| self.add(it, &mut batch));
        self.deliver(batch);
    }

    /// Returns the events of changes, with objects that can be shown.
    async fn frames(&self, changes: &[Arc<Change>]) -> Result<Vec<Frame>, ApiError> {
        if !self.waits_to_show {
            return Ok(changes.iter().filter_map(|it| event_for(it, &self.selection)).collect());
        }
        if self.before_conversion.is_none() {
            let frames: Vec<_> = changes.iter().filter_map(|it| event_for(it, &self.selection)).collect();
            let objects: Vec<_> = frames.iter().map(|it| Arc::clone(&it.object)).collect();
            let shown = self.backend.show(&self.kind, &objects).await?;
            let frames = frames.into_iter().zip(shown);
            return Ok(frames
                .filter_map(|(frame, object)| Some(Frame { object: object?, ..frame }))
                .collect());
        }
        // Both states decide about the event, each in the version of the watch.
        let states: Vec<_> =
            changes.iter().flat_map(|it| it.before.iter().chain(&it.after)).cloned().collect();
        let mut states = self.backend.show(&self.kind, &states).await?.into_iter();
        let convert = |change: &Arc<Change>| {
            let before = change.before.as_ref().and_then(|_| states.next()).flatten();
            let after = change.after.as_ref().and_then(|_| states.next()).flatten();
            event_for(&Change::new(change.version, before, after), &self.selection)
        };
        Ok(changes.iter().filter_map(convert).collect())
    }

    /// Returns the conditions on stored objects.
    fn filter(&self) -> &Selection {
        self.before_conversion.as_ref().unwrap_or(&self.selection)
    }

    /// Returns true if a change was not sent yet, and records that it is sent or skipped now. A
    /// watch from a future version does not get the changes before it. The cursor starts after the
    /// version of the watch, so an equal version is that of another change.
    fn is_next(&mut self, change: &Change) -> bool {
        let is_next = change.version >= self.sent_version && change.version > self.begun_at;
        self.sent_version = self.sent_version.max(change.version);
        is_next
    }

    /// Adds an event to a batch. If it cannot be encoded, adds an error, ends the watch, and
    /// returns false.
    fn add(&mut self, frame: &Frame, batch: &mut Batch) -> bool {
        batch.events += 1;
        let encoded = self.encoder.event(frame, self.backend.source(), &mut batch.pieces);
        if let Err(refusal) = &encoded {
            batch.pieces.push(self.encoder.last_error(refusal));
            self.state = WatchState::Over;
        }
        encoded.is_ok()
    }

    /// Returns the next change, if it has happened already and there is room for it.
    fn next_if_room(&mut self, size: usize, events: usize) -> Option<Arc<Change>> {
        if size >= BATCH || events >= self.faults.room() {
            return None;
        }
        let WatchState::Live(cursor) = &mut self.state else { return None };
        // A cursor that fell behind reports so at the next step.
        cursor.try_next().unwrap_or_default()
    }

    /// Sends a bookmark, unless there are changes to send first.
    async fn send_bookmark(&mut self) {
        let revision = self.backend.store().revision();
        let WatchState::Live(cursor) = &mut self.state else { return };
        // All changes up to the revision are in the log: once the cursor is at its end, all of them
        // were sent.
        match cursor.try_next() {
            Ok(None) => {}
            Ok(Some(change)) => {
                self.send_from(change).await;
                self.next_bookmark = Instant::now();
                return;
            }
            // The next step finds the reason, and ends the watch accordingly.
            Err(_) => return,
        }
        if self.bookmarks && revision >= self.sent_version && self.may_deliver().await {
            self.sent_version = revision;
            let bookmark = self.encoder.bookmark(revision, false, self.backend.source().now());
            self.deliver(Batch { pieces: Pieces::from_iter([bookmark]), events: 0 });
        }
    }

    /// Waits while a fault rule holds up delivery; returns false if the watch has ended instead.
    async fn may_deliver(&mut self) -> bool {
        if self.faults.is_open() {
            return true;
        }
        match timeout_at(self.deadline, self.faults.gate()).await {
            Ok(true) => true,
            Ok(false) => {
                self.end();
                false
            }
            Err(_) => {
                self.state = WatchState::Over;
                false
            }
        }
    }

    fn deliver(&mut self, batch: Batch) {
        self.faults.delivered(batch.events);
        if batch.pieces.is_empty() {
            return;
        }
        if self.faults.reshapes() {
            let writes = self.faults.frames(batch.pieces.into_iter().collect());
            self.ready.extend(writes.into_iter().map(Pieces::from_iter));
        } else {
            self.ready.push_back(batch.pieces);
        }
    }

    fn fail(&mut self, refusal: &ApiError) {
        self.ready.push_back(Pieces::from_iter([self.encoder.last_error(refusal)]));
        self.state = WatchState::Over;
    }

    /// Ends as the fault rules demand.
    fn end(&mut self) {
        self.state = if self.faults.cuts() { WatchState::Broken } else { WatchState::Over };
    }

    /// Schedules the next bookmark: one every period, and one shortly before the end.
    fn plan_bookmark(&mut self, now: Instant) {
        let last = self.deadline.checked_sub(LAST_BOOKMARK).filter(|it| *it > now);
        self.next_bookmark = match last {
            _ if !self.bookmarks => self.deadline,
            Some(last) => last.min(time::after(now, self.bookmark_period)),
            None => time::after(now, self.bookmark_period),
        };
    }
}
