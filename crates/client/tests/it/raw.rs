//! Requests that no handle covers: any HTTP request through the client's stack, and protocol
//! upgrades.

use dogwatch_client::{Client, Config, Error, RequestBody};
use http::header::{AUTHORIZATION, CONNECTION, HeaderValue, UPGRADE};
use http::{Request, StatusCode};
use http_body_util::BodyExt;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::scripted::{Script, json, reply};
use crate::support::{ServerSetup, empty, soon, text};

fn get(uri: &str) -> Request<RequestBody> {
    Request::get(uri).body(RequestBody::default()).unwrap()
}

#[tokio::test]
async fn a_raw_request_is_sent_below_the_server_and_its_response_is_returned_unchanged() {
    let script = Script::new([reply(404).chunk("nothing here"), json(200, "{}")]);
    let client = script.client();
    let response = client.send(get("/x?y=z")).await.expect("answered");
    assert_eq!(response.status(), StatusCode::NOT_FOUND);
    assert_eq!(response.into_body().collect().await.expect("whole").to_bytes(), "nothing here");
    let absolute = client.server().join("api").expect("an address");
    assert_eq!(client.send(get(absolute.as_str())).await.expect("answered").status(), StatusCode::OK);
    assert_eq!(script.targets()[0], "/base/x?y=z");
}

#[tokio::test]
async fn a_raw_request_carries_credentials_and_is_never_sent_to_another_server() {
    let server = ServerSetup::default()
        .start(|request: Request<hyper::body::Incoming>, _| async move {
            text(request.headers()[AUTHORIZATION].to_str().unwrap().to_owned())
        })
        .await;
    let mut config = Config::new(server.url().parse().unwrap());
    config.auth.token = Some("t".into());
    config.allow_plaintext_credentials = true;
    let client = Client::new(config).expect("a client");
    let response = soon(client.send(get("/x"))).await.expect("answered");
    assert_eq!(response.into_body().collect().await.expect("whole").to_bytes(), "Bearer t");
    let error = client.send(get("http://elsewhere.test/x")).await.expect_err("another server");
    assert!(matches!(error, Error::InvalidRequest(_)), "{error}");
}

#[tokio::test]
async fn an_upgrade_returns_the_connection_once_the_server_has_switched() {
    let server = ServerSetup::default()
        .start(|mut request: Request<hyper::body::Incoming>, _| async move {
            if request.uri().path() != "/switch" {
                return text("no");
            }
            tokio::spawn(async move {
                let mut stream = TokioIo::new(hyper::upgrade::on(&mut request).await.unwrap());
                stream.write_all(b"hello").await.unwrap();
            });
            let mut response = empty();
            *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("upgrade"));
            response.headers_mut().insert(UPGRADE, HeaderValue::from_static("echo"));
            response
        })
        .await;
    let client = Client::new(Config::new(server.url().parse().unwrap())).expect("a client");
    let (headers, stream) = soon(client.get().path(&["/switch"]).upgrade("echo")).await.expect("switched");
    assert_eq!(headers[UPGRADE], "echo");
    let mut received = [0; 5];
    soon(TokioIo::new(stream).read_exact(&mut received)).await.expect("five bytes");
    assert_eq!(&received, b"hello");
    let error = soon(client.get().path(&["/other"]).upgrade("echo")).await.expect_err("not switched");
    assert!(error.to_string().contains("did not switch"), "{error}");
}

/// The token would be sent in clear text to anyone on the path.
#[tokio::test]
async fn a_raw_request_to_an_https_server_is_never_sent_in_clear_text() {
    let script = Script::new([json(200, "{}")]);
    let client = script.builder(|config| {
        config.server = "https://script.test:6443/base".parse().unwrap();
        config.tls.ca = Some(dogwatch_client::config::Pem::Data("".into()));
        config.auth.token = Some("t".into());
    });
    let client = client.build().expect("a client");
    let error = client.send(get("http://script.test:6443/base/x")).await.expect_err("another scheme");
    assert!(matches!(error, Error::InvalidRequest(_)), "{error}");
    assert!(script.seen().is_empty());
    client.send(get("https://script.test:6443/base/x")).await.expect("the server's own address");
}
