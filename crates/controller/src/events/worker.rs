//! One worker: writes events one after another, and sets those aside that have to be tried again.
//!
//! An event that fails, as those of one namespace may, does not hold up the others. What is about one event stays in order: while
//! its creation is being tried again, its series waits behind it.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use futures_core::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use metrics::Counter;
use tokio::sync::mpsc;

use super::series::Write;
use super::sink::{Attempted, EventSink, attempt};

/// How many writes may wait to be tried again. When they are that many, the worker takes no more, and its queue fills.
const ASIDE: usize = 64;

/// The writes of one event that wait, the first of which was tried so often.
struct Waiting {
    attempts: u32,
    writes: VecDeque<Write>,
}

/// Writes set aside, by the name of their event.
#[derive(Default)]
struct Aside {
    waiting: HashMap<String, Waiting>,
    due: FuturesUnordered<BoxFuture<'static, String>>,
    /// How many writes they are.
    count: usize,
}

/// Writes until there can be no more, and what was set aside is written or lost.
pub(super) async fn work(sink: Arc<dyn EventSink>, mut writes: mpsc::Receiver<Write>, refused: Counter) {
    let (mut aside, mut open) = (Aside::default(), true);
    while open || aside.count > 0 {
        let (name, mut next) = tokio::select! {
            biased;
            Some(name) = aside.due.next() => match aside.waiting.remove(&name) {
                Some(waiting) => {
                    aside.count -= waiting.writes.len();
                    (name, waiting)
                }
                None => continue,
            },
            write = writes.recv(), if open && aside.count < ASIDE => match write {
                Some(write) => {
                    let name = write.event().metadata.name.clone().unwrap_or_default();
                    if let Some(before) = aside.waiting.get_mut(&name) {
                        before.writes.push_back(write);
                        aside.count += 1;
                        continue;
                    }
                    (name, Waiting { attempts: 0, writes: VecDeque::from([write]) })
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
                    aside.count += next.writes.len();
                    let due = name.clone();
                    aside.due.push(tokio::time::sleep(pause).map(move |()| due).boxed());
                    aside.waiting.insert(name, next);
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
