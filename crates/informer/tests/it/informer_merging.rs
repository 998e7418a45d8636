//! The guarantees for a slow handler: any history, read at any pace, through the whole informer.

use std::collections::BTreeMap;
use std::time::Duration;

use dogwatch_core::Object;
use dogwatch_informer::{Change, Changes, HandlerOptions, Overflow, SharedInformer};
use futures_util::{FutureExt, StreamExt};
use proptest::prelude::*;

use crate::informer::{settle, started};
use crate::live::{Live, text};
use crate::script::{SECOND, Thing};

#[derive(Clone, Debug)]
enum Step {
    /// Creates or changes an object.
    Put(u8),
    Delete(u8),
    /// Deletes an object while no watch is open.
    Lose(u8),
    /// The slow reader reads.
    Read(usize),
    /// The informer processes what happened.
    Settle,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0u8..4).prop_map(Step::Put),
        3 => (0u8..4).prop_map(Step::Delete),
        1 => (0u8..4).prop_map(Step::Lose),
        2 => (1usize..5).prop_map(Step::Read),
        3 => Just(Step::Settle),
    ]
}

/// Returns the name of a change's object.
fn name(change: &Change<Thing>) -> String {
    change.object().metadata.name.to_string()
}

/// Returns the additions and deletions of each object, in order, and its last reported state.
fn facts(changes: &[Change<Thing>]) -> BTreeMap<String, (Vec<String>, String)> {
    let mut facts: BTreeMap<String, (Vec<String>, String)> = BTreeMap::new();
    for change in changes {
        let (ends, last) = facts.entry(name(change)).or_default();
        if !matches!(change, Change::Updated { .. }) {
            ends.push(text(change));
        }
        *last = format!("{} {}", matches!(change, Change::Deleted(_)), change.object().version());
    }
    facts
}

/// Returns the final state of a reader that keeps a copy.
fn fold(changes: &[Change<Thing>]) -> BTreeMap<String, String> {
    let mut copy = BTreeMap::new();
    for change in changes {
        let version = change.object().version().to_string();
        match change {
            Change::Added { .. } => assert_eq!(copy.insert(name(change), version), None, "added twice"),
            Change::Updated { old, .. } => {
                assert_eq!(copy.insert(name(change), version), Some(old.version().to_string()));
            }
            Change::Deleted(_) => assert!(copy.remove(&name(change)).is_some(), "deleted an unknown object"),
            other => panic!("unknown change: {other:?}"),
        }
    }
    copy
}

fn read(changes: &mut Changes<Thing>, count: usize, to: &mut Vec<Change<Thing>>) {
    to.extend((0..count).map_while(|_| changes.next().now_or_never().flatten()));
}

async fn play(steps: Vec<Step>, overflow: Overflow) -> Result<(), TestCaseError> {
    let live = Live::new(&["0@1", "1@1"]);
    let informer: SharedInformer<Thing> = started(&live).await;
    let stream = |overflow| informer.changes_with(HandlerOptions::default().overflow(overflow));
    let mut slow = stream(overflow).expect("the informer runs");
    let mut every = stream(Overflow::Grow).expect("the informer runs");
    let mut there: Vec<_> = vec!["0@1".to_owned(), "1@1".to_owned()];
    let (mut reported, mut version) = (Vec::new(), 1);
    for step in steps {
        match step {
            Step::Put(name) => {
                version += 1;
                let thing = format!("{name}@{version}");
                live.put(&thing);
                there.retain(|it| !it.starts_with(&format!("{name}@")));
                there.push(thing);
            }
            Step::Delete(name) | Step::Lose(name) => {
                let Some(at) = there.iter().position(|it| it.starts_with(&format!("{name}@"))) else {
                    continue;
                };
                version += 1;
                there.remove(at);
                if matches!(step, Step::Delete(_)) {
                    live.delete(&format!("{name}@{version}"));
                } else {
                    let left: Vec<_> = there.iter().map(String::as_str).collect();
                    live.set(&left);
                    live.expire();
                    tokio::time::sleep(60 * SECOND).await;
                }
            }
            Step::Read(count) => read(&mut slow, count, &mut reported),
            Step::Settle => settle().await,
        }
    }
    let mut all = Vec::new();
    // A reader that blocks the informer unblocks it by reading.
    for _ in 0..200 {
        tokio::time::sleep(Duration::from_secs(1)).await;
        read(&mut slow, usize::MAX, &mut reported);
        read(&mut every, usize::MAX, &mut all);
    }
    let store: BTreeMap<_, _> = informer
        .store()
        .snapshot()
        .iter()
        .map(|it| (it.metadata.name.to_string(), it.version().to_string()))
        .collect();
    prop_assert_eq!(fold(&reported), store);
    prop_assert_eq!(facts(&reported), facts(&all));
    if overflow != Overflow::Coalesce {
        let texts = |changes: &[Change<Thing>]| changes.iter().map(text).collect::<Vec<_>>();
        prop_assert_eq!(texts(&reported), texts(&all));
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whenever a slow handler reads, it receives every addition and every deletion, and each
    /// changed object in its newest state; and it ends with the contents of the store.
    #[test]
    fn a_slow_handler_learns_of_every_created_changed_or_deleted_object(
        steps in prop::collection::vec(step(), 1..60),
        overflow in prop_oneof![Just(Overflow::Coalesce), Just(Overflow::Grow), Just(Overflow::Block(1))],
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        runtime.expect("a runtime").block_on(play(steps, overflow))?;
    }
}
