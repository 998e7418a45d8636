//! Network faults over real connections: TLS on loopback, every case over HTTP/2 and over HTTP/1.1.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use dogwatch_client::config::Pem;
use dogwatch_client::transport::TransportErrorKind;
use dogwatch_client::{Api, Client, Config, Error};
use dogwatch_core::{ListParams, WatchParams, WriteParams};
use dogwatch_wire::WatchEvent;
use futures_util::StreamExt;
use http::{Response, StatusCode};
use k8s_openapi::api::core::v1::ConfigMap;
use tokio::sync::mpsc;

use crate::support::{Authority, Body, Server, ServerSetup, empty, endless, streamed, text};

const ITEM: &str = r#"{"metadata":{"name":"x","namespace":"a","resourceVersion":"6"}}"#;
const ADDED: &str =
    r#"{"type":"ADDED","object":{"metadata":{"name":"x","namespace":"a","resourceVersion":"6"}}}"#;

/// Longer than any request here takes on the slowest machine, and shorter than the interval after
/// which a connection is checked.
const LIMIT: Duration = Duration::from_secs(20);

/// Lets the time limit pass at once for a future that waits for it, as soon as there is nothing
/// else to do.
async fn time_is_up<T>(waiting: impl Future<Output = T>) -> T {
    tokio::time::pause();
    let outcome = waiting.await;
    tokio::time::resume();
    outcome
}

/// A server and its client, for one HTTP version.
struct FaultCase {
    server: Server,
    client: Client,
    asked: Arc<AtomicUsize>,
    http: &'static str,
}

/// Runs a test over both versions. `answer` returns the response to the n-th request, counted
/// from 0.
async fn both(
    answer: impl Fn(usize) -> Response<Body> + Clone + Send + Sync + 'static,
    test: impl AsyncFn(FaultCase),
) {
    for http in ["h2", "http/1.1"] {
        let authority = Authority::new("cluster");
        let setup = ServerSetup::tls(authority.server(&["127.0.0.1"]));
        let setup = if http == "h2" { setup } else { setup.http1_only() };
        let (asked, answer) = (Arc::new(AtomicUsize::new(0)), answer.clone());
        let count = Arc::clone(&asked);
        let handler = move |_, _| std::future::ready(answer(count.fetch_add(1, Ordering::SeqCst)));
        let server = setup.start(handler).await;
        let mut config = Config::new(server.url().parse().expect("a URL"));
        config.tls.ca = Some(Pem::Data(authority.pem().into()));
        let client = Client::new(config).expect("valid settings");
        test(FaultCase { server, client, asked, http }).await;
    }
}

impl FaultCase {
    fn maps(&self) -> Api<ConfigMap> {
        Api::namespaced(self.client.clone(), "a")
    }
}

fn with_code(code: u16, mut response: Response<Body>) -> Response<Body> {
    *response.status_mut() = StatusCode::from_u16(code).expect("a code");
    response
}

fn with_header(name: &'static str, value: &'static str, mut response: Response<Body>) -> Response<Body> {
    response.headers_mut().insert(name, value.parse().expect("a header"));
    response
}

/// The bodies in progress, oldest first.
type Senders = Arc<Mutex<Vec<mpsc::UnboundedSender<Bytes>>>>;

/// Returns responses whose chunks the test sends, and their senders in order.
fn by_hand() -> (impl Fn(usize) -> Response<Body> + Clone, Senders) {
    let senders = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&senders);
    let answer = move |_| {
        let (sender, response) = streamed();
        kept.lock().expect("not poisoned").push(sender);
        response
    };
    (answer, senders)
}

#[tokio::test]
async fn a_server_that_closes_in_the_middle_of_a_list_is_a_lost_connection() {
    let (answer, senders) = by_hand();
    both(answer, async |case| {
        let reading = case.maps();
        let listing = tokio::spawn(async move { reading.list(&ListParams::default()).await });
        while senders.lock().expect("not poisoned").is_empty() {
            tokio::task::yield_now().await;
        }
        let sender = senders.lock().expect("not poisoned").remove(0);
        sender.send(format!(r#"{{"metadata":{{}},"items":[{ITEM},"#).into()).expect("still read");
        case.server.cut();
        let error = listing.await.expect("no panic").expect_err("a list that broke off");
        assert_eq!(error.transport(), Some(TransportErrorKind::Lost), "{} {error:?}", case.http);
    })
    .await;
}

#[tokio::test]
async fn events_before_a_frame_that_is_cut_off_are_delivered() {
    let (answer, senders) = by_hand();
    both(answer, async |case| {
        let mut watch = case.maps().watch(&WatchParams::after("5")).await.expect("opened");
        let sender = senders.lock().expect("not poisoned").remove(0);
        sender.send(format!("{ADDED}{{\"type\":\"MOD").into()).expect("still read");
        assert!(matches!(watch.next().await, Some(Ok(WatchEvent::Added(_)))));
        case.server.cut();
        let error = watch.next().await.expect("an error").expect_err("torn");
        assert_eq!(error.transport(), Some(TransportErrorKind::Lost), "{} {error:?}", case.http);
        assert!(watch.next().await.is_none());
    })
    .await;
}

#[tokio::test]
async fn an_orderly_end_in_the_middle_of_a_frame_is_torn_too() {
    let (answer, senders) = by_hand();
    both(answer, async |case| {
        let mut watch = case.maps().watch(&WatchParams::after("5")).await.expect("opened");
        let sender = senders.lock().expect("not poisoned").remove(0);
        sender
            .send(Bytes::from_static(b"{\"type\":\"ADDED\",\"object\":{\"metadata\":{\"name\":\"\\u00"))
            .expect("still read");
        drop(sender);
        let error = watch.next().await.expect("an error").expect_err("torn");
        assert_eq!(error.transport(), Some(TransportErrorKind::Lost), "{} {error:?}", case.http);
    })
    .await;
}

#[tokio::test]
async fn an_event_split_into_single_bytes_is_one_event() {
    let (answer, senders) = by_hand();
    both(answer, async |case| {
        let mut watch = case.maps().watch(&WatchParams::after("5")).await.expect("opened");
        let sender = senders.lock().expect("not poisoned").remove(0);
        for byte in ADDED.bytes() {
            sender.send(Bytes::copy_from_slice(&[byte])).expect("still read");
        }
        assert!(matches!(watch.next().await, Some(Ok(WatchEvent::Added(_)))));
        drop(sender);
        assert!(watch.next().await.is_none(), "a clean end is no error");
    })
    .await;
}

#[tokio::test]
async fn a_redirect_is_not_followed_and_is_an_error_that_says_so() {
    let answer = |_| with_code(302, with_header("location", "https://127.0.0.2/", empty()));
    both(answer, async |case| {
        let error = case.maps().get("x").await.expect_err("redirected");
        assert!(error.to_string().contains("redirected") && error.to_string().contains("302"), "{error}");
        assert_eq!(case.asked.load(Ordering::SeqCst), 1);
    })
    .await;
}

#[tokio::test]
async fn an_html_page_of_a_proxy_is_a_malformed_response() {
    let answer = |_| with_header("content-type", "text/html", text("<html>please log in</html>"));
    both(answer, async |case| {
        let object = case.maps().get("x").await.expect_err("no object");
        let list = case.maps().list(&ListParams::default()).await.expect_err("no list");
        let watch = case.maps().watch(&WatchParams::after("5")).await.expect_err("no watch");
        for error in [object, list, watch] {
            assert!(matches!(error, Error::Malformed { .. }), "{} {error}", case.http);
        }
    })
    .await;
}

#[tokio::test]
async fn an_empty_body_instead_of_an_object_is_an_error() {
    both(
        |_| empty(),
        async |case| {
            let error = case.maps().get("x").await.expect_err("nothing");
            assert!(error.to_string().contains("0-length response"), "{error}");
            assert!(case.maps().list(&ListParams::default()).await.is_err());
            let ended = case.maps().watch(&WatchParams::after("5")).await.expect("opened").next().await;
            assert!(ended.is_none(), "a watch may end before its first event");
        },
    )
    .await;
}

#[tokio::test]
async fn a_500_without_a_status_is_not_retried_and_shows_its_text() {
    let answer = |_| with_code(500, with_header("content-type", "text/plain", text("etcd is on fire")));
    both(answer, async |case| {
        let error = case.maps().get("x").await.expect_err("refused");
        assert!(
            error.status().is_some_and(|it| it.is_internal_error()) && error.to_string().contains("on fire"),
            "{error}"
        );
        assert_eq!(case.asked.load(Ordering::SeqCst), 1);
    })
    .await;
}

#[tokio::test]
async fn a_429_is_retried_only_with_retry_after() {
    let with_delay =
        |n| if n == 0 { with_code(429, with_header("retry-after", "0", empty())) } else { text(ITEM) };
    both(with_delay, async |case| {
        case.maps().create(&WriteParams::default(), &ConfigMap::default()).await.expect("created");
        assert_eq!(case.asked.load(Ordering::SeqCst), 2);
        // RQ-10: the rest of the error response was short and was read, so the connection could be
        // reused. An HTTP/1.1 server first sees one handshake that offers HTTP/2.
        assert_eq!(case.server.accepted(), if case.http == "h2" { 1 } else { 2 });
    })
    .await;
    both(
        |_| with_code(429, empty()),
        async |case| {
            assert!(case.maps().get("x").await.expect_err("refused").is_too_many_requests());
            assert_eq!(case.asked.load(Ordering::SeqCst), 1);
        },
    )
    .await;
}

#[tokio::test]
async fn an_endless_frame_is_rejected_at_16_mib() {
    both(
        |_| endless(),
        async |case| {
            let mut watch = case.maps().watch(&WatchParams::after("5")).await.expect("opened");
            let error = watch.next().await.expect("an error").expect_err("no event");
            assert!(matches!(error, Error::Malformed { .. }), "{error}");
        },
    )
    .await;
    let (answer, senders) = by_hand();
    both(answer, async |case| {
        let mut watch = case.maps().watch(&WatchParams::after("5")).await.expect("opened");
        let sender = senders.lock().expect("not poisoned").remove(0);
        sender.send(Bytes::from_static(br#"{"type":"ADDED","object":{"data":{"a":""#)).expect("still read");
        let filler = Bytes::from(vec![b'x'; 1 << 20]);
        for _ in 0..100 {
            // The client may have closed the connection already, as it should.
            let _ = sender.send(filler.clone());
        }
        let error = watch.next().await.expect("an error").expect_err("too large");
        assert!(error.to_string().contains("larger than 16777216 bytes"), "{error}");
    })
    .await;
}

#[tokio::test]
async fn invalid_utf_8_names_the_object_and_the_next_one_still_comes() {
    let body = [br#"{"metadata":{"resourceVersion":"7"},"items":[{"metadata":{"name":"p","namespace":"a"},"data":{"k":""#, &b"\xff\xfe"[..], br#""}},"#, ITEM.as_bytes(), b"]}"].concat();
    let body = Bytes::from(body);
    both(
        move |_| text(body.clone()),
        async |case| {
            let list = case.maps().list(&ListParams::default()).await.expect("listed");
            assert_eq!((list.items.len(), list.bad.len()), (1, 1), "{}", case.http);
            assert!(list.bad[0].reason.contains("UTF-8"), "{}", list.bad[0]);
        },
    )
    .await;
}

#[tokio::test]
async fn half_a_chunk_then_silence_ends_at_the_time_limit() {
    let (answer, senders) = by_hand();
    both(answer, async |case| {
        let request = case.client.get().path(&["/version"]).timeout(LIMIT);
        let reading = tokio::spawn(request.send::<serde_json::Value>());
        while senders.lock().expect("not poisoned").is_empty() {
            tokio::task::yield_now().await;
        }
        let sender = senders.lock().expect("not poisoned").remove(0);
        sender.send(Bytes::from_static(br#"{"major":"#)).expect("still read");
        let error = time_is_up(reading).await.expect("no panic").expect_err("no complete response");
        assert!(matches!(error, Error::TimedOut(_)), "{error}");
    })
    .await;
}

#[tokio::test]
async fn a_watch_survives_a_cut_connection_and_resumes() {
    let (answer, senders) = by_hand();
    both(answer, async |case| {
        let mut watch = case.maps().watch_from(WatchParams::after("5")).expect("a version");
        let event = |version: u32| Bytes::from(ADDED.replace("\"6\"", &format!("\"{version}\"")));
        for version in [6, 7] {
            let (item, ()) = tokio::join!(watch.next(), async {
                while senders.lock().expect("not poisoned").is_empty() {
                    tokio::task::yield_now().await;
                }
                senders.lock().expect("not poisoned")[0].send(event(version)).expect("still read");
            });
            assert!(matches!(item, Some(Ok(WatchEvent::Added(_)))), "{item:?}");
            senders.lock().expect("not poisoned").clear();
            case.server.cut();
        }
    })
    .await;
}

#[tokio::test]
async fn dropping_a_watch_closes_it_at_the_server() {
    let (answer, senders) = by_hand();
    both(answer, async |case| {
        let watch = case.maps().watch(&WatchParams::after("5")).await.expect("opened");
        let sender = senders.lock().expect("not poisoned").remove(0);
        drop(watch);
        sender.closed().await;
    })
    .await;
}

#[tokio::test]
async fn a_connection_whose_response_timed_out_is_not_reused_over_http_1() {
    let late = |n: usize| if n == 0 { never_ending() } else { text(ITEM) };
    both(late, async |case| {
        let timed = case.client.get().path(&["/x"]).timeout(LIMIT);
        let timed = tokio::spawn(timed.send::<serde_json::Value>());
        while case.asked.load(Ordering::SeqCst) == 0 {
            tokio::task::yield_now().await;
        }
        let outcome = time_is_up(timed).await.expect("no panic");
        assert!(matches!(outcome, Err(Error::TimedOut(_))), "{outcome:?}");
        case.maps().get("x").await.expect("the next request is not affected");
        let (http2, http1) = (1, 3);
        assert_eq!(case.server.accepted(), if case.http == "h2" { http2 } else { http1 }, "{}", case.http);
    })
    .await;
}

/// The upstream scenario ReuseRequest.
#[tokio::test]
async fn rq_10_consecutive_requests_use_the_same_connection() {
    both(
        |_| text(ITEM),
        async |case| {
            case.maps().get("x").await.expect("answered");
            let before = case.server.accepted();
            for _ in 0..5 {
                case.maps().get("x").await.expect("answered");
            }
            assert_eq!(case.server.accepted(), before, "{}", case.http);
        },
    )
    .await;
}

/// The upstream scenario TransportConcurrency: each of several concurrent requests gets its own
/// response.
#[tokio::test]
async fn rq_10_concurrent_requests_get_their_own_responses() {
    for http1 in [false, true] {
        let authority = Authority::new("cluster");
        let setup = ServerSetup::tls(authority.server(&["127.0.0.1"]));
        let setup = if http1 { setup.http1_only() } else { setup };
        let echo = |request: http::Request<hyper::body::Incoming>, _| {
            std::future::ready(text(request.uri().query().unwrap_or_default().to_owned()))
        };
        let server = setup.start(echo).await;
        let mut config = Config::new(server.url().parse().expect("a URL"));
        config.tls.ca = Some(Pem::Data(authority.pem().into()));
        let client = Client::new(config).expect("valid settings");
        let asked = futures_util::stream::iter(0..40).map(|at| {
            let request = client.get().path(&["/x"]).param("echo", format!("request-{at}"));
            async move { (at, request.bytes().await.expect("answered")) }
        });
        let answers: Vec<_> = asked.buffer_unordered(4).collect().await;
        assert_eq!(answers.len(), 40);
        for (at, body) in answers {
            assert_eq!(body, format!("echo=request-{at}"));
        }
    }
}

/// The upstream scenario RestClientTimeout: the limit of the settings applies to every request.
#[tokio::test]
async fn the_time_limit_of_the_settings_applies_to_a_server_that_does_not_answer() {
    let authority = Authority::new("cluster");
    let setup = ServerSetup::tls(authority.server(&["127.0.0.1"]));
    let never = |_, _| std::future::pending::<Response<Body>>();
    let server = setup.start(never).await;
    let mut config = Config::new(server.url().parse().expect("a URL"));
    config.tls.ca = Some(Pem::Data(authority.pem().into()));
    config.timeout = Some(Duration::from_millis(200));
    let client = Client::new(config).expect("valid settings");
    let error = client.get().path(&["/"]).bytes().await.expect_err("no answer");
    assert!(matches!(error, Error::TimedOut(limit) if limit == Duration::from_millis(200)), "{error}");
}

/// A response that has begun and never continues.
fn never_ending() -> Response<Body> {
    let (sender, response) = streamed();
    // The sender must outlive the test: dropping it would end the body.
    std::mem::forget(sender);
    response
}

#[tokio::test]
async fn concurrent_requests_are_retried_independently() {
    // Fewer errors than one request may have retries, whichever requests get them.
    let flaky =
        |n: usize| if n < 8 { with_code(503, with_header("retry-after", "0", empty())) } else { text(ITEM) };
    both(flaky, async |case| {
        let maps = case.maps();
        let requests = (0..50).map(|_| maps.get("x"));
        let answers = futures_util::future::join_all(requests).await;
        assert!(answers.iter().all(Result::is_ok), "{} {answers:?}", case.http);
    })
    .await;
}
