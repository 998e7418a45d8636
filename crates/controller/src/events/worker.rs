//! The event worker: writes events one after another, and sets failed ones aside for a retry.
//!
//! A failing event, for example of one namespace, does not hold up the others. Writes of one event
//! stay in order: while its creation is being retried, its series waits behind it.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use futures_core::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use metrics::Counter;
use tokio::sync::mpsc;

use super::series::Write;
use super::sink::{Attempted, EventSink, attempt};

/// The maximum number of writes that wait for a retry. At the limit the worker takes no more, and
/// its queue fills up.
const MAX_RETRYING: usize = 64;

/// The waiting writes of one event, and the number of attempts of the first of them.
struct EventWrites {
    attempts: u32,
    writes: VecDeque<Write>,
}

/// The writes that were set aside, by the name of their event.
#[derive(Default)]
struct RetryQueue {
    waiting: HashMap<String, EventWrites>,
    due: FuturesUnordered<BoxFuture<'static, String>>,
    /// The total number of writes.
    count: usize,
}

/// Writes events until the channel is closed and all writes that were set aside are written or
/// given up.
pub(super) async fn work(sink: Arc<dyn EventSink>, mut writes: mpsc::Receiver<Write>, refused: Counter) {
    let (mut retries, mut open) = (RetryQueue::default(), true);
    while open || retries.count > 0 {
        let (name, mut next) = tokio::select! {
            biased;
            Some(name) = retries.due.next() => match retries.waiting.remove(&name) {
                Some(waiting) => {
                    retries.count -= waiting.writes.len();
                    (name, waiting)
                }
                None => continue,
            },
            write = writes.recv(), if open && retries.count < MAX_RETRYING => match write {
                Some(write) => {
                    let name = write.event().metadata.name.clone().unwrap_or_default();
                    if let Some(before) = retries.waiting.get_mut(&name) {
                        before.writes.push_back(write);
                        retries.count += 1;
                        continue;
                    }
                    (name, EventWrites { attempts: 0, writes: VecDeque::from([write]) })
                }
                None => {
                    open = false;
                    continue;
                }
            },
        };
        while let Some(write) = next.writes.front() {
            match attempt(&*sink, write, next.attempts + 1).await {
                Attempted::Later(pause) => {
                    next.attempts += 1;
                    retries.count += next.writes.len();
                    let due = name.clone();
                    retries.due.push(tokio::time::sleep(pause).map(move |()| due).boxed());
                    retries.waiting.insert(name, next);
                    break;
                }
                done => {
                    if done == Attempted::Lost {
                        refused.increment(1);
                    }
                    next.writes.pop_front();
                    next.attempts = 0;
                }
            }
        }
    }
}
