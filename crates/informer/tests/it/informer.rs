//! The shared informer: handlers, the store they see, resyncs and shutdown, on a collection that
//! the test controls and a paused clock (rules IN-1 to IN-12).

use std::sync::{Arc, Mutex};
use std::time::Duration;

use dogwatch_core::{Object, ObjectKey, Reason, ResourceVersion};
use dogwatch_informer::{
    BackoffOptions, Change, EventHandler, Filtered, HandlerOptions, HealthState, Index, NotSynced, Overflow,
    Registration, SharedInformer,
};
use futures_util::{FutureExt, StreamExt};
use metrics_util::debugging::DebuggingRecorder;

use crate::live::{Live, text};
use crate::script::{MINUTE, SECOND, Thing};

/// A handler that records the changes it receives, as texts.
#[derive(Clone, Debug, Default)]
pub(crate) struct Recorder(Arc<Mutex<Vec<String>>>);

impl Recorder {
    /// Returns the changes received since the last call.
    pub(crate) fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }
}

impl EventHandler<Thing> for Recorder {
    fn on_change(&mut self, change: &Change<Thing>) {
        self.0.lock().unwrap().push(text(change));
    }
}

/// Lets everything happen that can happen now: the paused clock advances only when all tasks are
/// idle.
pub(crate) async fn settle() {
    tokio::time::sleep(Duration::from_nanos(1)).await;
}

pub(crate) fn add(informer: &SharedInformer<Thing>, options: HandlerOptions) -> (Recorder, Registration) {
    let received = Recorder::default();
    let registration =
        informer.add_handler_with(received.clone(), options).expect("the informer has not stopped");
    (received, registration)
}

pub(crate) async fn started(live: &Live) -> SharedInformer<Thing> {
    let informer = SharedInformer::new(live.clone());
    informer.start();
    informer.synced().await.expect("the informer syncs");
    informer
}

#[tokio::test(start_paused = true)]
async fn in_6_handlers_added_before_and_after_the_start_receive_the_same() {
    let live = Live::new(&["a@1", "b@2"]);
    let informer = SharedInformer::new(live.clone());
    let (early, registration) = add(&informer, HandlerOptions::default());
    assert!(!registration.is_synced() && !informer.is_synced());
    informer.start();
    registration.synced().await.expect("the handler syncs");
    live.put("a@3");
    settle().await;
    assert_eq!(early.take(), ["!a@1", "!b@2", "a@1>3"]);

    let (late, registration) = add(&informer, HandlerOptions::default());
    assert!(!registration.is_synced(), "the handler has received nothing yet");
    registration.synced().await.expect("the handler syncs");
    live.put("c@4");
    live.delete("b@5");
    settle().await;
    assert_eq!(late.take(), ["!a@3", "!b@2", "+c@4", "-b@5"]);
    assert_eq!(early.take(), ["+c@4", "-b@5"]);
}

/// client-go counts the deliveries of a handler; one that is added between two batches must receive
/// neither too many nor too few.
#[tokio::test(start_paused = true)]
async fn in_6_a_handler_added_while_changes_arrive_receives_the_whole_state_once() {
    let live = Live::new(&[]);
    let informer = started(&live).await;
    let mut all = Vec::new();
    for round in 0..50u64 {
        live.put(&format!("a{}@{}", round % 7, round + 2));
        if round % 3 == 0 {
            all.push(add(&informer, HandlerOptions::default().overflow(Overflow::Grow)).0);
        }
        if round % 5 == 0 {
            settle().await;
        }
    }
    informer.stop().await;
    for received in all {
        let mut state = std::collections::BTreeMap::new();
        for change in received.take() {
            let (name, version) = change.trim_start_matches(['+', '!']).split_once('@').unwrap();
            match version.split_once('>') {
                Some((old, new)) => {
                    assert_eq!(state.insert(name.to_owned(), new.to_owned()).as_deref(), Some(old))
                }
                None => assert_eq!(state.insert(name.to_owned(), version.to_owned()), None, "added twice"),
            }
        }
        let store: Vec<_> = informer
            .store()
            .snapshot()
            .iter()
            .map(|it| (it.metadata.name.to_string(), it.version().to_string()))
            .collect();
        assert_eq!(state.into_iter().collect::<Vec<_>>(), store);
    }
}

#[tokio::test(start_paused = true)]
async fn in_6_a_stopped_informer_rejects_handlers() {
    let informer = started(&Live::new(&[])).await;
    informer.stop().await;
    let error = informer.add_handler(Recorder::default()).expect_err("the informer has stopped");
    assert!(error.to_string().ends_with("was not added because informer things has already stopped"));
    assert!(informer.changes().is_err());
}

#[tokio::test(start_paused = true)]
async fn in_6_a_handler_added_twice_is_called_twice() {
    let live = Live::new(&["a@1"]);
    let informer = started(&live).await;
    let received = Recorder::default();
    let first = informer.add_handler(received.clone()).unwrap();
    let second = informer.add_handler(received.clone()).unwrap();
    settle().await;
    assert_eq!(received.take(), ["!a@1", "!a@1"]);
    first.shut_down().await;
    live.put("a@2");
    settle().await;
    assert_eq!(received.take(), ["a@1>2"]);
    assert!(second.is_synced());
}

#[tokio::test(start_paused = true)]
async fn in_1_a_handler_finds_every_received_change_in_the_store() {
    let live = Live::new(&["a@1", "b@2"]);
    let informer = SharedInformer::new(live.clone());
    let store = informer.store();
    let seen = Recorder::default();
    let wrong = seen.clone();
    informer
        .on_change(move |change| {
            let object = change.object();
            let held = store.get(&object.key().expect("a name")).map(|it| it.version());
            // The store shows the change, or a later one of the object: it may be deleted by now,
            // or recreated.
            let fits = !store.version().is_older_than(&object.version())
                && held.as_ref().is_none_or(|it| !it.is_older_than(&object.version()));
            if !fits {
                wrong.0.lock().unwrap().push(format!("{} but the store has {held:?}", text(change)));
            }
        })
        .unwrap();
    informer.start();
    informer.synced().await.unwrap();
    for version in 3..200 {
        live.put(&format!("a@{version}"));
        if version % 10 == 0 {
            live.delete(&format!("b@{version}"));
            settle().await;
            live.put(&format!("b@{version}"));
        }
    }
    // Also a deletion that is inferred from a relist.
    live.delete("b@500");
    live.set(&["a@501"]);
    live.expire();
    informer.stop().await;
    assert_eq!(seen.take(), Vec::<String>::new());
}

/// Ported from client-go: ReplaceEvents.
#[tokio::test(start_paused = true)]
async fn in_1_a_relist_reports_deletions_then_updates_and_additions_in_the_order_of_the_list() {
    let live = Live::new(&["a@1", "b@2", "c@3"]);
    let informer = started(&live).await;
    let (received, _) = add(&informer, HandlerOptions::default());
    settle().await;
    assert_eq!(received.take(), ["!a@1", "!b@2", "!c@3"]);

    live.set(&["d@5", "c@3", "b@6"]);
    live.expire();
    tokio::time::sleep(MINUTE).await;
    assert_eq!(received.take(), ["~a@1", "+d@5", "b@2>6"], "c did not change, so no handler is called");
    assert_eq!(informer.last_sync_version(), ResourceVersion::new("6"));

    live.set(&[]);
    live.expire();
    tokio::time::sleep(MINUTE).await;
    assert_eq!(received.take(), ["~b@6", "~c@3", "~d@5"]);
    assert!(informer.store().is_empty());
}

/// Ported from client-go: WatchDisruption. In client-go, whether a handler is called depends on
/// whether a resync ever ran; here it is an option (rule IN-3).
#[tokio::test(start_paused = true)]
async fn in_3_after_a_relist_only_handlers_with_the_option_receive_unchanged_objects() {
    let live = Live::new(&["a@1", "b@2"]);
    let informer = started(&live).await;
    let (usual, _) = add(&informer, HandlerOptions::default());
    let (curious, _) = add(&informer, HandlerOptions::default().replay_after_relist());
    settle().await;
    usual.take();
    curious.take();

    live.set(&["a@1", "b@4", "c@5"]);
    live.expire();
    tokio::time::sleep(MINUTE).await;
    assert_eq!(usual.take(), ["b@2>4", "+c@5"]);
    assert_eq!(curious.take(), ["b@2>4", "+c@5", "a@1>1"], "merged into one change for each object");
}

/// Ported from client-go: ListenerResyncPeriods.
#[tokio::test(start_paused = true)]
async fn in_9_every_handler_has_its_own_resync_interval() {
    let live = Live::new(&["a@1"]);
    let informer = SharedInformer::builder(live.clone()).build();
    let (never, _) = add(&informer, HandlerOptions::default());
    let (second, _) = add(&informer, HandlerOptions::default().resync_every(2 * SECOND));
    let (third, _) = add(&informer, HandlerOptions::default().resync_every(3 * SECOND));
    informer.start();
    settle().await;
    never.take();
    second.take();
    third.take();
    tokio::time::sleep(2 * SECOND).await;
    assert_eq!((second.take().len(), third.take().len()), (1, 0));
    tokio::time::sleep(SECOND).await;
    assert_eq!((second.take().len(), third.take()), (0, vec!["a@1>1".to_owned()]));
    tokio::time::sleep(3 * SECOND).await;
    assert_eq!((second.take().len(), third.take().len(), never.take().len()), (2, 1, 0));
}

#[tokio::test(start_paused = true)]
async fn in_9_the_interval_of_the_informer_is_the_default_of_its_handlers() {
    let informer = SharedInformer::builder(Live::new(&["a@1"])).resync_every(MINUTE).build();
    let (usual, _) = add(&informer, HandlerOptions::default());
    let (quick, _) = add(&informer, HandlerOptions::default().resync_every(20 * SECOND));
    informer.start();
    tokio::time::sleep(MINUTE + SECOND).await;
    assert_eq!((usual.take().len(), quick.take().len()), (2, 4));
}

#[tokio::test(start_paused = true)]
async fn in_9_an_interval_of_zero_disables_resyncs() {
    let informer = SharedInformer::builder(Live::new(&["a@1"])).resync_every(Duration::ZERO).build();
    let (never, _) = add(&informer, HandlerOptions::default());
    let (always, _) = add(&informer, HandlerOptions::default().resync_every(SECOND));
    informer.start();
    tokio::time::sleep(MINUTE).await;
    assert_eq!((never.take().len(), always.take().len() > 50), (1, true));

    let informer = SharedInformer::builder(Live::new(&["a@1"])).resync_every(SECOND).build();
    let (never, _) = add(&informer, HandlerOptions::default().resync_every(Duration::ZERO));
    informer.start();
    tokio::time::sleep(MINUTE).await;
    assert_eq!(never.take().len(), 1, "the handler's interval takes precedence");
}

#[tokio::test(start_paused = true)]
async fn in_10_an_informer_starts_once_and_stops_once() {
    let live = Live::new(&["a@1"]);
    let informer = SharedInformer::new(live.clone());
    assert!(!informer.is_started() && !informer.is_stopped());
    informer.start();
    informer.start();
    informer.synced().await.unwrap();
    assert_eq!((live.lists(), live.watches()), (1, 1));
    assert!(informer.is_started() && !informer.is_stopped());
    tokio::join!(informer.stop(), informer.stop());
    informer.start();
    settle().await;
    assert!(informer.is_started() && informer.is_stopped());
    assert_eq!((live.lists(), live.watches()), (1, 0));
    assert_eq!(informer.store().len(), 1, "the store stays readable");
    assert!(informer.wait_until(&"9".into()).await.is_err(), "no more changes will come");
}

/// Unlike client-go, a stop drops no pending change.
#[tokio::test(start_paused = true)]
async fn in_10_a_stop_delivers_pending_changes_and_ends_every_task() {
    let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let live = Live::new(&["a@1", "b@2"]);
    let informer = started(&live).await;
    let (received, registration) = add(&informer, HandlerOptions::default());
    let mut changes = informer.changes().unwrap();
    registration.synced().await.unwrap();
    assert!(tasks() > 0);
    informer.stop().await;
    assert_eq!(tasks(), 0);
    assert_eq!(received.take(), ["!a@1", "!b@2"]);
    assert_eq!(changes.next().await.as_ref().map(text).as_deref(), Some("!a@1"));
    assert_eq!(changes.next().await.as_ref().map(text).as_deref(), Some("!b@2"));
    assert_eq!(changes.next().await, None);
}

#[tokio::test(start_paused = true)]
async fn in_10_dropping_the_last_handle_stops_the_informer() {
    let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let live = Live::new(&["a@1"]);
    let informer = started(&live).await;
    let (received, registration) = add(&informer, HandlerOptions::default());
    let other = informer.clone();
    drop(informer);
    settle().await;
    assert_eq!(live.watches(), 1);
    let store = other.store().detached();
    drop(other);
    settle().await;
    assert_eq!((live.watches(), tasks(), store.len()), (0, 0, 1));
    assert_eq!(received.take(), ["!a@1"]);
    registration.shut_down().await;
}

#[tokio::test(start_paused = true)]
async fn in_10_an_informer_that_never_started_can_be_stopped_and_its_handlers_end() {
    let informer = SharedInformer::new(Live::new(&["a@1"]));
    let (received, registration) = add(&informer, HandlerOptions::default());
    let mut changes = informer.changes().unwrap();
    informer.stop().await;
    assert!(informer.is_stopped());
    assert!(matches!(informer.synced().await, Err(NotSynced::Ended { .. })));
    drop(informer);
    assert!(registration.synced().await.is_err());
    assert_eq!(changes.next().await, None);
    assert_eq!(received.take(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn in_10_run_until_ends_with_the_signal_and_run_with_the_stop() {
    let informer = SharedInformer::new(Live::new(&["a@1"]));
    let other = informer.clone();
    informer.run_until(async move { other.synced().await }).await;
    assert!(informer.is_stopped() && informer.is_synced());

    let informer = SharedInformer::new(Live::new(&["a@1"]));
    tokio::join!(informer.run(), async {
        settle().await;
        informer.stop().await;
    });
}

/// Ported from client-go: ErrorHandling. In controller-runtime, callers wait for ever for a missing
/// permission.
#[tokio::test(start_paused = true)]
async fn in_11_an_informer_that_cannot_sync_reports_why_and_syncs_when_it_can() {
    let live = Live::new(&["a@1"]);
    live.refuse(Some(Reason::Forbidden));
    let informer = SharedInformer::new(live.clone());
    informer.start();
    let error = informer.synced_within(5 * SECOND).await.expect_err("listing is forbidden");
    assert!(error.to_string().starts_with("informer things is not synced after 5s: retrying"), "{error}");
    assert!(error.to_string().contains("Access Denied"), "{error}");
    assert!(matches!(informer.health().state, HealthState::Retrying { .. }));
    live.refuse(None);
    informer.synced().await.expect("listing is allowed again");
    assert!(informer.health().is_ok());
}

/// Ported from client-go: Transformer.
#[tokio::test(start_paused = true)]
async fn readers_and_handlers_see_only_transformed_objects() {
    let live = Live::new(&["a@1"]);
    let informer = SharedInformer::builder(live.clone())
        .transform(|mut thing: Thing| {
            thing.metadata = thing.metadata.with_labels([("seen", "yes")]);
            thing
        })
        .index(Index::label("seen"))
        .build();
    let changed = Recorder::default();
    let plain = changed.clone();
    informer
        .on_change(move |change| {
            if change.object().metadata.labels().get("seen").is_none() {
                plain.0.lock().unwrap().push(text(change));
            }
        })
        .unwrap();
    informer.start();
    informer.synced().await.unwrap();
    live.put("b@2");
    live.delete("a@3");
    settle().await;
    assert_eq!(informer.store().by_index("seen", "yes").unwrap().len(), 1);
    informer.stop().await;
    assert_eq!(changed.take(), Vec::<String>::new());
}

/// Ported from client-go: Indexer, before and after the start.
#[tokio::test(start_paused = true)]
async fn indexes_can_be_added_before_and_after_the_start() {
    let live = Live::new(&["ab@1", "bc@2"]);
    let letters = |thing: &Thing| thing.metadata.name.chars().map(String::from).collect::<Vec<_>>();
    let informer = SharedInformer::builder(live.clone()).index(Index::new("early", letters)).build();
    informer.start();
    informer.synced().await.unwrap();
    informer.add_index(Index::new("late", letters)).unwrap();
    live.put("cd@3");
    settle().await;
    for index in ["early", "late"] {
        let names = |value| -> Vec<String> {
            let found = informer.lister().by_index(index, value).unwrap();
            found.iter().map(|it| it.metadata.name.to_string()).collect()
        };
        assert_eq!(
            (names("b"), names("c")),
            (vec!["ab".into(), "bc".into()], vec!["bc".into(), "cd".into()])
        );
    }
    assert!(informer.add_index(Index::new("late", letters)).is_err());
}

/// Ported from client-go: StoreResourceVersion.
#[tokio::test(start_paused = true)]
async fn the_version_follows_objects_deletions_and_bookmarks() {
    let live = Live::new(&["a@1"]);
    let informer = SharedInformer::new(live.clone());
    assert!(informer.last_sync_version().is_unset());
    informer.start();
    informer.synced().await.unwrap();
    live.put("b@5");
    informer.wait_until(&"5".into()).await.unwrap();
    assert!(informer.store().contains(&ObjectKey::cluster("b")));
    live.delete("b@7");
    informer.wait_until(&"6".into()).await.unwrap();
    assert!(!informer.store().contains(&ObjectKey::cluster("b")));
    live.bookmark(9);
    informer.wait_until(&"8".into()).await.unwrap();
    assert_eq!(informer.last_sync_version().as_str(), "9");
    assert!(informer.wait_until(&"10".into()).now_or_never().is_none());
}

/// Ported from client-go: EventPanics. In client-go such a handler was never synced (k/k#129024).
#[tokio::test(start_paused = true)]
async fn in_5_a_handler_that_panics_is_synced_and_receives_the_rest() {
    let live = Live::new(&["a@1", "bad@2", "c@3"]);
    let informer = SharedInformer::new(live.clone());
    let mut received = Recorder::default();
    let seen = received.clone();
    let registration = informer
        .on_change(move |change| {
            assert_ne!(change.object().metadata.name, "bad", "the handler panics on this object");
            received.on_change(change);
        })
        .unwrap();
    informer.start();
    registration.synced().await.unwrap();
    live.put("d@4");
    settle().await;
    assert_eq!(seen.take(), ["!a@1", "!c@3", "+d@4"]);
    assert_eq!(registration.lag().panics, 1);
}

#[tokio::test(start_paused = true)]
async fn in_12_an_update_that_crosses_the_filter_is_an_addition_or_a_deletion_end_to_end() {
    let live = Live::new(&["a@1", "b@2"]);
    let informer = started(&live).await;
    let received = Recorder::default();
    let inner = received.clone();
    struct Split(Box<dyn FnMut(String) + Send>);
    impl EventHandler<Thing> for Split {
        fn on_add(&mut self, object: &Arc<Thing>, initial: bool) {
            (self.0)(text(&Change::Added { object: object.clone(), initial }));
        }
        fn on_update(&mut self, old: &Arc<Thing>, new: &Arc<Thing>) {
            (self.0)(text(&Change::Updated { old: old.clone(), new: new.clone() }));
        }
        fn on_delete(&mut self, last: dogwatch_informer::Deleted<Thing>) {
            (self.0)(text(&Change::Deleted(last)));
        }
    }
    let split = Split(Box::new(move |it| inner.0.lock().unwrap().push(it)));
    let odd = |thing: &Thing| thing.version().as_str().parse::<u64>().is_ok_and(|it| it % 2 == 1);
    informer.add_handler(Filtered::new(odd, split)).unwrap();
    settle().await;
    for change in ["a@3", "a@4", "b@5"] {
        live.put(change);
        settle().await;
    }
    assert_eq!(received.take(), ["!a@1", "a@1>3", "-a@3", "+b@5"]);
}

/// For a reader that does not read, the pending updates of an object are merged into one.
#[tokio::test(start_paused = true)]
async fn in_4_a_slow_reader_delays_no_other_and_receives_the_newest_state() {
    let live = Live::new(&["a@1"]);
    let informer = started(&live).await;
    let mut slow = informer.changes().unwrap();
    assert_eq!(slow.next().await.as_ref().map(text).as_deref(), Some("!a@1"));
    let (quick, _) = add(&informer, HandlerOptions::default().overflow(Overflow::Grow));
    for version in 2..1000 {
        live.put(&format!("a@{version}"));
        live.put(&format!("b{}@{version}", version % 10));
    }
    settle().await;
    assert_eq!(quick.take().len(), 1 + 2 * 998);
    let received: Vec<_> =
        (0..5).filter_map(|_| slow.next().now_or_never().flatten()).map(|it| text(&it)).collect();
    assert_eq!(received, ["a@1>999", "+b2@2", "b2@2>992", "+b3@3", "b3@3>993"]);
    assert_eq!(slow.registration().lag().pending, 18, "two taken, and two of each of eight objects pending");
}

/// Backpressure as an option: the server waits for the slowest handler.
#[tokio::test(start_paused = true)]
async fn a_blocking_reader_stops_the_store_until_it_reads() {
    let live = Live::new(&[]);
    let informer = SharedInformer::builder(live.clone()).queue_capacity(1).build();
    let mut reader = informer.changes_with(HandlerOptions::default().overflow(Overflow::Block(2))).unwrap();
    informer.start();
    informer.synced().await.unwrap();
    for version in 2..100 {
        live.put(&format!("a@{version}"));
    }
    settle().await;
    assert_eq!(informer.last_sync_version().as_str(), "4", "three are pending, and two are allowed");
    // Other handlers can still be added and removed meanwhile.
    let (late, registration) = add(&informer, HandlerOptions::default());
    registration.synced().await.unwrap();
    assert_eq!(late.take(), ["!a@4"]);
    for _ in 2..100 {
        reader.next().await.expect("the informer goes on");
    }
    informer.wait_until(&"99".into()).await.unwrap();
    informer.stop().await;
}

#[tokio::test(start_paused = true)]
async fn in_8_removing_a_handler_while_changes_arrive_ends_its_calls_at_once() {
    let live = Live::new(&["a@1"]);
    let informer = started(&live).await;
    let (received, registration) = add(&informer, HandlerOptions::default());
    settle().await;
    live.put("a@2");
    settle().await;
    registration.remove();
    received.take();
    live.put("a@3");
    settle().await;
    assert_eq!(received.take(), Vec::<String>::new());
    registration.remove();
    informer.stop().await;
    registration.shut_down().await;
}

#[tokio::test(start_paused = true)]
async fn a_scoped_registration_removes_its_handler_when_it_is_dropped() {
    let live = Live::new(&["a@1"]);
    let informer = started(&live).await;
    let (received, registration) = add(&informer, HandlerOptions::default());
    let registration = registration.scoped();
    registration.synced().await.unwrap();
    assert_eq!(received.take(), ["!a@1"]);
    drop(registration);
    live.put("a@2");
    settle().await;
    assert_eq!(received.take(), Vec::<String>::new());
    informer.stop().await;
}

/// Ported from client-go: HandlerAbuse, on several threads.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn in_8_hundreds_of_handlers_can_be_added_and_removed_while_changes_arrive() {
    let live = Live::new(&["a@1"]);
    let informer = started(&live).await;
    let writing = tokio::spawn({
        let live = live.clone();
        async move {
            for version in 2..5_000u64 {
                live.put(&format!("a{}@{version}", version % 100));
                if version % 50 == 0 {
                    tokio::task::yield_now().await;
                }
            }
        }
    });
    let mut workers = tokio::task::JoinSet::new();
    for number in 0..100usize {
        let informer = informer.clone();
        workers.spawn(async move {
            for _ in 0..5 {
                let (_, registration) = add(&informer, HandlerOptions::default());
                registration.synced().await.expect("no other task removes the handler");
                if number % 2 == 0 { registration.remove() } else { registration.shut_down().await }
            }
        });
    }
    while let Some(done) = workers.join_next().await {
        done.expect("no worker panics");
    }
    writing.await.expect("the writer does not panic");
    informer.wait_until(&"4999".into()).await.unwrap();
    assert_eq!(informer.store().len(), 101);
    informer.stop().await;
}

#[tokio::test(start_paused = true)]
async fn in_14_an_informer_and_each_handler_have_metrics() {
    let recorder = DebuggingRecorder::new();
    let numbers = recorder.snapshotter();
    let _here = metrics::set_default_local_recorder(&recorder);
    let live = Live::new(&["a@1", "b@2"]);
    let informer = SharedInformer::builder(live.clone()).name("watch-dog").build();
    informer.add_handler_with(Recorder::default(), HandlerOptions::default().name("bark")).unwrap();
    informer.start();
    informer.synced().await.unwrap();
    live.put("c@7");
    settle().await;
    informer.stop().await;

    let numbers = numbers.snapshot().into_vec();
    let found = |name: &str| {
        let mut found = numbers.iter().filter(|(key, ..)| key.key().name() == name);
        let (key, _, _, value) = found.next().unwrap_or_else(|| panic!("there is no {name}"));
        assert!(found.next().is_none(), "{name} is there twice");
        let labels: Vec<_> = key.key().labels().map(|it| format!("{}={}", it.key(), it.value())).collect();
        (labels.join(","), format!("{value:?}"))
    };
    let labels = "name=watch-dog,group=,version=v1,resource=things".to_owned();
    assert_eq!(found("informer_queued_items").0, labels);
    assert_eq!(found("informer_processing_latency_seconds").0, labels);
    assert_eq!(found("informer_store_resource_version"), (labels.clone(), "Gauge(7.0)".to_owned()));
    let labels = format!("{labels},handler=bark");
    assert_eq!(found("informer_handler_pending_items"), (labels.clone(), "Gauge(0.0)".to_owned()));
    assert_eq!(found("informer_handler_latency_seconds").0, labels);
    assert_eq!(found("informer_handler_panics_total").0, labels);
}

#[tokio::test(start_paused = true)]
async fn the_version_of_several_namespaces_is_the_oldest_of_them() {
    let (one, two) = (Live::within(Some("one"), &["a@5"]), Live::within(Some("two"), &["a@3", "b@4"]));
    two.refuse(Some(Reason::Forbidden));
    let informer = SharedInformer::builder(one.clone()).add_source(two.clone()).build();
    let (received, registration) = add(&informer, HandlerOptions::default());
    informer.start();
    tokio::time::sleep(SECOND).await;
    assert!(!informer.is_synced() && !registration.is_synced());
    assert_eq!(received.take(), ["!one/a@5"], "known objects are delivered");
    assert!(informer.health().to_string().contains("Access Denied"), "{}", informer.health());
    let (late, _) = add(&informer, HandlerOptions::default());

    two.refuse(None);
    registration.synced().await.unwrap();
    assert_eq!(received.take(), ["!two/a@3", "!two/b@4"]);
    settle().await;
    assert_eq!(late.take(), ["!one/a@5", "!two/a@3", "!two/b@4"]);
    assert_eq!(informer.last_sync_version().as_str(), "4");
    one.put("b@9");
    settle().await;
    assert_eq!((informer.store().len(), informer.last_sync_version().as_str()), (4, "4"));
    two.bookmark(8);
    informer.wait_until(&"8".into()).await.unwrap();

    two.set(&["b@4", "c@10"]);
    two.expire();
    one.put("a@11");
    tokio::time::sleep(MINUTE).await;
    let mut all = received.take();
    all.sort();
    assert_eq!(
        all,
        ["+one/b@9", "+two/c@10", "one/a@5>11", "~two/a@3"],
        "the other namespace is not affected"
    );
    informer.stop().await;
}

#[test]
#[should_panic(expected = "a namespace of its own")]
fn two_sources_cannot_have_the_same_namespace() {
    let source = || Live::within(Some("one"), &[]);
    let _ = SharedInformer::builder(source()).add_source(source());
}

/// A caller that means "never" may pass the longest duration.
#[tokio::test(start_paused = true)]
async fn the_longest_durations_cause_no_overflow() {
    let live = Live::new(&["a@1"]);
    let builder = SharedInformer::builder(live.clone()).resync_every(Duration::MAX);
    let informer = builder.retry_not_served_after(Duration::MAX).reflector(|it| {
        let backoff = BackoffOptions::default().between(Duration::MAX, Duration::MAX);
        it.stall_after(Duration::MAX).min_watch_timeout(Duration::MAX).backoff(backoff)
    });
    let informer = informer.build();
    let (received, _) = add(&informer, HandlerOptions::default().resync_every(Duration::MAX));
    informer.start();
    informer.synced_within(Duration::MAX).await.expect("the informer syncs");
    live.put("a@2");
    informer.wait_until(&"2".into()).await.expect("the informer follows");
    live.refuse(Some(Reason::Forbidden));
    settle().await;
    assert!(matches!(informer.health().state, HealthState::Retrying { .. }), "{}", informer.health());
    informer.stop().await;
    assert_eq!(received.take(), ["!a@1", "a@1>2"]);

    let live = Live::new(&["a@1"]);
    let informer = SharedInformer::builder(live.clone()).retry_not_served_after(Duration::MAX).build();
    informer.start();
    informer.synced().await.expect("the informer syncs");
    live.refuse(Some(Reason::NotFound));
    tokio::time::sleep(5 * MINUTE).await;
    assert_eq!(informer.health().state, HealthState::NotServed);
    informer.stop().await;
}
