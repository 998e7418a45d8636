//! The guarantee of list and watch under fault injection: a list at version N plus the events up to
//! M equals a list at M, for every watcher, whatever it selects and however often it restarts. No
//! gaps, no duplicates, versions strictly increasing.
//!
//! One task runs a random script of writes and faults. Watchers keep a cache in all ways a client
//! may, and compare it with the recorded history after every event.

mod script;
mod recorded_history;
mod watcher;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::ApiServer;
use crate::controllers::Controllers;
use proptest::prelude::*;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::tests::requests::Transport;
use recorded_history::RecordedHistory;
use script::{Script, Step};
use watcher::{Counts, Watcher, WatcherConfig};

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_list_plus_its_events_gives_every_later_list_under_any_faults(
        steps in proptest::collection::vec(script::step(), 10..200),
        configs in proptest::collection::vec(watcher::config(), 2..6),
        seed in any::<u64>(),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
        runtime.expect("a runtime").block_on(run(steps, configs, seed));
    }
}

async fn run(steps: Vec<Step>, configs: Vec<WatcherConfig>, seed: u64) -> Counts {
    let server = ApiServer::builder().in_process().seed(seed).controllers(Controllers::none());
    let server = server.bookmark_period(Duration::from_secs(1)).start().await.expect("the server starts");
    let history = Arc::new(Mutex::new(RecordedHistory::of(server.cluster())));
    let (finish, last) = watch::channel(None);
    let mut watchers = JoinSet::new();
    for config in configs {
        let transport = match config.pipe {
            None => Transport::direct(&server),
            Some(http2) => Transport::wire(&server, http2),
        };
        watchers.spawn(Watcher::new(transport, config, Arc::clone(&history), last.clone()).run());
    }

    let mut script = Script::new(&server, Arc::clone(&history), seed);
    for step in steps {
        script.run_step(step).await;
    }
    server.faults().clear();
    finish.send_replace(Some(server.cluster().store().revision()));
    let mut counts = Counts::default();
    while let Some(watcher) = watchers.join_next().await {
        counts += watcher.expect("no watcher found a difference");
    }
    counts
}

/// The property would also hold if no faults occurred: this test makes sure that they do.
#[test]
fn the_random_scripts_inject_enough_faults() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let mut sample = |strategy: BoxedStrategy<Vec<Step>>| {
        use proptest::strategy::ValueTree;
        strategy.new_tree(&mut runner).expect("a value").current()
    };
    let mut total = Counts::default();
    for seed in 0..6 {
        let steps = sample(proptest::collection::vec(script::step(), 200).boxed());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
        total += runtime.expect("a runtime").block_on(run(steps, watcher::every_config(), seed));
    }
    let Counts { lists, events, bookmarks, ends, cuts, rejections, expirations } = total;
    for (what, count, at_least) in [
        ("lists", lists, 50),
        ("events", events, 500),
        ("bookmarks", bookmarks, 200),
        ("watches that ended", ends, 100),
        ("watches that were cut", cuts, 50),
        ("rejections", rejections, 5),
        ("expired watches", expirations, 50),
    ] {
        assert!(count >= at_least, "{what}: {count}");
    }
}
