//! The resource versions that requests may ask for.

use std::time::Duration;

use serde_json::{Value, json};

use super::{Maps, Newest, Seen, Watching, map, request};
use crate::ApiError;
use crate::mirror::{
    Freshness, MirrorError, MirrorEvent, MirrorEventType, MirrorObject, Pending, View, is_mirror_token,
};

const LIST: &str = "/api/v1/configmaps";

/// The mirror has seen 10 to 12, listed 20 after a gap, and seen 21.
fn with_history() -> Maps {
    let maps = Maps::listed(10, &[map("a", 5, "red")]);
    maps.apply(MirrorEventType::Added, &map("b", 12, "red"));
    maps.replace(20, &[map("b", 12, "red"), map("c", 15, "red")]);
    maps.apply(MirrorEventType::Modified, &map("c", 21, "blue"));
    maps
}

/// Queries of lists: the code, and the names and the version of the list.
#[tokio::test(start_paused = true)]
async fn lists_have_the_version_that_kube_apiserver_would_give_them() {
    let maps = with_history();
    for (query, newest, expected) in [
        // Without a version, a list shows everything up to the newest one of the server.
        ("", 21, (200, vec!["b", "c"], 21)),
        ("", 22, (504, vec![], 0)),
        ("resourceVersion=0", 22, (200, vec!["b", "c"], 21)),
        ("resourceVersion=15", 22, (200, vec!["b", "c"], 21)),
        ("resourceVersion=21&resourceVersionMatch=NotOlderThan", 22, (200, vec!["b", "c"], 21)),
        ("resourceVersion=22", 22, (504, vec![], 0)),
        ("resourceVersion=10&resourceVersionMatch=Exact", 22, (200, vec!["a"], 10)),
        ("resourceVersion=11&resourceVersionMatch=Exact", 22, (200, vec!["a"], 11)),
        ("resourceVersion=12&resourceVersionMatch=Exact", 22, (200, vec!["a", "b"], 12)),
        ("resourceVersion=20&resourceVersionMatch=Exact", 22, (200, vec!["b", "c"], 20)),
        // The mirror did not see what happened between 12 and 20, and knows nothing before 10.
        ("resourceVersion=15&resourceVersionMatch=Exact", 22, (410, vec![], 0)),
        ("resourceVersion=9&resourceVersionMatch=Exact", 22, (410, vec![], 0)),
        ("resourceVersion=22&resourceVersionMatch=Exact", 22, (504, vec![], 0)),
        ("resourceVersionMatch=Exact", 22, (422, vec![], 0)),
        ("resourceVersion=x", 22, (400, vec![], 0)),
    ] {
        let reply = maps.ask(&format!("{LIST}?{query}"), "application/json", View::unchanged(), newest).await;
        let (names, version) = match reply.code {
            200 => (reply.names(), reply.version()),
            _ => (Vec::new(), 0),
        };
        assert_eq!((reply.code, names.iter().map(String::as_str).collect(), version), expected, "{query}");
        if reply.code == 504 {
            assert_eq!(reply.retry_after.as_deref(), Some("1"), "{query}");
            assert_eq!(reply.json()["details"]["causes"][0]["reason"], "ResourceVersionTooLarge", "{query}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn reads_of_one_object_wait_for_their_version() {
    let maps = with_history();
    for (query, newest, expected) in [
        ("", 21, 200),
        ("", 22, 504),
        ("resourceVersion=0", 22, 200),
        ("resourceVersion=21", 22, 200),
        ("resourceVersion=22", 22, 504),
        ("resourceVersion=x", 22, 500),
    ] {
        let path = format!("/api/v1/namespaces/default/configmaps/c?{query}");
        let reply = maps.ask(&path, "application/json", View::unchanged(), newest).await;
        assert_eq!(reply.code, expected, "{query}");
        if expected == 200 {
            assert_eq!(reply.json(), map("c", 21, "blue"));
        }
    }
    assert_eq!(maps.get("/api/v1/namespaces/default/configmaps/a").await.code, 404);
}

/// Queries of watches: what they send at once.
#[tokio::test(start_paused = true)]
async fn watches_start_where_kube_apiserver_would_start_them() {
    let maps = with_history();
    let (b, c) = (map("b", 12, "red"), map("c", 21, "blue"));
    let initial = vec![Seen::Added(b.clone()), Seen::Added(c.clone())];
    // The list at 20 shows that "a" is gone and "c" is new. The version of the deletion is one from
    // which the client can resume and get the rest of that list.
    let mut gone = map("a", 12, "red");
    gone["metadata"]["resourceVersion"] = "12".into();
    let listed = vec![Seen::Deleted(gone), Seen::Added(map("c", 15, "red"))];
    let changed = vec![Seen::Modified(c)];
    let both = [listed.clone(), changed.clone()].concat();
    let list = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=1";
    let older = format!("{list}&resourceVersion=15");
    let older = older.as_str();
    let with_bookmark = [initial.clone(), vec![Seen::Bookmark(21, true)]].concat();
    for (query, expected) in [
        ("", initial.clone()),
        ("resourceVersion=0", initial),
        (list, with_bookmark.clone()),
        (older, with_bookmark),
        ("sendInitialEvents=false&resourceVersionMatch=NotOlderThan", vec![]),
        ("resourceVersion=10", [vec![Seen::Added(b)], both.clone()].concat()),
        ("resourceVersion=12", both),
        ("resourceVersion=20", changed),
        ("resourceVersion=21", vec![]),
        ("resourceVersion=15", vec![Seen::Error(410), Seen::End]),
        ("resourceVersion=9", vec![Seen::Error(410), Seen::End]),
    ] {
        assert_eq!(maps.watch(query).await.now(), expected, "{query}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_from_a_future_version_waits_for_it_and_then_gets_410() {
    let maps = with_history();
    let mut ahead = maps.watch("resourceVersion=30").await;
    assert_eq!(ahead.now(), []);
    maps.apply(MirrorEventType::Added, &map("d", 30, "red"));
    maps.apply(MirrorEventType::Added, &map("e", 31, "red"));
    assert_eq!(ahead.next().await, [Seen::Added(map("e", 31, "red"))]);
    let mut never = maps.watch("resourceVersion=99").await;
    assert_eq!(never.next().await, [Seen::Error(410)]);
}

/// A mirror that is reset while a read waits for the newest version.
struct Resetting(crate::mirror::Mirror);

impl Freshness for Resetting {
    fn newest(&self) -> Pending<'_, Result<u64, ApiError>> {
        self.0.reset();
        Box::pin(std::future::ready(Ok(0)))
    }

    fn watch_wait(&self) -> Option<Duration> {
        Some(Duration::from_secs(90))
    }
}

#[tokio::test(start_paused = true)]
async fn a_mirror_that_is_reset_during_a_read_is_not_empty() {
    for (path, expected) in [
        ("/api/v1/namespaces/default/configmaps/c", 429),
        (LIST, 429),
        ("/api/v1/configmaps?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan", 200),
    ] {
        let maps = with_history();
        let resetting = Resetting(maps.mirror.clone());
        let request = request(path, "application/json");
        let response = maps.mirror.respond(request, View::unchanged(), &resetting).await;
        assert_eq!(response.status(), expected, "{path}");
        if expected == 200 {
            let mut watching = Watching::of(response);
            assert_eq!(watching.now(), [Seen::Error(429), Seen::End]);
        }
    }
}

/// The other server has the version, and reports it with its next bookmark.
#[tokio::test(start_paused = true)]
async fn a_watch_waits_longer_for_a_version_that_is_known_to_exist() {
    let maps = with_history();
    let resetting = Resetting(maps.mirror.clone());
    let request = request("/api/v1/configmaps?watch=1&resourceVersion=30", "application/json");
    let mut watching = Watching::of(maps.mirror.respond(request, View::unchanged(), &resetting).await);
    assert_eq!(watching.now(), []);
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(watching.now(), []);
    maps.mirror.advance(30).expect("newer");
    maps.apply(MirrorEventType::Added, &map("e", 31, "red"));
    assert_eq!(watching.next().await, [Seen::Added(map("e", 31, "red"))]);
}

#[tokio::test(start_paused = true)]
async fn a_consistent_read_waits_until_the_mirror_has_the_newest_version() {
    let maps = with_history();
    let newest = Newest(22);
    let waiting = maps.mirror.respond(request(LIST, "application/json"), View::unchanged(), &newest);
    let advance = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        maps.mirror.advance(22).expect("newer");
    };
    let (response, ()) = tokio::join!(waiting, advance);
    assert_eq!(response.status(), 200);
}

#[tokio::test(start_paused = true)]
async fn bookmarks_follow_the_bookmarks_of_the_server() {
    let maps = with_history();
    let mut watching = maps.watch("resourceVersion=21&allowWatchBookmarks=1").await;
    assert_eq!(watching.now(), []);
    maps.mirror.advance(40).expect("newer");
    assert_eq!(watching.next().await, [Seen::Bookmark(40, false)]);
    // Nothing was missed up to there, so a client can resume there.
    assert_eq!(maps.watch("resourceVersion=40").await.now(), []);
    assert_eq!(maps.get(&format!("{LIST}?resourceVersion=30&resourceVersionMatch=Exact")).await.code, 200);
}

#[tokio::test(start_paused = true)]
async fn a_mirror_without_a_list_rejects_requests_until_there_is_one() {
    let maps = Maps::new();
    let refused = async || {
        let reply = maps.get(LIST).await;
        assert_eq!((reply.code, reply.retry_after.as_deref()), (429, Some("1")));
        assert_eq!(maps.mirror.version(), None);
    };
    refused().await;
    let early = MirrorEvent::new(MirrorEventType::Added, MirrorObject::from_value(&map("a", 5, "red")));
    assert!(matches!(maps.mirror.apply(&early), Err(MirrorError::NotListed { fed: 5, .. })));
    maps.replace(10, &[map("a", 5, "red")]);
    let mut watching = maps.watch("resourceVersion=10").await;
    assert_eq!(watching.now(), []);
    maps.mirror.reset();
    assert_eq!(watching.now(), [Seen::Error(410), Seen::End]);
    refused().await;
    // The server was restored from a backup.
    maps.replace(7, &[map("b", 6, "red")]);
    assert_eq!((maps.get(LIST).await.names(), maps.mirror.version()), (vec!["b".to_owned()], Some(7)));
    assert_eq!(maps.watch("resourceVersion=6").await.now(), [Seen::Error(410), Seen::End]);
}

#[tokio::test(start_paused = true)]
async fn a_feed_that_goes_backwards_is_refused_and_changes_nothing() {
    let maps = with_history();
    let object = |name: &str, version: u64| MirrorObject::from_value(&map(name, version, "red"));
    let event = |name: &str, version| MirrorEvent::new(MirrorEventType::Modified, object(name, version));
    let backwards =
        |it: Result<(), MirrorError>| matches!(it, Err(MirrorError::Backwards { current: 21, .. }));
    assert!(backwards(maps.mirror.advance(20)));
    assert!(backwards(maps.mirror.apply(&event("c", 20))));
    assert!(backwards(maps.mirror.replace(20, vec![])));
    // A list at the same version has the same content, and a newer one has no older changes.
    assert!(backwards(maps.mirror.replace(21, vec![])));
    assert!(backwards(maps.mirror.replace(30, vec![object("c", 21), object("new", 4)])));
    assert_eq!(maps.mirror.apply(&event("c", 21)), Ok(()), "the same event again");
    assert_eq!(maps.get(LIST).await.json()["items"][1]["data"]["colour"], "blue");
    assert_eq!(maps.mirror.version(), Some(21));
}

/// etcd deletes the objects of an expired lease in one transaction, and so at one version.
#[tokio::test(start_paused = true)]
async fn several_objects_may_be_deleted_at_one_version() {
    let maps = Maps::listed(10, &[map("a", 5, "red"), map("b", 6, "red"), map("c", 7, "red")]);
    let mut watching = maps.watch("resourceVersion=10").await;
    for name in ["a", "b"] {
        maps.apply(MirrorEventType::Deleted, &map(name, 11, "red"));
        assert_eq!(watching.now(), [Seen::Deleted(map(name, 11, "red"))]);
    }
    assert_eq!(maps.get(LIST).await.names(), ["c"]);
}

/// A client that has seen only some of the deletions that a list shows, and resumes, gets all of
/// them.
#[tokio::test(start_paused = true)]
async fn a_watch_can_resume_between_the_deletions_of_a_list() {
    let maps = Maps::listed(10, &[map("a", 5, "red"), map("b", 6, "red"), map("c", 7, "red")]);
    let mut watching = maps.watch("resourceVersion=10").await;
    maps.replace(20, &[]);
    let seen = watching.now();
    let versions: Vec<_> = seen
        .iter()
        .map(|it| match it {
            Seen::Deleted(object) => super::version_of(object),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(versions, [10, 10, 20]);
    assert_eq!(maps.watch("resourceVersion=10").await.now(), seen);
    assert_eq!(maps.watch("resourceVersion=20").await.now(), []);
}

#[tokio::test(start_paused = true)]
async fn pages_are_at_one_version_and_tokens_of_the_server_are_told_apart() {
    let maps = Maps::listed(10, &["a", "b", "c"].map(|it| map(it, 5, "red")));
    let first = maps.get(&format!("{LIST}?limit=2")).await.json();
    let token = first["metadata"]["continue"].as_str().expect("a token").to_owned();
    assert_eq!((&first["metadata"]["remainingItemCount"], is_mirror_token(&token)), (&json!(1), true));
    maps.apply(MirrorEventType::Deleted, &map("c", 11, "red"));
    let second = maps.get(&format!("{LIST}?limit=2&continue={token}")).await;
    assert_eq!((second.names(), second.version()), (vec!["c".to_owned()], 10));
    let foreign = json!({ "v": "meta.k8s.io/v1", "rv": 10, "start": "default/b\u{0}" }).to_string();
    let foreign = base64::Engine::encode(&base64::engine::general_purpose::URL_SAFE_NO_PAD, foreign);
    assert!(!is_mirror_token(&foreign));
    let refused = maps.get(&format!("{LIST}?limit=2&continue={foreign}")).await;
    assert_eq!((refused.code, &refused.json()["metadata"]), (410, &Value::Object(serde_json::Map::new())));
}

/// Other resources of the server have changed up to 30, and a comparison has shown that these maps
/// have not.
fn confirmed() -> Maps {
    let maps = with_history();
    maps.mirror.confirm(20, 29);
    assert_eq!(maps.mirror.known_version(), Some(21), "it was about an earlier state");
    maps.mirror.confirm(21, 30);
    assert_eq!((maps.mirror.version(), maps.mirror.known_version()), (Some(21), Some(30)));
    maps
}

#[tokio::test(start_paused = true)]
async fn reads_are_at_the_version_at_which_the_state_is_known() {
    let maps = confirmed();
    for (query, expected) in [
        ("", (200, 30)),
        ("resourceVersion=0", (200, 30)),
        ("resourceVersion=25", (200, 30)),
        ("resourceVersion=30&resourceVersionMatch=Exact", (200, 30)),
        ("resourceVersion=21&resourceVersionMatch=Exact", (200, 21)),
        // An object may have come and gone.
        ("resourceVersion=25&resourceVersionMatch=Exact", (504, 0)),
        ("resourceVersion=31", (504, 0)),
    ] {
        let reply = maps.ask(&format!("{LIST}?{query}"), "application/json", View::unchanged(), 30).await;
        let version = if reply.code == 200 { reply.version() } else { 0 };
        assert_eq!((reply.code, version), expected, "{query}");
    }
    let one = "/api/v1/namespaces/default/configmaps/c";
    assert_eq!(maps.ask(one, "application/json", View::unchanged(), 30).await.code, 200);
    let list = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=1";
    let path = format!("/api/v1/configmaps?watch=1&{list}");
    let request = request(&path, "application/json");
    let mut watching = Watching::of(maps.mirror.respond(request, View::unchanged(), &Newest(30)).await);
    assert_eq!(watching.now().last(), Some(&Seen::Bookmark(30, true)));
}

/// An object came and went before the comparison, and its events arrive after it.
#[tokio::test(start_paused = true)]
async fn a_watch_from_a_known_version_gets_only_later_changes() {
    let maps = confirmed();
    let mut from_before = maps.watch("resourceVersion=21&allowWatchBookmarks=1").await;
    let mut between = maps.watch("resourceVersion=25").await;
    let mut known = maps.watch("resourceVersion=30").await;
    let mut initial = maps.watch("").await;
    assert_eq!(initial.now().len(), 2);
    for watching in [&mut from_before, &mut between, &mut known] {
        assert_eq!(watching.now(), []);
    }
    let (short, gone) = (map("short", 24, "red"), map("short", 30, "red"));
    maps.apply(MirrorEventType::Added, &short);
    assert_eq!((maps.mirror.version(), maps.mirror.known_version()), (Some(24), Some(30)));
    for query in ["", "?resourceVersion=0", "?resourceVersion=30"] {
        let path = format!("{LIST}{query}");
        let newest = maps.ask(&path, "application/json", View::unchanged(), 30).await;
        assert_eq!((newest.version(), newest.names()), (30, vec!["b".to_owned(), "c".to_owned()]), "{path}");
    }
    let gone_since = "/api/v1/namespaces/default/configmaps/short";
    assert_eq!(maps.ask(gone_since, "application/json", View::unchanged(), 30).await.code, 404);
    maps.apply(MirrorEventType::Deleted, &gone);
    assert_eq!(from_before.now(), [Seen::Added(short), Seen::Deleted(gone.clone())]);
    // This client has seen the addition elsewhere.
    assert_eq!(between.now(), [Seen::Deleted(gone)]);
    assert_eq!((known.now(), initial.now()), (vec![], vec![]));
    let later = map("later", 31, "red");
    maps.apply(MirrorEventType::Added, &later);
    for watching in [&mut from_before, &mut between, &mut known, &mut initial] {
        assert_eq!(watching.now(), [Seen::Added(later.clone())]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_known_version_is_forgotten_when_the_mirror_begins_again() {
    let maps = confirmed();
    maps.mirror.reset();
    maps.mirror.confirm(21, 40);
    assert_eq!(maps.mirror.known_version(), None);
    maps.replace(21, &[map("other", 9, "red")]);
    assert_eq!(maps.mirror.known_version(), Some(21));
}

#[tokio::test(start_paused = true)]
async fn pages_of_a_known_version_have_that_version_also_after_the_next_change() {
    let maps = confirmed();
    let first = maps.ask(&format!("{LIST}?limit=1"), "application/json", View::unchanged(), 30).await;
    let token = first.json()["metadata"]["continue"].as_str().expect("a token").to_owned();
    maps.apply(MirrorEventType::Deleted, &map("c", 33, "red"));
    let second = maps.get(&format!("{LIST}?limit=1&continue={token}")).await;
    assert_eq!((first.version(), second.version(), second.names()), (30, 30, vec!["c".to_owned()]));
}

/// Regression test: while a client read page after page of a quiet collection, others listed it,
/// and each of their lists confirmed a later version. The next page got 504.
#[tokio::test(start_paused = true)]
async fn pages_are_read_while_later_versions_are_confirmed() {
    let maps = confirmed();
    let first = maps.ask(&format!("{LIST}?limit=1"), "application/json", View::unchanged(), 30).await;
    let token = first.json()["metadata"]["continue"].as_str().expect("a token").to_owned();
    for version in [31, 35, 52] {
        maps.mirror.confirm(21, version);
        let newest = maps.ask(LIST, "application/json", View::unchanged(), version).await;
        assert_eq!((newest.code, newest.version()), (200, version));
        let second = maps.get(&format!("{LIST}?limit=1&continue={token}")).await;
        assert_eq!((second.version(), second.names()), (30, vec!["c".to_owned()]), "{version}");
    }
    // The page is still known when the mirror has listed again, and did not see what came between.
    maps.replace(60, &[map("b", 12, "red")]);
    let second = maps.get(&format!("{LIST}?limit=1&continue={token}")).await;
    assert_eq!((second.version(), second.names()), (30, vec!["c".to_owned()]));
}

/// Regression test: a client had seen an object at another replica, and watched from a version
/// between that of the mirror and the confirmed one. The object was deleted before the latter, the
/// mirror listed again, and the client kept the object forever.
#[tokio::test(start_paused = true)]
async fn a_watch_from_a_version_between_two_confirmed_ones_misses_no_deletion() {
    for (at_version, objects) in
        [(40, vec![map("b", 12, "red"), map("c", 21, "blue")]), (41, vec![map("b", 12, "red")])]
    {
        let maps = confirmed();
        let mut between = maps.watch("resourceVersion=25").await;
        let mut known = maps.watch("resourceVersion=30").await;
        assert_eq!((between.now(), known.now()), (vec![], vec![]));
        // An object that existed from 24 to 28 is not in it.
        maps.replace(at_version, &objects);
        assert_eq!(between.now(), [Seen::Error(410), Seen::End], "{at_version}");
        // The state at 30 is known, and so are the differences.
        assert_eq!(known.now().len(), 2 - objects.len());
        maps.apply(MirrorEventType::Added, &map("later", 50, "red"));
        assert_eq!(known.now(), [Seen::Added(map("later", 50, "red"))]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_page_of_a_version_that_another_mirror_has_seen_gets_410() {
    let (ahead, behind) = (confirmed(), with_history());
    let first = ahead.ask(&format!("{LIST}?limit=1"), "application/json", View::unchanged(), 30).await;
    let token = first.json()["metadata"]["continue"].as_str().expect("a token").to_owned();
    let refused = behind.get(&format!("{LIST}?limit=1&continue={token}")).await;
    assert_eq!(refused.code, 410);
    // As in kube-apiserver, with a token for the rest at another version.
    let rest = refused.json()["metadata"]["continue"].as_str().expect("a token").to_owned();
    let second = behind.get(&format!("{LIST}?limit=1&continue={rest}")).await;
    assert_eq!((second.version(), second.names()), (21, vec!["c".to_owned()]));
}
