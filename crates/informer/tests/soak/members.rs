//! The receivers of changes: handlers that are called, that panic or that filter, and streams that
//! are read slowly. Each records what it receives.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::Duration;

use dogwatch_core::ResourceVersion;
use dogwatch_informer::{
    Change, Changes, Deleted, EventHandler, Filtered, HandlerOptions, Registration, SharedInformer, Store,
};
use futures_util::StreamExt;
use tokio::task::JoinHandle;

use crate::checks::{Circumstances, Witness, passes};
use crate::sample::Sample;
use crate::schedule::{Manner, Member};
use crate::trace::record;

/// A handler or a stream of an informer.
#[derive(Debug)]
pub(crate) struct Joined {
    witness: Arc<Mutex<Witness>>,
    pub(crate) registration: Registration,
    /// The task that reads the stream, if it is one.
    reader: Option<JoinHandle<()>>,
}

impl Joined {
    /// Adds a handler or a stream. While `hurry` is set, slow readers do not pause.
    pub(crate) fn new(informer: &SharedInformer<Sample>, member: Member, hurry: &Arc<AtomicBool>) -> Self {
        let store = informer.store();
        let witness = Arc::new(Mutex::new(Witness::new(member, number(&store.version()))));
        let notes = Notes { witness: Arc::clone(&witness), store, registration: Arc::default() };
        let mut options = HandlerOptions::default().overflow(member.overflow);
        if let Manner::Again(period) = member.manner {
            options = options.resync_every(period).replay_after_relist();
        }
        let known = Arc::clone(&notes.registration);
        let mut reader = None;
        let joined = match member.manner {
            Manner::Called | Manner::Again(_) => informer.add_handler_with(notes, options),
            Manner::Panicking(every) => {
                informer.add_handler_with(Panicking { notes, every, calls: 0 }, options)
            }
            Manner::Filtered => informer.add_handler_with(Filtered::new(passes, notes), options),
            Manner::Reading(pause) => informer.changes_with(options).map(|changes| {
                let registration = changes.registration();
                reader = Some(tokio::spawn(read(changes, notes, pause, Arc::clone(hurry))));
                registration
            }),
        };
        let registration = joined.expect("the informer has not stopped");
        known.set(registration.clone()).expect("set once");
        Self { witness, registration, reader }
    }

    pub(crate) fn witness(&self) -> MutexGuard<'_, Witness> {
        self.witness.lock().expect("a witness does not panic")
    }

    /// Removes the member; it must receive nothing afterwards. Waits for its end if `wait` is set.
    pub(crate) async fn leave(&self, wait: bool) {
        if wait {
            self.registration.shut_down().await;
        } else {
            self.registration.remove();
        }
        self.witness().left = true;
    }

    /// Waits for the end of the reading task.
    pub(crate) async fn end(&mut self) {
        if let Some(reader) = self.reader.take() {
            reader.await.expect("a reader does not panic");
        }
    }
}

/// Records the changes it receives.
struct Notes {
    witness: Arc<Mutex<Witness>>,
    store: Store<Sample>,
    /// Set right after joining, and before the first change.
    registration: Arc<OnceLock<Registration>>,
}

impl Notes {
    fn note(&self, change: &Change<Sample>) {
        let synced = self.registration.get().is_some_and(Registration::is_synced);
        let at = Circumstances { synced, store: number(&self.store.version()) };
        let mut witness = self.witness.lock().expect("a witness does not panic");
        witness.receive(change, &at);
        record(|| format!("{:?} {:?} {:?}", witness.member, at, witness.last()));
    }
}

impl EventHandler<Sample> for Notes {
    fn on_add(&mut self, object: &Arc<Sample>, initial: bool) {
        self.note(&Change::Added { object: Arc::clone(object), initial });
    }

    fn on_update(&mut self, old: &Arc<Sample>, new: &Arc<Sample>) {
        self.note(&Change::Updated { old: Arc::clone(old), new: Arc::clone(new) });
    }

    fn on_delete(&mut self, last: Deleted<Sample>) {
        self.note(&Change::Deleted(last));
    }
}

struct Panicking {
    notes: Notes,
    every: u32,
    calls: u32,
}

impl EventHandler<Sample> for Panicking {
    fn on_change(&mut self, change: &Change<Sample>) {
        self.notes.note(change);
        self.calls += 1;
        if self.calls.is_multiple_of(self.every) {
            // Unlike `panic!`, this prints nothing.
            std::panic::resume_unwind(Box::new("an intended panic"));
        }
    }
}

async fn read(mut changes: Changes<Sample>, notes: Notes, pause: Duration, hurry: Arc<AtomicBool>) {
    while let Some(change) = changes.next().await {
        notes.note(&change);
        if !pause.is_zero() && !hurry.load(Ordering::Relaxed) {
            tokio::time::sleep(pause).await;
        }
    }
}

/// Returns a version as a number; `None` if it is unset.
pub(crate) fn number(version: &ResourceVersion) -> Option<u64> {
    version.as_str().parse().ok()
}
