//! Watches with gzip bodies: when they are requested, and what arrives of a body of several
//! members.

use std::time::Duration;

use async_compression::tokio::write::GzipEncoder;
use bytes::Bytes;
use dogwatch_client::config::Pem;
use dogwatch_client::transport::{GzipLayer, TransportErrorKind};
use dogwatch_client::{Api, Client, Config, Error, WatchStream};
use dogwatch_core::{Object, WatchParams};
use dogwatch_wire::WatchEvent;
use futures_util::StreamExt;
use http::HeaderValue;
use http::header::{ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_TYPE};
use k8s_openapi::api::core::v1::ConfigMap;
use tokio::io::AsyncWriteExt;
use tokio::sync::mpsc;
use tower::Layer;

use crate::scripted::{Reply, Script, reply};
use crate::support::{Authority, ServerSetup, soon, streamed};

const DISTANT: &str = "https://server.test";
const LOCAL: &str = "https://127.0.0.1:6443";

fn event(version: u32) -> String {
    let object = format!(r#"{{"metadata":{{"name":"x","namespace":"a","resourceVersion":"{version}"}}}}"#);
    format!("{{\"type\":\"ADDED\",\"object\":{object}}}\n")
}

/// Compresses a text as one member.
async fn member(text: impl AsRef<[u8]>) -> Vec<u8> {
    let mut encoder = GzipEncoder::new(Vec::new());
    encoder.write_all(text.as_ref()).await.expect("it is in memory");
    encoder.shutdown().await.expect("it is in memory");
    encoder.into_inner()
}

fn gzip() -> Reply {
    reply(200).header("content-type", "application/json").header("content-encoding", "gzip")
}

/// Returns a client of the script with the decompression of the transport.
fn client(script: &Script, adjust: impl FnOnce(&mut Config)) -> Client {
    let mut config = Config::new(DISTANT.parse().expect("a URL"));
    adjust(&mut config);
    let layer = GzipLayer::new(!config.disable_compression);
    let script = script.clone();
    let over = tower::layer::layer_fn(move |_| layer.layer(script.clone()));
    Client::builder(config).layer(over).build().expect("valid settings")
}

fn maps(script: &Script) -> Api<ConfigMap> {
    Api::namespaced(client(script, |_| ()), "a")
}

async fn watch(script: &Script) -> WatchStream<ConfigMap> {
    maps(script).watch(&WatchParams::initial_events()).await.expect("opened")
}

/// Describes an item of a watch in a word or two.
fn describe(item: Result<WatchEvent<ConfigMap>, Error>) -> String {
    match item {
        Ok(WatchEvent::Added(object)) => format!("added {}", object.version()),
        Ok(other) => format!("{other:?}"),
        Err(Error::Malformed { .. }) => "malformed".to_owned(),
        Err(error) => format!("{:?}", error.transport().expect("a transport error")),
    }
}

async fn next(watch: &mut WatchStream<ConfigMap>) -> String {
    describe(watch.next().await.expect("an item"))
}

/// Describes all items of a watch of this body.
async fn all(body: Reply) -> Vec<String> {
    let script = Script::new([body]);
    let items = watch(&script).await.map(describe).collect().await;
    assert_eq!(script.open_bodies(), 0);
    items
}

#[tokio::test]
async fn only_initial_events_of_a_distant_server_are_requested_compressed() {
    let initial = WatchParams::initial_events;
    let resumed = || WatchParams::after("5");
    for (server, disabled, params, expected) in [
        (DISTANT, false, initial(), Some("gzip")),
        (DISTANT, true, initial(), None),
        (DISTANT, false, resumed(), Some("identity")),
        (LOCAL, false, initial(), Some("identity")),
        (LOCAL, false, resumed(), Some("identity")),
    ] {
        let script = Script::new([reply(200)]);
        let client = client(&script, |config| {
            config.server = server.parse().expect("a URL");
            config.disable_compression = disabled;
        });
        drop(Api::<ConfigMap>::all(client).watch(&params).await.expect("opened"));
        let seen = script.seen();
        let requested = seen[0].headers.get(ACCEPT_ENCODING).map(|it| it.to_str().expect("text"));
        assert_eq!(requested, expected, "{server} disabled: {disabled} {params:?}");
    }
}

#[tokio::test]
async fn a_watch_over_another_stack_is_never_compressed_unless_the_request_says_so() {
    let script = Script::new([reply(200), reply(200)]);
    let maps = Api::<ConfigMap>::all(script.client());
    drop(maps.watch(&WatchParams::initial_events()).await.expect("opened"));
    let request = script.client().get().resource(maps.resource()).header(ACCEPT_ENCODING, "gzip");
    drop(request.watch::<ConfigMap>(&WatchParams::after("5")).await.expect("opened"));
    let requested: Vec<_> = script.seen().iter().map(|it| it.headers[ACCEPT_ENCODING].clone()).collect();
    assert_eq!(requested, ["identity", "gzip"]);
}

#[tokio::test(start_paused = true)]
async fn each_event_arrives_when_its_member_is_flushed() {
    let minute = Duration::from_secs(60);
    let body = gzip().chunk(member(event(6)).await).pause(minute).chunk(member(event(7)).await).silence();
    let script = Script::new([body]);
    let start = tokio::time::Instant::now();
    let mut watch = watch(&script).await;
    assert_eq!((next(&mut watch).await.as_str(), start.elapsed()), ("added 6", Duration::ZERO));
    assert_eq!((next(&mut watch).await.as_str(), start.elapsed()), ("added 7", minute));
    assert!(tokio::time::timeout(minute, watch.next()).await.is_err(), "the watch stays open");
}

#[tokio::test(start_paused = true)]
async fn an_event_waits_neither_for_the_end_of_its_member_nor_for_the_next_one() {
    // Without the checksum and the length at the end.
    let whole = member(event(6)).await;
    let script = Script::new([gzip().chunk(whole[..whole.len() - 8].to_vec()).silence()]);
    assert_eq!(next(&mut watch(&script).await).await, "added 6");

    // One member for the whole watch, flushed after each event.
    let mut encoder = GzipEncoder::new(Vec::new());
    let mut body = gzip();
    for version in 6..9 {
        let before = encoder.get_ref().len();
        encoder.write_all(event(version).as_bytes()).await.expect("it is in memory");
        encoder.flush().await.expect("it is in memory");
        body = body.chunk(encoder.get_ref()[before..].to_vec()).pause(Duration::from_secs(60));
    }
    let script = Script::new([body.silence()]);
    let start = tokio::time::Instant::now();
    let mut watch = watch(&script).await;
    for (version, minutes) in [(6, 0), (7, 1), (8, 2)] {
        assert_eq!(next(&mut watch).await, format!("added {version}"));
        assert_eq!(start.elapsed(), Duration::from_secs(60 * minutes));
    }
}

#[tokio::test]
async fn members_split_at_any_byte_give_the_same_events() {
    let empty = member("").await;
    let bytes = [member(event(6)).await, empty.clone(), empty, member(event(7)).await].concat();
    let mut bodies: Vec<_> =
        (1..bytes.len()).map(|at| gzip().chunk(bytes[..at].to_vec()).chunk(bytes[at..].to_vec())).collect();
    bodies.push(bytes.iter().fold(gzip(), |body, byte| body.chunk(vec![*byte])));
    bodies.push(gzip().chunk(bytes));
    for (at, body) in bodies.into_iter().enumerate() {
        let script = Script::new([body.silence()]);
        let mut watch = watch(&script).await;
        assert_eq!([next(&mut watch).await, next(&mut watch).await], ["added 6", "added 7"], "{at}");
    }
}

#[tokio::test]
async fn a_body_that_ends_inside_a_member_is_a_lost_connection() {
    let (first, second) = (member(event(6)).await, member(event(7)).await);
    assert_eq!(all(gzip().chunk(first.clone())).await, ["added 6"]);
    for length in 1..second.len() {
        let items = all(gzip().chunk([&first, &second[..length]].concat())).await;
        let (last, events) = items.split_last().expect("an error");
        assert_eq!(last, "Lost", "{length}");
        assert!(events == ["added 6"] || events == ["added 6", "added 7"], "{length}: {events:?}");
    }
}

#[tokio::test]
async fn a_member_that_is_no_gzip_ends_the_watch_with_an_error() {
    let first = member(event(6)).await;
    let mut checksum = member(event(7)).await;
    let at = checksum.len() - 8;
    checksum[at] ^= 1;
    let cases: [(&[u8], &[&str]); 4] = [
        (b"no gzip at all", &["added 6", "Other"]),
        (&[0; 64], &["added 6", "Other"]),
        // The identification of gzip, and another compression method.
        (&[0x1f, 0x8b, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], &["added 6", "Other"]),
        (&checksum, &["added 6", "added 7", "Other"]),
    ];
    for (garbage, expected) in cases {
        assert_eq!(all(gzip().chunk([&first, garbage].concat())).await, expected, "{garbage:?}");
    }
    assert_eq!(all(gzip().chunk(event(6))).await, ["Other"]);
}

#[tokio::test(start_paused = true)]
async fn a_watch_is_resumed_after_a_member_that_cannot_be_decompressed() {
    let (first, second) = (member(event(6)).await, member(event(7)).await);
    let script = Script::new([
        gzip().chunk([&first[..], &second[..12]].concat()),
        gzip().chunk([&second[..], b"no gzip at all"].concat()),
        gzip().chunk(member(event(8)).await).silence(),
    ]);
    let mut watch = maps(&script).watch_from(WatchParams::after("5")).expect("a specific version");
    for version in [6, 7, 8] {
        assert_eq!(describe(watch.next().await.expect("an item")), format!("added {version}"));
    }
    let targets = script.targets();
    let versions: Vec<_> =
        targets.iter().map(|it| it.rsplit_once("resourceVersion=").expect("one").1).collect();
    assert_eq!(versions, ["5", "6", "7"]);
}

#[tokio::test]
async fn a_decompression_bomb_ends_at_the_limit_of_an_event() {
    // 17 MiB, from about 17 KiB; an event has at most 16 MiB.
    let long = "a".repeat(17 << 20);
    let bomb = member(event(7).replace("\"x\"", &format!("\"{long}\""))).await;
    assert!(bomb.len() < 100_000, "{}", bomb.len());
    let script =
        Script::new([gzip().chunk(member(event(6)).await).chunk(bomb).chunk(member(event(8)).await)]);
    let items: Vec<_> = watch(&script).await.map(describe).collect().await;
    assert_eq!(items, ["added 6", "malformed"]);
    // The rest of the body is not read.
    assert_eq!(script.open_bodies(), 0);
}

#[tokio::test]
async fn a_server_that_does_not_compress_is_unaffected() {
    let plain = reply(200).header("content-type", "application/json");
    assert_eq!(all(plain.chunk(event(6)).chunk(event(7))).await, ["added 6", "added 7"]);
}

/// Over real connections: the chunks of the server arrive as it sends them.
#[tokio::test]
async fn members_arrive_one_by_one_over_http_2_and_http_1() {
    for http in ["h2", "http/1.1"] {
        let authority = Authority::new("cluster");
        let setup = ServerSetup::tls(authority.server(&["127.0.0.1"]));
        let setup = if http == "h2" { setup } else { setup.http1_only() };
        let (opened, mut bodies) = mpsc::unbounded_channel();
        let server = setup
            .start(move |request: http::Request<_>, _| {
                let (body, mut response) = streamed();
                let requested = request.headers().get(ACCEPT_ENCODING).cloned();
                opened.send((requested, body)).expect("the test reads it");
                let headers = response.headers_mut();
                headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
                headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
                std::future::ready(response)
            })
            .await;
        let mut config = Config::new(server.url().parse().expect("a URL"));
        config.tls.ca = Some(Pem::Data(authority.pem().into()));
        let client = Client::new(config).expect("valid settings");
        let maps = Api::<ConfigMap>::namespaced(client.clone(), "a");
        // The server is on this machine.
        let request = client.get().resource(maps.resource()).header(ACCEPT_ENCODING, "gzip");
        let params = WatchParams::initial_events();
        let mut watch: WatchStream<ConfigMap> = soon(request.watch(&params)).await.expect("opened");
        let (requested, body) = bodies.recv().await.expect("a request");
        assert_eq!(requested.expect("a header"), "gzip", "{http}");
        for version in 6..9 {
            body.send(Bytes::from(member(event(version)).await)).expect("the watch is open");
            assert_eq!(soon(next(&mut watch)).await, format!("added {version}"), "{http}");
        }
        let last = member(event(9)).await;
        body.send(Bytes::from(last[..5].to_vec())).expect("the watch is open");
        drop(body);
        assert_eq!(soon(next(&mut watch)).await, format!("{:?}", TransportErrorKind::Lost), "{http}");
    }
}
