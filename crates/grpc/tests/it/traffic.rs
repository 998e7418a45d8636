//! A load generator: sends calls whether or not earlier ones have ended, each with its own text,
//! and records the outcomes.

use std::future::Future;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, MissedTickBehavior, interval};
use tonic::Status;

use crate::echo::{EchoClient, Message};
use crate::manual_clock::in_time;

/// The interval at which a flow sends the calls that are due.
const TICK: Duration = Duration::from_millis(4);
/// A flow waits while this many calls are pending: a slow machine gets a lower rate, not a growing
/// backlog.
const AT_MOST: usize = 500;

/// A client that can be called.
pub(crate) trait Caller: Clone + Send + Sync + 'static {
    fn call(&self, text: String) -> impl Future<Output = Result<Message, Status>> + Send;
}

impl Caller for EchoClient {
    async fn call(&self, text: String) -> Result<Message, Status> {
        self.one(&text).await
    }
}

/// The outcome of one call.
#[derive(Debug, Clone)]
pub(crate) struct CallOutcome {
    pub(crate) text: String,
    pub(crate) failure: Option<Status>,
    pub(crate) took: Duration,
}

/// The calls of one caller. Clones share their state.
#[derive(Debug, Clone)]
pub(crate) struct Traffic<C> {
    caller: C,
    word: &'static str,
    log: Arc<CallLog>,
}

#[derive(Debug, Default)]
struct CallLog {
    issued: AtomicUsize,
    ended: watch::Sender<usize>,
    outcomes: Mutex<Vec<CallOutcome>>,
}

impl<C: Caller> Traffic<C> {
    /// Creates a generator of calls whose texts begin with this word.
    pub(crate) fn new(caller: C, word: &'static str) -> Self {
        Self { caller, word, log: Arc::default() }
    }

    /// Sends this number of calls, each in its own task.
    pub(crate) fn issue(&self, count: usize) {
        for _ in 0..count {
            let number = self.log.issued.fetch_add(1, Ordering::SeqCst);
            let text = format!("{} {number}", self.word);
            let (caller, log) = (self.caller.clone(), Arc::clone(&self.log));
            tokio::spawn(async move {
                let began = Instant::now();
                let failure = caller.call(text.clone()).await.err();
                log.outcomes.lock().unwrap().push(CallOutcome { text, failure, took: began.elapsed() });
                log.ended.send_modify(|it| *it += 1);
            });
        }
    }

    /// Sends this number of calls per second, until the flow is dropped.
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
        self.log.issued.load(Ordering::SeqCst)
    }

    pub(crate) fn ended(&self) -> usize {
        *self.log.ended.borrow()
    }

    pub(crate) fn pending(&self) -> usize {
        self.issued() - self.ended()
    }

    /// Waits until this number of calls have ended in total.
    ///
    /// # Panics
    /// Panics if they have not for too long, with the line of the caller and the number of ended
    /// calls.
    #[track_caller]
    pub(crate) fn reaches(&self, count: usize) -> impl Future<Output = ()> {
        let ended =
            async move { self.log.ended.subscribe().wait_for(|it| *it >= count).await.map(drop).unwrap() };
        in_time(ended, move || {
            format!("{} of {count} calls have ended, {} were sent", self.ended(), self.issued())
        })
    }

    /// Waits until this many more calls have ended.
    #[track_caller]
    pub(crate) fn more(&self, calls: usize) -> impl Future<Output = ()> {
        self.reaches(self.ended() + calls)
    }

    /// Waits until every call has ended.
    #[track_caller]
    pub(crate) fn settled(&self) -> impl Future<Output = ()> {
        self.reaches(self.issued())
    }

    /// Returns the outcomes of the ended calls.
    pub(crate) fn outcomes(&self) -> Vec<CallOutcome> {
        self.log.outcomes.lock().unwrap().clone()
    }

    /// Returns the outcomes of the failed calls.
    pub(crate) fn failures(&self) -> Vec<CallOutcome> {
        self.outcomes().into_iter().filter(|it| it.failure.is_some()).collect()
    }
}

/// A flow of calls at a rate; dropping it stops sending, but not the calls.
#[derive(Debug)]
pub(crate) struct Flow(JoinHandle<()>);

impl Drop for Flow {
    fn drop(&mut self) {
        self.0.abort();
    }
}
