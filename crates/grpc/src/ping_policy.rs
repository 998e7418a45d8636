//! Channels and servers that enforce a ping policy: a default channel never violates it, and a
//! channel that does slows down.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::BodyExt;
use tokio::time::{sleep, timeout};

use crate::connection::ConnectionState;
use crate::test_channel::TestChannel;

const HOUR: Duration = Duration::from_secs(3_600);

#[tokio::test(start_paused = true)]
async fn an_idle_default_channel_is_not_disconnected_in_a_day() {
    let test = TestChannel::new(|it| it);
    assert!(test.works().await);
    sleep(24 * HOUR).await;
    let server = &test.servers[0];
    assert_eq!((server.connections(), server.ended(), server.pings()), (1, 0, 1));
    assert!(test.works().await);
    assert_eq!((server.connections(), server.ended()), (1, 0));
}

/// A configuration watch or a subscription: hours without data, while the connection is checked all
/// the time.
#[tokio::test(start_paused = true)]
async fn a_silent_stream_of_a_default_channel_is_not_ended_in_a_day() {
    let test = TestChannel::new(|it| it);
    let mut stream = pin!(test.call("quiet").await.into_body());
    let over = timeout(24 * HOUR, stream.frame()).await;
    assert!(over.is_err(), "the stream ended: {over:?}");
    let server = &test.servers[0];
    assert_eq!((server.connections(), server.ended()), (1, 0));
    let pings = server.pings();
    assert!((250..290).contains(&pings), "expected about one in five minutes: {pings}");
}

/// The same for a call that waits for its response, concurrent with others at various intervals.
#[tokio::test(start_paused = true)]
async fn calls_at_any_interval_next_to_a_slow_one_cause_no_strikes() {
    let test = Arc::new(TestChannel::new(|it| it));
    let slow = tokio::spawn({
        let test = Arc::clone(&test);
        async move { test.call("mute").await }
    });
    for pause in [1, 20, 29, 30, 31, 45, 61, 299, 301, 311, 400, 3_000] {
        for _ in 0..20 {
            sleep(Duration::from_secs(pause)).await;
            assert!(test.works().await);
        }
    }
    let server = &test.servers[0];
    assert_eq!((server.connections(), server.ended()), (1, 0));
    assert!(!slow.is_finished());
    slow.abort();
}

/// A user who configures more pings than a server permits gets fewer of them, on all connections of
/// the channel.
#[tokio::test(start_paused = true)]
async fn too_many_pings_of_one_server_slows_the_pings_of_the_whole_channel() {
    let often = (Duration::from_millis(1), Duration::from_secs(10));
    let test = TestChannel::new(|it| it.keep_alive(often.0, often.1).keep_alive_without_calls());
    test.channel.connected(1).await;
    sleep(48 * HOUR).await;
    let [first, second] = &*test.servers;
    let learnt = first.ended();
    // From 10 s, the minimum of gRPC, to 2 h, doubled each time.
    assert!((8..=10).contains(&learnt), "{learnt}");
    assert_eq!(first.connections(), learnt + 1);
    test.list(&[1, 2]);
    test.channel.connected(2).await;
    sleep(48 * HOUR).await;
    assert_eq!((first.ended(), second.ended()), (learnt, 0), "the second server should not have to complain");
    assert!(test.channel.endpoints().iter().all(|it| it.state == ConnectionState::Ready));
}

/// A user may ping known servers often, also during calls that get no response.
#[tokio::test(start_paused = true)]
async fn explicitly_configured_pings_are_sent_until_the_server_complains() {
    let test = TestChannel::new(|it| it.keep_alive(Duration::from_secs(20), Duration::from_secs(10)));
    let answer = test.call("mute").await;
    assert_eq!(answer.headers()["grpc-status"], "14");
    let server = &test.servers[0];
    // One to connect, and three strikes; the next connection may have begun.
    assert!((4..=5).contains(&server.pings()) && server.ended() == 1, "{} pings", server.pings());
}

/// A worker that takes minutes for each message has the rest of a short stream in its buffer: for
/// the server the call has ended.
#[tokio::test(start_paused = true)]
async fn a_complete_response_that_is_not_read_causes_no_pings() {
    let test = TestChannel::new(|it| it);
    let answer = test.call("hello").await;
    sleep(24 * HOUR).await;
    let server = &test.servers[0];
    assert_eq!((server.connections(), server.ended()), (1, 0), "{} pings", server.pings());
    let all = pin!(answer.into_body()).collect().await.unwrap();
    assert_eq!(all.trailers().unwrap()["grpc-status"], "0");
}

/// A server without the health service is asked once, and has no open call afterwards.
#[tokio::test(start_paused = true)]
async fn a_server_without_the_health_service_is_not_pinged_while_idle() {
    let test = TestChannel::new(|it| it.health("unknown"));
    test.channel.connected(1).await;
    sleep(24 * HOUR).await;
    let server = &test.servers[0];
    assert_eq!((server.connections(), server.ended()), (1, 0), "{} pings", server.pings());
    assert!(test.works().await);
}

/// grpc-go's `MaxConnectionAge`: the old connection lasts as long as its calls, and the new one has
/// none.
#[tokio::test(start_paused = true)]
async fn a_call_on_an_earlier_connection_causes_no_pings_on_the_next() {
    let test = TestChannel::new(|it| it);
    let mut stream = pin!(test.call("quiet").await.into_body());
    sleep(Duration::from_secs(60)).await;
    test.servers[0].send_go_away();
    sleep(Duration::from_secs(60)).await;
    assert_eq!(test.servers[0].connections(), 2);
    let over = timeout(24 * HOUR, stream.frame()).await;
    assert!(over.is_err(), "the stream ended: {over:?}");
    assert_eq!((test.servers[0].connections(), test.servers[0].ended()), (2, 0));
    assert!(test.works().await);
}
