//! Lists: streamed, paged, and restarted when a continue token expires (rule PG-1).

use std::time::Duration;

use dogwatch_client::config::RateLimit;
use dogwatch_client::{Api, Client, Config, Error, ListEvent};
use dogwatch_core::{FieldSelector, ListParams, Object, ResourceType, Scope, VersionMatch};
use futures_util::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::ConfigMap;
use kube_core::DynamicObject;
use kube_core::metadata::PartialObjectMeta;

use crate::scripted::{Reply, Script, json, refusal, reply};

fn item(name: &str) -> String {
    format!(r#"{{"metadata":{{"name":"{name}","namespace":"a","resourceVersion":"1"}}}}"#)
}

fn page(version: &str, token: &str, names: &[&str]) -> Reply {
    let items: Vec<_> = names.iter().map(|it| item(it)).collect();
    let items = items.join(",");
    let metadata = format!(r#"{{"resourceVersion":"{version}","continue":"{token}"}}"#);
    json(
        200,
        format!(r#"{{"kind":"ConfigMapList","apiVersion":"v1","metadata":{metadata},"items":[{items}]}}"#),
    )
}

fn maps(script: &Script) -> Api<ConfigMap> {
    Api::namespaced(script.client(), "a")
}

async fn names(script: &Script, params: ListParams) -> Result<Vec<String>, Error> {
    let list = maps(script).list_all(&params).await?;
    Ok(list.items.iter().map(|it| it.header().name.to_owned()).collect())
}

const FIRST: &str = "/base/api/v1/namespaces/a/configmaps?limit=2";

#[tokio::test]
async fn pg_1_empty_one_and_full_pages() {
    for (answer, expected) in
        [(page("5", "", &[]), 0), (page("5", "", &["a"]), 1), (page("5", "", &["a", "b"]), 2)]
    {
        let script = Script::new([answer]);
        assert_eq!(names(&script, ListParams::default().limit(2)).await.expect("listed").len(), expected);
        assert_eq!(script.targets(), [FIRST]);
    }
}

#[tokio::test]
async fn pg_1_pages_follow_the_token_and_hold_500_by_default() {
    let script =
        Script::new([page("5", "t1", &["a", "b"]), page("5", "t2", &["c", "d"]), page("5", "", &["e"])]);
    let listed = names(&script, ListParams::default().limit(2)).await.expect("listed");
    assert_eq!(listed, ["a", "b", "c", "d", "e"]);
    assert_eq!(
        script.targets(),
        [FIRST.to_owned(), format!("{FIRST}&continue=t1"), format!("{FIRST}&continue=t2")]
    );
    let script = Script::new([page("5", "", &[])]);
    names(&script, ListParams::default()).await.expect("listed");
    assert_eq!(script.targets(), ["/base/api/v1/namespaces/a/configmaps?limit=500"]);
}

#[tokio::test]
async fn pg_1_later_pages_do_not_repeat_the_version() {
    let script = Script::new([page("7", "t1", &["a", "b"]), page("7", "", &["c"])]);
    let params = ListParams::default().limit(2).at("7").matching(VersionMatch::Exact);
    names(&script, params).await.expect("listed");
    let targets = script.targets();
    assert!(targets[0].contains("resourceVersion=7&resourceVersionMatch=Exact"), "{targets:?}");
    assert_eq!(targets[1], format!("{FIRST}&continue=t1"));
}

#[tokio::test]
async fn pg_1_expiry_on_a_later_page_reads_the_list_again_in_one_response() {
    let script =
        Script::new([page("7", "t1", &["a", "b"]), refusal(410, "Expired"), page("9", "", &["b", "c", "d"])]);
    let params = ListParams::default().limit(2).at("7").matching(VersionMatch::NotOlderThan);
    let list = maps(&script).list_all(&params).await.expect("listed");
    assert_eq!(list.items.iter().map(|it| it.header().name).collect::<Vec<_>>(), ["b", "c", "d"]);
    assert_eq!(list.metadata.version.as_str(), "9");
    let whole = "/base/api/v1/namespaces/a/configmaps?resourceVersion=7&resourceVersionMatch=NotOlderThan";
    assert_eq!(script.targets()[2], whole);
}

#[tokio::test]
async fn pg_1_expiry_on_the_first_page_or_of_the_whole_list_is_an_error() {
    let script = Script::new([refusal(410, "Expired")]);
    assert!(names(&script, ListParams::default().at("7")).await.expect_err("expired").is_expired());
    let script =
        Script::new([page("7", "t1", &["a", "b"]), refusal(410, "Expired"), refusal(410, "Expired")]);
    assert!(names(&script, ListParams::default().limit(2)).await.expect_err("expired").is_expired());
    assert_eq!(script.seen().len(), 3);
}

#[tokio::test]
async fn pg_1_a_stream_reports_that_it_starts_again() {
    let script = Script::new([page("7", "t1", &["a"]), refusal(410, "Expired"), page("9", "", &["b"])]);
    let stream = maps(&script).list_pages(&ListParams::default().limit(1));
    let seen: Vec<_> = stream
        .map_ok(|it| match it {
            ListEvent::Item(object) => object.header().name.to_owned(),
            ListEvent::Restarted => "again".to_owned(),
            ListEvent::End { .. } => "end".to_owned(),
            other => format!("{other:?}"),
        })
        .try_collect()
        .await
        .expect("listed");
    assert_eq!(seen, ["a", "again", "b", "end"]);
}

/// Scripts a server with this many objects that answers in pages of ten, and optionally expires the
/// list at the second page.
fn pages_of_ten(objects: usize, expires: bool) -> Script {
    let names: Vec<_> = (0..objects).map(|it| it.to_string()).collect();
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    let all: Vec<_> = if names.is_empty() { vec![&[][..]] } else { names.chunks(10).collect() };
    let script = Script::default();
    for (at, names) in all.iter().enumerate() {
        if expires && at > 0 {
            script.then([refusal(410, "Expired")]);
            break;
        }
        let token = if at + 1 == all.len() { String::new() } else { format!("rv:20:{}", at + 1) };
        script.then([page("20", &token, names)]);
    }
    script
}

/// The upstream table ListPager_List, except its expiries: objects, parameters, requests.
#[tokio::test]
async fn pg_1_list_pager_list() {
    let ten = || ListParams::default().limit(10);
    let matching = || ten().at("10").matching(VersionMatch::NotOlderThan);
    for (objects, params, requests) in [
        (0, ten(), 1),
        (9, ten(), 1),
        (10, ten(), 1),
        (11, ten(), 2),
        (21, ten(), 3),
        (11, ten().at("10"), 2),
        (11, matching(), 2),
    ] {
        let script = pages_of_ten(objects, false);
        let mut stream = maps(&script).list_pages(&params);
        let mut listed = Vec::new();
        while let Some(next) = stream.try_next().await.expect("listed") {
            match next {
                ListEvent::Item(item) => listed.push(item.header().name.to_owned()),
                ListEvent::End { version, paginated } => {
                    assert_eq!((version.as_str(), paginated), ("20", requests > 1), "{objects}");
                }
                other => panic!("an item: {other:?}"),
            }
        }
        assert!(listed.iter().cloned().eq((0..objects).map(|it| it.to_string())), "{objects}: {listed:?}");
        assert_eq!(stream.into_metadata().version.as_str(), "20");
        let targets = script.targets();
        assert_eq!(targets.len(), requests, "{objects}");
        for later in &targets[1..] {
            assert!(later.contains("limit=10&continue=") && !later.contains("resourceVersion"), "{later}");
        }
    }
}

/// The upstream scenario "expires on second page" of both tables. There is no option to fail at
/// once: a stream reports that it starts again, and a reader that cannot use that drops it; all
/// earlier items were delivered.
#[tokio::test]
async fn pg_1_each_list_item_of_the_first_page_comes_before_the_expiry() {
    let script = pages_of_ten(21, true);
    script.then([refusal(410, "Expired")]);
    let listed: Vec<_> = maps(&script).list_pages(&ListParams::default().limit(10)).collect().await;
    let items = listed.iter().take_while(|it| matches!(it, Ok(ListEvent::Item(_)))).count();
    assert_eq!((items, listed.len()), (10, 12));
    assert!(matches!(listed[10], Ok(ListEvent::Restarted)));
    assert!(matches!(&listed[11], Err(error) if error.is_expired()));
}

/// The upstream scenarios "error processing item" and "cancel context while processing": the reader
/// of the stream may stop anywhere, and nothing more is requested.
#[tokio::test]
async fn pg_1_each_list_item_may_be_the_last_one_read() {
    for stop_after in [3, 10, 11] {
        let script = pages_of_ten(51, false);
        let params = ListParams::default().limit(10);
        let result: Result<(), usize> = maps(&script)
            .list_pages(&params)
            .map(|it| it.expect("listed"))
            .enumerate()
            .map(|(at, _)| if at + 1 == stop_after { Err(at + 1) } else { Ok(()) })
            .try_collect()
            .await;
        assert_eq!(result, Err(stop_after));
        assert_eq!(script.seen().len(), stop_after.div_ceil(10));
        assert_eq!(script.open_bodies(), 0);
    }
}

/// The upstream table ListPager_eachListPageBuffered. Pages are not requested ahead of the reader,
/// so that memory holds a chunk and not ten pages.
#[tokio::test]
async fn pg_1_each_list_page_is_requested_when_it_is_read() {
    for (pages, read) in [(1, 1), (5, 1), (5, 2), (5, 5)] {
        let script = pages_of_ten(pages * 10, false);
        let mut stream = maps(&script).list_pages(&ListParams::default().limit(10));
        for _ in 0..read * 10 {
            stream.next().await.expect("an item").expect("listed");
        }
        assert_eq!(script.seen().len(), read);
    }
}

#[tokio::test]
async fn a_list_with_a_limit_is_one_page_with_its_token() {
    let script = Script::new([page("7", "t1", &["a", "b"])]);
    let list = maps(&script).list(&ListParams::default().limit(2)).await.expect("listed");
    assert_eq!((list.items.len(), list.metadata.continue_token.as_deref()), (2, Some("t1")));
    assert_eq!(script.seen().len(), 1);
}

#[tokio::test]
async fn items_are_yielded_before_the_body_ends_and_before_it_breaks() {
    let body = format!(r#"{{"metadata":{{"resourceVersion":"5"}},"items":[{},{},"#, item("a"), item("b"));
    let script = Script::new([json(200, body.clone()).silence()]);
    let mut stream = maps(&script).list_stream(&ListParams::default());
    for expected in ["a", "b"] {
        let Some(Ok(ListEvent::Item(object))) = stream.next().await else { panic!("an item") };
        assert_eq!(object.header().name, expected);
    }
    let script = Script::new([json(200, body.clone()).lost()]);
    let seen: Vec<_> = maps(&script).list_stream(&ListParams::default()).collect().await;
    assert_eq!(seen.len(), 3);
    assert!(
        matches!(seen[2], Err(Error::Unreachable { .. })),
        "a list that broke off never counts as complete"
    );
    let script = Script::new([json(200, body)]);
    let error = maps(&script).list(&ListParams::default()).await.expect_err("torn");
    assert_eq!(error.transport(), Some(dogwatch_client::transport::TransportErrorKind::Lost), "{error:?}");
}

#[tokio::test]
async fn a_poison_object_is_reported_and_the_others_are_listed() {
    let poison = r#"{"metadata":{"name":"p","namespace":"a","resourceVersion":"3"},"data":[1]}"#;
    let body =
        format!(r#"{{"metadata":{{"resourceVersion":"5"}},"items":[{},{poison},{}]}}"#, item("a"), item("b"));
    let script = Script::new([json(200, body)]);
    let list = maps(&script).list(&ListParams::default()).await.expect("listed");
    assert_eq!((list.items.len(), list.bad.len()), (2, 1));
    assert_eq!(list.bad[0].key.as_ref().map(ToString::to_string).as_deref(), Some("a/p"));
    assert_eq!(list.bad[0].path, "data");
}

#[tokio::test]
async fn a_response_that_is_not_a_list_is_an_error_that_describes_it() {
    for (answer, problem) in [
        (reply(200).chunk("<html>hello</html>"), "<html>hello</html>"),
        (json(200, r#"{"kind":"Pod","metadata":{}}"#), "Pod"),
        (reply(200), ""),
    ] {
        let error = maps(&Script::new([answer])).list(&ListParams::default()).await.expect_err("no list");
        assert!(error.to_string().contains(problem), "{error}");
    }
    let status = json(
        200,
        r#"{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403}"#,
    );
    assert!(
        maps(&Script::new([status])).list(&ListParams::default()).await.expect_err("refused").is_forbidden()
    );
}

#[tokio::test]
async fn dy_2_a_metadata_handle_requests_metadata_and_accepts_whole_objects() {
    let script = Script::new([page("5", "", &["a"]), json(200, item("a"))]);
    let api = Api::<PartialObjectMeta<ConfigMap>>::namespaced(script.client(), "a");
    let params = ListParams::default().fields(FieldSelector::name("a"));
    assert_eq!(api.list(&params).await.expect("listed").items.len(), 1);
    api.get("a").await.expect("read");
    let seen = script.seen();
    assert_eq!(seen[0].target, "/base/api/v1/namespaces/a/configmaps?fieldSelector=metadata.name%3Da");
    let accepts: Vec<_> =
        seen.iter().map(|it| it.headers[http::header::ACCEPT].to_str().unwrap().to_owned()).collect();
    assert!(
        accepts[0].contains("as=PartialObjectMetadataList")
            && accepts[1].contains("as=PartialObjectMetadata;")
    );
}

#[tokio::test(start_paused = true)]
async fn the_time_limit_of_the_settings_applies_to_lists_and_is_sent_to_the_server() {
    let body = format!(r#"{{"metadata":{{"resourceVersion":"5"}},"items":[{},"#, item("a"));
    let script = Script::new([json(200, body).silence()]);
    let mut config = Config::new("http://127.0.0.1:1/".parse().expect("a URL"));
    config.timeout = Some(Duration::from_secs(7));
    let service = script.clone();
    let layer = tower::layer::layer_fn(move |_| service.clone());
    let client = Client::builder(config).layer(layer).build().expect("valid settings");
    let start = tokio::time::Instant::now();
    let listed = Api::<ConfigMap>::namespaced(client, "a").list(&ListParams::default()).await;
    assert!(matches!(listed, Err(Error::TimedOut(limit)) if limit == Duration::from_secs(7)));
    assert_eq!(start.elapsed(), Duration::from_secs(7));
    assert_eq!(script.targets(), ["/api/v1/namespaces/a/configmaps?timeout=7s"]);
}

#[tokio::test(start_paused = true)]
async fn the_time_limit_of_a_list_begins_after_the_rate_limit() {
    let script = Script::new([page("5", "", &["a"]), page("5", "", &["a"])]);
    let client = script.builder(|config| {
        config.timeout = Some(Duration::from_secs(5));
        config.rate_limit = Some(RateLimit { qps: 0.1, burst: 1 });
    });
    let maps = Api::<ConfigMap>::namespaced(client.build().expect("a client"), "a");
    for _ in 0..2 {
        assert_eq!(maps.list_all(&ListParams::default()).await.expect("listed").items.len(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn the_readers_own_work_does_not_count_towards_the_time_limit_of_a_list() {
    let script = Script::new([page("5", "", &["a", "b", "c"])]);
    let client = script.builder(|config| config.timeout = Some(Duration::from_secs(5)));
    let maps = Api::<ConfigMap>::namespaced(client.build().expect("a client"), "a");
    let mut list = maps.list_pages(&ListParams::default());
    let mut read = 0;
    while let Some(listed) = list.try_next().await.expect("in time") {
        read += usize::from(matches!(listed, ListEvent::Item(_)));
        tokio::time::sleep(Duration::from_secs(6)).await;
    }
    assert_eq!(read, 3);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_sends_a_list_slowly_exceeds_the_time_limit() {
    let second = Duration::from_secs(1);
    let drops = (0..10).fold(reply(200), |reply, _| reply.chunk(" ").pause(second));
    let script = Script::new([drops]);
    let client = script.builder(|config| config.timeout = Some(5 * second));
    let maps = Api::<ConfigMap>::namespaced(client.build().expect("a client"), "a");
    let start = tokio::time::Instant::now();
    let error = maps.list_all(&ListParams::default()).await.expect_err("too late");
    assert!(matches!(error, Error::TimedOut(_)), "{error}");
    assert_eq!(start.elapsed().as_secs(), 5);
}

#[tokio::test]
async fn an_empty_response_to_a_list_is_malformed() {
    let script = Script::new([reply(200)]);
    let error = maps(&script).list_all(&ListParams::default()).await.expect_err("no list");
    assert!(matches!(error, Error::Malformed { .. }), "{error}");
}

#[tokio::test]
async fn pg_1_an_expiry_with_null_fields_reads_the_list_again() {
    let expired =
        r#"{"kind":"Status","status":"Failure","message":null,"reason":"Expired","code":410,"details":null}"#;
    let script =
        Script::new([page("5", "t1", &["a", "b"]), json(410, expired), page("6", "", &["a", "b", "c"])]);
    assert_eq!(names(&script, ListParams::default().limit(2)).await.expect("listed"), ["a", "b", "c"]);
}

#[tokio::test]
async fn dy_1_objects_of_a_dynamic_list_know_their_kind() {
    let script = Script::new([page("5", "", &["a"])]);
    let resource = ResourceType::of::<ConfigMap>(&(), Scope::Namespaced);
    let objects = Api::<DynamicObject>::dynamic(script.client(), resource).in_namespace("a");
    let list = objects.list_all(&ListParams::default()).await.expect("listed");
    let types = list.items[0].types.as_ref().expect("a kind");
    assert_eq!((types.api_version.as_str(), types.kind.as_str()), ("v1", "ConfigMap"));
}
