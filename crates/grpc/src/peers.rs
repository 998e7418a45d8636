//! What one peer, or one call, may do to the others: late answers and changing limits.

use std::pin::pin;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::FutureExt;
use http_body_util::BodyExt;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use crate::endpoints::EndpointId;
use crate::scene::{Scene, ask};

const SECOND: Duration = Duration::from_secs(1);

/// Waits until something holds, on the paused clock.
async fn eventually(holds: impl Fn() -> bool, what: &str) {
    let waiting = async {
        while !holds() {
            sleep(Duration::from_millis(1)).await;
        }
    };
    timeout(600 * SECOND, waiting).await.unwrap_or_else(|_| panic!("waited in vain for {what}"));
}

/// Answers that cross the resets of calls that were given up are no fault of the peer; other calls of the connection go on.
#[tokio::test(start_paused = true)]
async fn late_answers_to_calls_that_were_given_up_do_not_end_the_connection() {
    let scene = Scene::new(|it| it.no_keep_alive());
    let server = &scene.servers[0];
    let mut innocent = pin!(scene.call("quiet").await.into_body());
    // More than the library remembers, and more than it would bear by itself of those that it does not.
    const CALLS: usize = 6_000;
    let late = |_| {
        let channel = scene.channel.clone();
        tokio::spawn(async move { ask(&channel, "late", Some("500m")).await })
    };
    let calls: Vec<_> = (0..CALLS).map(late).collect();
    for call in calls {
        assert_eq!(call.await.unwrap().headers()["grpc-status"], "4");
    }
    eventually(|| server.record.resets.load(Ordering::SeqCst) == CALLS, "all resets").await;
    server.release();
    for _ in 0..20 {
        assert!(scene.works().await);
        sleep(SECOND).await;
    }
    assert_eq!(server.connections(), 1);
    let ended = innocent.frame().now_or_never();
    assert!(ended.is_none(), "the stream of another call ended: {ended:?}");
}

/// A server that has too much to do says so, and takes it back later.
#[tokio::test(start_paused = true)]
async fn a_pod_that_changes_how_many_calls_it_takes_is_believed_at_once() {
    let scene = Scene::new(|it| it);
    scene.list(&[1, 2]);
    scene.channel.connected(2).await;
    let changing = || scene.channel.endpoints().into_iter().find(|it| it.endpoint.id == EndpointId::new("1"));
    let taken = || changing().unwrap().calls;
    let share = async || {
        let before = taken();
        for _ in 0..20 {
            assert!(scene.works().await);
        }
        taken() - before
    };
    let ready = |count| {
        let channel = scene.channel.clone();
        async move { eventually(|| channel.ready_endpoints() == count, "another number of endpoints").await }
    };
    assert_eq!(share().await, 10);
    scene.servers[0].takes(0);
    ready(1).await;
    assert_eq!(share().await, 0);
    scene.servers[0].takes(1);
    ready(2).await;
    assert_eq!(share().await, 10);
    // Its only place is taken, so that others are called.
    let channel = scene.channel.clone();
    let busy: [JoinHandle<_>; 2] = [(); 2].map(|()| {
        let channel = channel.clone();
        tokio::spawn(async move { ask(&channel, "mute", None).await })
    });
    eventually(|| changing().unwrap().in_flight == 1, "the call that takes the place").await;
    assert_eq!(share().await, 0);
    busy.iter().for_each(JoinHandle::abort);
}
