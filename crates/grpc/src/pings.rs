//! Channels and servers that count pings: one with all defaults is never thrown out, and one that is learns from it.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::BodyExt;
use tokio::time::{sleep, timeout};

use crate::connection::State;
use crate::scene::Scene;

const HOUR: Duration = Duration::from_secs(3_600);

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

/// A worker that takes minutes for each message has the rest of a short stream in its buffer: for the server the call is over.
#[tokio::test(start_paused = true)]
async fn an_answer_that_is_complete_and_not_read_brings_no_pings() {
    let scene = Scene::new(|it| it);
    let answer = scene.call("hello").await;
    sleep(24 * HOUR).await;
    let server = &scene.servers[0];
    assert_eq!((server.connections(), server.ended()), (1, 0), "{} pings", server.pings());
    let all = pin!(answer.into_body()).collect().await.unwrap();
    assert_eq!(all.trailers().unwrap()["grpc-status"], "0");
}

/// A server that does not have the health service is asked once, and has no open call afterwards.
#[tokio::test(start_paused = true)]
async fn a_server_without_the_health_service_is_not_pinged_while_nobody_calls() {
    let scene = Scene::new(|it| it.health("unknown"));
    scene.channel.connected(1).await;
    sleep(24 * HOUR).await;
    let server = &scene.servers[0];
    assert_eq!((server.connections(), server.ended()), (1, 0), "{} pings", server.pings());
    assert!(scene.works().await);
}

/// `MaxConnectionAge` of grpc-go: the old connection lasts as long as its calls, and the new one has none.
#[tokio::test(start_paused = true)]
async fn a_call_on_a_connection_before_brings_no_pings_on_the_next() {
    let scene = Scene::new(|it| it);
    let mut stream = pin!(scene.call("quiet").await.into_body());
    sleep(Duration::from_secs(60)).await;
    scene.servers[0].say_goodbye();
    sleep(Duration::from_secs(60)).await;
    assert_eq!(scene.servers[0].connections(), 2);
    let over = timeout(24 * HOUR, stream.frame()).await;
    assert!(over.is_err(), "it ended: {over:?}");
    assert_eq!((scene.servers[0].connections(), scene.servers[0].ended()), (2, 0));
    assert!(scene.works().await);
}
