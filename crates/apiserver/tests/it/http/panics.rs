//! A request that panics: it alone is answered with 500, over every kind of connection.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use dogwatch_apiserver::auth::PeerIdentity;
use dogwatch_apiserver::http::{AnswerBody, Cut, Service};
use dogwatch_apiserver::serving::{BoxError, Handler, RequestBody, Serving};
use http::{Request, Response, Version};
use http_body::{Body, Frame};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tower::ServiceExt;

use super::Server;
use crate::serving::client::{Sender, over_tcp, speak};

const WORDS: &str = "This request caused apiserver to panic. Look in the logs for details.";
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

/// The API, with poison in the body of each request that asks for it.
struct Poisoned(Service);

impl Handler for Poisoned {
    type Body = AnswerBody;

    async fn respond(
        &self,
        request: Request<RequestBody>,
        peer: Option<&PeerIdentity>,
    ) -> Result<Response<AnswerBody>, Cut> {
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

#[tokio::test]
async fn a_request_that_panics_is_answered_with_500_and_counted() {
    let server = Server::start().await;
    let request = Request::post(PATH).header("content-type", "application/json").body(Poison).unwrap();
    let answer = server.service.respond(request, None).await.expect("not cut");
    assert_eq!(answer.status(), 500);
    assert!(answer.headers().contains_key("audit-id"));
    let status: Value =
        serde_json::from_slice(&answer.collect().await.expect("not cut").to_bytes()).expect("JSON");
    assert_eq!((&status["kind"], &status["message"]), (&"Status".into(), &WORDS.into()), "{status}");
    assert_eq!((&status["code"], &status["reason"]), (&500.into(), &"InternalError".into()), "{status}");
    let metrics = server.get("/metrics").await;
    assert!(metrics.text().contains("\napiserver_request_panics_total 1\n"), "{}", metrics.text());
    let counted = r#"apiserver_request_total{code="500",group="",resource="configmaps",verb="CREATE"} 1"#;
    assert!(metrics.text().contains(counted), "{}", metrics.text());
    assert_eq!(server.get(PATH).await.code, 200);
}

#[tokio::test]
async fn a_panic_leaves_the_connection_and_its_other_streams_alone() {
    let server = Server::start().await;
    let serving =
        Serving::bind(Poisoned(server.service.clone()), "127.0.0.1:0".parse().unwrap(), None).await.unwrap();
    let address = serving.address().unwrap();

    let mut one = over_tcp(address, Version::HTTP_11).await;
    let Sender::One(sender) = &mut one else { panic!("HTTP/1.1 was asked for") };
    for _ in 0..3 {
        sender.ready().await.expect("the connection is kept");
        let answer = sender.send_request(poison(PATH)).await.expect("an answer");
        assert_eq!(status(answer.into_body()).await["message"], WORDS);
        sender.ready().await.expect("the connection is kept");
        let answer = sender.send_request(get("/version")).await.expect("the connection is kept");
        assert_eq!(answer.status(), 200);
        answer.collect().await.unwrap();
    }

    let uri = |path: &str| format!("http://localhost{path}");
    server.config_map("first", json!({})).await;
    let over_pipe = speak(serving.connector().connect().unwrap(), Version::HTTP_2).await;
    for (name, connection) in [("by-tcp", over_tcp(address, Version::HTTP_2).await), ("by-pipe", over_pipe)] {
        let Sender::Two(mut sender) = connection else { panic!("HTTP/2 was asked for") };
        let watch = sender.send_request(get(&uri(&format!("{PATH}?watch=1")))).await.expect("an answer");
        let mut watch = watch.into_body();
        watch.frame().await.expect("an event").expect("not cut");
        let answer = sender.send_request(poison(&uri(PATH))).await.expect("an answer");
        assert_eq!(status(answer.into_body()).await["message"], WORDS);
        assert_eq!(sender.send_request(get(&uri("/version"))).await.expect("an answer").status(), 200);
        server.config_map(name, json!({})).await;
        loop {
            let limit = Duration::from_secs(60);
            let event = tokio::time::timeout(limit, watch.frame()).await.expect("an event comes");
            let event = event.expect("the watch goes on").expect("not cut").into_data().unwrap();
            if String::from_utf8_lossy(&event).contains(&format!("\"name\":\"{name}\"")) {
                break;
            }
        }
    }

    let answer = serving.service().oneshot(poison(PATH)).await.expect("an answer");
    assert_eq!(status(answer.into_body()).await["message"], WORDS);
    serving.stop().await;
}
