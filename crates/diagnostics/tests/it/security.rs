//! Access to the page: for browsers on this machine, and to its actions only for the page itself.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use dogwatch_apiserver::ApiServer;
use dogwatch_client::{Api, Client};
use dogwatch_controller::{Action, BoxError, Context, Controller, Manager};
use dogwatch_core::{Header, Meta, Object, ObjectKey, View, WriteParams};
use dogwatch_diagnostics::{Diagnostics, ServeError};
use dogwatch_informer::SharedInformer;
use k8s_openapi::api::core::v1::Secret;
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio::task::JoinSet;

use crate::browser::{Snapshots, fetch, send};

#[tokio::test]
async fn a_foreign_host_or_site_gets_403_everywhere() {
    let served = Diagnostics::new().serve("127.0.0.1:0").await.unwrap();
    for path in ["/", "/page.js", "/events", "/snapshot.json", "/nothing"] {
        for headers in [
            [("host", "evil.example"), ("accept", "*/*")],
            [("origin", "https://evil.example"), ("accept", "*/*")],
            [("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "no-cors")],
        ] {
            assert_eq!(fetch(&served, "GET", path, &headers).await.0, 403, "{path} {headers:?}");
        }
    }
    assert_eq!(fetch(&served, "GET", "/", &[]).await.0, 200);
}

#[tokio::test]
async fn names_that_the_program_allows_are_accepted() {
    let page = Diagnostics::new().allow_host("box.lan");
    let served = page.serve("127.0.0.1:0").await.unwrap();
    assert_eq!(fetch(&served, "GET", "/", &[("host", "Box.lan:8080")]).await.0, 200);
    assert_eq!(fetch(&served, "GET", "/", &[("host", "other.lan:8080")]).await.0, 403);
}

#[tokio::test]
async fn other_addresses_than_the_loopback_must_be_allowed() {
    let refused = Diagnostics::new().serve("0.0.0.0:0").await;
    assert!(matches!(refused, Err(ServeError::NotLoopback { .. })), "{refused:?}");
    let served = Diagnostics::new().allow_remote().serve("0.0.0.0:0").await.unwrap();
    assert_eq!(served.address().ip().to_string(), "0.0.0.0");
}

#[tokio::test]
async fn every_response_forbids_other_contents_and_frames() {
    let served = Diagnostics::new().serve("127.0.0.1:0").await.unwrap();
    for path in ["/", "/page.css", "/snapshot.json", "/nothing"] {
        let response = send(served.address(), "GET", path, &[]).await;
        let policy = response.headers()["content-security-policy"].to_str().unwrap();
        assert!(policy.starts_with("default-src 'self'") && policy.contains("frame-ancestors 'none'"));
        assert_eq!(response.headers()["x-content-type-options"], "nosniff");
        assert!(response.headers().get("access-control-allow-origin").is_none());
    }
}

#[tokio::test]
async fn actions_run_only_for_a_post_of_the_page_itself() {
    let (page, calls) = (Diagnostics::new(), Arc::new(AtomicUsize::new(0)));
    let served = page.serve("127.0.0.1:0").await.unwrap();
    let own = format!("http://{}", served.address());
    let own = own.as_str();
    assert_eq!(fetch(&served, "POST", "/actions/0", &[("origin", own)]).await.0, 404, "none was added");
    page.add_action("count", {
        let calls = Arc::clone(&calls);
        move || {
            calls.fetch_add(1, Ordering::Relaxed);
            async {}
        }
    });
    for (method, headers, status) in [
        ("POST", &[("origin", "https://evil.example")][..], 403),
        ("POST", &[("origin", "null")], 403),
        ("POST", &[("origin", own), ("sec-fetch-site", "cross-site")], 403),
        ("POST", &[("origin", own), ("host", "evil.example")], 403),
        ("POST", &[], 403),
        ("GET", &[("origin", own)], 405),
        ("PUT", &[("origin", own)], 405),
    ] {
        assert_eq!(fetch(&served, method, "/actions/0", headers).await.0, status, "{method} {headers:?}");
    }
    assert_eq!(calls.load(Ordering::Relaxed), 0);
    let same = [("origin", own), ("sec-fetch-site", "same-origin")];
    assert_eq!(fetch(&served, "POST", "/actions/0", &same).await, (200, "done\n".to_owned()));
    assert_eq!(calls.load(Ordering::Relaxed), 1);
    assert_eq!(fetch(&served, "POST", "/actions/1", &same).await.0, 404);
    assert_eq!(fetch(&served, "POST", "/actions/x", &same).await.0, 404);
}

#[tokio::test]
async fn an_action_reports_its_error_and_runs_once_at_a_time() {
    let (page, begun, go) = (Diagnostics::new(), Arc::new(Notify::new()), Arc::new(Notify::new()));
    page.add_action("fail", || async { Err::<(), _>("no server") });
    page.add_action("wait", {
        let (begun, go) = (Arc::clone(&begun), Arc::clone(&go));
        move || {
            let (begun, go) = (Arc::clone(&begun), Arc::clone(&go));
            async move {
                begun.notify_one();
                go.notified().await;
            }
        }
    });
    let served = page.serve("127.0.0.1:0").await.unwrap();
    let own = format!("http://{}", served.address());
    let headers = [("origin", own.as_str())];
    assert_eq!(fetch(&served, "POST", "/actions/0", &headers).await, (500, "no server".to_owned()));
    let (first, ()) = tokio::join!(fetch(&served, "POST", "/actions/1", &headers), async {
        begun.notified().await;
        assert_eq!(fetch(&served, "POST", "/actions/1", &headers).await.0, 409);
        go.notify_one();
    });
    assert_eq!(first.0, 200);
}

/// A view of a Secret whose values are of another type than those of the server: no Secret with a
/// value can be decoded.
#[derive(serde::Deserialize)]
struct Counters {
    metadata: Meta,
    #[serde(default, rename = "data")]
    _data: BTreeMap<String, u64>,
}

impl Object for Counters {
    fn header(&self) -> Header<'_> {
        self.metadata.header()
    }
}

impl View for Counters {
    type Of = Secret;
}

#[tokio::test]
async fn no_value_of_a_secret_is_in_a_snapshot() {
    let server = ApiServer::in_process().await.unwrap();
    let client = Client::from_service(server.url().parse().unwrap(), "default", server.service());
    let secret: Secret = serde_json::from_value(json!({
        "metadata": {
            "name": "token",
            "labels": { "app": "label-of-the-secret" },
            "annotations": { "note": "annotation-of-the-secret" },
        },
        "stringData": { "password": "hunter2" },
    }))
    .unwrap();
    let secrets = Api::<Secret>::default_namespaced(client.clone());
    secrets.create(&WriteParams::default(), &secret).await.unwrap();

    let page = Diagnostics::new();
    let unread = SharedInformer::new(Api::<Secret>::all(client.clone()));
    let undecodable = SharedInformer::new(Api::<Counters>::all(client.clone()));
    let manager = Manager::new(client);
    let decoded = manager.informer::<Secret>();
    let reconcile =
        |_: ObjectKey, _: Context| async { Err::<Action, _>(BoxError::from("the reconcile fails")) };
    let manager = manager.controller(Controller::of(&decoded).named("tokens").build(reconcile));
    // It keeps the changes with the objects, since it is not read.
    let _changes = unread.changes().unwrap();
    page.add_informer(&unread);
    page.add_informer(&undecodable);
    page.add_manager(&manager);
    unread.start();
    undecodable.start();
    let mut running = JoinSet::new();
    running.spawn(manager.run_until(std::future::pending()));

    let served = page.serve("127.0.0.1:0").await.unwrap();
    let mut snapshots = Snapshots::open(&served).await;
    let is_complete = |it: &Value| {
        let objects = |place: usize| it["informers"][place]["objects"].as_u64() >= Some(1);
        let key = &it["controllers"][0]["queue"]["keys"][0];
        objects(0)
            && it["informers"][1]["undecodable"].as_u64() >= Some(1)
            && objects(2)
            && key["key"] == "default/token"
            && key["causes"].is_string()
    };
    let shown = snapshots.wait_for("all caches have the secret, and its key is retried", is_complete).await;
    let (status, text) = fetch(&served, "GET", "/snapshot.json", &[]).await;
    assert_eq!(status, 200);
    // In plain text, and as the server encodes it.
    let values = ["hunter2", "aHVudGVyMg", "label-of-the-secret", "annotation-of-the-secret"];
    for value in values {
        assert!(!text.contains(value), "{value} is in {text}");
        assert!(!shown.to_string().contains(value), "{value} is in {shown}");
    }
}
