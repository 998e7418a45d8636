//! Channels and servers that count pings: one with all defaults is never thrown out, and one that is learns from it.
//!
//! Both sides are on one paused clock, with pipes between them, so that a day takes a moment.

use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use tower_service::Service;

use crate::channel::{ChannelBuilder, KubeChannel, ResponseBody};
use crate::connection::enforcer::Enforcer;
use crate::connection::{Pipes, State};
use crate::endpoints::{Endpoint, EndpointId, EndpointSet};

const HOUR: Duration = Duration::from_secs(3_600);

fn endpoint(number: u8) -> Arc<Endpoint> {
    let address = SocketAddr::from(([10, 0, 0, number], 80));
    Arc::new(Endpoint {
        id: EndpointId::new(number.to_string()),
        addresses: vec![address],
        usable: true,
        ready: true,
        serving: true,
        terminating: false,
        zone: None,
        node: None,
        pod: None,
        weight: 1,
    })
}

/// The servers 10.0.0.1 and 10.0.0.2, and a channel to the first of them.
struct Scene {
    servers: Arc<[Enforcer; 2]>,
    sets: watch::Sender<Arc<EndpointSet>>,
    channel: KubeChannel,
}

impl Scene {
    fn new(set_up: impl FnOnce(ChannelBuilder) -> ChannelBuilder) -> Self {
        let servers = Arc::new([Enforcer::new(), Enforcer::new()]);
        let serving = Arc::clone(&servers);
        let pipes = Pipes(Arc::new(move |address| {
            let (ours, theirs) = tokio::io::duplex(1 << 16);
            let number = if address.ip() == SocketAddr::from(([10, 0, 0, 1], 80)).ip() { 0 } else { 1 };
            serving[number].serve(theirs);
            ours
        }));
        let (sets, set) = watch::channel(Arc::default());
        let channel = set_up(KubeChannel::builder(set).pipes(pipes)).build().unwrap();
        let scene = Self { servers, sets, channel };
        scene.list(&[1]);
        scene
    }

    fn list(&self, numbers: &[u8]) {
        self.sets.send_modify(|set| {
            let mut next = EndpointSet::clone(set);
            next.generation += 1;
            next.endpoints = numbers.iter().copied().map(endpoint).collect();
            *set = Arc::new(next);
        });
    }

    /// The head of the answer to a call with this text.
    async fn call(&self, text: &str) -> Response<ResponseBody> {
        let message = [&[0, 0, 0, 0, text.len() as u8], text.as_bytes()].concat();
        let request = Request::post("/test.Echo/One").header("content-type", "application/grpc");
        let request = request.body(Full::new(Bytes::from(message))).unwrap();
        let Ok(answer) = self.channel.clone().call(request).await;
        answer
    }

    /// Whether a call is answered to its end.
    async fn works(&self) -> bool {
        let answer = self.call("hello").await;
        let all = pin!(answer.into_body()).collect().await;
        all.is_ok_and(|it| it.trailers().is_some_and(|it| it["grpc-status"] == "0"))
    }
}

#[tokio::test(start_paused = true)]
async fn an_idle_channel_with_all_defaults_is_not_thrown_out_in_a_day() {
    let scene = Scene::new(|it| it);
    assert!(scene.works().await);
    sleep(24 * HOUR).await;
    let server = &scene.servers[0];
    assert_eq!((server.connections(), server.ended(), server.pings()), (1, 0, 1));
    assert!(scene.works().await);
    assert_eq!((server.connections(), server.ended()), (1, 0));
}

/// A watch of a configuration, or a subscription: hours without a word, and the connection is looked after all the while.
#[tokio::test(start_paused = true)]
async fn a_quiet_stream_through_a_channel_with_all_defaults_is_not_ended_in_a_day() {
    let scene = Scene::new(|it| it);
    let mut stream = pin!(scene.call("quiet").await.into_body());
    let over = timeout(24 * HOUR, stream.frame()).await;
    assert!(over.is_err(), "it ended: {over:?}");
    let server = &scene.servers[0];
    assert_eq!((server.connections(), server.ended()), (1, 0));
    let pings = server.pings();
    assert!((250..290).contains(&pings), "about one in five minutes: {pings}");
}

/// The same for a call that waits for its answer, beside others that get theirs in all kinds of rhythms.
#[tokio::test(start_paused = true)]
async fn calls_in_any_rhythm_beside_a_slow_one_do_not_annoy_a_server() {
    let scene = Arc::new(Scene::new(|it| it));
    let slow = tokio::spawn({
        let scene = Arc::clone(&scene);
        async move { scene.call("mute").await }
    });
    for pause in [1, 20, 29, 30, 31, 45, 61, 299, 301, 311, 400, 3_000] {
        for _ in 0..20 {
            sleep(Duration::from_secs(pause)).await;
            assert!(scene.works().await);
        }
    }
    let server = &scene.servers[0];
    assert_eq!((server.connections(), server.ended()), (1, 0));
    assert!(!slow.is_finished());
    slow.abort();
}

/// A user who asks for more pings than a server permits gets fewer of them, on all connections of the channel.
#[tokio::test(start_paused = true)]
async fn a_server_that_complains_about_pings_slows_those_of_the_whole_channel() {
    let often = (Duration::from_millis(1), Duration::from_secs(10));
    let scene = Scene::new(|it| it.keep_alive(often.0, often.1).keep_alive_without_calls());
    scene.channel.connected(1).await;
    sleep(48 * HOUR).await;
    let [first, second] = &*scene.servers;
    let learnt = first.ended();
    // From 10 s, which is as often as gRPC permits, to 2 h, twice as long each time.
    assert!((8..=10).contains(&learnt), "{learnt}");
    assert_eq!(first.connections(), learnt + 1);
    scene.list(&[1, 2]);
    scene.channel.connected(2).await;
    sleep(48 * HOUR).await;
    assert_eq!((first.ended(), second.ended()), (learnt, 0), "the second need not complain");
    assert!(scene.channel.endpoints().iter().all(|it| it.state == State::Ready));
}

/// Servers that a user knows may be pinged often, also about calls that get no answer.
#[tokio::test(start_paused = true)]
async fn pings_that_were_asked_for_are_sent_until_the_server_complains() {
    let scene = Scene::new(|it| it.keep_alive(Duration::from_secs(20), Duration::from_secs(10)));
    let answer = scene.call("mute").await;
    assert_eq!(answer.headers()["grpc-status"], "14");
    let server = &scene.servers[0];
    // One to connect, and three strikes; the next connection may have begun.
    assert!((4..=5).contains(&server.pings()) && server.ended() == 1, "{} pings", server.pings());
}
