//! The queue compared with a plain model of its rules, for random programs: the same keys in the
//! same order, no key lost, no key held twice.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use dogwatch_workqueue::{AddOptions, Item, WorkQueue};
use proptest::prelude::*;

type Key = u8;

#[derive(Clone, Debug)]
enum Step {
    Add(Key, i32),
    AddAfter(Key, u64, i32),
    ReplaceAfter(Key, u64),
    Cancel(Key),
    Take,
    /// Finishes the item with this index among those held.
    Finish(prop::sample::Index),
    Advance(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let key = 0_u8..6;
    let priority = -1..=1;
    let step = prop_oneof![
        4 => (key.clone(), priority.clone()).prop_map(|(key, priority)| Step::Add(key, priority)),
        2 => (key.clone(), 1_u64..20, priority).prop_map(|(key, ms, priority)| Step::AddAfter(key, ms, priority)),
        1 => (key.clone(), 1_u64..20).prop_map(|(key, ms)| Step::ReplaceAfter(key, ms)),
        1 => key.prop_map(Step::Cancel),
        4 => Just(Step::Take),
        4 => any::<prop::sample::Index>().prop_map(Step::Finish),
        2 => (1_u64..10).prop_map(Step::Advance),
    ];
    prop::collection::vec(step, 0..200)
}

/// The rules in their plainest form: sets, and a list that is sorted on demand. Time is in
/// milliseconds.
#[derive(Default)]
struct Model {
    now: u64,
    counter: u64,
    /// Outstanding work: its priority and sequence number.
    dirty: BTreeMap<Key, (i32, u64)>,
    held: BTreeSet<Key>,
    /// The time, the sequence number and the priority of each delay.
    delayed: BTreeMap<Key, (u64, u64, i32)>,
    earliest_wins: bool,
}

impl Model {
    fn number(&mut self) -> u64 {
        self.counter += 1;
        self.counter
    }

    fn mark(&mut self, key: Key, priority: i32) {
        let number = self.number();
        match self.dirty.get_mut(&key) {
            Some(outstanding) if outstanding.0 >= priority => {}
            _ => drop(self.dirty.insert(key, (priority, number))),
        }
    }

    fn add(&mut self, key: Key, mut priority: i32) {
        if self.earliest_wins
            && let Some((.., other)) = self.delayed.remove(&key)
        {
            priority = priority.max(other);
        }
        self.mark(key, priority);
    }

    fn delay(&mut self, key: Key, ms: u64, priority: i32, replace: bool) {
        if self.earliest_wins && self.dirty.contains_key(&key) {
            return self.mark(key, priority);
        }
        let (at, number) = (self.now + ms, self.number());
        let new = match self.delayed.get(&key) {
            Some(&(old, asked, other)) if !replace && old <= at => (old, asked, other.max(priority)),
            Some(&(.., other)) => (at, number, other.max(priority)),
            None => (at, number, priority),
        };
        self.delayed.insert(key, new);
    }

    fn advance(&mut self, ms: u64) {
        self.now += ms;
        let mut due: Vec<_> = self.delayed.iter().filter(|(_, it)| it.0 <= self.now).collect();
        due.sort_by_key(|(_, it)| (it.0, it.1));
        let due: Vec<_> = due.into_iter().map(|(key, it)| (*key, it.2)).collect();
        for (key, priority) in due {
            self.delayed.remove(&key);
            self.mark(key, priority);
        }
    }

    fn take(&mut self) -> Option<(Key, i32)> {
        let ready = self.dirty.iter().filter(|(key, _)| !self.held.contains(key));
        let (key, (priority, _)) =
            ready.max_by_key(|(_, (priority, number))| (*priority, u64::MAX - number))?;
        let taken = (*key, *priority);
        self.dirty.remove(&taken.0);
        self.held.insert(taken.0);
        Some(taken)
    }

    fn finish(&mut self, key: Key) {
        self.held.remove(&key);
        // It returns to the queue now, at the priority it has by now.
        if let Some((priority, _)) = self.dirty.get(&key).copied() {
            let number = self.number();
            self.dirty.insert(key, (priority, number));
        }
    }

    fn len(&self) -> usize {
        self.dirty.keys().filter(|it| !self.held.contains(it)).count()
    }
}

async fn run(steps: Vec<Step>, earliest_wins: bool) {
    let builder = WorkQueue::builder().strict_priorities();
    let queue = if earliest_wins { builder.earliest_wins() } else { builder }.build();
    let mut model = Model { earliest_wins, ..Model::default() };
    let mut held: Vec<Item<'_, Key>> = Vec::new();
    for step in steps {
        match step {
            Step::Add(key, priority) => {
                queue.add_with(key, AddOptions { priority, ..AddOptions::default() });
                model.add(key, priority);
            }
            Step::AddAfter(key, ms, priority) => {
                let after = Duration::from_millis(ms);
                queue.add_with(key, AddOptions { after, priority, ..AddOptions::default() });
                model.delay(key, ms, priority, false);
            }
            Step::ReplaceAfter(key, ms) => {
                queue.replace_after(key, Duration::from_millis(ms));
                model.delay(key, ms, 0, true);
            }
            Step::Cancel(key) => {
                assert_eq!(queue.cancel_after(&key), model.delayed.remove(&key).is_some());
            }
            Step::Take => {
                let taken = queue.try_take();
                assert_eq!(taken.as_ref().map(|it| (**it, it.priority())), model.take());
                held.extend(taken);
            }
            Step::Finish(which) => {
                if !held.is_empty() {
                    let item = held.swap_remove(which.index(held.len()));
                    model.finish(*item);
                    drop(item);
                }
            }
            Step::Advance(ms) => {
                tokio::time::advance(Duration::from_millis(ms)).await;
                model.advance(ms);
            }
        }
        assert_eq!(queue.len(), model.len());
        assert_eq!(queue.delayed(), model.delayed.len());
    }
    queue.shut_down();
    held.drain(..).for_each(|it| model.finish(*it));
    while let Some(item) = queue.take().await {
        assert_eq!(Some((*item, item.priority())), model.take());
        model.finish(*item);
    }
    assert_eq!(model.take(), None);
    queue.shut_down_with_drain().await;
}

fn in_a_runtime(future: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.expect("the runtime builds").block_on(future);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_random_program_matches_the_model(steps in steps()) {
        in_a_runtime(run(steps, false));
    }

    #[test]
    fn a_random_program_matches_the_model_when_the_earliest_wins(steps in steps()) {
        in_a_runtime(run(steps, true));
    }

    /// With patience and groups the order differs, but each key is handed out, and only once.
    #[test]
    fn every_order_hands_out_every_key_once(
        keys in prop::collection::vec((any::<u16>(), -3..3), 1..300), patience in 0_u32..4, groups in 1_u16..5,
    ) {
        let queue = WorkQueue::builder().starvation_limit(patience).fair_by(move |key: &u16| key % groups).build();
        for (key, priority) in &keys {
            queue.add_with(*key, AddOptions { priority: *priority, ..AddOptions::default() });
        }
        let mut taken: Vec<_> = std::iter::from_fn(|| queue.try_take().map(|it| *it)).collect();
        taken.sort_unstable();
        let mut expected: Vec<_> = keys.into_iter().map(|(key, _)| key).collect();
        expected.sort_unstable();
        expected.dedup();
        prop_assert_eq!(taken, expected);
    }
}
