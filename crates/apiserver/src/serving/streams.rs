//! The streams of one connection: futures that run in its task, each only when it was woken.
//!
//! A change wakes all watches of a connection one after the other, and each that sends wakes itself
//! again. Only the first of these wakes reaches the task, which rests only when no woken stream is
//! left. A `FuturesUnordered` returns to the task when two of its futures have woken themselves.
//!
//! `cargo xtask bench apiserver --ablation` measures the server with a `FuturesUnordered` instead,
//! and with a task for each stream.

use parking_lot::{Mutex, MutexGuard};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Wake, Waker};

/// The number of rounds that streams may wake one another or themselves before the connection is
/// polled. A stream that sends wakes itself once, to see if there is room for more.
const ROUNDS: usize = 4;

/// A stream of an HTTP/2 connection: a request until the last byte of its response.
pub(super) type Stream = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A set of streams that run in one task.
#[derive(Default)]
pub(super) struct Streams {
    /// `None` for a stream that has ended.
    slots: Vec<Option<Entry>>,
    /// Invariant: exactly the indices of the entries that are `None`.
    free: Vec<usize>,
    /// The indices of the round in progress, kept to reuse the allocation.
    round: Vec<usize>,
    ready: Arc<ReadyQueue>,
}

struct Entry {
    stream: Stream,
    stream_waker: Arc<StreamWaker>,
    waker: Waker,
}

/// The queue of woken streams.
#[derive(Default)]
struct ReadyQueue(Mutex<Queue>);

#[derive(Default)]
struct Queue {
    /// The indices of the woken streams, in order of their wakes.
    slots: Vec<usize>,
    /// The waker of the task while it rests; the first woken stream takes it.
    task: Option<Waker>,
}

/// The waker of one stream. If it outlives the stream, it wakes the stream that reuses the index,
/// which is then polled without need.
struct StreamWaker {
    slot: usize,
    /// Set while the stream is in the queue.
    queued: AtomicBool,
    ready: Arc<ReadyQueue>,
}

impl Streams {
    /// Adds a stream, to be polled in the next round.
    pub(super) fn add(&mut self, stream: Stream) {
        let slot = self.free.pop().unwrap_or(self.slots.len());
        let stream_waker =
            Arc::new(StreamWaker { slot, queued: AtomicBool::new(true), ready: Arc::clone(&self.ready) });
        let entry = Entry { stream, waker: Waker::from(Arc::clone(&stream_waker)), stream_waker };
        if slot == self.slots.len() {
            self.slots.push(Some(entry));
        } else {
            self.slots[slot] = Some(entry);
        }
        self.ready.queue().slots.push(slot);
    }

    /// Polls the woken streams and those that they wake, for at most [`ROUNDS`] rounds. The task of
    /// `context` is woken when there is more to run.
    pub(super) fn run(&mut self, context: &Context<'_>) {
        for _ in 0..ROUNDS {
            let mut queue = self.ready.queue();
            if queue.slots.is_empty() {
                match &mut queue.task {
                    Some(task) => task.clone_from(context.waker()),
                    none => *none = Some(context.waker().clone()),
                }
                return;
            }
            queue.task = None;
            std::mem::swap(&mut queue.slots, &mut self.round);
            drop(queue);
            let mut round = std::mem::take(&mut self.round);
            round.drain(..).for_each(|slot| self.run_one(slot));
            self.round = round;
        }
        context.waker().wake_by_ref();
    }

    fn run_one(&mut self, slot: usize) {
        let Some(entry) = &mut self.slots[slot] else { return };
        // Cleared before the poll, so that a wake during the poll counts. A swap and not a store: a
        // waker that found the flag set did its work before, and the swap's acquire ordering makes
        // that work visible to the poll.
        entry.stream_waker.queued.swap(false, Ordering::AcqRel);
        if entry.stream.as_mut().poll(&mut Context::from_waker(&entry.waker)).is_ready() {
            self.slots[slot] = None;
            self.free.push(slot);
        }
    }
}

impl ReadyQueue {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.0.lock()
    }
}

impl Wake for StreamWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.queued.swap(true, Ordering::AcqRel) {
            return;
        }
        let mut queue = self.ready.queue();
        queue.slots.push(self.slot);
        let task = queue.task.take();
        drop(queue);
        if let Some(task) = task {
            task.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;
    use std::task::Poll;

    use super::*;

    #[derive(Default)]
    struct CountingWaker(AtomicUsize);

    impl Wake for CountingWaker {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The streams that ran, in order, and the wakers of all.
    type Seen = Arc<Mutex<(Vec<usize>, Vec<Option<Waker>>)>>;

    /// A stream that records each run and ends after `runs` of them; an eager one wakes itself.
    fn stream(name: usize, runs: usize, eager: bool, seen: &Seen) -> Stream {
        let (seen, mut left) = (Arc::clone(seen), runs);
        Box::pin(std::future::poll_fn(move |context| {
            let mut seen = seen.lock();
            seen.0.push(name);
            let wakers = seen.1.len().max(name + 1);
            seen.1.resize(wakers, None);
            seen.1[name] = Some(context.waker().clone());
            drop(seen);
            if eager {
                context.waker().wake_by_ref();
            }
            left -= 1;
            if left == 0 { Poll::Ready(()) } else { Poll::Pending }
        }))
    }

    fn ran(seen: &Seen) -> Vec<usize> {
        std::mem::take(&mut seen.lock().0)
    }

    fn wake(seen: &Seen, name: usize) {
        let waker = seen.lock().1[name].clone();
        waker.expect("it ran").wake();
    }

    #[test]
    fn each_stream_runs_when_woken_and_the_task_is_woken_once_for_all() {
        let wakes = Arc::new(CountingWaker::default());
        let task = Waker::from(Arc::clone(&wakes));
        let context = Context::from_waker(&task);
        let (mut streams, seen) = (Streams::default(), Seen::default());
        (0..3).for_each(|name| streams.add(stream(name, 9, false, &seen)));
        streams.run(&context);
        assert_eq!(ran(&seen), [0, 1, 2]);
        [2, 0, 2].into_iter().for_each(|name| wake(&seen, name));
        assert_eq!(wakes.0.load(Ordering::Relaxed), 1);
        streams.run(&context);
        assert_eq!(ran(&seen), [2, 0], "in the order of their wakes, each once");
        streams.run(&context);
        assert_eq!((ran(&seen), wakes.0.load(Ordering::Relaxed)), (vec![], 1));
    }

    #[test]
    fn a_stream_that_always_wakes_itself_does_not_starve_the_connection() {
        let wakes = Arc::new(CountingWaker::default());
        let task = Waker::from(Arc::clone(&wakes));
        let (mut streams, seen) = (Streams::default(), Seen::default());
        streams.add(stream(0, usize::MAX, true, &seen));
        streams.add(stream(1, usize::MAX, false, &seen));
        streams.run(&Context::from_waker(&task));
        assert_eq!(
            (ran(&seen).len(), wakes.0.load(Ordering::Relaxed)),
            (ROUNDS + 1, 1),
            "the task is woken again"
        );
    }

    #[test]
    fn the_index_of_an_ended_stream_is_reused() {
        let context = Context::from_waker(Waker::noop());
        let (mut streams, seen) = (Streams::default(), Seen::default());
        streams.add(stream(0, 1, false, &seen));
        streams.add(stream(1, 9, false, &seen));
        streams.run(&context);
        streams.add(stream(2, 9, false, &seen));
        streams.run(&context);
        assert_eq!((ran(&seen), streams.slots.len()), (vec![0, 1, 2], 2));
        wake(&seen, 0);
        streams.run(&context);
        assert_eq!(ran(&seen), [2], "the stream that reuses the index is polled in vain");
    }
}
