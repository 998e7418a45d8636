//! Effects of one peer, or one call, on others: late responses, changing limits, and connections
//! that break half-way.

use std::future::Future;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::FutureExt;
use http_body_util::BodyExt;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use crate::channel::KubeChannel;
use crate::connection::TestPipes;
use crate::connection::enforcing_server::EnforcingServer;
use crate::endpoints::{EndpointId, EndpointSet};
use crate::test_channel::{TestChannel, ask, endpoint};

const SECOND: Duration = Duration::from_secs(1);

/// Waits until a condition holds, on the paused clock.
async fn eventually(holds: impl Fn() -> bool, what: &str) {
    let waiting = async {
        while !holds() {
            sleep(Duration::from_millis(1)).await;
        }
    };
    timeout(600 * SECOND, waiting).await.unwrap_or_else(|_| panic!("timed out waiting for {what}"));
}

/// Responses that cross the resets of cancelled calls are no fault of the peer; other calls of the
/// connection continue.
#[tokio::test(start_paused = true)]
async fn late_responses_to_cancelled_calls_do_not_end_the_connection() {
    let test = TestChannel::new(|it| it.no_keep_alive());
    let server = &test.servers[0];
    let mut innocent = pin!(test.call("quiet").await.into_body());
    // More than `h2` remembers, and more than it would tolerate by default of those that it does
    // not.
    const CALLS: usize = 6_000;
    let late = |_| {
        let channel = test.channel.clone();
        tokio::spawn(async move { ask(&channel, "late", Some("500m")).await })
    };
    let calls: Vec<_> = (0..CALLS).map(late).collect();
    for call in calls {
        assert_eq!(call.await.unwrap().headers()["grpc-status"], "4");
    }
    eventually(|| server.record.resets.load(Ordering::SeqCst) == CALLS, "all resets").await;
    server.release();
    for _ in 0..20 {
        assert!(test.works().await);
        sleep(SECOND).await;
    }
    assert_eq!(server.connections(), 1);
    let ended = innocent.frame().now_or_never();
    assert!(ended.is_none(), "the stream of another call ended: {ended:?}");
}

/// An overloaded server lowers its limit of streams, and raises it again later.
#[tokio::test(start_paused = true)]
async fn a_changed_stream_limit_of_a_pod_applies_at_once() {
    let test = TestChannel::new(|it| it);
    test.list(&[1, 2]);
    test.channel.connected(2).await;
    let changing = || test.channel.endpoints().into_iter().find(|it| it.endpoint.id == EndpointId::new("1"));
    let taken = || changing().unwrap().calls;
    let share = async || {
        let before = taken();
        for _ in 0..20 {
            assert!(test.works().await);
        }
        taken() - before
    };
    let ready = |count| {
        let channel = test.channel.clone();
        async move { eventually(|| channel.ready_endpoints() == count, "the number of ready endpoints").await }
    };
    assert_eq!(share().await, 10);
    test.servers[0].limit_streams(0);
    ready(1).await;
    assert_eq!(share().await, 0);
    test.servers[0].limit_streams(1);
    ready(2).await;
    assert_eq!(share().await, 10);
    // Its only stream is in use, so that others are called.
    let channel = test.channel.clone();
    let busy: [JoinHandle<_>; 2] = [(); 2].map(|()| {
        let channel = channel.clone();
        tokio::spawn(async move { ask(&channel, "mute", None).await })
    });
    eventually(|| changing().unwrap().in_flight == 1, "the call that uses the only stream").await;
    assert_eq!(share().await, 0);
    busy.iter().for_each(JoinHandle::abort);
}

/// Plays a peer that stops reading after the handshake. On a signal it ends the connection with
/// `end` and reads the rest; returns the types of the frames that arrived then.
async fn stalling<F: Future<Output = DuplexStream>>(
    mut io: DuplexStream,
    go_on: oneshot::Receiver<()>,
    end: impl FnOnce(DuplexStream) -> F,
) -> Vec<u8> {
    io.write_all(&[0, 0, 0, 4, 0, 0, 0, 0, 0]).await.unwrap();
    io.read_exact(&mut [0; 24]).await.unwrap();
    loop {
        let mut head = [0; 9];
        io.read_exact(&mut head).await.unwrap();
        let mut payload = vec![0; usize::from(head[1]) << 8 | usize::from(head[2])];
        io.read_exact(&mut payload).await.unwrap();
        if head[3] == 6 {
            io.write_all(&[&[0, 0, 8, 6, 1, 0, 0, 0, 0], &payload[..]].concat()).await.unwrap();
            break;
        }
    }
    go_on.await.unwrap();
    let mut io = end(io).await;
    let mut rest = Vec::new();
    // Everything that arrived before an error has been read.
    let _ = io.read_to_end(&mut rest).await;
    let (mut kinds, mut rest) = (Vec::new(), &rest[..]);
    while let Some((head, after)) = rest.split_first_chunk::<9>() {
        kinds.push(head[3]);
        let size = usize::from(head[1]) << 8 | usize::from(head[2]);
        rest = after.get(size..).unwrap_or_default();
    }
    kinds
}

/// Of two calls, the first was sent in part and the second is queued behind it when the connection
/// ends. The second must not be executed twice: by another server, and by this one when it
/// continues to read.
async fn interrupted_calls<F: Future<Output = DuplexStream> + Send + 'static>(
    end: impl FnOnce(DuplexStream) -> F + Send + 'static,
) -> (usize, Vec<String>) {
    const HEADERS: u8 = 1;
    let (go_on, going) = oneshot::channel();
    let (other, stalled) =
        (Arc::new(EnforcingServer::new()), Arc::new(std::sync::Mutex::new(Some((going, end)))));
    let (reads, read) = oneshot::channel();
    let reads = Arc::new(std::sync::Mutex::new(Some(reads)));
    let serving = Arc::clone(&other);
    let pipes = TestPipes(Arc::new(move |address: SocketAddr| {
        let first = address == SocketAddr::from(([10, 0, 0, 1], 80));
        let (ours, theirs) = tokio::io::duplex(if first { 64 } else { 1 << 16 });
        match stalled.lock().unwrap().take().filter(|_| first) {
            Some((going, end)) => {
                let reads = reads.lock().unwrap().take().unwrap();
                tokio::spawn(async move { reads.send(stalling(theirs, going, end).await) });
            }
            None if first => drop(theirs),
            None => serving.serve(theirs),
        }
        ours
    }));
    let set = |numbers: &[u8]| {
        let endpoints = numbers.iter().copied().map(endpoint).collect();
        Arc::new(EndpointSet { generation: 1, endpoints, unavailable: None })
    };
    let (sets, receiver) = watch::channel(set(&[1]));
    let channel = KubeChannel::builder(receiver).pipes(pipes).build().unwrap();
    channel.connected(1).await;
    let calls: Vec<_> = ["a", "b"]
        .map(|it| {
            let (channel, text) = (channel.clone(), it.repeat(1_000));
            tokio::spawn(async move { ask(&channel, &text, None).await })
        })
        .into();
    sleep(SECOND).await;
    sets.send_replace(set(&[1, 2]));
    channel.connected(2).await;
    go_on.send(()).unwrap();
    let mut statuses = Vec::new();
    for call in calls {
        let answer = timeout(600 * SECOND, call).await.expect("the calls should end").unwrap();
        let status = answer.headers().get("grpc-status").map_or("0", |it| it.to_str().unwrap());
        statuses.push(status.to_owned());
    }
    let kinds = timeout(600 * SECOND, read).await.expect("the peer should end").unwrap();
    (kinds.iter().filter(|it| **it == HEADERS).count(), statuses)
}

#[tokio::test(start_paused = true)]
async fn a_call_queued_behind_an_interrupted_one_is_not_executed_twice() {
    // A frame that the protocol forbids: data of stream 0.
    let forbidden = interrupted_calls(|mut io: DuplexStream| async move {
        io.write_all(&[0, 0, 1, 0, 0, 0, 0, 0, 0, 7]).await.unwrap();
        io
    });
    let (begun, statuses) = forbidden.await;
    assert!(
        begun < 2 || statuses[1] != "0",
        "{begun} calls arrived, and the second one elsewhere too: {statuses:?}"
    );
    // A peer that sends nothing more, and still reads.
    let half_closed = interrupted_calls(|mut io: DuplexStream| async move {
        io.shutdown().await.unwrap();
        io
    });
    let (begun, statuses) = half_closed.await;
    assert_eq!(
        (begun, &*statuses),
        (1, &["14".to_owned(), "0".to_owned()][..]),
        "the second call should only go elsewhere"
    );
}

/// Plays a peer that reads and answers pings, and runs `act` as soon as a call begins.
async fn misbehaving<F: Future<Output = DuplexStream>>(
    mut io: DuplexStream,
    settings: bool,
    act: impl FnOnce(DuplexStream) -> F,
) -> Option<()> {
    if settings {
        io.write_all(&[0, 0, 0, 4, 0, 0, 0, 0, 0]).await.ok()?;
    }
    io.read_exact(&mut [0; 24]).await.ok()?;
    loop {
        let mut head = [0; 9];
        io.read_exact(&mut head).await.ok()?;
        let mut payload = vec![0; usize::from(head[1]) << 8 | usize::from(head[2])];
        io.read_exact(&mut payload).await.ok()?;
        match head[3] {
            1 => break,
            6 => io.write_all(&[&[0, 0, 8, 6, 1, 0, 0, 0, 0], &payload[..]].concat()).await.ok()?,
            _ => {}
        }
    }
    let mut io = act(io).await;
    io.read_to_end(&mut Vec::new()).await.ok().map(drop)
}

/// Returns the status of a call to such a peer, and the number of connections to it.
async fn status_of<F: Future<Output = DuplexStream> + Send + 'static>(
    settings: bool,
    act: impl FnOnce(DuplexStream) -> F + Clone + Send + Sync + 'static,
) -> String {
    let pipes = TestPipes(Arc::new(move |_| {
        let (ours, theirs) = tokio::io::duplex(1 << 16);
        tokio::spawn(misbehaving(theirs, settings, act.clone()));
        ours
    }));
    let set = EndpointSet { generation: 1, endpoints: vec![endpoint(1)], unavailable: None };
    let channel = KubeChannel::builder(watch::channel(Arc::new(set)).1).pipes(pipes).build().unwrap();
    let answer = timeout(600 * SECOND, ask(&channel, "hello", Some("60S"))).await.expect("an answer");
    answer.headers().get("grpc-status").map_or("0", |it| it.to_str().unwrap()).to_owned()
}

/// Endless frames are cut off, and unusual frames that the protocol permits are ignored.
#[tokio::test(start_paused = true)]
async fn a_peer_that_sends_too_much_or_too_little_is_tolerated_or_disconnected() {
    // `:status: 200`, and a gRPC status.
    const HEAD: &[u8] = b"\x88\x00\x0ccontent-type\x10application/grpc\x00\x0bgrpc-status\x010";
    async fn frame(io: &mut DuplexStream, kind: u8, flags: u8, payload: &[u8]) -> bool {
        let head = [0, 0, payload.len() as u8, kind, flags, 0, 0, 0, 1];
        io.write_all(&[&head[..], payload].concat()).await.is_ok()
    }
    let answered = |mut io: DuplexStream| async move {
        frame(&mut io, 1, 5, HEAD).await;
        io
    };
    assert_eq!(status_of(true, answered).await, "0");
    assert_eq!(status_of(false, answered).await, "0", "SETTINGS are optional");
    let continued = status_of(true, |mut io: DuplexStream| async move {
        frame(&mut io, 1, 0, b"\x88").await;
        while frame(&mut io, 9, 0, b"").await {}
        io
    });
    assert_eq!(continued.await, "14");
    let informed = status_of(true, |mut io: DuplexStream| async move {
        for _ in 0..10_000 {
            // `:status: 103`
            frame(&mut io, 1, 4, b"\x08\x03103").await;
        }
        frame(&mut io, 1, 5, HEAD).await;
        io
    });
    assert_eq!(informed.await, "0");
    let informed_only = status_of(true, |mut io: DuplexStream| async move {
        frame(&mut io, 1, 5, b"\x08\x03103").await;
        io
    });
    assert_eq!(informed_only.await, "13");
    let without_room = status_of(true, |mut io: DuplexStream| async move {
        // An initial window of 0, and then one that is too large.
        io.write_all(&[0, 0, 6, 4, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0]).await.unwrap();
        io.write_all(&[0, 0, 6, 4, 0, 0, 0, 0, 0, 0, 4, 255, 255, 255, 255]).await.unwrap();
        io
    });
    assert_eq!(without_room.await, "14");
}
