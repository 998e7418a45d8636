//! Rule WQ-3 and the priorities of controller-runtime: the order of keys, and that no key starves.

use std::time::Duration;

use dogwatch_workqueue::{AddOptions, WorkQueue};

fn priority(priority: i32) -> AddOptions {
    AddOptions { priority, ..AddOptions::default() }
}

fn drained<K: Copy + Eq + std::hash::Hash + Send + Sync + 'static>(queue: &WorkQueue<K>) -> Vec<(K, i32)> {
    std::iter::from_fn(|| queue.try_take().map(|it| (*it, it.priority()))).collect()
}

#[test]
fn wq_3_first_come_first_served() {
    let queue = WorkQueue::new();
    queue.add_all(0..1000);
    let keys: Vec<_> = drained(&queue).into_iter().map(|(key, _)| key).collect();
    assert_eq!(keys, (0..1000).collect::<Vec<_>>());
}

#[test]
fn higher_priorities_come_first_and_items_have_their_priority() {
    let queue = WorkQueue::new();
    queue.add_with("low", priority(-100));
    queue.add("plain");
    queue.add_with("high", priority(10));
    queue.add("plain too");
    assert_eq!(drained(&queue), [("high", 10), ("plain", 0), ("plain too", 0), ("low", -100)]);
}

#[test]
fn a_higher_priority_moves_a_key_to_the_end_of_its_new_level_and_a_lower_one_does_nothing() {
    let queue = WorkQueue::new();
    queue.add_with("a", priority(1));
    queue.add_with("b", priority(0));
    queue.add_with("c", priority(1));
    queue.add_with("b", priority(1));
    queue.add_with("a", priority(-5));
    assert_eq!(queue.len(), 3);
    assert_eq!(drained(&queue), [("a", 1), ("c", 1), ("b", 1)]);
}

#[test]
fn a_key_that_is_added_while_held_has_the_highest_priority_since_then() {
    let queue = WorkQueue::new();
    queue.add_with("a", priority(9));
    let held = queue.try_take().unwrap();
    assert_eq!(held.priority(), 9);
    for it in [-3, 2, 1] {
        queue.add_with("a", priority(it));
    }
    drop(held);
    assert_eq!(drained(&queue), [("a", 2)]);
}

#[tokio::test(start_paused = true)]
async fn a_delayed_key_keeps_the_highest_priority_it_was_delayed_with() {
    let queue = WorkQueue::new();
    let second = Duration::from_secs(1);
    for (after, priority) in [(second, 1), (second * 2, 7), (second, 3)] {
        queue.add_with("a", AddOptions { after, priority, ..AddOptions::default() });
    }
    queue.add_with("b", AddOptions { after: second, priority: 2, ..AddOptions::default() });
    tokio::time::advance(second).await;
    assert_eq!(drained(&queue), [("a", 7), ("b", 2)]);
}

/// The initial list of a large collection at low priority, next to an endless stream of changes.
#[test]
fn a_low_priority_never_starves() {
    let queue = WorkQueue::new();
    for key in 0..10 {
        queue.add_with(key, priority(-100));
    }
    let (mut low, mut takes) = (Vec::new(), 0);
    while low.len() < 10 {
        queue.add(1000 + takes);
        let item = queue.try_take().unwrap();
        takes += 1;
        low.extend(Some(*item).filter(|it| *it < 1000));
    }
    assert_eq!(low, (0..10).collect::<Vec<_>>());
    assert_eq!(takes, 10 * 16, "one take in sixteen");
}

#[test]
fn a_low_priority_starves_on_request() {
    let queue = WorkQueue::builder().strict_priorities().build();
    queue.add_with(0, priority(-1));
    for key in 1..1000 {
        queue.add(key);
        assert_ne!(*queue.try_take().unwrap(), 0);
    }
}

#[test]
fn groups_take_turns() {
    let queue = WorkQueue::builder().fair_by(|key: &(char, u32)| key.0).build();
    queue.add_all((0..5).map(|it| ('a', it)));
    queue.add(('b', 0));
    queue.add(('c', 0));
    queue.add(('b', 1));
    let order: String =
        drained(&queue).iter().map(|((group, number), _)| format!("{group}{number} ")).collect();
    assert_eq!(order, "a0 b0 c0 a1 b1 a2 a3 a4 ");
}

/// A tenant with ten thousand keys delays the one key of another by one take.
#[test]
fn a_group_with_many_keys_does_not_delay_one_with_few() {
    let queue = WorkQueue::builder().fair_by_part(|key: &String| key.split('/').next().unwrap_or("")).build();
    queue.add_all((0..10_000).map(|it| format!("noisy/{it}")));
    queue.add("quiet/one".to_owned());
    drop(queue.try_take().unwrap());
    assert_eq!(*queue.try_take().unwrap(), "quiet/one");
}

#[test]
fn a_priority_takes_precedence_over_a_turn() {
    let queue = WorkQueue::builder().fair_by(|key: &&str| key.as_bytes()[0]).build();
    queue.add("a1");
    queue.add("a2");
    queue.add("b1");
    queue.add_with("a3", priority(1));
    queue.add_with("a2", priority(1));
    let keys: Vec<_> = drained(&queue).into_iter().map(|(key, _)| key).collect();
    assert_eq!(keys, ["a3", "a2", "a1", "b1"]);
}
