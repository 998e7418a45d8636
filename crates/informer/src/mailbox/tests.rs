//! Tests of a mailbox: no wake-up is lost, and no change.

use std::task::Wake;

use dogwatch_core::{Gvk, ResourceType};
use k8s_openapi::api::core::v1::ConfigMap;
use proptest::prelude::*;

use super::*;
use crate::metrics::InformerMetrics;

/// A waiting task, and whether it was woken.
#[derive(Debug, Default)]
struct Sleeper(AtomicBool);

impl Wake for Sleeper {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[derive(Clone, Debug)]
enum Operation {
    Push(u8),
    FirstList,
    Take(usize),
    Room,
    Remove,
    Close,
}

fn operation() -> impl Strategy<Value = Operation> {
    prop_oneof![
        6 => (1u8..4).prop_map(Operation::Push),
        1 => Just(Operation::FirstList),
        8 => (1usize..4).prop_map(Operation::Take),
        4 => Just(Operation::Room),
        1 => Just(Operation::Remove),
        1 => Just(Operation::Close),
    ]
}

fn mailbox(overflow: Overflow) -> Mailbox<ConfigMap> {
    let resource = ResourceType::namespaced(Gvk::new("", "v1", "ConfigMap"), "configmaps");
    let name = Arc::from("test");
    let metrics = InformerMetrics::new("test", &resource).handler(&name);
    Mailbox::new(name, None, overflow, KeyHasher::default(), metrics)
}

/// Creates additions of new objects.
fn additions(count: u8, made: &mut u32) -> Vec<Change<ConfigMap>> {
    let mut one = || {
        *made += 1;
        let mut map = ConfigMap::default();
        map.metadata.name = Some(made.to_string());
        Change::Added { object: Arc::new(map), initial: false }
    };
    (0..count).map(|_| one()).collect()
}

/// A mailbox with a reader and a writer that waits for room.
struct Fixture {
    mailbox: Mailbox<ConfigMap>,
    current: TakenChanges<ConfigMap>,
    reader: Option<Arc<Sleeper>>,
    writer: Option<Arc<Sleeper>>,
    made: u32,
    delivered: u32,
    over: bool,
}

impl Fixture {
    fn perform(&mut self, operation: &Operation) {
        match operation {
            Operation::Push(count) => {
                let changes = additions(*count, &mut self.made);
                let batch = Batch::new(changes, Instant::now(), self.mailbox.hasher.clone());
                self.mailbox.push(&Arc::new(batch));
            }
            Operation::FirstList => self.mailbox.initial_list_delivered(),
            Operation::Take(limit) if !self.over => {
                let sleeper = Arc::new(Sleeper::default());
                let waker = Arc::clone(&sleeper).into();
                let taken =
                    self.mailbox.poll_take(*limit, &mut self.current, &mut Context::from_waker(&waker));
                self.reader = taken.is_pending().then_some(sleeper);
                self.over = taken == Poll::Ready(false);
                if taken == Poll::Ready(true) {
                    self.delivered += self.current.changes().len() as u32;
                }
            }
            Operation::Take(_) => {}
            Operation::Room => {
                let sleeper = Arc::new(Sleeper::default());
                let waker = Arc::clone(&sleeper).into();
                let room = self.mailbox.poll_room(&mut Context::from_waker(&waker));
                self.writer = room.is_pending().then_some(sleeper);
            }
            Operation::Remove => self.mailbox.remove(),
            Operation::Close => {
                // The writer closes the mailbox, so it does not wait for room any more.
                self.writer = None;
                self.mailbox.close();
            }
        }
    }

    /// Checks that no wake-up was lost: a task that waits and was not woken is polled again and
    /// must still be pending.
    fn check(&mut self) -> Result<(), TestCaseError> {
        let asleep = |it: &Arc<Sleeper>| !it.0.load(Ordering::Relaxed);
        if let Some(sleeper) = self.reader.clone().filter(asleep) {
            let (waker, before) = (sleeper.into(), *self.mailbox.progress().borrow());
            let again = self.mailbox.poll_take(1, &mut self.current, &mut Context::from_waker(&waker));
            prop_assert!(again.is_pending(), "the reader was not woken for {again:?}");
            prop_assert_eq!(
                *self.mailbox.progress().borrow(),
                before,
                "the reader was not woken for the sync"
            );
        }
        if let Some(sleeper) = self.writer.clone().filter(asleep) {
            let waker = sleeper.into();
            let again = self.mailbox.poll_room(&mut Context::from_waker(&waker));
            prop_assert!(again.is_pending(), "the writer was not woken although there is room");
        }
        Ok(())
    }
}

proptest! {
    /// All operations of a mailbox happen under its lock, so any interleaving of threads is one
    /// of these sequences.
    #[test]
    fn no_wake_up_is_lost_in_any_sequence_of_operations(
        operations in prop::collection::vec(operation(), 1..60),
        overflow in prop_oneof![
            Just(Overflow::Coalesce), Just(Overflow::Grow), Just(Overflow::Block(0)), Just(Overflow::Block(2))
        ],
        before in 0u8..3,
        served: bool,
    ) {
        let (mut made, mailbox) = (0, mailbox(overflow));
        if served {
            mailbox.begin_serving();
        }
        if before > 0 {
            let there = additions(before, &mut made);
            mailbox.replay(Replay { len: there.len(), build: Box::new(|| there) }, Instant::now());
        }
        let mut fixture =
            Fixture { mailbox, current: TakenChanges::default(), reader: None, writer: None, made, delivered: 0, over: false };
        let ends = |it: &Operation| matches!(it, Operation::Remove | Operation::Close);
        let first_end = operations.iter().position(ends);
        for (number, operation) in operations.iter().enumerate() {
            // The initial list is marked only once.
            let again = operations[..number].iter().any(|it| matches!(it, Operation::FirstList));
            if !(again && matches!(operation, Operation::FirstList)) {
                fixture.perform(operation);
                fixture.check()?;
            }
        }
        // Unless it was removed or closed, every change is delivered exactly once.
        if first_end.is_none() {
            for _ in 0..=fixture.made {
                fixture.perform(&Operation::Take(9));
            }
            prop_assert_eq!(fixture.delivered, fixture.made);
            prop_assert!(fixture.reader.is_some(), "the reader waits for more");
        }
    }
}
