//! Requests that a server certainly did not process: they are retried, whatever their method.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use h2::Reason;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::Semaphore;

use super::*;
use crate::support::{Running, ServerSetup, listen, streamed, text};

/// The length of an HTTP/2 frame header, and of the client's connection preface.
const HEAD: usize = 9;
const PREFACE: usize = 24;
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const PING: u8 = 6;

fn post(url: &str) -> Request<RequestBody> {
    Request::post(url).body(RequestBody::from("{}")).unwrap()
}

/// A TLS server that passes its connections to `serve` with their number, from 1.
async fn raw_server<F>(
    serve: impl Fn(tokio_rustls::server::TlsStream<tokio::net::TcpStream>, usize) -> F + Send + Sync + 'static,
) -> (String, Authority, Arc<AtomicUsize>, Running)
where
    F: Future<Output = ()> + Send + 'static,
{
    let authority = Authority::new("cluster");
    let acceptor = ServerSetup::tls(authority.server(&["127.0.0.1"])).acceptor().expect("it has TLS");
    let accepted = Arc::new(AtomicUsize::new(0));
    let (counted, serve) = (Arc::clone(&accepted), Arc::new(serve));
    let (address, running) = listen(move |stream| {
        let number = counted.fetch_add(1, Ordering::SeqCst) + 1;
        let (acceptor, serve) = (acceptor.clone(), Arc::clone(&serve));
        async move {
            let stream = acceptor.accept(stream).await.expect("our own client");
            serve(stream, number).await;
        }
    })
    .await;
    (format!("https://{address}"), authority, accepted, running)
}

/// Reads one frame and returns its type and its stream, or `None` at the end of the connection.
async fn read_frame(stream: &mut (impl AsyncRead + Unpin)) -> Option<(u8, [u8; 4])> {
    let mut head = [0; HEAD];
    stream.read_exact(&mut head).await.ok()?;
    let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
    stream.read_exact(&mut vec![0; length as usize]).await.ok()?;
    Some((head[3], [head[5], head[6], head[7], head[8]]))
}

/// Answers every request but the first `refused`, which it resets with REFUSED_STREAM.
async fn refuse(stream: impl AsyncRead + AsyncWrite + Unpin, refused: usize) {
    let mut connection = h2::server::handshake(stream).await.expect("a client");
    let mut seen = 0;
    while let Some(Ok((_, mut respond))) = connection.accept().await {
        seen += 1;
        if seen <= refused {
            respond.send_reset(Reason::REFUSED_STREAM);
            continue;
        }
        let mut body = respond.send_response(Response::new(()), false).expect("an open stream");
        body.send_data(Bytes::from(seen.to_string()), true).expect("an open stream");
    }
}

/// Reads one request and sends a GOAWAY with an earlier stream id: no stream was processed.
async fn send_goaway(mut stream: impl AsyncRead + AsyncWrite + Unpin) {
    let mut preface = [0; PREFACE];
    stream.read_exact(&mut preface).await.expect("a preface");
    let settings = [0, 0, 0, 4, 0, 0, 0, 0, 0];
    stream.write_all(&settings).await.expect("an open connection");
    while read_frame(&mut stream).await.expect("a frame").0 != HEADERS {}
    // Last stream 0, NO_ERROR.
    let goaway = [0, 0, 8, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    stream.write_all(&goaway).await.expect("an open connection");
    stream.flush().await.expect("an open connection");
    let _ = stream.read_to_end(&mut Vec::new()).await;
}

#[tokio::test]
async fn a_post_whose_stream_is_refused_is_retried() {
    let (url, authority, _, _running) = raw_server(async |stream, _| refuse(stream, 2).await).await;
    let transport = transport(&trusting(&url, &authority));
    let answer = send(&transport, post(&url)).await.expect("the third attempt is answered");
    assert_eq!(read(answer).await, "3");
}

#[tokio::test]
async fn a_post_above_the_last_stream_of_a_goaway_goes_to_another_connection() {
    let serve = async |stream, number| match number {
        1 => send_goaway(stream).await,
        _ => refuse(stream, 0).await,
    };
    let (url, authority, accepted, _running) = raw_server(serve).await;
    let transport = transport(&trusting(&url, &authority));
    let answer = send(&transport, post(&url)).await.expect("the second connection answers");
    assert_eq!(read(answer).await, "1");
    assert_eq!(accepted.load(Ordering::SeqCst), 2);
}

/// A graceful GOAWAY allows all streams, and hyper may report it for a request that it has queued
/// whole and still sends. A request without a body would then be processed twice.
#[tokio::test]
async fn after_a_goaway_a_request_without_a_body_is_sent_again_only_if_it_changes_nothing() {
    let serve = async |stream, number| match number {
        1 | 3 => send_goaway(stream).await,
        _ => refuse(stream, 0).await,
    };
    let (url, authority, accepted, _running) = raw_server(serve).await;
    let first = transport(&trusting(&url, &authority));
    let answer = send(&first, get(&url)).await.expect("the second connection answers");
    assert_eq!((read(answer).await.as_str(), accepted.load(Ordering::SeqCst)), ("1", 2));
    let second = transport(&trusting(&url, &authority));
    let delete = Request::delete(&url).body(RequestBody::default()).unwrap();
    let error = send(&second, delete).await.expect_err("the server may have processed it");
    assert!(error.is_lost() && error.request_was_sent(), "{}", chain(&error));
    assert_eq!(accepted.load(Ordering::SeqCst), 3);
    assert_eq!(fetch(&second, &url).await, "1", "the connection takes no further request");
    assert_eq!(accepted.load(Ordering::SeqCst), 4);
}

/// Callers with time limits cancel many requests at once, and the responses of these are already on
/// their way. h2 counts the frames of cancelled streams that it has forgotten, and by default it
/// ends the connection at the 1,024th, together with all other requests.
#[tokio::test]
async fn many_cancelled_requests_leave_the_others_of_their_connection_alone() {
    const CANCELLED: u32 = 60;
    const LATE_FRAMES: usize = 110;
    let opened = Arc::new(Semaphore::new(0));
    let permits = Arc::clone(&opened);
    let (url, authority, accepted, _running) = raw_server(move |mut stream, _| {
        let opened = Arc::clone(&permits);
        async move {
            stream.write_all(&streams_granted(100)).await.expect("an open connection");
            stream.flush().await.expect("an open connection");
            stream.read_exact(&mut [0; PREFACE]).await.expect("a preface");
            let (mut post, mut cancelled) = (None, Vec::new());
            while cancelled.len() < CANCELLED as usize {
                match read_frame(&mut stream).await.expect("a frame") {
                    (HEADERS, id) => {
                        post.get_or_insert(id);
                        opened.add_permits(1);
                    }
                    (RST_STREAM, id) => cancelled.push(id),
                    _ => {}
                }
            }
            for _ in 0..LATE_FRAMES {
                let late = |&[a, b, c, d]: &[u8; 4]| [0, 0, 1, DATA, 0, a, b, c, d, b'x'];
                let mut frames: Vec<u8> = cancelled.iter().flat_map(late).collect();
                // Frames that the client reads together count once for each stream, so the next
                // ones wait for its answer.
                frames.extend([0, 0, 8, PING, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
                stream.write_all(&frames).await.expect("an open connection");
                stream.flush().await.expect("an open connection");
                while read_frame(&mut stream).await.expect("an open connection").0 != PING {}
            }
            stream.write_all(&ok_without_body(post.expect("the POST"))).await.expect("an open connection");
            stream.flush().await.expect("an open connection");
            while read_frame(&mut stream).await.is_some() {}
        }
    })
    .await;
    let transport = transport(&trusting(&url, &authority));
    let posted = send(&transport, post(&url));
    let cancelled = async {
        soon(opened.acquire()).await.expect("never closed").forget();
        let gets = join_all((0..CANCELLED).map(|_| transport.clone().oneshot(get(&url))));
        tokio::select! {
            biased;
            _ = gets => panic!("the server does not answer them"),
            all = soon(opened.acquire_many(CANCELLED)) => all.expect("never closed").forget(),
        }
    };
    let (answer, ()) = tokio::join!(posted, cancelled);
    assert_eq!(answer.expect("the other request is answered").status(), 200);
    assert_eq!(accepted.load(Ordering::SeqCst), 1);
}

#[tokio::test(start_paused = true)]
async fn retries_of_refused_streams_end_and_the_request_counts_as_not_sent() {
    let (url, authority, _, _running) = raw_server(async |stream, _| refuse(stream, usize::MAX).await).await;
    let transport = transport(&trusting(&url, &authority));
    let error = transport.oneshot(post(&url)).await.expect_err("nothing but refusals");
    assert!(!error.request_was_sent(), "{error:?}");
    assert!(error.is_lost());
}

/// The limit arrives with the server's SETTINGS. Requests put on the connection before that would
/// wait behind watches that never end.
#[tokio::test(flavor = "multi_thread")]
async fn concurrent_watches_do_not_wait_for_each_other_on_a_server_with_few_streams() {
    let authority = Authority::new("cluster");
    let setup = ServerSetup::tls(authority.server(&["127.0.0.1"])).max_streams(20);
    let server = setup
        .start(|_, peer| async move {
            let (sender, response) = streamed();
            sender.send(Bytes::from(peer.connection.to_string())).expect("a reader");
            tokio::spawn(async move { sender.closed().await });
            response
        })
        .await;
    let transport = transport(&trusting(&server.url(), &authority));
    let watches = join_all((0..80).map(|_| async {
        let mut response = send(&transport, get(&server.url())).await.expect("answered");
        soon(response.body_mut().frame()).await.expect("a line").expect("a line");
        response
    }))
    .await;
    assert_eq!(watches.len(), 80);
    assert_eq!(server.accepted(), 4);
}

#[tokio::test]
async fn a_connection_outlives_the_request_that_it_was_opened_for() {
    let gate = Arc::new(Semaphore::new(0));
    let authority = Authority::new("cluster");
    let acceptor = ServerSetup::tls(authority.server(&["127.0.0.1"])).acceptor().expect("it has TLS");
    let accepted = Arc::new(AtomicUsize::new(0));
    let (counted, opens) = (Arc::clone(&accepted), Arc::clone(&gate));
    let (address, _running) = listen(move |stream| {
        counted.fetch_add(1, Ordering::SeqCst);
        let (acceptor, opens) = (acceptor.clone(), Arc::clone(&opens));
        async move {
            opens.acquire().await.expect("never closed").forget();
            refuse(acceptor.accept(stream).await.expect("our own client"), 0).await;
        }
    })
    .await;
    let url = format!("https://{address}");
    let transport = transport(&trusting(&url, &authority));
    for _ in 0..3 {
        let dropped = transport.clone().oneshot(get(&url));
        tokio::time::timeout(Duration::from_millis(50), dropped)
            .await
            .expect_err("the server does not answer yet");
    }
    gate.add_permits(1);
    assert_eq!(fetch(&transport, &url).await, "1");
    assert_eq!(accepted.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_connection_without_idle_timeout_works() {
    let (server, authority) = secure_server(async |_, _| text("answered")).await;
    let mut options = TransportOptions::default();
    options.idle_timeout = Duration::MAX;
    let config = trusting(&server.url(), &authority);
    let transport = Transport::with_options(&config, no_plugin(), options).unwrap();
    for _ in 0..2 {
        assert_eq!(fetch(&transport, &server.url()).await, "answered");
    }
}

#[tokio::test]
async fn long_response_headers_pass_over_http_2_as_they_do_over_http_1() {
    let (server, authority) = secure_server(async |_, _| {
        let mut response = text("answered");
        response.headers_mut().insert("warning", "x".repeat(60_000).parse().unwrap());
        response
    })
    .await;
    let transport = transport(&trusting(&server.url(), &authority));
    assert_eq!(fetch(&transport, &server.url()).await, "answered");
}

/// A server that shuts down sends GOAWAY on all connections at once; one after the other, each
/// returns a request unsent.
#[tokio::test]
async fn a_post_succeeds_however_many_connections_got_a_goaway() {
    let (server, authority) = secure_server(|request: Request<hyper::body::Incoming>, peer| async move {
        if request.uri().path() != "/watch" {
            return text(peer.connection.to_string());
        }
        let (sender, response) = streamed();
        sender.send(Bytes::from_static(b"first")).expect("a reader");
        tokio::spawn(async move { sender.closed().await });
        response
    })
    .await;
    let mut options = TransportOptions::default();
    options.max_streams_per_connection = 2;
    let config = trusting(&server.url(), &authority);
    let transport = Transport::with_options(&config, no_plugin(), options).unwrap();
    let url = format!("{}/watch", server.url());
    let mut watches = Vec::new();
    for _ in 0..12 {
        watches.push(send(&transport, get(&url)).await.expect("a watch"));
    }
    assert_eq!(server.accepted(), 6);
    // One watch stays on each connection, with room for one more request.
    let mut index = 0;
    watches.retain(|_| {
        index += 1;
        index % 2 == 0
    });
    server.shut_down_gracefully();
    for watch in &mut watches {
        // The data before the GOAWAY is read, so that the GOAWAY arrives soon.
        soon(watch.body_mut().frame()).await.expect("a line").expect("a line");
    }
    // Until the GOAWAY has arrived, a connection may still take a request; none may fail.
    let mut answer = String::new();
    while answer != "7" {
        let response = soon(send(&transport, post(&server.url()))).await;
        answer = read(response.expect("a new connection takes it")).await;
    }
}

#[tokio::test]
async fn a_connection_of_http_1_outlives_the_request_that_it_was_opened_for() {
    let gate = Arc::new(Semaphore::new(0));
    let accepted = Arc::new(AtomicUsize::new(0));
    let authority = Authority::new("cluster");
    let setup = ServerSetup::tls(authority.server(&["127.0.0.1"])).http1_only();
    let acceptor = setup.acceptor().expect("it has TLS");
    let (counted, opens) = (Arc::clone(&accepted), Arc::clone(&gate));
    let (address, _running) = listen(move |stream| {
        counted.fetch_add(1, Ordering::SeqCst);
        let (acceptor, opens) = (acceptor.clone(), Arc::clone(&opens));
        async move {
            opens.acquire().await.expect("never closed").forget();
            let mut stream = acceptor.accept(stream).await.expect("our own client");
            let mut request = [0; 1024];
            while stream.read(&mut request).await.is_ok_and(|it| it > 0) {
                let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
                stream.write_all(answer).await.expect("an open connection");
            }
        }
    })
    .await;
    let url = format!("https://{address}");
    let mut options = TransportOptions::default();
    options.disable_http2 = true;
    let transport = Transport::with_options(&trusting(&url, &authority), no_plugin(), options).unwrap();
    for _ in 0..3 {
        let dropped = transport.clone().oneshot(get(&url));
        tokio::time::timeout(Duration::from_millis(50), dropped)
            .await
            .expect_err("the server does not answer yet");
    }
    gate.add_permits(1);
    assert_eq!(fetch(&transport, &url).await, "ok");
    assert_eq!(accepted.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_server_with_one_stream_per_connection_answers_all_requests() {
    let authority = Authority::new("cluster");
    let setup = ServerSetup::tls(authority.server(&["127.0.0.1"])).max_streams(1);
    let server = setup.start(async |_, _| text("answered")).await;
    let transport = transport(&trusting(&server.url(), &authority));
    let url = server.url();
    let answers = join_all((0..20).map(|_| async { send(&transport, post(&url)).await.expect("answered") }));
    assert_eq!(answers.await.len(), 20);
}

/// A HEADERS frame with `:status: 200` and the end of the stream.
fn ok_without_body([a, b, c, d]: [u8; 4]) -> [u8; 10] {
    [0, 0, 1, HEADERS, 5, a, b, c, d, 0x88]
}

/// A SETTINGS frame with only the stream limit.
fn streams_granted(streams: u8) -> [u8; 15] {
    [0, 0, 6, 4, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, streams]
}

#[tokio::test]
async fn requests_wait_for_a_server_that_grants_no_stream_at_first() {
    let (url, authority, accepted, _running) = raw_server(|mut stream, _| async move {
        stream.write_all(&streams_granted(0)).await.expect("an open connection");
        stream.flush().await.expect("an open connection");
        tokio::time::sleep(Duration::from_millis(50)).await;
        stream.write_all(&streams_granted(10)).await.expect("an open connection");
        stream.read_exact(&mut [0; PREFACE]).await.expect("a preface");
        while let Some((kind, id)) = read_frame(&mut stream).await {
            if kind == HEADERS {
                stream.write_all(&ok_without_body(id)).await.expect("an open connection");
                stream.flush().await.expect("an open connection");
            }
        }
    })
    .await;
    let transport = transport(&trusting(&url, &authority));
    for _ in 0..3 {
        assert_eq!(send(&transport, get(&url)).await.expect("answered").status(), 200);
    }
    assert_eq!(accepted.load(Ordering::SeqCst), 1);
}
