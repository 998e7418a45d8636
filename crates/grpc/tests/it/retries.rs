//! Calls that servers refuse or fail: how often they are sent, by which method's policy, and within
//! which time.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use dogwatch_grpc::{KubeChannel, Retry};
use h2::server::SendResponse;
use http::uri::PathAndQuery;
use tonic::{Code, Request};
use tonic_prost::ProstCodec;

use crate::echo::{EchoClient, Message, message};
use crate::manual_clock::{ManualClock, STEP, eventually, yield_briefly};
use crate::non_grpc_servers::non_grpc_server;
use crate::pods::{Pod, Service, connected, endpoint};

/// The `grpc-previous-rpc-attempts` header of each attempt.
type Attempts = Arc<Mutex<Vec<Option<String>>>>;

/// Starts servers that record every attempt in one list and answer in this way.
async fn servers(
    count: usize,
    answer: impl Fn(SendResponse<Bytes>) + Copy + Send + 'static,
) -> (Vec<SocketAddr>, Attempts) {
    let (mut addresses, attempts) = (Vec::new(), Attempts::default());
    for _ in 0..count {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        addresses.push(listener.local_addr().unwrap());
        let noted = Arc::clone(&attempts);
        tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                let noted = Arc::clone(&noted);
                tokio::spawn(async move {
                    let mut connection = h2::server::handshake(socket).await.unwrap();
                    while let Some(Ok((request, respond))) = connection.accept().await {
                        let before = request.headers().get("grpc-previous-rpc-attempts");
                        noted.lock().unwrap().push(before.map(|it| it.to_str().unwrap().to_owned()));
                        answer(respond);
                    }
                });
            }
        });
    }
    (addresses, attempts)
}

fn refuses(mut respond: SendResponse<Bytes>) {
    respond.send_reset(h2::Reason::REFUSED_STREAM);
}

fn unavailable(mut respond: SendResponse<Bytes>) {
    let head =
        http::Response::builder().header("content-type", "application/grpc").header("grpc-status", "14");
    respond.send_response(head.body(()).unwrap(), true).unwrap();
}

fn service_of(addresses: &[SocketAddr]) -> Service {
    let service = Service::new();
    service.set(addresses.iter().map(|it| endpoint(&it.to_string(), *it)).collect());
    service
}

/// Servers refuse when they are overloaded: more calls from every client would make it worse.
#[tokio::test]
async fn a_call_that_every_server_refuses_is_sent_exactly_twice() {
    for count in [1, 3, 20] {
        let (addresses, attempts) = servers(count, refuses).await;
        let channel = service_of(&addresses).channel();
        connected(&channel, count).await;
        let status = EchoClient::new(&channel).one("hello").await.unwrap_err();
        assert_eq!(status.code(), Code::Unavailable, "{status:?}");
        assert!(status.message().contains("refused"), "{status:?}");
        assert_eq!(*attempts.lock().unwrap(), [None, None], "{count} servers");
    }
}

/// After that it is a failure like any other, and the retry policy decides.
#[tokio::test]
async fn a_call_refused_twice_is_retried_by_the_policy_of_its_method() {
    let (addresses, attempts) = servers(5, refuses).await;
    let builder = KubeChannel::builder(service_of(&addresses).receiver());
    let channel = builder.retry(Retry::default()).build().unwrap();
    connected(&channel, 5).await;
    EchoClient::new(&channel).one("hello").await.unwrap_err();
    let said = |it: &str| Some(it.to_owned());
    assert_eq!(*attempts.lock().unwrap(), [None, None, said("1"), said("2")]);
}

#[tokio::test]
async fn a_retry_has_the_number_of_previous_attempts() {
    let (addresses, attempts) = servers(1, unavailable).await;
    let builder = KubeChannel::builder(service_of(&addresses).receiver());
    let channel = builder.retry(Retry { attempts: 4, ..Retry::default() }).build().unwrap();
    EchoClient::new(&channel).one("hello").await.unwrap_err();
    let said = |it: &str| Some(it.to_owned());
    assert_eq!(*attempts.lock().unwrap(), [None, said("1"), said("2"), said("3")]);
}

/// A method that must not be executed twice is not, whatever the rest of the service allows.
#[tokio::test]
async fn each_method_is_retried_by_its_own_policy() {
    let pods = Pod::start_many(1).await;
    let build = |set: fn(dogwatch_grpc::ChannelBuilder) -> dogwatch_grpc::ChannelBuilder| {
        set(KubeChannel::builder(Service::of(&pods).receiver())).build().unwrap()
    };
    let table = [
        (build(|it| it), 1),
        (build(|it| it.retry(Retry::default())), 2),
        (build(|it| it.retry(Retry::default()).retry_for("/test.Echo/One", None)), 1),
        (build(|it| it.retry(Retry::default()).retry_for("test.Echo", None)), 1),
        (build(|it| it.retry_for("test.Echo/One", Retry::default())), 2),
        (build(|it| it.retry_for("test.Echo", Retry::default()).retry_for("test.Echo/One", None)), 1),
        (build(|it| it.retry_for("test.Echo/Many", Retry::default())), 1),
    ];
    for (number, (channel, sent)) in table.into_iter().enumerate() {
        let text = format!("hello {number}");
        pods[0].seen.fail(1, Code::Unavailable);
        let answer = EchoClient::new(&channel).one(&text).await;
        pods[0].seen.fail(0, Code::Ok);
        assert_eq!((pods[0].seen.begun(&text), answer.is_ok()), (sent, sent == 2), "{number}");
    }
}

/// The channel's timeout applies if the caller has none, and otherwise the shorter one.
#[tokio::test]
async fn calls_without_a_deadline_get_the_timeout_of_the_channel() {
    let pods = Pod::start_many(1).await;
    let short = Duration::from_millis(30);
    let channel = KubeChannel::builder(Service::of(&pods).receiver())
        .timeout(short)
        .timeout_for("test.Echo/Many", None)
        .build()
        .unwrap();
    let client = EchoClient::new(&channel);
    let mut stream = client.many("wait", 2).await.unwrap();
    assert_eq!(client.one("wait").await.unwrap_err().code(), Code::DeadlineExceeded);
    let mut request = Request::new(message("wait", 0));
    request.set_timeout(Duration::from_secs(3_600));
    assert_eq!(client.ask(request).await.unwrap_err().code(), Code::DeadlineExceeded);
    // A method that streams for long has no limit, if configured so.
    pods[0].seen.gate.add_permits(10);
    assert_eq!(stream.message().await.unwrap().unwrap().count, 0);
    assert_eq!(stream.message().await.unwrap().unwrap().count, 1);
    assert_eq!(stream.message().await.unwrap(), None);
}

#[tokio::test]
async fn the_server_receives_the_timeout_of_the_channel() {
    let (address, asked) = non_grpc_server(unavailable).await;
    let builder = KubeChannel::builder(service_of(&[address]).receiver());
    let channel = builder.timeout(Duration::from_secs(50)).build().unwrap();
    EchoClient::new(&channel).one("hello").await.unwrap_err();
    let mut request = Request::new(message("hello", 0));
    request.set_timeout(Duration::from_secs(3));
    EchoClient::new(&channel).ask(request).await.unwrap_err();
    let asked = asked.lock().unwrap();
    let own: u64 = asked[0].as_ref().unwrap().trim_end_matches('u').parse().unwrap();
    assert!((1..=50_000_000).contains(&own), "{asked:?}");
    assert_eq!(asked[1].as_deref(), Some("3000000u"), "the caller's own value should be kept");
}

/// Counts when it is dropped.
struct DropCounter(Arc<AtomicUsize>);

impl Drop for DropCounter {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// A caller that only sends never polls the response, where the deadline would be enforced.
#[tokio::test]
async fn the_deadline_of_a_stream_also_ends_its_sending() {
    let clock = ManualClock::begin();
    let pods = Pod::start_many(1).await;
    let channel = KubeChannel::builder(Service::of(&pods).receiver()).build().unwrap();
    connected(&channel, 1).await;
    let (over, sent) = (Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default());
    let messages = futures_util::stream::unfold(
        (DropCounter(Arc::clone(&over)), Arc::clone(&sent)),
        async |(counter, sent)| {
            yield_briefly().await;
            let count = sent.fetch_add(1, Ordering::SeqCst) as u32;
            Some((message("more", count), (counter, sent)))
        },
    );
    let mut request = Request::new(Box::pin(messages));
    request.set_timeout(Duration::from_millis(100));
    let mut grpc = tonic::client::Grpc::new(channel.clone());
    let codec = ProstCodec::<Message, Message>::default();
    let path = PathAndQuery::from_static("/test.Echo/Both");
    // While time stands still: on a busy machine the head of the response may take longer than the
    // deadline.
    let mut answers = grpc.streaming(request, path, codec).await.unwrap().into_inner();
    clock.advance(STEP).await;
    eventually(
        || over.load(Ordering::SeqCst) == 1,
        || format!("{sent:?} messages were sent, and the stream did not end"),
    )
    .await;
    let status = loop {
        match answers.message().await {
            Ok(answer) => assert!(answer.is_some(), "the stream ended without a status"),
            Err(status) => break status,
        }
    };
    assert_eq!(status.code(), Code::DeadlineExceeded, "{status:?}");
}
