//! Snapshots of queues, for diagnostics.

use std::time::Duration;

use dogwatch_workqueue::{AddOptions, KeySnapshot, KeyStage, Note, WorkQueue};

/// The names of the adds of a key.
#[derive(Clone, Debug, Default, PartialEq)]
struct Adds(String);

impl Note for Adds {
    fn merge(&mut self, later: &mut Self) {
        self.0.push_str(&std::mem::take(&mut later.0));
    }
}

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

#[tokio::test(start_paused = true)]
async fn a_snapshot_has_held_keys_by_time_and_delayed_ones_with_notes_and_attempts() {
    let queue = WorkQueue::builder().name("snapshots").build_with_notes::<Adds>();
    for key in ["first", "second"] {
        queue.add(key);
        std::mem::forget(queue.try_take().expect("it was added"));
        tokio::time::advance(seconds(2)).await;
    }
    queue.add_with_note("first", AddOptions::default(), Adds("again".to_owned()));
    for (key, after) in [("later", 9), ("soon", 5)] {
        let options = AddOptions { after: seconds(after), ..AddOptions::default() };
        queue.add_with_note(key, options, Adds(key.to_owned()));
    }
    queue.add_rate_limited("failed");
    queue.add("ready");

    let snapshot = queue.snapshot(10);
    assert_eq!((snapshot.ready, snapshot.delayed, snapshot.held), (1, 3, 2));
    assert_eq!((snapshot.added, snapshot.taken, snapshot.shutting_down), (4, 2, false));
    let held = |it: &KeySnapshot<_, _>| match it.stage {
        KeyStage::Held { elapsed, again } => Some((it.key, elapsed, again)),
        _ => None,
    };
    let all: Vec<_> = snapshot.keys.iter().filter_map(held).collect();
    assert_eq!(all, [("first", Some(seconds(4)), true), ("second", Some(seconds(2)), false)]);
    assert_eq!(snapshot.keys[0].note, Some(Adds("again".to_owned())));
    let delayed: Vec<_> = snapshot.keys[2..].iter().map(|it| (it.key, it.requeues)).collect();
    assert_eq!(delayed, [("failed", 1), ("soon", 0), ("later", 0)]);
    assert_eq!(snapshot.keys[3].stage, KeyStage::Delayed { due: seconds(5) });
    assert_eq!(snapshot.keys[3].note, Some(Adds("soon".to_owned())));
}

#[test]
fn a_snapshot_has_at_most_as_many_keys_as_requested() {
    for name in [None, Some("bounded")] {
        let builder = WorkQueue::builder();
        let queue = match name {
            Some(name) => builder.name(name).build(),
            None => builder.build(),
        };
        for key in 0..10_000 {
            queue.add(key);
            queue.add_after(100_000 + key, seconds(60));
        }
        for _ in 0..100 {
            std::mem::forget(queue.try_take().expect("a key is ready"));
        }
        for (limit, keys) in [(0, 0), (50, 50), (150, 150)] {
            let snapshot = queue.snapshot(limit);
            assert_eq!((snapshot.keys.len(), snapshot.held, snapshot.delayed), (keys, 100, 10_000));
        }
        queue.shut_down();
        assert!(queue.snapshot(1).shutting_down);
    }
}

#[test]
fn a_delay_that_is_due_is_counted_as_ready() {
    let queue = WorkQueue::new();
    queue.add_after("now", Duration::from_nanos(1));
    let due = || queue.snapshot(10).ready == 1;
    assert!((0..1_000_000).any(|_| due()), "a nanosecond has passed");
    assert!(queue.snapshot(10).keys.is_empty());
}
