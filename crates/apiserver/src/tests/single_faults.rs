//! Each fault by itself, as a client sees it: over a pipe with HTTP/1.1 and HTTP/2, and by direct
//! calls.

use std::sync::Arc;
use std::time::Duration;

use crate::ApiServer;
use crate::auth::{Anonymous, Authenticator};
use crate::controllers::Controllers;
use crate::faults::{Rule, Scope};
use crate::http::{Service, Settings};
use http::{Method, Request};
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::tests::requests::{ConnectionCut, Reply, Transport, WatchItem, WatchReader, version};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const WATCH: &str = "/api/v1/namespaces/default/configmaps?watch=true";

async fn server() -> ApiServer {
    let server = ApiServer::builder().in_process().seed(1).controllers(Controllers::none());
    server.start().await.expect("the server starts")
}

fn transports(server: &ApiServer) -> [Transport; 3] {
    [Transport::direct(server), Transport::wire(server, false), Transport::wire(server, true)]
}

async fn create(transport: &Transport, name: &str) -> Result<Reply, ConnectionCut> {
    let map = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name } });
    transport.send(Method::POST, MAPS, Some(&map)).await
}

/// Creates a config map, which must succeed, and returns its version.
async fn created(transport: &Transport, name: &str) -> u64 {
    let reply = create(transport, name).await.expect("a reply");
    assert_eq!(reply.code, 201, "{}", reply.body);
    version(&reply.body)
}

async fn watch_from(transport: &Transport, version: u64, options: &str) -> WatchReader {
    let path = format!("{WATCH}&resourceVersion={version}{options}");
    transport.watch(&path).await.expect("a reply").expect("accepted")
}

fn event(kind: &str, name: &str) -> (String, String) {
    (kind.to_owned(), name.to_owned())
}

#[tokio::test(start_paused = true)]
async fn a_rejected_request_has_retry_after_and_was_not_executed() {
    let server = server().await;
    for transport in transports(&server) {
        let rule = Rule::on("create").resource("configmaps").namespace("default").times(1);
        let busy = server.faults().rule(rule.refuse(429).retry_after(7)).scoped();
        let rejected = create(&transport, "a").await.expect("a reply");
        assert_eq!((rejected.code, rejected.retry_after.as_deref()), (429, Some("7")));
        assert_eq!(rejected.body["reason"], "TooManyRequests");
        assert_eq!(rejected.body["details"]["retryAfterSeconds"], 7);
        assert_eq!(busy.fired(), 1);
        created(&transport, "a").await;
        let broken = server.faults().rule(Rule::on("delete").refuse(500).message("no disk")).scoped();
        let path = format!("{MAPS}/a");
        let rejected = transport.send(Method::DELETE, &path, None).await.expect("a reply");
        assert_eq!((rejected.code, &rejected.body["message"]), (500, &json!("no disk")));
        assert_eq!((rejected.retry_after, &rejected.body["reason"]), (None, &json!("InternalError")));
        drop(broken);
        assert_eq!(transport.send(Method::DELETE, &path, None).await.expect("a reply").code, 200);
    }
}

#[tokio::test(start_paused = true)]
async fn a_reset_before_the_commit_stores_nothing_and_one_after_it_stores_the_object() {
    let server = server().await;
    for (number, transport) in transports(&server).iter().enumerate() {
        let (before, after) = (format!("before-{number}"), format!("after-{number}"));
        server.faults().rule(Rule::on("create").times(1).reset_before());
        assert_eq!(create(transport, &before).await.err(), Some(ConnectionCut));
        assert_eq!(transport.get(&format!("{MAPS}/{before}")).await.expect("a reply").code, 404);
        server.faults().rule(Rule::on("create").times(1).reset_after());
        assert_eq!(create(transport, &after).await.err(), Some(ConnectionCut));
        assert_eq!(transport.get(&format!("{MAPS}/{after}")).await.expect("a reply").code, 200);
        assert_eq!(
            create(transport, &after).await.expect("a reply").code,
            409,
            "a retry finds the stored object"
        );
        server.faults().clear();
    }
    let codes: Vec<_> = server.requests().verb("create").iter().map(|it| it.status).collect();
    assert_eq!(codes, [0, 0, 409].repeat(3), "a request that was cut has no status code");
}

#[tokio::test(start_paused = true)]
async fn a_delay_takes_exactly_its_time_on_the_paused_clock() {
    let server = server().await;
    let delay = server.faults().rule(Rule::on("list").delay(Duration::from_secs(3)));
    for transport in transports(&server) {
        let begun = Instant::now();
        assert_eq!(transport.get(MAPS).await.expect("a reply").code, 200);
        assert_eq!(begun.elapsed(), Duration::from_secs(3));
    }
    delay.remove();
    let begun = Instant::now();
    Transport::direct(&server).get(MAPS).await.expect("a reply");
    assert_eq!(begun.elapsed(), Duration::ZERO);
    let took: Vec<_> = server.requests().verb("list").iter().map(|it| it.duration.as_secs()).collect();
    assert_eq!(took, [3, 3, 3, 0]);
}

#[tokio::test(start_paused = true)]
async fn watches_end_cleanly_or_by_a_cut_and_can_be_resumed() {
    let server = server().await;
    for transport in transports(&server) {
        let mut last = server.cluster().store().revision();
        for cut in [false, true] {
            let mut reader = watch_from(&transport, last, "").await;
            last = created(&transport, "a").await;
            assert_eq!(reader.event().await, event("ADDED", "a"));
            let everywhere_else = Scope { namespace: Some("elsewhere".to_owned()), ..Scope::default() };
            server.faults().drop_watches_of(everywhere_else, cut);
            assert_eq!(reader.next_within_a_second().await, None);
            server.faults().drop_watches_of(Scope::resource("configmaps"), cut);
            assert_eq!(reader.next().await, if cut { WatchItem::Cut } else { WatchItem::End });
            // Changes made meanwhile are delivered first.
            transport.send(Method::DELETE, &format!("{MAPS}/a"), None).await.expect("a reply");
            let mut again = watch_from(&transport, last, "").await;
            assert_eq!(again.event().await, event("DELETED", "a"));
            last = server.cluster().store().revision();
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_ends_after_a_number_of_events_including_initial_ones() {
    let server = server().await;
    let [transport, ..] = transports(&server);
    for name in ["a", "b", "c", "d"] {
        created(&transport, name).await;
    }
    for transport in transports(&server) {
        let rule = server.faults().rule(Rule::on("watch").cut_after(3)).scoped();
        let mut reader =
            transport.watch(&format!("{WATCH}&resourceVersion=0")).await.expect("a reply").expect("accepted");
        for name in ["a", "b", "c"] {
            assert_eq!(reader.event().await, event("ADDED", name));
        }
        assert_eq!(reader.next().await, WatchItem::Cut);
        drop(rule);
        server.faults().rule(Rule::on("watch").drop_after(0));
        let mut reader = transport.watch(WATCH).await.expect("a reply").expect("accepted");
        assert_eq!(reader.next().await, WatchItem::End, "ended without an event");
        server.faults().clear();
    }
}

#[tokio::test(start_paused = true)]
async fn a_paused_watch_delivers_all_events_in_order_when_it_is_resumed() {
    let server = server().await;
    for transport in transports(&server) {
        let mut reader = watch_from(&transport, server.cluster().store().revision(), "").await;
        server.faults().pause();
        for name in ["a", "b"] {
            created(&transport, name).await;
        }
        assert_eq!(reader.next_within_a_second().await, None);
        transport.send(Method::DELETE, MAPS, None).await.expect("a reply");
        assert_eq!(reader.next_within_a_second().await, None);
        server.faults().resume();
        for (kind, name) in [("ADDED", "a"), ("ADDED", "b"), ("DELETED", "a"), ("DELETED", "b")] {
            assert_eq!(reader.event().await, event(kind, name));
        }
        assert_eq!(reader.next_within_a_second().await, None);
    }
}

#[tokio::test(start_paused = true)]
async fn a_rule_pauses_only_matching_watches_until_it_is_removed() {
    let server = server().await;
    let [transport, ..] = transports(&server);
    let version = server.cluster().store().revision();
    let mut maps = watch_from(&transport, version, "").await;
    let everywhere = format!("/api/v1/configmaps?watch=true&resourceVersion={version}");
    let mut all = transport.watch(&everywhere).await.expect("a reply").expect("accepted");
    let rule = server.faults().rule(Rule::on("watch").namespace("default").pause());
    created(&transport, "a").await;
    assert_eq!(all.event().await, event("ADDED", "a"));
    assert_eq!(maps.next_within_a_second().await, None);
    rule.remove();
    assert_eq!(maps.event().await, event("ADDED", "a"));
}

#[tokio::test(start_paused = true)]
async fn a_forced_bookmark_has_the_newest_version_and_is_sent_only_on_request() {
    let server = server().await;
    for (number, transport) in transports(&server).iter().enumerate() {
        let version_before = server.cluster().store().revision();
        let mut with = watch_from(transport, version_before, "&allowWatchBookmarks=true").await;
        let mut without = watch_from(transport, version_before, "").await;
        assert_eq!((with.next_within_a_second().await, without.next_within_a_second().await), (None, None));
        // A change that neither watch delivers.
        let secret =
            json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": format!("s{number}") } });
        let written = transport.send(Method::POST, "/api/v1/namespaces/default/secrets", Some(&secret)).await;
        let newest = version(&written.expect("a reply").body);
        server.faults().bookmark_now();
        let WatchItem::Event { kind, object } = with.next().await else { panic!("a bookmark") };
        assert_eq!((kind.as_str(), version(&object)), ("BOOKMARK", newest));
        assert_eq!(
            (with.next_within_a_second().await, without.next_within_a_second().await),
            (None, None),
            "a bookmark is sent once"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn after_an_expiry_every_watcher_must_list_again() {
    let server = server().await;
    for transport in transports(&server) {
        let last = created(&transport, "a").await;
        let mut reader = watch_from(&transport, last, "").await;
        server.faults().expire(server.cluster());
        assert_eq!(reader.next().await, WatchItem::End);
        let mut again = watch_from(&transport, last, "").await;
        let WatchItem::Event { kind, object } = again.next().await else { panic!("an error") };
        assert_eq!(
            (kind.as_str(), &object["reason"], &object["code"]),
            ("ERROR", &json!("Expired"), &json!(410))
        );
        assert_eq!(again.next().await, WatchItem::End);
        let exact = format!("{MAPS}?resourceVersion={last}&resourceVersionMatch=Exact");
        assert_eq!(transport.get(&exact).await.expect("a reply").code, 410);
        let listed = transport.get(MAPS).await.expect("a reply");
        assert_eq!((listed.code, listed.body["items"].as_array().map(Vec::len)), (200, Some(1)));
        let mut fresh = watch_from(&transport, version(&listed.body), "").await;
        transport.send(Method::DELETE, &format!("{MAPS}/a"), None).await.expect("a reply");
        assert_eq!(fresh.event().await, event("DELETED", "a"));
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_behind_the_compacted_history_gets_410_and_no_bookmark() {
    let server = server().await;
    for transport in transports(&server) {
        let bookmarks = "&allowWatchBookmarks=true";
        let mut reader = watch_from(&transport, server.cluster().store().revision(), bookmarks).await;
        server.faults().pause();
        for name in ["a", "b", "c"] {
            created(&transport, name).await;
        }
        assert_eq!(reader.next_within_a_second().await, None);
        server.faults().compact(server.cluster());
        // By now a bookmark is due: it would claim that nothing was missed.
        tokio::time::sleep(Duration::from_secs(120)).await;
        server.faults().resume();
        let mut received = Vec::new();
        loop {
            match reader.next().await {
                WatchItem::Event { kind, object } => received.push((kind, object["code"].clone())),
                WatchItem::End => break,
                WatchItem::Cut => panic!("not cut"),
            }
        }
        let (error, events) = received.split_last().expect("at least one event");
        assert_eq!(*error, ("ERROR".to_owned(), json!(410)));
        assert!(events.len() <= 1 && events.iter().all(|(kind, _)| kind == "ADDED"), "{received:?}");
        transport.send(Method::DELETE, MAPS, None).await.expect("a reply");
    }
}

#[tokio::test(start_paused = true)]
async fn an_expired_list_can_continue_with_the_current_objects() {
    let server = server().await;
    let [transport, ..] = transports(&server);
    for name in ["a", "b", "c"] {
        created(&transport, name).await;
    }
    let page = transport.get(&format!("{MAPS}?limit=1")).await.expect("a reply").body;
    let token = |it: &Value| it["metadata"]["continue"].as_str().expect("a continue token").to_owned();
    server.faults().expire(server.cluster());
    let late = transport.get(&format!("{MAPS}?limit=5&continue={}", token(&page))).await.expect("a reply");
    assert_eq!((late.code, &late.body["reason"]), (410, &json!("Expired")));
    let rest =
        transport.get(&format!("{MAPS}?limit=5&continue={}", token(&late.body))).await.expect("a reply");
    let items = rest.body["items"].as_array().expect("items");
    let names: Vec<_> = items.iter().filter_map(|it| it["metadata"]["name"].as_str()).collect();
    assert_eq!((rest.code, names), (200, vec!["b", "c"]));
}

#[tokio::test(start_paused = true)]
async fn events_can_be_split_into_chunks_or_coalesced() {
    let server = server().await;
    let [transport, ..] = transports(&server);
    let split = server.faults().rule(Rule::on("watch").split(10));
    let mut reader = watch_from(&transport, server.cluster().store().revision(), "").await;
    created(&transport, "a").await;
    assert_eq!(reader.event().await, event("ADDED", "a"));
    let (last, others) = reader.chunks.split_last().expect("chunks");
    assert!(others.len() > 10 && others.iter().all(|it| *it == 10) && *last <= 10, "{:?}", reader.chunks);
    split.remove();

    server.faults().rule(Rule::on("watch").coalesce(Duration::from_secs(2)));
    let mut reader = watch_from(&transport, server.cluster().store().revision(), "").await;
    let begun = Instant::now();
    for name in ["b", "c"] {
        created(&transport, name).await;
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    for name in ["b", "c"] {
        assert_eq!(reader.event().await, event("ADDED", name));
    }
    assert_eq!(reader.chunks.len(), 1, "one chunk");
    assert!(begun.elapsed() >= Duration::from_secs(2));
}

#[tokio::test(start_paused = true)]
async fn a_lagging_watch_delivers_its_events_late_and_complete() {
    let server = server().await;
    for (number, transport) in transports(&server).iter().enumerate() {
        let lag = server.faults().rule(Rule::on("watch").lag(Duration::from_secs(30))).scoped();
        let mut reader = watch_from(transport, server.cluster().store().revision(), "").await;
        let begun = Instant::now();
        let name = format!("late-{number}");
        created(transport, &name).await;
        assert_eq!(reader.event().await, event("ADDED", &name));
        assert_eq!(begun.elapsed(), Duration::from_secs(30));
        drop(lag);
    }
}

#[tokio::test(start_paused = true)]
async fn a_fork_has_the_history_and_its_own_faults() {
    let server = server().await;
    let [transport, ..] = transports(&server);
    let before = server.cluster().store().revision();
    created(&transport, "a").await;
    server.faults().rule(Rule::on("list").refuse(500));
    let fork = server.fork().await.expect("the fork starts");
    let other = Transport::direct(&fork);
    assert_eq!(other.get(MAPS).await.expect("a reply").code, 200, "no rules yet");
    let mut here = watch_from(&transport, before, "").await;
    let mut there = watch_from(&other, before, "").await;
    assert_eq!((here.event().await, there.event().await), (event("ADDED", "a"), event("ADDED", "a")));
    created(&other, "b").await;
    assert_eq!((there.event().await, here.next_within_a_second().await), (event("ADDED", "b"), None));
    fork.faults().drop_watches();
    assert_eq!((there.next().await, here.next_within_a_second().await), (WatchItem::End, None));
}

/// The endpoint is enabled by the operator of the server, and is not open to every client.
#[tokio::test(start_paused = true)]
async fn the_fault_api_is_served_only_if_enabled() {
    let server = server().await;
    for transport in transports(&server) {
        assert_eq!(transport.get("/_dogwatch/faults").await.expect("a reply").code, 404);
    }
    let service =
        Service::new(Arc::clone(server.cluster()), Authenticator::new().anonymous(Anonymous::Admin))
            .settings(Settings { fault_admin: true, ..Settings::default() });
    let ask = async |method: Method, path: &str, body: &str| {
        let request = Request::builder().method(method).uri(path).body(Full::from(body.to_owned())).unwrap();
        let response = service.respond(request, None).await.expect("a reply");
        let code = response.status().as_u16();
        let bytes = response.into_body().collect().await.expect("a complete body").to_bytes();
        (code, serde_json::from_slice::<Value>(&bytes).expect("JSON"))
    };
    let rule =
        r#"{"on": {"verbs": ["list"], "resource": "configmaps"}, "times": 1, "refuse": {"code": 503}}"#;
    let (code, placed) = ask(Method::POST, "/_dogwatch/faults", rule).await;
    assert_eq!((code, &placed["id"]), (201, &json!(1)));
    assert_eq!(ask(Method::GET, MAPS, "").await.0, 503);
    assert_eq!(ask(Method::GET, MAPS, "").await.0, 200);
    assert_eq!(ask(Method::GET, "/_dogwatch/faults", "").await.1["rules"][0]["fired"], 1);
    let (code, rejected) = ask(Method::POST, "/_dogwatch/faults", r#"{"times": "2"}"#).await;
    assert_eq!(code, 400);
    assert!(rejected["message"].as_str().unwrap().starts_with("times: invalid type"), "{rejected}");
    assert_eq!(ask(Method::POST, "/_dogwatch/faults/expire", "").await.0, 200);
    assert_eq!(ask(Method::DELETE, "/_dogwatch/faults", "").await.1["rules"], json!([]));
}
