//! Bounds: slow watchers, long feeds and large histories.

use std::time::Duration;

use serde_json::Value;

use super::{Maps, Newest, Seen, in_protobuf, map, request};
use crate::mirror::{ListMemory, MirrorEvent, MirrorEventType, MirrorSettings, View};

fn settings(change: impl FnOnce(&mut MirrorSettings)) -> MirrorSettings {
    let mut settings = MirrorSettings::default();
    change(&mut settings);
    settings
}

/// Applies this many changes to one object, and returns the last version.
fn churn(maps: &Maps, first: u64, count: u64) -> u64 {
    for version in first..first + count {
        let event = MirrorEvent::new(MirrorEventType::Modified, in_protobuf(&map("a", version, "red")));
        maps.mirror.apply(&event).expect("the event is newer");
    }
    first + count - 1
}

#[tokio::test(start_paused = true)]
async fn a_watcher_that_falls_behind_the_history_gets_410() {
    for settings in [settings(|it| it.history_changes = 100), settings(|it| it.history_bytes = 256 << 10)] {
        let maps = Maps::with(settings);
        maps.replace(10, &[map("a", 5, "red")]);
        let mut slow = maps.watch("resourceVersion=10").await;
        assert_eq!(slow.now(), []);
        let last = churn(&maps, 11, 5_000);
        assert_eq!(slow.now(), [Seen::Error(410), Seen::End]);
        let mut fast = maps.watch(&format!("resourceVersion={last}")).await;
        churn(&maps, last + 1, 1);
        assert!(matches!(fast.now()[..], [Seen::Modified(_)]));
    }
}

#[tokio::test(start_paused = true)]
async fn the_memory_of_a_mirror_is_bounded_after_many_changes() {
    let maps = Maps::with(settings(|it| {
        it.history_changes = 1_000;
        it.history_bytes = 1 << 20;
    }));
    maps.replace(10, &[map("a", 5, "red")]);
    let before = maps.mirror.usage();
    churn(&maps, 11, 20_000);
    let after = maps.mirror.usage();
    assert!(after.changes <= 1_000 && after.history_bytes <= 1 << 20, "{after:?}");
    assert!(after.changes >= 100, "{after:?}");
    assert_eq!((after.objects, after.watches), (1, 0));
    assert!(after.bytes <= 2 * before.bytes, "{before:?} {after:?}");
}

#[tokio::test(start_paused = true)]
async fn changes_are_dropped_when_they_are_old() {
    let maps = Maps::with(settings(|it| it.history_age = Duration::from_secs(60)));
    maps.replace(10, &[map("a", 5, "red")]);
    let last = churn(&maps, 11, 10);
    assert_eq!(maps.mirror.usage().changes, 10);
    tokio::time::advance(Duration::from_secs(70)).await;
    maps.mirror.advance(last + 5).expect("newer");
    tokio::time::advance(Duration::from_secs(70)).await;
    maps.mirror.advance(last + 9).expect("newer");
    assert_eq!(maps.mirror.usage().changes, 0);
    // Nothing has happened since, so a client of a quiet collection does not have to list again.
    assert_eq!(maps.watch(&format!("resourceVersion={last}")).await.now(), []);
    assert_eq!(maps.watch("resourceVersion=15").await.now(), [Seen::Error(410), Seen::End]);
}

#[tokio::test(start_paused = true)]
async fn usage_counts_objects_and_open_watches() {
    let maps = Maps::listed(10, &["a", "b", "c"].map(|it| map(it, 5, "red")));
    let watches = [maps.watch("").await, maps.watch("").await];
    let usage = maps.mirror.usage();
    assert_eq!((usage.objects, usage.watches, usage.changes), (3, 2, 0));
    drop(watches);
    maps.replace(20, &[map("a", 5, "red")]);
    let less = maps.mirror.usage();
    assert_eq!((less.objects, less.watches, less.changes), (1, 0, 2));
    assert!(less.bytes < usage.bytes / 2 && less.bytes > 0, "{usage:?} {less:?}");
    maps.mirror.reset();
    assert_eq!(maps.mirror.usage().objects, 0);
}

/// A list of what the mirror has already shares its objects.
#[tokio::test(start_paused = true)]
async fn an_unchanged_list_is_not_held_twice_and_has_no_events() {
    let objects = ["a", "b"].map(|it| map(it, 5, "red"));
    let maps = Maps::listed(10, &objects);
    let mut watching = maps.watch("resourceVersion=10").await;
    let before = maps.mirror.usage();
    maps.replace(20, &objects);
    assert_eq!(
        (maps.mirror.usage(), watching.now()),
        (crate::mirror::MirrorUsage { watches: 1, ..before }, vec![])
    );
}

/// Config maps of 32 KiB, of which every hundredth is red, each tenth in the namespace `small`.
fn large(count: usize) -> Vec<Value> {
    let object = |number: usize| {
        let colour = if number.is_multiple_of(100) { "red" } else { "blue" };
        let mut object = map(&format!("o{number:04}"), 5, colour);
        object["data"]["text"] = "x".repeat(32 << 10).into();
        if number.is_multiple_of(10) {
            object["metadata"]["namespace"] = "small".into();
        }
        object
    };
    (0..count).map(object).collect()
}

/// Regression test: the share of a list was that of the whole collection, so that a few lists of a
/// large collection kept all others waiting, and with `resourceVersion=0` that of a page, although
/// the limit is ignored.
#[tokio::test(start_paused = true)]
async fn a_list_takes_the_memory_of_what_it_selects() {
    const MEMORY: usize = 4 << 20;
    let memory = ListMemory::new(MEMORY, Duration::from_secs(10));
    let maps = Maps::with(settings(|it| it.list_memory = Some(memory.clone())));
    maps.replace(10, &large(400));
    let all = "/api/v1/configmaps";
    for (path, accept, most) in [
        (format!("{all}?labelSelector=colour%3Dred"), "application/json", 500 << 10),
        (format!("{all}?fieldSelector=metadata.name%3Do0007"), "application/yaml", 200 << 10),
        ("/api/v1/namespaces/small/configmaps?limit=2".to_owned(), "application/yaml", 300 << 10),
        // It is encoded while it is sent.
        (all.to_owned(), "application/json", 300 << 10),
        // More than a quarter, which no list gets.
        (all.to_owned(), "application/yaml", MEMORY / 4),
        (format!("{all}?limit=1&resourceVersion=0"), "application/yaml", MEMORY / 4),
    ] {
        let response = maps.mirror.respond(request(&path, accept), View::unchanged(), &Newest(10)).await;
        assert_eq!(response.status(), 200, "{path}");
        let taken = MEMORY - memory.available();
        assert!(taken > 0 && taken <= most, "{path} takes {taken} bytes");
        assert_eq!(taken == MEMORY / 4, most == MEMORY / 4, "{path} takes {taken} bytes");
        drop(response);
        assert_eq!(memory.available(), MEMORY, "{path}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_list_without_memory_waits_for_it_and_small_ones_are_answered() {
    let memory = ListMemory::new(4 << 20, Duration::from_secs(10));
    let maps = Maps::with(settings(|it| it.list_memory = Some(memory.clone())));
    maps.replace(10, &large(400));
    let list = async |path: &str| {
        let request = request(path, "application/yaml");
        maps.mirror.respond(request, View::unchanged(), &Newest(10)).await
    };
    let (all, small) = ("/api/v1/configmaps", "/api/v1/configmaps?labelSelector=colour%3Dred");
    let mut open = Vec::new();
    for path in [all, small, all, small, all] {
        open.push(list(path).await);
    }
    assert!(open.iter().all(|it| it.status() == 200));
    let refused = list(all).await;
    let retry_after = refused.headers().get("retry-after").map(|it| it.to_str().unwrap());
    assert_eq!((refused.status().as_u16(), retry_after), (429, Some("1")));
    let release = async {
        tokio::time::sleep(Duration::from_secs(5)).await;
        open.clear();
    };
    let (answered, ()) = tokio::join!(list(all), release);
    assert_eq!(answered.status(), 200);
}

/// The memory of an idle watch, without its connection.
#[tokio::test(start_paused = true)]
async fn an_idle_watch_costs_little() {
    let maps = Maps::listed(10, &[map("a", 5, "red")]);
    let mut watches = Vec::with_capacity(100);
    let used = allocation_counter::measure(|| {
        for _ in 0..100 {
            let watching =
                futures_util::FutureExt::now_or_never(maps.watch("resourceVersion=10&allowWatchBookmarks=1"));
            let mut watching = watching.expect("it starts at once");
            assert_eq!(watching.now(), []);
            watches.push(watching);
        }
    });
    // Including the decoder of the test.
    assert!(used.bytes_current / 100 < 6 * 1024, "{} bytes", used.bytes_current / 100);
}

/// Regression test: a list of many objects takes its time to be fed, and meanwhile the version of
/// the mirror could not be read, on which every request depends.
#[test]
fn readers_do_not_wait_for_the_writer() {
    let maps = Maps::listed(10, &[map("a", 5, "red")]);
    let mirror = maps.mirror.clone();
    let (sender, read) = std::sync::mpsc::channel();
    let read = maps.mirror.while_written(|| {
        std::thread::spawn(move || {
            mirror.confirm(10, 12);
            let _ = sender.send((mirror.version(), mirror.known_version(), mirror.usage().objects));
        });
        read.recv_timeout(Duration::from_secs(60))
    });
    assert_eq!(read, Ok((Some(10), Some(12), 1)));
}

/// A list of many changes is written aside. What was confirmed meanwhile stays known.
#[tokio::test(start_paused = true)]
async fn a_long_list_of_changes_is_written_like_a_short_one() {
    for count in [1, 63, 64, 1_000] {
        let object = |number: u64, version: u64| map(&format!("o{number:04}"), version, "red");
        let maps = Maps::listed(10, &Vec::from_iter((0..count).map(|it| object(it, 5))));
        maps.mirror.confirm(10, 15);
        let mut watching = maps.watch("resourceVersion=10").await;
        assert_eq!(watching.now(), []);
        maps.replace(2_000, &Vec::from_iter((0..count).map(|it| object(it, 20 + it))));
        let seen: Vec<_> = (0..count).map(|it| Seen::Modified(object(it, 20 + it))).collect();
        assert_eq!(watching.now(), seen);
        let confirmed = "/api/v1/configmaps?resourceVersion=15&resourceVersionMatch=Exact&limit=1";
        let page = maps.get(confirmed).await.json();
        assert_eq!(page["items"][0], object(0, 5), "{count}");
        let gap = maps.get("/api/v1/configmaps?resourceVersion=16&resourceVersionMatch=Exact").await;
        assert_eq!(gap.code, 410, "{count}");
    }
}

/// The objects that train the dictionary are not compressed, and all later ones are.
#[cfg(feature = "zstd")]
#[tokio::test(start_paused = true)]
async fn objects_that_are_not_in_use_are_compressed_and_clients_do_not_notice() {
    let object = |number: u64, version: u64| {
        let mut object = map(&format!("o{number:04}"), version, "red");
        for key in 0..80 {
            object["data"][format!("key-{key}")] =
                format!("a value that many have {}", key * number % 7).into();
        }
        object
    };
    let objects: Vec<_> = (0..1_000).map(|it| object(it, 5)).collect();
    let length = objects[0].to_string().len();
    let maps = Maps::new();
    let replace = |version, count: usize| {
        let listed = objects[..count].iter().map(in_protobuf).collect();
        maps.mirror.replace(version, listed).expect("they are stored");
        maps.mirror.usage()
    };
    // The dictionary of the first list compresses all objects of the second one.
    replace(5, 300);
    maps.mirror.reset();
    let usage = replace(10, 1_000);
    let each = usage.bytes / 1_000;
    assert!(each < length / 2, "{each} of {length} bytes for each object");

    let list = maps.get("/api/v1/configmaps").await.json();
    assert_eq!(list["items"].as_array().expect("a list").len(), 1_000);
    assert_eq!(list["items"][900]["data"], objects[900]["data"]);
    let mut watching = maps.watch("resourceVersion=10").await;
    let mut slow = maps.watch("resourceVersion=10").await;
    maps.apply(MirrorEventType::Modified, &object(900, 11));
    assert_eq!(watching.now(), [Seen::Modified(object(900, 11))]);
    // Another watch sends it when it is closed again.
    tokio::time::advance(Duration::from_secs(60)).await;
    maps.mirror.advance(12).expect("newer");
    assert_eq!(slow.now(), [Seen::Modified(object(900, 11))]);
    maps.apply(MirrorEventType::Deleted, &object(901, 13));
    assert_eq!(watching.now(), [Seen::Deleted(object(901, 13))]);
    assert!(maps.mirror.usage().bytes <= usage.bytes + 1024, "{usage:?}");
}
