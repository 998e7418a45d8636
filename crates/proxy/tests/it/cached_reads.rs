//! Reads that are answered from memory, on a server that enforces roles.

use std::time::Duration;

use dogwatch_apiserver::faults::Rule;
use dogwatch_apiserver::{ApiServer, AuthorizationMode, User};
use dogwatch_client::{Api, Client};
use dogwatch_core::{DeleteParams, ListParams, WatchParams, WriteParams};
use dogwatch_informer::SharedInformer;
use dogwatch_proxy::{Proxy, ProxyOptions};
use dogwatch_wire::WatchEvent;
use futures_util::StreamExt;
use futures_util::future::join_all;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Pod};
use k8s_openapi::api::rbac::v1::RoleBinding;
use serde_json::{Value, json};

use crate::support::{caller, config, map, maps, proxy_of, warm, within};

/// Alice may read config maps and pods in `default`, and Bob nothing.
const ROLES: &str = "\
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: reader, namespace: default}
rules:
- {apiGroups: [''], resources: [configmaps, pods], verbs: [get, list, watch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: alice, namespace: default}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: reader}
subjects:
- {apiGroup: rbac.authorization.k8s.io, kind: User, name: alice}
";

async fn server() -> ApiServer {
    ApiServer::builder()
        .tls(true)
        .token("admin")
        .token_of("alice-token", User::named("alice", &[]))
        .token_of("bob-token", User::named("bob", &[]))
        .authorization(AuthorizationMode::Rbac)
        .yaml(ROLES)
        .start()
        .await
        .unwrap()
}

fn caching(resources: &[&str]) -> ProxyOptions {
    let mut options = ProxyOptions::default();
    options.resources = resources.iter().map(|&it| it.to_owned()).collect();
    options.review_ttl = Duration::from_millis(200);
    options.watch_review_ttl = Duration::from_millis(200);
    options
}

fn direct(server: &ApiServer) -> Api<ConfigMap> {
    maps(Client::new(config(&server.kubeconfig())).unwrap())
}

/// Returns the number of requests of this verb for config maps that reached the server.
fn reached(server: &ApiServer, verb: &str) -> usize {
    server.requests().verb(verb).resource("configmaps").count()
}

fn any_version() -> ListParams {
    ListParams::default().at("0")
}

#[tokio::test]
async fn any_number_of_lists_and_watches_is_one_list_and_watch_upstream() {
    let server = server().await;
    let proxy = proxy_of(&server, caching(&["configmaps"])).await;
    warm(&server, &proxy).await;
    let (lists, watches) = (reached(&server, "list"), reached(&server, "watch"));

    let alice = maps(caller(&proxy, "alice-token"));
    // From any version: a consistent read asks upstream for its newest one, once for all that wait.
    let params = WatchParams::after("0");
    let opened = join_all((0..50).map(|_| alice.watch(&params))).await;
    let mut opened: Vec<_> = opened.into_iter().map(|it| it.unwrap()).collect();
    direct(&server).create(&WriteParams::default(), &map("a", "1")).await.unwrap();
    for watch in &mut opened {
        within("the addition of the map on every watch", async {
            while !matches!(watch.next().await, Some(Ok(WatchEvent::Added(it))) if it.metadata.name.as_deref() == Some("a"))
            {
            }
        })
        .await;
    }
    for _ in 0..20 {
        assert_eq!(alice.list(&any_version()).await.unwrap().items.len(), 1);
    }
    assert_eq!((reached(&server, "list"), reached(&server, "watch")), (lists, watches));
}

#[tokio::test]
async fn a_list_has_what_was_written_before_it_also_on_a_quiet_collection() {
    let server = server().await;
    let proxy = proxy_of(&server, caching(&["configmaps"])).await;
    warm(&server, &proxy).await;
    let (writer, reader) = (direct(&server), maps(caller(&proxy, "alice-token")));
    for round in 0..20 {
        let name = format!("map-{round}");
        writer.create(&WriteParams::default(), &map(&name, "1")).await.unwrap();
        let listed = reader.list(&ListParams::default()).await.unwrap();
        assert!(listed.items.iter().any(|it| it.metadata.name.as_ref() == Some(&name)), "{name}");
        // Another collection is written: versions are those of the whole server.
        let pod: Pod = serde_json::from_value(json!({
            "metadata": { "name": format!("pod-{round}"), "namespace": "default" },
            "spec": { "containers": [{ "name": "a", "image": "b" }] },
        }))
        .unwrap();
        let pods = Api::<Pod>::namespaced(writer.client().clone(), "default");
        let pod = pods.create(&WriteParams::default(), &pod).await.unwrap();
        let newest = ListParams::default().at(pod.metadata.resource_version.unwrap());
        let listed = within("a list at a version of another collection", reader.list(&newest)).await;
        assert_eq!(listed.unwrap().items.len(), round + 1);
        let listed = within("a list of a quiet collection", reader.list(&ListParams::default())).await;
        let listed = listed.unwrap();
        assert_eq!(listed.items.len(), round + 1);
        let (seen, newest) = (number(listed.metadata.version.as_str()), number(newest.version.as_str()));
        assert!(seen >= newest, "the list has the version of the server");
    }
}

fn number(version: &str) -> u64 {
    version.parse().unwrap()
}

/// A client lists a quiet collection, and watches from the version of the list.
#[tokio::test]
async fn a_watch_from_the_version_of_a_list_begins_at_once_and_asks_nothing() {
    let server = server().await;
    let proxy = proxy_of(&server, caching(&["configmaps"])).await;
    warm(&server, &proxy).await;
    let (writer, reader) = (direct(&server), maps(caller(&proxy, "alice-token")));
    writer.create(&WriteParams::default(), &map("a", "1")).await.unwrap();
    let namespaces = Api::<Namespace>::all(writer.client().clone());
    let mut namespace = Namespace::default();
    namespace.metadata.name = Some("another".to_owned());
    let namespace = namespaces.create(&WriteParams::default(), &namespace).await.unwrap();
    let listed = reader.list(&ListParams::default()).await.unwrap();
    let version = listed.metadata.version.clone();
    assert!(number(version.as_str()) >= number(&namespace.metadata.resource_version.unwrap()));
    let lists = reached(&server, "list");
    let mut watch = reader.watch(&WatchParams::after(version)).await.unwrap();
    writer.create(&WriteParams::default(), &map("b", "1")).await.unwrap();
    let event = within("the addition", watch.next()).await;
    assert!(
        matches!(&event, Some(Ok(WatchEvent::Added(it))) if it.metadata.name.as_deref() == Some("b")),
        "{event:?}"
    );
    assert_eq!(reached(&server, "list"), lists, "the version was known");
}

#[tokio::test]
async fn callers_see_what_they_may_see_without_the_proxy() {
    let server = server().await;
    let proxy = proxy_of(&server, caching(&["configmaps"])).await;
    warm(&server, &proxy).await;
    let alice = caller(&proxy, "alice-token");
    assert!(maps(alice.clone()).list(&any_version()).await.is_ok());
    let everywhere = Api::<ConfigMap>::all(alice).list(&any_version()).await.unwrap_err();
    assert!(everywhere.is_forbidden(), "{everywhere}");
    assert!(everywhere.to_string().contains("\"alice\" cannot list resource \"configmaps\""), "{everywhere}");
    let bob = maps(caller(&proxy, "bob-token"));
    assert!(bob.list(&any_version()).await.unwrap_err().is_forbidden());
    assert!(bob.watch(&WatchParams::initial_events()).await.err().unwrap().is_forbidden());
    assert!(bob.get("a").await.unwrap_err().is_forbidden());
    let unknown = maps(caller(&proxy, "unknown"));
    assert!(unknown.list(&any_version()).await.unwrap_err().is_unauthorized());
}

#[tokio::test]
async fn a_watch_ends_when_its_caller_loses_the_right() {
    let server = server().await;
    let proxy = proxy_of(&server, caching(&["configmaps"])).await;
    warm(&server, &proxy).await;
    let alice = maps(caller(&proxy, "alice-token"));
    let mut watch = alice.watch(&WatchParams::initial_events()).await.unwrap();
    let bindings = Api::<RoleBinding>::namespaced(direct(&server).client().clone(), "default");
    bindings.delete("alice", &DeleteParams::default()).await.unwrap();
    within("the end of the watch", async { while watch.next().await.is_some() {} }).await;
    within("the refusal of a list", async {
        while !alice.list(&any_version()).await.is_err_and(|it| it.is_forbidden()) {}
    })
    .await;
    // What was written since was not seen.
    direct(&server).create(&WriteParams::default(), &map("secret", "1")).await.unwrap();
    assert!(alice.list(&any_version()).await.is_err());
}

#[tokio::test]
async fn informers_end_equal_to_the_server_while_watches_are_cut_and_history_expires() {
    let server = server().await;
    let proxy = proxy_of(&server, caching(&["configmaps"])).await;
    warm(&server, &proxy).await;
    let informer = SharedInformer::new(maps(caller(&proxy, "alice-token")));
    informer.start();
    informer.synced().await.unwrap();
    let writer = direct(&server);
    for round in 0..30 {
        let name = format!("map-{}", round % 7);
        match writer.get_opt(&name).await.unwrap() {
            Some(_) => drop(writer.delete(&name, &DeleteParams::default()).await.unwrap()),
            None => drop(writer.create(&WriteParams::default(), &map(&name, "1")).await.unwrap()),
        }
        match round % 5 {
            1 => server.faults().cut_watches(),
            3 => drop(server.expire_history()),
            _ => {}
        }
    }
    let expected = writer.list(&ListParams::default()).await.unwrap();
    let version = |it: &ConfigMap| (it.metadata.name.clone(), it.metadata.resource_version.clone());
    let mut expected: Vec<_> = expected.items.iter().map(version).collect();
    expected.sort();
    within("the informer equals the server", async {
        loop {
            let mut cached: Vec<_> = informer.store().snapshot().iter().map(|it| version(it)).collect();
            cached.sort();
            if cached == expected {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
}

#[tokio::test]
async fn one_stored_form_is_served_as_json_protobuf_metadata_and_table() {
    let server = server().await;
    let writer = direct(&server);
    let pod: Pod = serde_json::from_value(json!({
        "metadata": { "name": "web", "namespace": "default", "labels": { "app": "web" } },
        "spec": { "containers": [{ "name": "a", "image": "b" }] },
    }))
    .unwrap();
    let pods = Api::<Pod>::namespaced(writer.client().clone(), "default");
    pods.create(&WriteParams::default(), &pod).await.unwrap();
    let proxy = proxy_of(&server, caching(&["pods"])).await;
    let alice = caller(&proxy, "alice-token");
    let read = async |client: &Client, accept: &str| -> Value {
        let path = ["api", "v1", "namespaces", "default", "pods"];
        let request = client.get().path(&path).param("resourceVersion", "0").accept(accept);
        request.send().await.unwrap()
    };
    for accept in [
        "application/json",
        "application/json;as=Table;g=meta.k8s.io;v=v1",
        "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
    ] {
        within("the same answer", async {
            loop {
                let (mut cached, mut stored) =
                    (read(&alice, accept).await, read(writer.client(), accept).await);
                for list in [&mut cached, &mut stored] {
                    list["metadata"]["resourceVersion"] = Value::Null;
                }
                if cached == stored && proxy_answers(&server, &alice).await {
                    return;
                }
            }
        })
        .await;
    }
    // Protobuf is what a typed informer asks for.
    let informer = SharedInformer::new(Api::<Pod>::namespaced(alice, "default"));
    informer.start();
    informer.synced().await.unwrap();
    assert_eq!(
        informer.store().snapshot().iter().next().unwrap().spec.as_ref().unwrap().containers[0].name,
        "a"
    );
}

/// Returns true if a list of pods is answered without a request upstream.
async fn proxy_answers(server: &ApiServer, client: &Client) -> bool {
    let count = || server.requests().verb("list").resource("pods").count();
    let before = count();
    Api::<Pod>::namespaced(client.clone(), "default").list(&any_version()).await.unwrap();
    count() == before
}

#[tokio::test]
async fn during_an_outage_only_permitted_resources_are_answered_and_say_so() {
    let server = server().await;
    let folder = tempfile::tempdir().unwrap();
    let rules = folder.path().join("rules.yaml");
    std::fs::write(&rules, "rules: []\nstale: [configmaps]\n").unwrap();
    let mut options = caching(&["configmaps", "pods"]);
    options.rules = Some(rules);
    // Rights are remembered for the whole outage.
    options.review_ttl = Duration::from_secs(600);
    let proxy = proxy_of(&server, options).await;
    warm(&server, &proxy).await;
    let alice = caller(&proxy, "alice-token");
    within("answers from memory", async { while !proxy_answers(&server, &alice).await {} }).await;
    maps(alice.clone()).list(&any_version()).await.unwrap();

    let outage = server.faults().rule(Rule::on_everything().refuse(503));
    server.faults().cut_watches();
    let read = async |resource: &str| {
        let path = ["api", "v1", "namespaces", "default", resource];
        alice.get().path(&path).max_retries(0).response().await
    };
    within("a list with a warning", async {
        loop {
            if let Ok(response) = read("configmaps").await
                && response.headers.get("warning").is_some_and(|it| it.to_str().unwrap().starts_with("299 "))
            {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
    within("no list of pods", async {
        while read("pods").await.is_ok() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
    outage.remove();
    within("lists without a warning", async {
        while !read("configmaps").await.is_ok_and(|it| !it.headers.contains_key("warning")) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
}

/// Regression test: the events of the API server came late, and lists got 503 although the API
/// server would have answered them.
#[tokio::test]
async fn a_list_is_passed_on_if_memory_is_not_as_new_in_time() {
    let server = server().await;
    let proxy = proxy_of(&server, caching(&["configmaps"])).await;
    warm(&server, &proxy).await;
    let alice = caller(&proxy, "alice-token");
    server.faults().pause();
    direct(&server).create(&WriteParams::default(), &map("a", "1")).await.unwrap();
    let path = ["api", "v1", "namespaces", "default", "configmaps"];
    let listing = alice.get().path(&path).max_retries(0).send::<Value>();
    let listed = within("a list", listing).await.unwrap();
    assert_eq!(listed["items"][0]["metadata"]["name"], "a", "{listed}");
    // A read that memory can answer does not wait for upstream.
    assert!(maps(alice).list(&any_version()).await.unwrap().items.is_empty());
    server.faults().resume();
}

/// Two proxies of one server have seen different bookmarks: a client that moves between them may be
/// ahead of the other one.
#[tokio::test]
async fn a_watch_from_a_version_of_another_resource_is_not_passed_on() {
    let server = server().await;
    let proxy = proxy_of(&server, caching(&["configmaps"])).await;
    warm(&server, &proxy).await;
    let writer = direct(&server);
    let pod: Pod = serde_json::from_value(json!({
        "metadata": { "name": "newer", "namespace": "default" },
        "spec": { "containers": [{ "name": "a", "image": "b" }] },
    }))
    .unwrap();
    let pods = Api::<Pod>::namespaced(writer.client().clone(), "default");
    let pod = pods.create(&WriteParams::default(), &pod).await.unwrap();
    let ahead = WatchParams::after(pod.metadata.resource_version.unwrap());
    let watches = reached(&server, "watch");
    let alice = maps(caller(&proxy, "alice-token"));
    let opened = join_all((0..20).map(|_| alice.watch(&ahead))).await;
    writer.create(&WriteParams::default(), &map("a", "1")).await.unwrap();
    for watch in opened {
        let event = within("the addition", watch.unwrap().next()).await;
        assert!(matches!(&event, Some(Ok(WatchEvent::Added(_)))), "{event:?}");
    }
    assert_eq!(reached(&server, "watch"), watches, "no watch was passed on");
}

#[tokio::test]
async fn a_watch_from_a_version_that_never_was_lists_again() {
    let server = server().await;
    let proxy = proxy_of(&server, caching(&["configmaps"])).await;
    warm(&server, &proxy).await;
    let alice = maps(caller(&proxy, "alice-token"));
    let watches = reached(&server, "watch");
    let mut watch = alice.watch(&WatchParams::after("99999999")).await.unwrap();
    let event = within("the end of the watch", watch.next()).await;
    assert!(!matches!(&event, Some(Ok(WatchEvent::Added(_)))), "{event:?}");
    assert_eq!(reached(&server, "watch"), watches);
}

#[tokio::test]
async fn a_resource_that_is_not_served_is_named() {
    let server = server().await;
    for (resource, reason) in [("gadgets", "gadgets"), ("tokenreviews", "cannot be listed and watched")] {
        let started = Proxy::start(config(&server.kubeconfig()), caching(&[resource])).await;
        let error = started.err().unwrap().to_string();
        assert!(error.contains(resource) && error.contains(reason), "{error}");
    }
}

#[tokio::test]
async fn operators_see_readiness_by_resource_and_metrics() {
    let server = server().await;
    let mut options = caching(&["configmaps", "pods"]);
    options.metrics_bind = Some(([127, 0, 0, 1], 0).into());
    let proxy = proxy_of(&server, options).await;
    let status = format!("http://{}", proxy.status_address().unwrap());
    let client = Client::new(dogwatch_client::Config::new(status.parse().unwrap())).unwrap();
    let text = async |path: &str| {
        let bytes = client.get().path(&[path]).max_retries(0).bytes().await.ok()?;
        String::from_utf8(bytes.to_vec()).ok()
    };
    let ready = within("readiness", async {
        loop {
            if let Some(ready) = text("readyz").await {
                return ready;
            }
        }
    })
    .await;
    assert!(ready.contains("/v1 configmaps ok") && ready.contains("/v1 pods ok"), "{ready}");
    assert_eq!(text("livez").await.as_deref(), Some("ok\n"));
    warm(&server, &proxy).await;
    let metrics = text("metrics").await.unwrap();
    let objects = "dogwatch_proxy_objects{group=\"\",version=\"v1\",resource=\"configmaps\"} ";
    let line = metrics.lines().find(|it| it.starts_with(objects)).unwrap();
    assert_ne!(line, format!("{objects}0"));
    assert!(metrics.contains("# TYPE dogwatch_proxy_cached_reads_total counter"), "{metrics}");
    assert_eq!(text("other").await, None);
}
