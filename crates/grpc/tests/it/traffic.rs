//! Calls in numbers: sent whether or not those before them have ended, each with a text of its own and its fate on record.

use std::future::Future;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, MissedTickBehavior, interval};
use tonic::Status;

use crate::echo::{EchoClient, Message};
use crate::still::in_time;

/// How often a flow sends what is due.
const TICK: Duration = Duration::from_millis(4);
/// A flow waits while so many calls are under way: a slow machine gets a lower rate, not a pile of calls.
const AT_MOST: usize = 500;

/// Whoever can be called.
pub(crate) trait Caller: Clone + Send + Sync + 'static {
    fn call(&self, text: String) -> impl Future<Output = Result<Message, Status>> + Send;
}

impl Caller for EchoClient {
    async fn call(&self, text: String) -> Result<Message, Status> {
        self.one(&text).await
    }
}

/// What became of one call.
#[derive(Debug, Clone)]
pub(crate) struct Fate {
    pub(crate) text: String,
    pub(crate) failure: Option<Status>,
    pub(crate) took: Duration,
}

/// Calls of one caller. A clone is the same.
#[derive(Debug, Clone)]
pub(crate) struct Traffic<C> {
    caller: C,
    word: &'static str,
    book: Arc<Book>,
}

#[derive(Debug, Default)]
struct Book {
    issued: AtomicUsize,
    ended: watch::Sender<usize>,
    fates: Mutex<Vec<Fate>>,
}

impl<C: Caller> Traffic<C> {
    /// Calls whose texts begin with this word.
    pub(crate) fn new(caller: C, word: &'static str) -> Self {
        Self { caller, word, book: Arc::default() }
    }

    /// Sends so many calls, each in a task of its own.
    pub(crate) fn issue(&self, count: usize) {
        for _ in 0..count {
            let number = self.book.issued.fetch_add(1, Ordering::SeqCst);
            let text = format!("{} {number}", self.word);
            let (caller, book) = (self.caller.clone(), Arc::clone(&self.book));
            tokio::spawn(async move {
                let began = Instant::now();
                let failure = caller.call(text.clone()).await.err();
                book.fates.lock().unwrap().push(Fate { text, failure, took: began.elapsed() });
                book.ended.send_modify(|it| *it += 1);
            });
        }
    }

    /// Sends so many calls a second, until the flow is dropped.
    pub(crate) fn flow(&self, per_second: usize) -> Flow {
        let traffic = self.clone();
        Flow(tokio::spawn(async move {
            let mut ticks = interval(TICK);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            loop {
                ticks.tick().await;
                if traffic.pending() < AT_MOST {
                    traffic.issue((per_second * TICK.as_millis() as usize / 1_000).max(1));
                }
            }
        }))
    }

    pub(crate) fn issued(&self) -> usize {
        self.book.issued.load(Ordering::SeqCst)
    }

    pub(crate) fn ended(&self) -> usize {
        *self.book.ended.borrow()
    }

    pub(crate) fn pending(&self) -> usize {
        self.issued() - self.ended()
    }

    /// Waits until so many calls have ended in all.
    ///
    /// # Panics
    /// When they have not for too long, with the line that waited and how many did.
    #[track_caller]
    pub(crate) fn reaches(&self, count: usize) -> impl Future<Output = ()> {
        let ended =
            async move { self.book.ended.subscribe().wait_for(|it| *it >= count).await.map(drop).unwrap() };
        in_time(ended, move || {
            format!("{} of {count} calls have ended, {} were sent", self.ended(), self.issued())
        })
    }

    /// Lets so many more calls end.
    #[track_caller]
    pub(crate) fn more(&self, calls: usize) -> impl Future<Output = ()> {
        self.reaches(self.ended() + calls)
    }

    /// Waits until every call has ended.
    #[track_caller]
    pub(crate) fn settled(&self) -> impl Future<Output = ()> {
        self.reaches(self.issued())
    }

    /// What became of those that ended.
    pub(crate) fn fates(&self) -> Vec<Fate> {
        self.book.fates.lock().unwrap().clone()
    }

    /// Those that failed.
    pub(crate) fn failures(&self) -> Vec<Fate> {
        self.fates().into_iter().filter(|it| it.failure.is_some()).collect()
    }
}

/// Calls that are sent at a rate; dropping it ends the sending, not the calls.
#[derive(Debug)]
pub(crate) struct Flow(JoinHandle<()>);

impl Drop for Flow {
    fn drop(&mut self) {
        self.0.abort();
    }
}
