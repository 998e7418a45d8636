//! Notes: each take has exactly the notes of the adds that it answers, for random programs, and
//! notes are dropped outside the lock.

use std::collections::BTreeMap;
use std::time::Duration;

use dogwatch_workqueue::{AddOptions, Item, Note, WorkQueue};
use proptest::prelude::*;

type Key = u8;

/// The first add, the last add, and the number of adds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Adds {
    first: u64,
    last: u64,
    count: u64,
}

impl Note for Adds {
    fn merge(&mut self, later: &mut Self) {
        match (self.count, later.count) {
            (_, 0) => {}
            (0, _) => *self = *later,
            _ => (self.last, self.count) = (later.last, self.count + later.count),
        }
    }
}

impl Adds {
    /// Returns the note of one add.
    fn of(number: u64) -> Self {
        Self { first: number, last: number, count: 1 }
    }

    /// Returns the note of these adds.
    fn all(numbers: &[u64]) -> Self {
        let last = numbers.last().copied().unwrap_or_default();
        Self { first: numbers.first().copied().unwrap_or_default(), last, count: numbers.len() as u64 }
    }
}

#[derive(Clone, Debug)]
enum Step {
    Add(Key, i32),
    AddAfter(Key, u64),
    ReplaceAfter(Key, u64),
    Cancel(Key),
    Take,
    /// Finishes the item with this index among those held.
    Finish(prop::sample::Index),
    Advance(u64),
    Stop,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let key = 0_u8..4;
    let step = prop_oneof![
        40 => (key.clone(), -1..=1).prop_map(|(key, priority)| Step::Add(key, priority)),
        30 => (key.clone(), 0_u64..20).prop_map(|(key, ms)| Step::AddAfter(key, ms)),
        10 => (key.clone(), 1_u64..20).prop_map(|(key, ms)| Step::ReplaceAfter(key, ms)),
        10 => key.prop_map(Step::Cancel),
        40 => Just(Step::Take),
        40 => any::<prop::sample::Index>().prop_map(Step::Finish),
        20 => (1_u64..10).prop_map(Step::Advance),
        1 => Just(Step::Stop),
    ];
    prop::collection::vec(step, 0..200)
}

/// The numbers of the adds of each key, outstanding and delayed. The order of the keys is not
/// modelled: the queue decides which one is taken.
#[derive(Default)]
struct Model {
    now: u64,
    outstanding: BTreeMap<Key, Vec<u64>>,
    delayed: BTreeMap<Key, (u64, Vec<u64>)>,
    earliest_wins: bool,
    stopped: bool,
    accepted: u64,
    dropped: u64,
    taken: u64,
}

impl Model {
    fn number(&mut self) -> u64 {
        self.accepted += 1;
        self.accepted
    }

    fn add(&mut self, key: Key, number: u64) {
        if self.earliest_wins
            && let Some((_, earlier)) = self.delayed.remove(&key)
        {
            self.outstanding.entry(key).or_default().extend(earlier);
        }
        self.outstanding.entry(key).or_default().push(number);
    }

    fn delay(&mut self, key: Key, ms: u64, number: u64, replace: bool) {
        if self.earliest_wins && self.outstanding.contains_key(&key) {
            return self.add(key, number);
        }
        let at = self.now + ms;
        let (old_at, numbers) = self.delayed.entry(key).or_insert((at, Vec::new()));
        if replace {
            self.dropped += numbers.len() as u64;
            numbers.clear();
        }
        *old_at = if replace { at } else { at.min(*old_at) };
        numbers.push(number);
    }

    fn cancel(&mut self, key: Key) -> bool {
        let cancelled = self.delayed.remove(&key);
        self.dropped += cancelled.as_ref().map_or(0, |(_, numbers)| numbers.len() as u64);
        cancelled.is_some()
    }

    fn advance(&mut self, ms: u64) {
        self.now += ms;
        let due: Vec<_> = self.delayed.extract_if(.., |_, it| it.0 <= self.now).collect();
        for (key, (_, numbers)) in due {
            self.outstanding.entry(key).or_default().extend(numbers);
        }
    }

    fn stop(&mut self) {
        self.stopped = true;
        let numbers = std::mem::take(&mut self.delayed).into_values().flat_map(|(_, numbers)| numbers);
        self.dropped += numbers.count() as u64;
    }

    fn take(&mut self, key: Key) -> Adds {
        let adds = Adds::all(&self.outstanding.remove(&key).unwrap_or_default());
        self.taken += adds.count;
        adds
    }
}

async fn run(steps: Vec<Step>, earliest_wins: bool) {
    let builder = WorkQueue::builder();
    let builder = if earliest_wins { builder.earliest_wins() } else { builder };
    let queue = builder.build_with_notes::<Adds>();
    let mut model = Model { earliest_wins, ..Model::default() };
    let mut held: Vec<Item<'_, Key, Adds>> = Vec::new();
    for step in steps {
        match step {
            // A queue that is shutting down accepts nothing.
            Step::Add(key, _) | Step::AddAfter(key, _) | Step::ReplaceAfter(key, _) if model.stopped => {
                queue.add_with_note(key, AddOptions::default(), Adds::of(0));
            }
            Step::Add(key, priority) => {
                let number = model.number();
                let options = AddOptions { priority, ..AddOptions::default() };
                queue.add_with_note(key, options, Adds::of(number));
                model.add(key, number);
            }
            Step::AddAfter(key, ms) => {
                let number = model.number();
                let options = AddOptions { after: Duration::from_millis(ms), ..AddOptions::default() };
                queue.add_with_note(key, options, Adds::of(number));
                match ms {
                    0 => model.add(key, number),
                    _ => model.delay(key, ms, number, false),
                }
            }
            Step::ReplaceAfter(key, ms) => {
                let number = model.number();
                queue.replace_after_with_note(key, Duration::from_millis(ms), Adds::of(number));
                model.delay(key, ms, number, true);
            }
            Step::Cancel(key) => assert_eq!(queue.cancel_after(&key), model.cancel(key)),
            Step::Take => {
                let taken = queue.try_take();
                if let Some(item) = &taken {
                    assert_eq!(*item.note(), model.take(**item));
                }
                held.extend(taken);
            }
            Step::Finish(which) => {
                if !held.is_empty() {
                    drop(held.swap_remove(which.index(held.len())));
                }
            }
            Step::Advance(ms) => {
                tokio::time::advance(Duration::from_millis(ms)).await;
                model.advance(ms);
            }
            Step::Stop => {
                queue.shut_down();
                model.stop();
            }
        }
        // Turns what is due into adds, as the model has.
        let _ = queue.len();
    }
    queue.shut_down();
    model.stop();
    held.clear();
    while let Some(item) = queue.take().await {
        assert_eq!(*item.note(), model.take(*item));
    }
    assert!(model.outstanding.is_empty(), "{:?} were not taken", model.outstanding);
    assert_eq!(model.taken + model.dropped, model.accepted);
}

fn in_a_runtime(future: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.expect("the runtime builds").block_on(future);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_accepted_add_is_in_the_note_of_one_take(steps in steps(), earliest_wins: bool) {
        in_a_runtime(run(steps, earliest_wins));
    }
}

/// A note that uses its queue when it is dropped, which would never return under the lock.
#[derive(Default)]
struct UsesQueue(Option<WorkQueue<Key, UsesQueue>>);

impl Note for UsesQueue {
    fn merge(&mut self, later: &mut Self) {
        if later.0.is_some() {
            std::mem::swap(self, later);
        }
    }
}

impl Drop for UsesQueue {
    fn drop(&mut self) {
        self.0.iter().for_each(|it| assert!(it.len() < 100));
    }
}

#[tokio::test(start_paused = true)]
async fn notes_are_dropped_outside_the_lock() {
    let queue = WorkQueue::builder().build_with_notes::<UsesQueue>();
    let note = || UsesQueue(Some(queue.clone()));
    let after = |ms| AddOptions { after: Duration::from_millis(ms), ..AddOptions::default() };
    for key in [1, 2] {
        queue.add_with_note(key, AddOptions::default(), note());
        queue.add_with_note(key, AddOptions::default(), note());
        queue.add_with_note(key, after(5), note());
        queue.add_with_note(key, after(4), note());
        queue.replace_after_with_note(key, Duration::from_millis(3), note());
    }
    assert!(queue.cancel_after(&2));
    queue.add_all([1, 2]);
    tokio::time::advance(Duration::from_millis(5)).await;
    assert_eq!(queue.len(), 2, "the delay is merged into a note that waits");
    drop(queue.try_take().expect("a key is ready"));
    queue.add_with_note(3, after(5), note());
    queue.shut_down();
    queue.add_with_note(4, AddOptions::default(), note());
    while let Some(item) = queue.take().await {
        drop(item);
    }
}
