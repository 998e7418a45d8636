//! Requests that are passed on: bodies in both directions, clients of all kinds, and lost servers.

use std::collections::BTreeMap;

use bytes::Bytes;
use dogwatch_apiserver::ApiServer;
use dogwatch_client::transport::{Transport, TransportOptions};
use dogwatch_client::{Api, Client, Config};
use dogwatch_core::{DeleteParams, Object};
use dogwatch_informer::SharedInformer;
use dogwatch_proxy::Proxy;
use http::{HeaderMap, Request, Response, StatusCode};
use http_body::Frame;
use http_body_util::BodyExt;
use k8s_openapi::api::core::v1::ConfigMap;
use tokio::sync::{mpsc, watch};

use crate::support::{config, plain, proxy_of, within};
use crate::upstream_double::{self, pieces, serve, text};

fn transport(config: &Config) -> Transport {
    let no_plugin = watch::channel(None).1;
    Transport::with_options(config, no_plugin, TransportOptions::default()).unwrap()
}

/// Returns the settings of clients without credentials, over HTTP/1.1 and over HTTP/2.
fn clients(proxy: &Proxy) -> Config {
    config(&proxy.kubeconfig(&proxy.url()))
}

/// Both protocols between client and proxy: HTTP/2 needs TLS.
const ENDPOINTS: [bool; 2] = [false, true];

async fn proxy(upstream: Config, tls: bool) -> Proxy {
    let options = if tls { dogwatch_proxy::ProxyOptions::default() } else { plain() };
    Proxy::start(upstream, options).await.unwrap()
}

#[tokio::test]
async fn a_body_is_passed_on_piece_by_piece_in_both_directions() {
    for tls in ENDPOINTS {
        // An echo: the response begins before the request has ended.
        let upstream =
            serve(|request| async { Response::new(dogwatch_client::boxed(request.into_body())) }).await;
        let proxy = proxy(upstream, tls).await;
        let (sender, body) = pieces();
        let request = Request::post(format!("{}/echo", proxy.url())).body(body).unwrap();
        sender.send(Frame::data(Bytes::from("one"))).unwrap();
        let sending = transport(&clients(&proxy));
        let mut answer = within("an answer", sending.forward(request)).await.unwrap().into_body();
        let mut next =
            async || within("a piece", answer.frame()).await.unwrap().unwrap().into_data().unwrap();
        assert_eq!(next().await, "one");
        sender.send(Frame::data(Bytes::from("two"))).unwrap();
        assert_eq!(next().await, "two", "before the request has ended");
        drop(sender);
        let rest = within("the end", answer.collect()).await.unwrap();
        assert!(rest.to_bytes().is_empty());
    }
}

#[tokio::test]
async fn statuses_headers_and_trailers_are_passed_on() {
    for tls in ENDPOINTS {
        let upstream = serve(|request| async move {
            let path = request.uri().path_and_query().unwrap().to_string();
            let (sender, body) = pieces();
            let mut trailers = HeaderMap::new();
            trailers.insert("x-sum", "42".parse().unwrap());
            sender.send(Frame::data(Bytes::from(path))).unwrap();
            sender.send(Frame::trailers(trailers)).unwrap();
            Response::builder()
                .status(418)
                .header("content-encoding", "own")
                .header("trailer", "x-sum")
                .header("x-a", "1")
                .header("x-a", "2")
                .body(body)
                .unwrap()
        });
        let proxy = proxy(upstream.await, tls).await;
        let uri = format!("{}/a%2Fb//c?x=%20&y", proxy.url());
        let request = Request::get(uri).header("te", "trailers").body(text("")).unwrap();
        let answer = transport(&clients(&proxy)).forward(request).await.unwrap();
        assert_eq!(answer.status(), StatusCode::IM_A_TEAPOT);
        assert_eq!(answer.headers()["content-encoding"], "own");
        assert_eq!(answer.headers().get_all("x-a").iter().collect::<Vec<_>>(), ["1", "2"]);
        let body = answer.into_body().collect().await.unwrap();
        if tls {
            // HTTP/1.1 between proxy and upstream announces them with a header of that connection.
            assert_eq!(body.trailers().map(|it| it["x-sum"].clone()), Some("42".parse().unwrap()));
        }
        assert_eq!(body.to_bytes(), "/a%2Fb//c?x=%20&y");
    }
}

#[tokio::test]
async fn a_client_that_disconnects_cancels_its_request_upstream() {
    for tls in ENDPOINTS {
        let (ended, mut ends) = mpsc::unbounded_channel::<()>();
        let upstream = serve(move |_| {
            let ended = ended.clone();
            async move {
                let (sender, body) = pieces();
                sender.send(Frame::data(Bytes::from("an event"))).unwrap();
                tokio::spawn(async move {
                    sender.closed().await;
                    let _ = ended.send(());
                });
                Response::new(body)
            }
        });
        let proxy = proxy(upstream.await, tls).await;
        let client = transport(&clients(&proxy));
        let request = Request::get(format!("{}/watch", proxy.url())).body(text("")).unwrap();
        let mut answer = client.forward(request).await.unwrap().into_body();
        assert!(within("an event", answer.frame()).await.is_some());
        drop(answer);
        drop(client);
        within("the end of the request upstream", ends.recv()).await.unwrap();
    }
}

#[tokio::test]
async fn an_upstream_that_breaks_off_ends_the_response_with_an_error() {
    for tls in ENDPOINTS {
        let (opened, mut responses) = mpsc::unbounded_channel();
        let upstream = serve(move |_| {
            let (sender, body) = pieces();
            sender.send(Frame::data(Bytes::from("half"))).unwrap();
            opened.send(sender).unwrap();
            std::future::ready(Response::builder().header("content-length", "8").body(body).unwrap())
        });
        let proxy = proxy(upstream.await, tls).await;
        let request = Request::get(format!("{}/list", proxy.url())).body(text("")).unwrap();
        let answer = within("an answer", transport(&clients(&proxy)).forward(request)).await.unwrap();
        let mut body = answer.into_body();
        let half = within("the first half", body.frame()).await.unwrap().unwrap();
        assert_eq!(half.into_data().unwrap(), "half");
        // The response of the server ends too early, which closes its connection.
        drop(responses.recv().await.unwrap());
        assert!(within("the end", body.collect()).await.is_err());
    }
}

#[tokio::test]
async fn an_upstream_that_cannot_be_reached_is_reported_with_a_time_to_retry() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let proxy = proxy(upstream_double::config(address), false).await;
    let request = Request::get(format!("{}/api", proxy.url())).body(text("")).unwrap();
    let answer = transport(&clients(&proxy)).forward(request).await.unwrap();
    assert_eq!(
        (answer.status(), &answer.headers()["retry-after"]),
        (StatusCode::SERVICE_UNAVAILABLE, &"1".parse().unwrap())
    );
    let body = answer.into_body().collect().await.unwrap().to_bytes();
    let status: serde_json::Value = serde_json::from_slice(&body).unwrap();
    assert_eq!((&status["kind"], &status["reason"]), (&"Status".into(), &"ServiceUnavailable".into()));
}

fn map(name: &str, value: &str) -> ConfigMap {
    let mut map = ConfigMap::default();
    map.metadata.name = Some(name.to_owned());
    map.data = Some(BTreeMap::from([("value".to_owned(), value.to_owned())]));
    map
}

#[tokio::test]
async fn an_informer_behind_the_proxy_equals_the_server_while_watches_are_cut_and_history_expires() {
    let server = ApiServer::builder().tls(true).token("secret").start().await.unwrap();
    let proxy = proxy_of(&server, dogwatch_proxy::ProxyOptions::default()).await;
    let client = crate::support::caller(&proxy, "secret");
    let informer = SharedInformer::new(Api::<ConfigMap>::namespaced(client.clone(), "default"));
    informer.start();
    within("a synced informer", informer.synced()).await.unwrap();
    let maps = Api::<ConfigMap>::namespaced(client, "default");
    for round in 0..4 {
        for number in 0..5 {
            let name = format!("map-{number}");
            let _ = maps.delete(&name, &DeleteParams::default()).await;
            maps.create(&Default::default(), &map(&name, &round.to_string())).await.unwrap();
        }
        match round % 3 {
            0 => server.faults().drop_watches(),
            1 => server.faults().cut_watches(),
            _ => {
                server.expire_history();
                server.faults().cut_watches();
            }
        }
    }
    let newest = maps.get("map-4").await.unwrap().version();
    let store = informer.store();
    within("the newest version in the store", informer.wait_until(&newest)).await.unwrap();
    let stored = server.objects_at("v1", "configmaps", server.revision()).unwrap();
    let mine = stored.iter().filter(|it| it["metadata"]["namespace"] == "default");
    let expected: BTreeMap<_, _> = mine
        .map(|it| {
            (
                it["metadata"]["name"].as_str().unwrap().to_owned(),
                it["metadata"]["resourceVersion"].as_str().unwrap().to_owned(),
            )
        })
        .collect();
    let snapshot = store.snapshot();
    let header =
        |it: &std::sync::Arc<ConfigMap>| (it.header().name.to_owned(), it.header().version.to_owned());
    let held: BTreeMap<_, _> = snapshot.iter().map(header).collect();
    assert_eq!(held, expected);
}

#[tokio::test]
async fn a_kubeconfig_of_the_proxy_has_no_credentials() {
    let server = ApiServer::builder().tls(true).token("secret").start().await.unwrap();
    let proxy = proxy_of(&server, dogwatch_proxy::ProxyOptions::default()).await;
    let stranger = Client::new(clients(&proxy)).unwrap();
    let error = stranger.get().path(&["api", "v1", "namespaces"]).bytes().await.unwrap_err();
    assert!(error.is_unauthorized() || error.is_forbidden(), "{error}");
    let known = crate::support::caller(&proxy, "secret");
    assert!(known.get().path(&["api", "v1", "namespaces"]).bytes().await.is_ok());
}
