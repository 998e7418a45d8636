//! Requests that switch protocols: exec, attach, port-forward, and watches over WebSocket.

use dogwatch_client::boxed;
use dogwatch_proxy::Proxy;
use http::header::{CONNECTION, UPGRADE};
use http::{Request, Response, StatusCode};
use http_body_util::Empty;
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::support::{plain, within};
use crate::upstream_double::{connect, serve, text};

/// Switches to the protocol of the request, and then returns every byte plus one.
async fn switching(mut request: Request<Incoming>) -> Response<dogwatch_client::ResponseBody> {
    let Some(protocol) = request.headers().get(UPGRADE).cloned() else {
        return Response::builder().status(400).body(text("Upgrade request required")).unwrap();
    };
    assert_eq!(request.headers()[CONNECTION], "upgrade");
    assert_eq!(request.headers()["sec-websocket-protocol"], "v5.channel.k8s.io");
    let upgraded = hyper::upgrade::on(&mut request);
    tokio::spawn(async move {
        let mut stream = TokioIo::new(upgraded.await.unwrap());
        let mut bytes = [0; 1024];
        while let Ok(length @ 1..) = stream.read(&mut bytes).await {
            let answer: Vec<u8> = bytes[..length].iter().map(|it| it.wrapping_add(1)).collect();
            stream.write_all(&answer).await.unwrap();
        }
        stream.write_all(b"bye").await.unwrap();
        stream.shutdown().await.unwrap();
    });
    let response = Response::builder().status(101).header(CONNECTION, "Upgrade").header(UPGRADE, protocol);
    response.header("sec-websocket-protocol", "v5.channel.k8s.io").body(boxed(Empty::new())).unwrap()
}

/// Sends the request of an upgrade, and returns the head of the response.
async fn upgrade(stream: &mut TcpStream, protocol: &str) -> String {
    let request = format!(
        "POST /api/v1/namespaces/a/pods/b/exec?command=sh HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: {protocol}\r\n\
         Sec-WebSocket-Protocol: v5.channel.k8s.io\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(within("the head of the response", stream.read_u8()).await.unwrap());
    }
    String::from_utf8(head).unwrap().to_ascii_lowercase()
}

#[tokio::test]
async fn after_a_switch_of_protocols_bytes_pass_in_both_directions_until_one_side_ends() {
    for protocol in ["SPDY/3.1", "websocket"] {
        let proxy = Proxy::start(serve(switching).await, plain()).await.unwrap();
        let mut stream = connect(&proxy).await;
        let head = upgrade(&mut stream, protocol).await;
        assert!(head.starts_with("http/1.1 101 "), "{head}");
        assert!(head.contains(&format!("upgrade: {}\r\n", protocol.to_ascii_lowercase())), "{head}");
        assert!(head.contains("sec-websocket-protocol: v5.channel.k8s.io\r\n"), "{head}");
        for sent in [&b"abc"[..], &[0xff; 1]] {
            stream.write_all(sent).await.unwrap();
            let mut answer = vec![0; sent.len()];
            within("the bytes", stream.read_exact(&mut answer)).await.unwrap();
            assert_eq!(answer, sent.iter().map(|it| it.wrapping_add(1)).collect::<Vec<_>>());
        }
        // Half of the connection ends first.
        stream.shutdown().await.unwrap();
        let mut rest = Vec::new();
        within("the end", stream.read_to_end(&mut rest)).await.unwrap();
        assert_eq!(rest, b"bye");
    }
}

#[tokio::test]
async fn a_refused_switch_is_an_ordinary_response() {
    let upstream = serve(|_| async { Response::builder().status(403).body(text("no")).unwrap() }).await;
    let proxy = Proxy::start(upstream, plain()).await.unwrap();
    let mut stream = connect(&proxy).await;
    let head = upgrade(&mut stream, "SPDY/3.1").await;
    assert!(head.starts_with(&format!("http/1.1 {} ", StatusCode::FORBIDDEN.as_u16())), "{head}");
    let mut body = [0; 2];
    within("the body", stream.read_exact(&mut body)).await.unwrap();
    assert_eq!(&body, b"no");
}

#[tokio::test]
async fn a_tunnel_ends_when_the_proxy_stops() {
    let proxy = Proxy::start(serve(switching).await, plain()).await.unwrap();
    let mut stream = connect(&proxy).await;
    upgrade(&mut stream, "websocket").await;
    within("a stopped proxy", proxy.stop()).await;
    let mut rest = Vec::new();
    // The end may be a reset.
    let _ = within("the end", stream.read_to_end(&mut rest)).await;
}
