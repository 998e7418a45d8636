//! Random interleavings of tasks that wait, add, give up and work, and of time that passes:
//! whenever a key is ready, no task that could take it sleeps; no key is held twice; and a drain
//! returns.

use std::collections::BTreeSet;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use dogwatch_workqueue::{Item, Take, WorkQueue};
use proptest::prelude::*;

type Key = u8;

#[derive(Clone, Debug)]
enum Step {
    Add(Key),
    AddAfter(Key, u64),
    Cancel(Key),
    /// A task begins to take.
    Begin,
    /// One of the woken tasks runs.
    Run(prop::sample::Index),
    /// One of the waiting tasks, woken or not, gives up.
    GiveUp(prop::sample::Index),
    Finish(prop::sample::Index),
    TryTake,
    Advance(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let index = || any::<prop::sample::Index>();
    let step = prop_oneof![
        4 => (0_u8..5).prop_map(Step::Add),
        3 => (0_u8..5, 1_u64..20).prop_map(|(key, ms)| Step::AddAfter(key, ms)),
        1 => (0_u8..5).prop_map(Step::Cancel),
        5 => Just(Step::Begin),
        5 => index().prop_map(Step::Run),
        2 => index().prop_map(Step::GiveUp),
        4 => index().prop_map(Step::Finish),
        1 => Just(Step::TryTake),
        2 => (1_u64..10).prop_map(Step::Advance),
    ];
    prop::collection::vec(step, 0..150)
}

/// A task that only takes: polled when it was woken, as by an executor.
struct Taker<'a> {
    take: Pin<Box<Take<'a, Key>>>,
    woken: Arc<Woken>,
}

struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The waiting tasks, and the items that the others hold.
struct Simulation<'a> {
    queue: &'a WorkQueue<Key>,
    takers: Vec<Taker<'a>>,
    held: Vec<Item<'a, Key>>,
}

impl Simulation<'_> {
    fn begin(&mut self) {
        let woken = Arc::new(Woken(AtomicBool::new(true)));
        self.takers.push(Taker { take: Box::pin(self.queue.take()), woken });
    }

    fn woken(&self) -> Vec<usize> {
        let all = self.takers.iter().enumerate();
        all.filter(|(_, it)| it.woken.0.load(Ordering::Relaxed)).map(|(at, _)| at).collect()
    }

    fn run(&mut self, at: usize) {
        let taker = &mut self.takers[at];
        taker.woken.0.store(false, Ordering::Relaxed);
        let waker = Waker::from(taker.woken.clone());
        if let Poll::Ready(item) = taker.take.as_mut().poll(&mut Context::from_waker(&waker)) {
            self.takers.swap_remove(at);
            self.held.extend(item);
        }
        let distinct: BTreeSet<_> = self.held.iter().map(|it| **it).collect();
        assert_eq!(distinct.len(), self.held.len(), "a key is held twice");
    }

    fn settle(&mut self) {
        while let Some(at) = self.woken().first().copied() {
            self.run(at);
        }
    }

    async fn step(&mut self, step: Step) {
        match step {
            Step::Add(key) => self.queue.add(key),
            Step::AddAfter(key, ms) => self.queue.add_after(key, Duration::from_millis(ms)),
            Step::Cancel(key) => drop(self.queue.cancel_after(&key)),
            Step::Begin => self.begin(),
            Step::Run(which) => {
                let woken = self.woken();
                if !woken.is_empty() {
                    self.run(woken[which.index(woken.len())]);
                }
            }
            Step::GiveUp(which) if !self.takers.is_empty() => {
                let at = which.index(self.takers.len());
                drop(self.takers.swap_remove(at));
            }
            Step::Finish(which) if !self.held.is_empty() => {
                let at = which.index(self.held.len());
                drop(self.held.swap_remove(at));
            }
            Step::GiveUp(_) | Step::Finish(_) => {}
            Step::TryTake => self.held.extend(self.queue.try_take()),
            Step::Advance(ms) => tokio::time::advance(Duration::from_millis(ms)).await,
        }
    }
}

async fn interleave(steps: Vec<Step>) {
    let queue = WorkQueue::new();
    let mut simulation = Simulation { queue: &queue, takers: Vec::new(), held: Vec::new() };
    for step in steps {
        simulation.step(step).await;
    }
    simulation.settle();
    // `len` reads the clock itself and would wake tasks; nothing is due here, because all woken
    // tasks have run.
    assert!(
        simulation.takers.is_empty() || queue.is_empty(),
        "a key is ready and {} tasks sleep",
        simulation.takers.len()
    );

    // Delayed keys come by the timer alone, as long as a task waits.
    while simulation.takers.len() <= queue.delayed() {
        simulation.begin();
        simulation.settle();
    }
    let due = queue.delayed();
    let before = simulation.held.len() + queue.len();
    for _ in 0..=20 {
        tokio::time::advance(Duration::from_millis(1)).await;
        simulation.settle();
    }
    assert_eq!(queue.delayed(), 0);
    assert!(simulation.held.len() + queue.len() <= before + due);
    assert!(
        simulation.takers.is_empty() || queue.is_empty(),
        "a delayed key became ready and no task was woken"
    );

    let mut drain = Box::pin(queue.shut_down_with_drain());
    let idle = &mut Context::from_waker(Waker::noop());
    if drain.as_mut().poll(idle).is_pending() {
        while !(simulation.held.is_empty() && queue.is_empty()) {
            simulation.held.clear();
            simulation.settle();
            simulation.held.extend(queue.try_take());
        }
        assert_eq!(drain.as_mut().poll(idle), Poll::Ready(()), "all keys are done and the drain still waits");
    }
    simulation.settle();
    assert!(simulation.takers.is_empty(), "a task was not woken by the shutdown");
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 256, ..ProptestConfig::default() })]

    #[test]
    fn no_task_sleeps_while_a_key_is_ready(steps in steps()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        runtime.unwrap().block_on(interleave(steps));
    }
}
