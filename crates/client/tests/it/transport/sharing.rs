//! Many requests on few connections: bursts, limits, stalled readers, idle and closing connections.

use std::time::Duration;

use futures_util::future::join_all;
use http_body_util::BodyExt;

use super::*;
use crate::support::{Body, Peer, ServerSetup, endless, listen, streamed, text};

/// `/watch` sends one line and stays open; other paths respond with the number of the connection.
async fn watch_or_get(request: Request<hyper::body::Incoming>, peer: Peer) -> Response<Body> {
    match request.uri().path() {
        "/watch" => {
            let (sender, response) = streamed();
            sender.send(Bytes::from_static(b"first\n")).unwrap();
            tokio::spawn(async move { sender.closed().await });
            response
        }
        "/endless" => endless(),
        "/big" => text(vec![b'x'; 64 << 20]),
        _ => text(peer.connection.to_string()),
    }
}

async fn watch(transport: &Transport, server: &Server) -> Response<ResponseBody> {
    let mut response = send(transport, get(&format!("{}/watch", server.url()))).await.unwrap();
    let frame = response.body_mut().frame().await.unwrap().unwrap();
    assert_eq!(frame.into_data().unwrap(), "first\n");
    response
}

#[tokio::test]
async fn a_burst_of_requests_opens_one_connection() {
    let (server, authority) = secure_server(watch_or_get).await;
    let transport = transport(&trusting(&server.url(), &authority));
    let url = server.url();
    let answers = join_all((0..50).map(|_| fetch(&transport, &url))).await;
    assert!(answers.iter().all(|connection| connection == "1"), "{answers:?}");
    assert_eq!(server.accepted(), 1);
}

/// hyper's pooled client puts everything on one HTTP/2 connection: beyond the server's limit a GET
/// waits for a watch to end, that is, for ever.
#[tokio::test]
async fn two_hundred_watches_do_not_starve_a_get() {
    let authority = Authority::new("cluster");
    let setup = ServerSetup::tls(authority.server(&["127.0.0.1"])).max_streams(100);
    let server = setup.start(watch_or_get).await;
    let transport = transport(&trusting(&server.url(), &authority));
    let watches = join_all((0..250).map(|_| watch(&transport, &server))).await;
    assert_eq!(fetch(&transport, &server.url()).await, "3", "the third connection has room");
    assert_eq!(server.accepted(), 3);

    drop(watches);
    assert_eq!(fetch(&transport, &server.url()).await, "1", "a dropped watch releases its slot");
}

#[tokio::test]
async fn a_lower_stream_limit_of_the_server_is_respected() {
    let authority = Authority::new("cluster");
    let setup = ServerSetup::tls(authority.server(&["127.0.0.1"])).max_streams(4);
    let server = setup.start(watch_or_get).await;
    let transport = transport(&trusting(&server.url(), &authority));
    assert_eq!(fetch(&transport, &server.url()).await, "1");
    let mut watches = Vec::new();
    for _ in 0..10 {
        watches.push(watch(&transport, &server).await);
    }
    assert_eq!(fetch(&transport, &server.url()).await, "3");
}

/// A stalled reader holds a stream window of data; the connection's window must be larger than all
/// of them.
#[tokio::test]
async fn stalled_readers_do_not_stall_their_neighbours_on_the_same_connection() {
    let (server, authority) = secure_server(watch_or_get).await;
    let transport = transport(&trusting(&server.url(), &authority));
    let mut stalled = Vec::new();
    for _ in 0..8 {
        let url = format!("{}/endless", server.url());
        let mut response = send(&transport, get(&url)).await.unwrap();
        response.body_mut().frame().await.unwrap().unwrap();
        stalled.push(response);
    }
    let big = fetch(&transport, &format!("{}/big", server.url())).await;
    assert_eq!(big.len(), 64 << 20);
    assert_eq!(server.accepted(), 1, "all of it went over one connection");
    assert_eq!(stalled.len(), 8);
}

#[tokio::test]
async fn tr_1_an_idle_connection_is_closed_and_a_busy_one_is_not() {
    let (server, authority) = secure_server(watch_or_get).await;
    let config = trusting(&server.url(), &authority);
    let mut options = TransportOptions::default();
    options.idle_timeout = Duration::from_secs(5);
    let transport = Transport::with_options(&config, no_plugin(), options).unwrap();

    let watching = watch(&transport, &server).await;
    tokio::time::pause();
    tokio::time::timeout(Duration::from_secs(15), server.wait_for_open(0))
        .await
        .expect_err("a watch keeps its connection");
    tokio::time::resume();
    assert_eq!(fetch(&transport, &server.url()).await, "1", "and the connection stays in use");

    drop(watching);
    tokio::time::pause();
    server.wait_for_open(0).await;
    tokio::time::resume();
    assert_eq!(fetch(&transport, &server.url()).await, "2");
}

#[tokio::test]
async fn dropping_the_transport_closes_its_connections_after_the_last_response() {
    let (server, authority) = secure_server(watch_or_get).await;
    let transport = transport(&trusting(&server.url(), &authority));
    let watching = watch(&transport, &server).await;
    drop(transport);
    assert_eq!(server.open(), 1);
    drop(watching);
    server.wait_for_open(0).await;
}

/// A server that shuts down sends GOAWAY. Requests in flight may end; the next one must not fail.
#[tokio::test]
async fn a_connection_that_got_a_goaway_is_replaced_without_an_error() {
    let (server, authority) = secure_server(watch_or_get).await;
    let transport = transport(&trusting(&server.url(), &authority));
    for connection in 1..=3 {
        assert_eq!(fetch(&transport, &server.url()).await, connection.to_string());
        server.shut_down_gracefully();
        server.wait_for_open(0).await;
    }
}

/// A program may use one client with several runtimes in turn. The first may end while it opens a
/// connection.
#[test]
fn a_transport_outlives_a_runtime_that_ended_while_it_opened_a_connection() {
    let runtime =
        || tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let servers = runtime();
    let authority = Authority::new("cluster");
    let acceptor = ServerSetup::tls(authority.server(&["127.0.0.1"])).acceptor().expect("it has TLS");
    let (sender, receiver) = std::sync::mpsc::channel();
    let first = std::sync::atomic::AtomicBool::new(true);
    let (address, _running) = servers.block_on(listen(move |stream| {
        let (acceptor, sender) = (acceptor.clone(), sender.clone());
        let silent = first.swap(false, std::sync::atomic::Ordering::SeqCst);
        async move {
            if silent {
                sender.send(()).unwrap();
                std::future::pending::<()>().await;
            }
            let mut connection = h2::server::handshake(acceptor.accept(stream).await.unwrap()).await.unwrap();
            while let Some(Ok((_, mut respond))) = connection.accept().await {
                respond.send_response(Response::new(()), true).unwrap();
            }
        }
    }));
    let url = format!("https://{address}");
    let transport = transport(&trusting(&url, &authority));
    let first = runtime();
    let unanswered = first.spawn(transport.clone().oneshot(get(&url)));
    receiver.recv_timeout(Duration::from_secs(20)).expect("a connection is being opened");
    first.shutdown_background();
    let ended = servers.block_on(async { soon(unanswered).await });
    assert!(ended.is_err_and(|it| it.is_cancelled()));
    let answer = runtime().block_on(send(&transport, get(&url)));
    assert_eq!(answer.expect("a new connection is opened").status(), 200);
}

/// Go treats 0 as "no limit"; otherwise a connection would be closed as soon as it is open, and
/// opened again for ever.
#[tokio::test]
async fn an_idle_time_of_zero_keeps_connections() {
    let authority = Authority::new("cluster");
    let leaf = authority.server(&["127.0.0.1"]);
    for setup in [ServerSetup::tls(leaf.clone()), ServerSetup::tls(leaf).http1_only()] {
        let server = setup.start(watch_or_get).await;
        let mut options = TransportOptions::default();
        options.idle_timeout = Duration::ZERO;
        let config = trusting(&server.url(), &authority);
        let transport = Transport::with_options(&config, no_plugin(), options).unwrap();
        let first = fetch(&transport, &server.url()).await;
        for _ in 0..5 {
            tokio::time::sleep(Duration::from_millis(2)).await;
            assert_eq!(fetch(&transport, &server.url()).await, first);
        }
    }
}
