//! Requests that panic: only the request itself fails, with 500, on every kind of connection.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use crate::auth::PeerIdentity;
use crate::http::{Cut, ResponseBody, Service};
use crate::serving::{BoxError, ConnectionParts, Handler, RequestBody, Serving};
use bytes::Bytes;
use http::{Request, Response, Version};
use http_body::{Body, Frame};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tower::ServiceExt;

use super::Server;
use crate::tests::serving::client::{Sender, handshake, over_tcp};

const MESSAGE: &str = "This request caused apiserver to panic. Look in the logs for details.";
const PATH: &str = "/api/v1/namespaces/default/configmaps";

/// A body that panics when it is read.
struct Poison;

impl Body for Poison {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        panic!("on purpose");
    }
}

/// The API, with a poisoned body for requests that have the header `x-poison`.
struct Poisoned(Service);

impl Handler for Poisoned {
    type Body = ResponseBody;

    async fn respond(
        &self,
        request: Request<RequestBody>,
        peer: Option<&PeerIdentity>,
    ) -> Result<Response<ResponseBody>, Cut> {
        let poisoned = request.headers().contains_key("x-poison");
        let request = request.map(|body| if poisoned { Poison.boxed_unsync() } else { body });
        self.0.respond(request, peer).await
    }
}

fn poison(uri: &str) -> Request<http_body_util::Full<Bytes>> {
    let builder = Request::post(uri).header("x-poison", "1").header("content-type", "application/json");
    builder.header("host", "localhost").body(Bytes::from_static(b"{}").into()).unwrap()
}

fn get(uri: &str) -> Request<http_body_util::Full<Bytes>> {
    Request::get(uri).header("host", "localhost").body(Default::default()).unwrap()
}

async fn status(body: impl Body<Data = Bytes, Error: std::fmt::Debug>) -> Value {
    serde_json::from_slice(&body.collect().await.unwrap().to_bytes()).expect("a status")
}

/// The message is that of k8s.io/apiserver v0.36.4 pkg/server/filters/wrap.go.
#[tokio::test]
async fn a_request_that_panics_is_answered_with_500_and_counted() {
    let server = Server::start().await;
    let request = Request::post(PATH).header("content-type", "application/json").body(Poison).unwrap();
    let response = server.service.respond(request, None).await.expect("not cut");
    assert_eq!(response.status(), 500);
    assert!(response.headers().contains_key("audit-id"));
    let status: Value =
        serde_json::from_slice(&response.collect().await.expect("not cut").to_bytes()).expect("JSON");
    assert_eq!((&status["kind"], &status["message"]), (&"Status".into(), &MESSAGE.into()), "{status}");
    assert_eq!((&status["code"], &status["reason"]), (&500.into(), &"InternalError".into()), "{status}");
    let metrics = server.get("/metrics").await;
    assert!(metrics.text().contains("\napiserver_request_panics_total 1\n"), "{}", metrics.text());
    let counted = r#"apiserver_request_total{code="500",group="",resource="configmaps",verb="CREATE"} 1"#;
    assert!(metrics.text().contains(counted), "{}", metrics.text());
    assert_eq!(server.get(PATH).await.code, 200);
}

#[tokio::test]
async fn a_panic_does_not_affect_the_connection_or_its_other_streams() {
    let server = Server::start().await;
    let serving = Serving::bind(
        Poisoned(server.service.clone()),
        "127.0.0.1:0".parse().unwrap(),
        None,
        ConnectionParts::default(),
    )
    .await
    .unwrap();
    let address = serving.address().unwrap();

    let mut one = over_tcp(address, Version::HTTP_11).await;
    let Sender::Http1(sender) = &mut one else { panic!("not HTTP/1.1") };
    for _ in 0..3 {
        sender.ready().await.expect("the connection is kept");
        let response = sender.send_request(poison(PATH)).await.expect("a response");
        assert_eq!(status(response.into_body()).await["message"], MESSAGE);
        sender.ready().await.expect("the connection is kept");
        let response = sender.send_request(get("/version")).await.expect("the connection is kept");
        assert_eq!(response.status(), 200);
        response.collect().await.unwrap();
    }

    let uri = |path: &str| format!("http://localhost{path}");
    server.config_map("first", json!({})).await;
    let over_pipe = handshake(serving.connector().connect().unwrap(), Version::HTTP_2).await;
    for (name, connection) in [("by-tcp", over_tcp(address, Version::HTTP_2).await), ("by-pipe", over_pipe)] {
        let Sender::Http2(mut sender) = connection else { panic!("not HTTP/2") };
        let watch = sender.send_request(get(&uri(&format!("{PATH}?watch=1")))).await.expect("a response");
        let mut watch = watch.into_body();
        watch.frame().await.expect("an event").expect("not cut");
        let response = sender.send_request(poison(&uri(PATH))).await.expect("a response");
        assert_eq!(status(response.into_body()).await["message"], MESSAGE);
        assert_eq!(sender.send_request(get(&uri("/version"))).await.expect("a response").status(), 200);
        server.config_map(name, json!({})).await;
        loop {
            let limit = Duration::from_secs(60);
            let event = tokio::time::timeout(limit, watch.frame()).await.expect("an event in time");
            let event = event.expect("the watch continues").expect("not cut").into_data().unwrap();
            if String::from_utf8_lossy(&event).contains(&format!("\"name\":\"{name}\"")) {
                break;
            }
        }
    }

    let response = serving.service().oneshot(poison(PATH)).await.expect("a response");
    assert_eq!(status(response.into_body()).await["message"], MESSAGE);
    serving.stop().await;
}
