//! The promise of list and watch, in any weather: a list at N plus the events up to M is a list at M, for every watcher,
//! whatever it selects and however often it has to start again. No gap, no duplicate, versions strictly increasing.
//!
//! One task follows a random script of writes and faults; watchers keep a copy of what they were told, in all ways a
//! client may, and hold it against the truth after every single event.

mod script;
mod recorded_history;
mod watcher;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use dogwatch_apiserver::ApiServer;
use dogwatch_apiserver::controllers::Controllers;
use proptest::prelude::*;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::requests::Road;
use recorded_history::Truth;
use script::{Script, Step};
use watcher::{Manner, Seen, Watcher};

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn list_at_n_plus_the_events_up_to_m_is_list_at_m_in_any_weather(
        steps in proptest::collection::vec(script::step(), 10..200),
        manners in proptest::collection::vec(watcher::manner(), 2..6),
        seed in any::<u64>(),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
        runtime.expect("a runtime").block_on(weather(steps, manners, seed));
    }
}

async fn weather(steps: Vec<Step>, manners: Vec<Manner>, seed: u64) -> Seen {
    let server = ApiServer::builder().in_process().seed(seed).controllers(Controllers::none());
    let server = server.bookmark_period(Duration::from_secs(1)).start().await.expect("it starts");
    let truth = Arc::new(Mutex::new(Truth::of(server.cluster())));
    let (finish, last) = watch::channel(None);
    let mut watchers = JoinSet::new();
    for manner in manners {
        let road = match manner.wire {
            None => Road::direct(&server),
            Some(http2) => Road::wire(&server, http2),
        };
        watchers.spawn(Watcher::new(road, manner, Arc::clone(&truth), last.clone()).run());
    }

    let mut script = Script::new(&server, Arc::clone(&truth), seed);
    for step in steps {
        script.follow(step).await;
    }
    server.faults().clear();
    finish.send_replace(Some(server.cluster().store().revision()));
    let mut seen = Seen::default();
    while let Some(watcher) = watchers.join_next().await {
        seen += watcher.expect("a watcher that saw no lie");
    }
    seen
}

/// The property would hold just as well if nothing happened: something does.
#[test]
fn the_weather_is_bad_enough_to_mean_something() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let mut sample = |strategy: BoxedStrategy<Vec<Step>>| {
        use proptest::strategy::ValueTree;
        strategy.new_tree(&mut runner).expect("it can be made").current()
    };
    let mut total = Seen::default();
    for seed in 0..6 {
        let steps = sample(proptest::collection::vec(script::step(), 200).boxed());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
        total += runtime.expect("a runtime").block_on(weather(steps, watcher::every_manner(), seed));
    }
    let Seen { lists, events, bookmarks, ends, cuts, refusals, expirations } = total;
    for (what, count, at_least) in [
        ("lists", lists, 50),
        ("events", events, 500),
        ("bookmarks", bookmarks, 200),
        ("watches that ended", ends, 100),
        ("watches that were cut", cuts, 50),
        ("refusals", refusals, 5),
        ("watches that came too late", expirations, 50),
    ] {
        assert!(count >= at_least, "{what}: {count}");
    }
}
