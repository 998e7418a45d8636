//! Each fault by itself, as a client meets it: over a wire with HTTP/1.1 and HTTP/2, and without one.

use std::sync::Arc;
use std::time::Duration;

use dogwatch_apiserver::ApiServer;
use dogwatch_apiserver::auth::{Anonymous, Authenticator};
use dogwatch_apiserver::controllers::Controllers;
use dogwatch_apiserver::faults::{Rule, Scope};
use dogwatch_apiserver::http::{Service, Settings};
use http::{Method, Request};
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::requests::{Answered, Broken, Road, Told, Watching, version};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const WATCH: &str = "/api/v1/namespaces/default/configmaps?watch=true";

async fn server() -> ApiServer {
    let server = ApiServer::builder().in_process().seed(1).controllers(Controllers::none());
    server.start().await.expect("it starts")
}

fn roads(server: &ApiServer) -> [Road; 3] {
    [Road::direct(server), Road::wire(server, false), Road::wire(server, true)]
}

async fn create(road: &Road, name: &str) -> Result<Answered, Broken> {
    let map = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name } });
    road.ask(Method::POST, MAPS, Some(&map)).await
}

/// Creates a map for sure, and gives its version.
async fn created(road: &Road, name: &str) -> u64 {
    let answered = create(road, name).await.expect("answered");
    assert_eq!(answered.code, 201, "{}", answered.body);
    version(&answered.body)
}

async fn watch_from(road: &Road, version: u64, options: &str) -> Watching {
    let path = format!("{WATCH}&resourceVersion={version}{options}");
    road.watch(&path).await.expect("answered").expect("accepted")
}

fn event(kind: &str, name: &str) -> (String, String) {
    (kind.to_owned(), name.to_owned())
}

#[tokio::test(start_paused = true)]
async fn a_refused_request_says_when_to_come_back_and_was_not_carried_out() {
    let server = server().await;
    for road in roads(&server) {
        let rule = Rule::on("create").resource("configmaps").namespace("default").times(1);
        let busy = server.faults().rule(rule.refuse(429).retry_after(7)).scoped();
        let refused = create(&road, "a").await.expect("answered");
        assert_eq!((refused.code, refused.retry_after.as_deref()), (429, Some("7")));
        assert_eq!(refused.body["reason"], "TooManyRequests");
        assert_eq!(refused.body["details"]["retryAfterSeconds"], 7);
        assert_eq!(busy.fired(), 1);
        created(&road, "a").await;
        let broken = server.faults().rule(Rule::on("delete").refuse(500).message("no disk")).scoped();
        let path = format!("{MAPS}/a");
        let refused = road.ask(Method::DELETE, &path, None).await.expect("answered");
        assert_eq!((refused.code, &refused.body["message"]), (500, &json!("no disk")));
        assert_eq!((refused.retry_after, &refused.body["reason"]), (None, &json!("InternalError")));
        drop(broken);
        assert_eq!(road.ask(Method::DELETE, &path, None).await.expect("answered").code, 200);
    }
}

#[tokio::test(start_paused = true)]
async fn a_reset_before_the_commit_leaves_nothing_and_one_after_it_leaves_everything() {
    let server = server().await;
    for (number, road) in roads(&server).iter().enumerate() {
        let (before, after) = (format!("before-{number}"), format!("after-{number}"));
        server.faults().rule(Rule::on("create").times(1).reset_before());
        assert_eq!(create(road, &before).await.err(), Some(Broken));
        assert_eq!(road.get(&format!("{MAPS}/{before}")).await.expect("answered").code, 404);
        server.faults().rule(Rule::on("create").times(1).reset_after());
        assert_eq!(create(road, &after).await.err(), Some(Broken));
        assert_eq!(road.get(&format!("{MAPS}/{after}")).await.expect("answered").code, 200);
        assert_eq!(
            create(road, &after).await.expect("answered").code,
            409,
            "as a client that tries again finds"
        );
        server.faults().clear();
    }
    let codes: Vec<_> = server.requests().verb("create").iter().map(|it| it.status).collect();
    assert_eq!(codes, [0, 0, 409].repeat(3), "a request that was cut off has no code");
}

#[tokio::test(start_paused = true)]
async fn a_delay_passes_by_the_clock_and_not_a_moment_more() {
    let server = server().await;
    let delay = server.faults().rule(Rule::on("list").delay(Duration::from_secs(3)));
    for road in roads(&server) {
        let begun = Instant::now();
        assert_eq!(road.get(MAPS).await.expect("answered").code, 200);
        assert_eq!(begun.elapsed(), Duration::from_secs(3));
    }
    delay.remove();
    let begun = Instant::now();
    Road::direct(&server).get(MAPS).await.expect("answered");
    assert_eq!(begun.elapsed(), Duration::ZERO);
    let took: Vec<_> = server.requests().verb("list").iter().map(|it| it.duration.as_secs()).collect();
    assert_eq!(took, [3, 3, 3, 0]);
}

#[tokio::test(start_paused = true)]
async fn watches_end_cleanly_or_by_a_cut_and_go_on_where_they_were() {
    let server = server().await;
    for road in roads(&server) {
        let mut last = server.cluster().store().revision();
        for cut in [false, true] {
            let mut watching = watch_from(&road, last, "").await;
            last = created(&road, "a").await;
            assert_eq!(watching.event().await, event("ADDED", "a"));
            let everywhere_else = Scope { namespace: Some("elsewhere".to_owned()), ..Scope::default() };
            server.faults().drop_watches_of(everywhere_else, cut);
            assert_eq!(watching.soon().await, None);
            server.faults().drop_watches_of(Scope::resource("configmaps"), cut);
            assert_eq!(watching.next().await, if cut { Told::Cut } else { Told::End });
            // What happens meanwhile comes first.
            road.ask(Method::DELETE, &format!("{MAPS}/a"), None).await.expect("answered");
            let mut again = watch_from(&road, last, "").await;
            assert_eq!(again.event().await, event("DELETED", "a"));
            last = server.cluster().store().revision();
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_ends_after_so_many_events_also_among_those_that_were_there() {
    let server = server().await;
    let [road, ..] = roads(&server);
    for name in ["a", "b", "c", "d"] {
        created(&road, name).await;
    }
    for road in roads(&server) {
        let rule = server.faults().rule(Rule::on("watch").cut_after(3)).scoped();
        let mut watching =
            road.watch(&format!("{WATCH}&resourceVersion=0")).await.expect("answered").expect("accepted");
        for name in ["a", "b", "c"] {
            assert_eq!(watching.event().await, event("ADDED", name));
        }
        assert_eq!(watching.next().await, Told::Cut);
        drop(rule);
        server.faults().rule(Rule::on("watch").drop_after(0));
        let mut watching = road.watch(WATCH).await.expect("answered").expect("accepted");
        assert_eq!(watching.next().await, Told::End, "not a single one");
        server.faults().clear();
    }
}

#[tokio::test(start_paused = true)]
async fn a_paused_watch_tells_everything_in_order_when_it_is_resumed() {
    let server = server().await;
    for road in roads(&server) {
        let mut watching = watch_from(&road, server.cluster().store().revision(), "").await;
        server.faults().pause();
        for name in ["a", "b"] {
            created(&road, name).await;
        }
        assert_eq!(watching.soon().await, None);
        road.ask(Method::DELETE, MAPS, None).await.expect("answered");
        assert_eq!(watching.soon().await, None);
        server.faults().resume();
        for (kind, name) in [("ADDED", "a"), ("ADDED", "b"), ("DELETED", "a"), ("DELETED", "b")] {
            assert_eq!(watching.event().await, event(kind, name));
        }
        assert_eq!(watching.soon().await, None);
    }
}

#[tokio::test(start_paused = true)]
async fn a_rule_pauses_only_what_it_covers_and_lets_go_when_it_is_gone() {
    let server = server().await;
    let [road, ..] = roads(&server);
    let version = server.cluster().store().revision();
    let mut maps = watch_from(&road, version, "").await;
    let everywhere = format!("/api/v1/configmaps?watch=true&resourceVersion={version}");
    let mut all = road.watch(&everywhere).await.expect("answered").expect("accepted");
    let rule = server.faults().rule(Rule::on("watch").namespace("default").pause());
    created(&road, "a").await;
    assert_eq!(all.event().await, event("ADDED", "a"));
    assert_eq!(maps.soon().await, None);
    rule.remove();
    assert_eq!(maps.event().await, event("ADDED", "a"));
}

#[tokio::test(start_paused = true)]
async fn a_forced_bookmark_shows_the_newest_version_to_those_who_asked_for_bookmarks() {
    let server = server().await;
    for (number, road) in roads(&server).iter().enumerate() {
        let version_before = server.cluster().store().revision();
        let mut with = watch_from(road, version_before, "&allowWatchBookmarks=true").await;
        let mut without = watch_from(road, version_before, "").await;
        assert_eq!((with.soon().await, without.soon().await), (None, None));
        // Something that neither of them is told of.
        let secret =
            json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": format!("s{number}") } });
        let written = road.ask(Method::POST, "/api/v1/namespaces/default/secrets", Some(&secret)).await;
        let newest = version(&written.expect("answered").body);
        server.faults().bookmark_now();
        let Told::Event { kind, object } = with.next().await else { panic!("a bookmark") };
        assert_eq!((kind.as_str(), version(&object)), ("BOOKMARK", newest));
        assert_eq!((with.soon().await, without.soon().await), (None, None), "once");
    }
}

#[tokio::test(start_paused = true)]
async fn after_history_expired_everybody_has_to_list_again() {
    let server = server().await;
    for road in roads(&server) {
        let last = created(&road, "a").await;
        let mut watching = watch_from(&road, last, "").await;
        server.faults().expire(server.cluster());
        assert_eq!(watching.next().await, Told::End);
        let mut again = watch_from(&road, last, "").await;
        let Told::Event { kind, object } = again.next().await else { panic!("an error") };
        assert_eq!(
            (kind.as_str(), &object["reason"], &object["code"]),
            ("ERROR", &json!("Expired"), &json!(410))
        );
        assert_eq!(again.next().await, Told::End);
        let exact = format!("{MAPS}?resourceVersion={last}&resourceVersionMatch=Exact");
        assert_eq!(road.get(&exact).await.expect("answered").code, 410);
        let listed = road.get(MAPS).await.expect("answered");
        assert_eq!((listed.code, listed.body["items"].as_array().map(Vec::len)), (200, Some(1)));
        let mut fresh = watch_from(&road, version(&listed.body), "").await;
        road.ask(Method::DELETE, &format!("{MAPS}/a"), None).await.expect("answered");
        assert_eq!(fresh.event().await, event("DELETED", "a"));
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_history_overtakes_is_told_so_and_nothing_else() {
    let server = server().await;
    for road in roads(&server) {
        let bookmarks = "&allowWatchBookmarks=true";
        let mut watching = watch_from(&road, server.cluster().store().revision(), bookmarks).await;
        server.faults().pause();
        for name in ["a", "b", "c"] {
            created(&road, name).await;
        }
        assert_eq!(watching.soon().await, None);
        server.faults().compact(server.cluster());
        // By now a bookmark is due: it would say that nothing was missed.
        tokio::time::sleep(Duration::from_secs(120)).await;
        server.faults().resume();
        let mut told = Vec::new();
        loop {
            match watching.next().await {
                Told::Event { kind, object } => told.push((kind, object["code"].clone())),
                Told::End => break,
                Told::Cut => panic!("not cut"),
            }
        }
        let (error, events) = told.split_last().expect("something");
        assert_eq!(*error, ("ERROR".to_owned(), json!(410)));
        assert!(events.len() <= 1 && events.iter().all(|(kind, _)| kind == "ADDED"), "{told:?}");
        road.ask(Method::DELETE, MAPS, None).await.expect("answered");
    }
}

#[tokio::test(start_paused = true)]
async fn a_list_that_history_overtakes_can_go_on_with_what_there_is_now() {
    let server = server().await;
    let [road, ..] = roads(&server);
    for name in ["a", "b", "c"] {
        created(&road, name).await;
    }
    let page = road.get(&format!("{MAPS}?limit=1")).await.expect("answered").body;
    let token = |it: &Value| it["metadata"]["continue"].as_str().expect("more to come").to_owned();
    server.faults().expire(server.cluster());
    let late = road.get(&format!("{MAPS}?limit=5&continue={}", token(&page))).await.expect("answered");
    assert_eq!((late.code, &late.body["reason"]), (410, &json!("Expired")));
    let rest = road.get(&format!("{MAPS}?limit=5&continue={}", token(&late.body))).await.expect("answered");
    let items = rest.body["items"].as_array().expect("items");
    let names: Vec<_> = items.iter().filter_map(|it| it["metadata"]["name"].as_str()).collect();
    assert_eq!((rest.code, names), (200, vec!["b", "c"]));
}

#[tokio::test(start_paused = true)]
async fn frames_come_in_small_pieces_or_many_in_one() {
    let server = server().await;
    let [road, ..] = roads(&server);
    let split = server.faults().rule(Rule::on("watch").split(10));
    let mut watching = watch_from(&road, server.cluster().store().revision(), "").await;
    created(&road, "a").await;
    assert_eq!(watching.event().await, event("ADDED", "a"));
    let (last, others) = watching.pieces.split_last().expect("pieces");
    assert!(others.len() > 10 && others.iter().all(|it| *it == 10) && *last <= 10, "{:?}", watching.pieces);
    split.remove();

    server.faults().rule(Rule::on("watch").coalesce(Duration::from_secs(2)));
    let mut watching = watch_from(&road, server.cluster().store().revision(), "").await;
    let begun = Instant::now();
    for name in ["b", "c"] {
        created(&road, name).await;
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    for name in ["b", "c"] {
        assert_eq!(watching.event().await, event("ADDED", name));
    }
    assert_eq!(watching.pieces.len(), 1, "in one");
    assert!(begun.elapsed() >= Duration::from_secs(2));
}

#[tokio::test(start_paused = true)]
async fn what_a_lagging_watch_tells_comes_late_and_whole() {
    let server = server().await;
    for (number, road) in roads(&server).iter().enumerate() {
        let lag = server.faults().rule(Rule::on("watch").lag(Duration::from_secs(30))).scoped();
        let mut watching = watch_from(road, server.cluster().store().revision(), "").await;
        let begun = Instant::now();
        let name = format!("late-{number}");
        created(road, &name).await;
        assert_eq!(watching.event().await, event("ADDED", &name));
        assert_eq!(begun.elapsed(), Duration::from_secs(30));
        drop(lag);
    }
}

#[tokio::test(start_paused = true)]
async fn a_fork_knows_the_past_and_has_weather_of_its_own() {
    let server = server().await;
    let [road, ..] = roads(&server);
    let before = server.cluster().store().revision();
    created(&road, "a").await;
    server.faults().rule(Rule::on("list").refuse(500));
    let fork = server.fork().await.expect("it starts");
    let other = Road::direct(&fork);
    assert_eq!(other.get(MAPS).await.expect("answered").code, 200, "no rules yet");
    let mut here = watch_from(&road, before, "").await;
    let mut there = watch_from(&other, before, "").await;
    assert_eq!((here.event().await, there.event().await), (event("ADDED", "a"), event("ADDED", "a")));
    created(&other, "b").await;
    assert_eq!((there.event().await, here.soon().await), (event("ADDED", "b"), None));
    fork.faults().drop_watches();
    assert_eq!((there.next().await, here.soon().await), (Told::End, None));
}

/// The endpoint is for those who start the server, not for everybody who can reach it.
#[tokio::test(start_paused = true)]
async fn the_endpoint_of_the_lab_is_there_only_when_asked_for() {
    let server = server().await;
    for road in roads(&server) {
        assert_eq!(road.get("/_dogwatch/faults").await.expect("answered").code, 404);
    }
    let service =
        Service::new(Arc::clone(server.cluster()), Authenticator::new().anonymous(Anonymous::Admin))
            .settings(Settings { fault_admin: true, ..Settings::default() });
    let ask = async |method: Method, path: &str, body: &str| {
        let request = Request::builder().method(method).uri(path).body(Full::from(body.to_owned())).unwrap();
        let answer = service.respond(request, None).await.expect("answered");
        let code = answer.status().as_u16();
        let bytes = answer.into_body().collect().await.expect("whole").to_bytes();
        (code, serde_json::from_slice::<Value>(&bytes).expect("JSON"))
    };
    let rule =
        r#"{"on": {"verbs": ["list"], "resource": "configmaps"}, "times": 1, "refuse": {"code": 503}}"#;
    let (code, placed) = ask(Method::POST, "/_dogwatch/faults", rule).await;
    assert_eq!((code, &placed["id"]), (201, &json!(1)));
    assert_eq!(ask(Method::GET, MAPS, "").await.0, 503);
    assert_eq!(ask(Method::GET, MAPS, "").await.0, 200);
    assert_eq!(ask(Method::GET, "/_dogwatch/faults", "").await.1["rules"][0]["fired"], 1);
    let (code, refused) = ask(Method::POST, "/_dogwatch/faults", r#"{"times": "2"}"#).await;
    assert_eq!(code, 400);
    assert!(refused["message"].as_str().unwrap().starts_with("times: invalid type"), "{refused}");
    assert_eq!(ask(Method::POST, "/_dogwatch/faults/expire", "").await.0, 200);
    assert_eq!(ask(Method::DELETE, "/_dogwatch/faults", "").await.1["rules"], json!([]));
}
