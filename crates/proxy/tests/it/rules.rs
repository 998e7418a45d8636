//! Rules that change what callers see: the same view in every read, and nothing of it is stored.

use std::path::PathBuf;

use dogwatch_apiserver::{ApiServer, AuthorizationMode, User};
use dogwatch_client::api::Patch;
use dogwatch_client::transport::{Transport, TransportOptions};
use dogwatch_client::{Api, Client, RequestBody, boxed};
use dogwatch_core::{DeleteParams, LabelSelector, ListParams, PatchParams, WatchParams, WriteParams};
use dogwatch_proxy::{Proxy, ProxyOptions};
use dogwatch_wire::{WatchDecoder, WatchEvent};
use futures_util::StreamExt;
use http::Request;
use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::support::{caller, config, map, maps, plain, proxy_of, warm, within};
use crate::upstream_double::connect;

/// A server, a proxy with rules for config maps, and the file of the rules.
struct Ruled {
    server: ApiServer,
    proxy: Proxy,
    file: PathBuf,
    _folder: tempfile::TempDir,
}

impl Ruled {
    async fn start(rules: &str) -> Self {
        let server = ApiServer::builder().tls(true).token("admin").start().await.unwrap();
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("rules.yaml");
        std::fs::write(&file, rules).unwrap();
        let mut options = ProxyOptions::default();
        options.resources = vec!["configmaps".to_owned()];
        options.rules = Some(file.clone());
        let proxy = proxy_of(&server, options).await;
        warm(&server, &proxy).await;
        Self { server, proxy, file, _folder: folder }
    }

    /// The maps as they are stored.
    fn stored(&self) -> Api<ConfigMap> {
        maps(Client::new(config(&self.server.kubeconfig())).unwrap())
    }

    /// The maps as callers of the proxy see them.
    fn seen(&self) -> Api<ConfigMap> {
        maps(caller(&self.proxy, "admin"))
    }

    async fn create(&self, name: &str, labels: &[(&str, &str)]) -> ConfigMap {
        let mut map = map(name, "1");
        let pairs = labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        map.metadata.labels = Some(pairs.collect());
        self.stored().create(&WriteParams::default(), &map).await.unwrap()
    }
}

const MARK: &str = "\
rules:
- name: mark
  match: {resource: configmaps, labels: 'rewrite=yes'}
  patch: {type: merge, value: {metadata: {annotations: {seen: through-the-proxy}}}}
- name: hide
  match: {resource: configmaps, labels: 'hidden'}
  hide: true
";

fn seen_annotation(map: &ConfigMap) -> Option<&str> {
    map.metadata.annotations.as_ref()?.get("seen").map(String::as_str)
}

#[tokio::test]
async fn get_list_and_watch_have_the_same_view_and_the_stored_object_is_untouched() {
    let ruled = Ruled::start(MARK).await;
    ruled.create("marked", &[("rewrite", "yes")]).await;
    ruled.create("secret", &[("hidden", "yes")]).await;
    let seen = ruled.seen();
    let got = seen.get("marked").await.unwrap();
    assert_eq!(seen_annotation(&got), Some("through-the-proxy"));
    assert!(seen.get("secret").await.unwrap_err().is_not_found());
    let listed = seen.list(&ListParams::default()).await.unwrap();
    let names: Vec<_> = listed.items.iter().map(|it| it.metadata.name.as_deref().unwrap()).collect();
    assert_eq!(names, ["marked"]);
    assert_eq!(seen_annotation(&listed.items[0]), Some("through-the-proxy"));

    let mut watch = seen.watch(&WatchParams::after(listed.metadata.version)).await.unwrap();
    let label = async |name: &str, labels: Value| {
        let patch = json!({ "metadata": { "labels": labels } });
        let stored = ruled.stored();
        stored.patch(name, &PatchParams::default(), Patch::Merge(&patch)).await.unwrap();
    };
    label("secret", json!({ "hidden": null })).await;
    label("marked", json!({ "hidden": "yes" })).await;
    let mut next = async || within("an event", watch.next()).await.unwrap().unwrap();
    let WatchEvent::Added(appeared) = next().await else { panic!("an object that appears is added") };
    assert_eq!(appeared.metadata.name.as_deref(), Some("secret"));
    let WatchEvent::Deleted(gone) = next().await else { panic!("an object that is hidden is deleted") };
    assert_eq!(
        (gone.metadata.name.as_deref(), seen_annotation(&gone)),
        (Some("marked"), Some("through-the-proxy"))
    );

    assert_eq!(seen_annotation(&ruled.stored().get("marked").await.unwrap()), None);
}

#[tokio::test]
async fn selectors_select_from_what_is_seen() {
    let ruled = Ruled::start(
        "rules:\n- match: {resource: configmaps, labels: 'tier=web'}\n  patch: {type: merge, value: {metadata: {labels: {tier: edge}}}}\n",
    )
    .await;
    ruled.create("a", &[("tier", "web")]).await;
    let count = async |selector: &str| {
        let labels: LabelSelector = selector.parse().unwrap();
        let params = ListParams::default().labels(labels);
        ruled.seen().list(&params).await.unwrap().items.len()
    };
    assert_eq!((count("tier=edge").await, count("tier=web").await), (1, 0));
}

#[tokio::test]
async fn a_write_keeps_the_callers_changes_and_stores_nothing_of_the_rules() {
    let ruled = Ruled::start(MARK).await;
    ruled.create("marked", &[("rewrite", "yes")]).await;
    let seen = ruled.seen();
    let mut map = seen.get("marked").await.unwrap();
    map.data = Some([("value".to_owned(), "2".to_owned())].into());
    let answer = seen.replace("marked", &WriteParams::default(), &map).await.unwrap();
    assert_eq!(seen_annotation(&answer), Some("through-the-proxy"), "the answer is what the caller sees");
    let patch = json!({ "metadata": { "annotations": { "own": "yes" } } });
    let answer = seen.patch("marked", &PatchParams::default(), Patch::Merge(&patch)).await.unwrap();
    assert_eq!(seen_annotation(&answer), Some("through-the-proxy"));

    let stored = ruled.stored().get("marked").await.unwrap();
    assert_eq!(stored.data.as_ref().unwrap()["value"], "2");
    assert_eq!(stored.metadata.annotations, Some([("own".to_owned(), "yes".to_owned())].into()));
    let undecodable = caller(&ruled.proxy, "admin").put();
    let undecodable = undecodable.uri("/api/v1/namespaces/default/configmaps/marked").body(
        "application/json",
        r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"marked"},"data":{"a":"\ud800"}}"#,
    );
    assert!(undecodable.bytes().await.unwrap_err().is_bad_request());
    let stale = seen.replace("marked", &WriteParams::default(), &map).await.unwrap_err();
    assert!(stale.is_conflict(), "{stale}");
}

#[tokio::test]
async fn a_rule_may_refuse_writes_and_a_hidden_object_does_not_exist() {
    let ruled = Ruled::start(
        "rules:\n\
         - {name: frozen, match: {resource: configmaps, labels: frozen}, annotations: {a: b}, onWrite: refuse}\n\
         - {match: {resource: configmaps, labels: hidden}, hide: true}\n",
    )
    .await;
    ruled.create("frozen", &[("frozen", "yes")]).await;
    ruled.create("secret", &[("hidden", "yes")]).await;
    let seen = ruled.seen();
    let map = seen.get("frozen").await.unwrap();
    let refused = seen.replace("frozen", &WriteParams::default(), &map).await.unwrap_err();
    assert!(refused.is_forbidden() && refused.to_string().contains("frozen"), "{refused}");
    let patch = json!({ "data": { "value": "2" } });
    let patched = seen.patch("frozen", &PatchParams::default(), Patch::Merge(&patch)).await.unwrap_err();
    assert!(patched.is_forbidden(), "{patched}");

    let hidden = seen.patch("secret", &PatchParams::default(), Patch::Merge(&patch)).await.unwrap_err();
    assert!(hidden.is_not_found(), "{hidden}");
    assert!(seen.delete("secret", &DeleteParams::default()).await.unwrap_err().is_not_found());
    let status = caller(&ruled.proxy, "admin").get();
    let status = status.uri("/api/v1/namespaces/default/configmaps/secret/status").bytes().await;
    assert!(status.unwrap_err().is_not_found());
    let apart = caller(&ruled.proxy, "admin").post();
    let apart =
        apart.uri("/api/v1/namespaces/default/configmaps/secret/eviction").json(&json!({})).bytes().await;
    let apart = apart.unwrap_err();
    assert!(apart.to_string().contains("\"secret\" not found"), "{apart}");
    assert_eq!(ruled.stored().get("secret").await.unwrap().data.unwrap()["value"], "1");
}

#[tokio::test]
async fn no_form_of_a_read_shows_what_is_redacted() {
    let ruled = Ruled::start(
        "rules:\n- match: {resource: configmaps}\n  redact: [/data/password]\n- match: {resource: configmaps, labels: hidden}\n  hide: true\n",
    )
    .await;
    let mut map = map("a", "1");
    map.data.as_mut().unwrap().insert("password".to_owned(), "hunter2".to_owned());
    let last = "kubectl.kubernetes.io/last-applied-configuration".to_owned();
    map.metadata.annotations = Some([(last, "{\"data\":{\"password\":\"hunter2\"}}".to_owned())].into());
    ruled.stored().create(&WriteParams::default(), &map).await.unwrap();
    let client = caller(&ruled.proxy, "admin");
    let collection = "/api/v1/namespaces/default/configmaps";
    for uri in [
        format!("{collection}/a"),
        format!("{collection}?resourceVersion=0"),
        format!("{collection}/a?resourceVersion=0"),
        "/api/v1/configmaps".to_owned(),
        format!("{collection}?fieldSelector=metadata.name%3Da"),
        format!(
            "{collection}?watch=true&timeoutSeconds=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"
        ),
        format!("{collection}?watch=yes&timeoutSeconds=1"),
        format!("{collection}/a?watch=true&timeoutSeconds=1"),
        "/api/v1/watch/configmaps?timeoutSeconds=1".to_owned(),
        "/api/v1/watch/namespaces/default/configmaps/a?timeoutSeconds=1".to_owned(),
        "/api/v1/namespaces/default/%63onfigmaps/a".to_owned(),
        format!("{collection}/a/status"),
    ] {
        for accept in [
            "application/json",
            "application/yaml",
            "application/vnd.kubernetes.protobuf",
            "application/json;as=Table;g=meta.k8s.io;v=v1",
        ] {
            let request = client.request(http::Method::GET).uri(&uri).accept(accept).max_retries(0);
            let bytes = within(&uri, request.bytes()).await.unwrap_or_default();
            let text = String::from_utf8_lossy(&bytes);
            assert!(!text.contains("hunter2"), "{uri} as {accept}: {text}");
        }
    }
    // Answers to writes are reads too.
    let copy = json!([{ "op": "copy", "from": "/data/password", "path": "/data/copy" }]);
    let unlabelled = json!({ "metadata": { "labels": null }, "data": { "value": "2" } });
    let object = format!("{collection}/a");
    let (merge, json_patch) = ("application/merge-patch+json", "application/json-patch+json");
    let applied = "application/apply-patch+yaml";
    let own = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "a" }, "data": { "own": "1" } });
    let writes = [
        (client.patch(merge).uri(&object).json(&unlabelled), false),
        (client.patch(merge).uri(&format!("{object}?dryRun=All")).json(&unlabelled), false),
        (client.patch(json_patch).uri(&format!("{object}?dryRun=All")).json(&copy), false),
        (client.patch(applied).uri(&format!("{object}?fieldManager=x&force=true")).json(&own), false),
        (client.put().uri(&object).json(&own), false),
        (client.delete().uri(collection), false),
        (client.delete().uri(&format!("{collection}?dryRun=All")), false),
        (client.delete().uri(&format!("{object}?dryRun=All")), true),
        (client.post().uri(collection).json(&own), false),
    ];
    for (write, is_carried_out) in writes {
        let answer = write.max_retries(0).bytes().await;
        assert_eq!(answer.is_ok(), is_carried_out, "{answer:?}");
        let text = match answer {
            Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
            Err(error) => error.to_string(),
        };
        assert!(!text.contains("hunter2"), "{text}");
    }
    assert_eq!(ruled.stored().get("a").await.unwrap().data.unwrap()["password"], "hunter2");
}

#[tokio::test]
async fn callers_without_a_name_get_nothing_of_a_resource_with_rules() {
    let ruled = Ruled::start(MARK).await;
    let mut anonymous = config(&ruled.proxy.kubeconfig(&ruled.proxy.url()));
    let refused =
        maps(Client::new(anonymous.clone()).unwrap()).list(&ListParams::default()).await.unwrap_err();
    assert!(refused.is_unauthorized(), "{refused}");
    anonymous.auth.token = Some("admin".into());
    anonymous.impersonate.user = Some("jane".to_owned());
    let refused = maps(Client::new(anonymous).unwrap()).list(&ListParams::default()).await.unwrap_err();
    assert!(refused.is_forbidden() && refused.to_string().contains("without impersonation"), "{refused}");
}

/// May read one config map.
const ONE_NAME: &str = "\
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: one, namespace: default}
rules:
- {apiGroups: [''], resources: [configmaps], resourceNames: [plain], verbs: [get, list, watch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: one, namespace: default}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: one}
subjects:
- {apiGroup: rbac.authorization.k8s.io, kind: User, name: named}
";

#[tokio::test]
async fn callers_without_rights_learn_nothing_of_hidden_objects_from_writes() {
    let server = ApiServer::builder()
        .tls(true)
        .token("admin")
        .token_of("bob-token", User::named("bob", &[]))
        .token_of("named-token", User::named("named", &[]))
        .authorization(AuthorizationMode::Rbac)
        .yaml(ONE_NAME)
        .start()
        .await
        .unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("rules.yaml");
    std::fs::write(&file, "rules:\n- match: {resource: configmaps, labels: hidden}\n  hide: true\n").unwrap();
    let mut options = ProxyOptions::default();
    options.resources = vec!["configmaps".to_owned()];
    options.rules = Some(file);
    let proxy = proxy_of(&server, options).await;
    warm(&server, &proxy).await;
    let mut hidden = map("hidden", "1");
    hidden.metadata.labels = Some([("hidden".to_owned(), String::new())].into());
    let stored = maps(Client::new(config(&server.kubeconfig())).unwrap());
    stored.create(&WriteParams::default(), &hidden).await.unwrap();
    stored.create(&WriteParams::default(), &map("plain", "1")).await.unwrap();
    let named = maps(caller(&proxy, "named-token"));
    let one = ListParams::default().fields("metadata.name=plain".parse().unwrap());
    assert_eq!(named.list(&one).await.unwrap().items.len(), 1);
    assert!(named.list(&ListParams::default()).await.unwrap_err().is_forbidden());
    let bob = maps(caller(&proxy, "bob-token"));
    let patch = json!({ "data": { "value": "2" } });
    for name in ["hidden", "missing"] {
        let refused = bob.patch(name, &PatchParams::default(), Patch::Merge(&patch)).await.unwrap_err();
        assert!(refused.is_forbidden(), "{refused}");
        assert!(bob.delete(name, &DeleteParams::default()).await.unwrap_err().is_forbidden());
    }
}

#[tokio::test]
async fn changed_rules_end_watches_and_an_invalid_file_changes_nothing() {
    let ruled = Ruled::start(MARK).await;
    ruled.create("marked", &[("rewrite", "yes")]).await;
    let seen = ruled.seen();
    let version = seen.list(&ListParams::default()).await.unwrap().metadata.version;
    let mut watch = seen.watch(&WatchParams::after(version)).await.unwrap();
    std::fs::write(&ruled.file, "rules: [\n").unwrap();
    std::fs::write(&ruled.file, MARK.replace("through-the-proxy", "newer")).unwrap();
    within("the end of the watch", async {
        while let Some(event) = watch.next().await {
            assert!(matches!(event, Ok(WatchEvent::Error(_)) | Err(_)), "{event:?}");
        }
    })
    .await;
    within("the new view", async {
        let params = ListParams::default().at("0");
        loop {
            let listed = seen.list(&params).await;
            if listed.is_ok_and(|it| it.items.iter().any(|it| seen_annotation(it) == Some("newer"))) {
                return;
            }
        }
    })
    .await;
}

#[tokio::test]
async fn a_patch_of_any_type_stores_the_callers_change_or_is_refused() {
    let ruled = Ruled::start(MARK).await;
    ruled.create("marked", &[("rewrite", "yes")]).await;
    let client = caller(&ruled.proxy, "admin");
    let (merge, strategic) = ("application/merge-patch+json", "application/strategic-merge-patch+json");
    let (json_patch, apply) = ("application/json-patch+json", "application/apply-patch+yaml");
    let annotation = |key: &str| json!({ "metadata": { "annotations": { key: "own" } } });
    let applied = |key: &str| {
        json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": { "name": "marked", "annotations": { key: "own" } },
        })
    };
    let add = |path: &str, value: &str| json!([{ "op": "add", "path": path, "value": value }]);
    let stale = json!({ "metadata": { "resourceVersion": "1" }, "data": { "value": "3" } });
    for (media, body, expected) in [
        (merge, annotation("seen"), 403),
        (strategic, annotation("seen"), 403),
        (json_patch, add("/metadata/annotations/seen", "own"), 403),
        (apply, applied("seen"), 403),
        (merge, json!({ "metadata": { "annotations": null } }), 403),
        (merge, stale, 409),
        (json_patch, json!([{ "op": "test", "path": "/metadata/resourceVersion", "value": "1" }]), 409),
        (merge, annotation("a-merge"), 200),
        (strategic, annotation("a-strategic"), 200),
        (json_patch, add("/data/value", "2"), 200),
        (apply, applied("applied"), 200),
    ] {
        let uri = "/api/v1/namespaces/default/configmaps/marked?fieldManager=test";
        let answer = client.patch(media).uri(uri).json(&body).max_retries(0).bytes().await;
        match answer {
            Ok(bytes) => {
                let shown: Value = serde_json::from_slice(&bytes).unwrap();
                assert_eq!(
                    (shown["metadata"]["annotations"]["seen"].as_str(), expected),
                    (Some("through-the-proxy"), 200)
                );
            }
            Err(error) => {
                let is_expected = match expected {
                    403 => error.is_forbidden() && error.to_string().contains("\"mark\""),
                    409 => error.is_conflict(),
                    _ => false,
                };
                assert!(is_expected, "{media} {body}: {error}");
            }
        }
    }
    let stored = ruled.stored().get("marked").await.unwrap();
    let annotations: Vec<_> = stored.metadata.annotations.unwrap().into_keys().collect();
    assert_eq!(annotations, ["a-merge", "a-strategic", "applied"]);
    assert_eq!(stored.data.unwrap()["value"], "2");
}

#[tokio::test]
async fn patches_for_any_version_are_repeated_while_the_object_changes() {
    let ruled = Ruled::start(MARK).await;
    ruled.create("marked", &[("rewrite", "yes")]).await;
    let seen = ruled.seen();
    for round in 0..5 {
        let patches = (0..3).map(|number| {
            let patch = json!({ "data": { format!("key-{round}-{number}"): "1" } });
            let seen = seen.clone();
            async move { seen.patch("marked", &PatchParams::default(), Patch::Merge(&patch)).await }
        });
        for answer in futures_util::future::join_all(patches).await {
            answer.unwrap();
        }
    }
    assert_eq!(ruled.stored().get("marked").await.unwrap().data.unwrap().len(), 16);
}

#[tokio::test]
async fn an_update_of_what_a_rule_changes_too_is_stored_or_refused() {
    let ruled = Ruled::start(
        "rules:\n- {name: host, match: {resource: configmaps}, patch: {type: merge, value: {data: {host: new, list: '1'}}}}\n",
    )
    .await;
    let mut own = map("a", "1");
    own.data.as_mut().unwrap().insert("host".to_owned(), "old".to_owned());
    ruled.stored().create(&WriteParams::default(), &own).await.unwrap();
    let mut map = ruled.seen().get("a").await.unwrap();
    map.data.as_mut().unwrap().insert("host".to_owned(), "own".to_owned());
    ruled.seen().replace("a", &WriteParams::default(), &map).await.unwrap();
    let data = ruled.stored().get("a").await.unwrap().data.unwrap();
    assert_eq!((data["host"].as_str(), data.get("list")), ("own", None));
}

/// Config maps of another group.
const OTHER_MAPS: &str = "\
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: configmaps.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {kind: ConfigMap, plural: configmaps, singular: configmap}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
";

#[tokio::test]
async fn rules_for_a_resource_leave_other_groups_alone() {
    let server = ApiServer::builder().tls(true).token("admin").yaml(OTHER_MAPS).start().await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("rules.yaml");
    std::fs::write(&file, "rules:\n- match: {resource: configmaps}\n  hide: true\n").unwrap();
    let mut options = ProxyOptions::default();
    options.resources = vec!["configmaps".to_owned()];
    options.rules = Some(file);
    let proxy = proxy_of(&server, options).await;
    let client = caller(&proxy, "admin");
    within("a list of the other group", async {
        while client.get().uri("/apis/example.com/v1/configmaps").max_retries(0).bytes().await.is_err() {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    })
    .await;
    let listed: Value = client.get().uri("/api/v1/namespaces/default/configmaps").send().await.unwrap();
    assert_eq!(listed["items"], json!([]));
}

#[tokio::test]
async fn a_watch_that_was_passed_on_ends_when_rules_appear() {
    let ruled = Ruled::start("rules: []\n").await;
    let mut acting = config(&ruled.proxy.kubeconfig(&ruled.proxy.url()));
    acting.auth.token = Some("admin".into());
    acting.impersonate.user = Some("jane".to_owned());
    let client = Client::new(acting).unwrap();
    let direct = maps(client.clone());
    let version = direct.list(&ListParams::default()).await.unwrap().metadata.version;
    let mut typed = direct.watch(&WatchParams::after(version.clone())).await.unwrap();
    let uri =
        format!("/api/v1/namespaces/default/configmaps?watch=true&resourceVersion={}", version.as_str());
    let lines = tokio::spawn({
        let request = client.get().uri(&uri).accept("application/json").max_retries(0);
        async move { request.bytes().await }
    });
    let protobuf = tokio::spawn({
        let request = client.get().uri(&uri).accept("application/vnd.kubernetes.protobuf;stream=watch");
        async move { request.max_retries(0).bytes().await }
    });
    std::fs::write(&ruled.file, "rules:\n- match: {resource: configmaps}\n  redact: [/data]\n").unwrap();
    within("the end of the watch", async { while let Some(Ok(_)) = typed.next().await {} }).await;
    let frames = within("the end of the watch in protobuf", protobuf).await.unwrap().unwrap();
    let mut last = None;
    let mut decoder = WatchDecoder::<Value>::protobuf();
    decoder.feed(&frames, |it| last = it.ok()).unwrap();
    assert!(matches!(&last, Some(WatchEvent::Error(status)) if status.code == 410), "{last:?}");
    let lines = within("the end of the watch in JSON", lines).await.unwrap().unwrap();
    let last: Value = serde_json::from_slice(&lines).unwrap();
    assert_eq!((last["type"].as_str(), last["object"]["code"].as_u64()), (Some("ERROR"), Some(410)));
    // A new request of this kind is refused: its answer could not be changed.
    assert!(direct.list(&ListParams::default()).await.unwrap_err().is_forbidden());
}

#[tokio::test]
async fn no_spelling_of_a_path_leads_to_a_hidden_object() {
    let server = ApiServer::builder().tls(true).token("admin").start().await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("rules.yaml");
    let hide =
        "rules:\n- match: {resource: services}\n  hide: true\n- match: {resource: pods}\n  hide: true\n";
    std::fs::write(&file, hide).unwrap();
    let mut options = ProxyOptions::default();
    options.resources = vec!["services".to_owned(), "pods".to_owned()];
    options.rules = Some(file);
    let proxy = proxy_of(&server, options).await;
    let service: Value = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": { "name": "web" }, "spec": { "ports": [{ "port": 80 }] },
    });
    let direct = Client::new(config(&server.kubeconfig())).unwrap();
    let created = direct.post().uri("/api/v1/namespaces/default/services").json(&service);
    created.send::<Value>().await.unwrap();
    let client = caller(&proxy, "admin");
    for name in ["web", "web:80", "http:web:80", "https:web:"] {
        let uri = format!("/api/v1/namespaces/default/services/{name}/proxy/");
        let error = client.get().uri(&uri).max_retries(0).bytes().await.unwrap_err();
        assert!(error.is_not_found() && error.to_string().contains("services"), "{name}: {error}");
    }
    // Clients normalize such paths.
    let transport = Transport::with_options(
        &config(&proxy.kubeconfig(&proxy.url())),
        tokio::sync::watch::channel(None).1,
        TransportOptions::default(),
    );
    let transport = transport.unwrap();
    for path in ["services/web/proxy/../../../pods/x", "services/other/proxy/../../../pods/x"] {
        let uri = format!("{}/api/v1/namespaces/default/{path}", proxy.url());
        let request = Request::get(uri).header("authorization", "Bearer admin");
        let answer = transport.forward(request.body(boxed(RequestBody::default())).unwrap()).await.unwrap();
        assert_eq!(answer.status(), 403, "{path}");
    }
}

/// Widgets, with a column and a selectable field.
const WIDGETS: &str = "\
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {kind: Widget, plural: widgets, singular: widget}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, x-kubernetes-preserve-unknown-fields: true}}}}
    additionalPrinterColumns: [{name: Colour, type: string, jsonPath: .spec.colour}]
";

#[tokio::test]
async fn rules_change_custom_resources() {
    let server = ApiServer::builder().tls(true).token("admin").yaml(WIDGETS).start().await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("rules.yaml");
    let rules = "rules:\n- name: paint\n  match: {resource: widgets}\n  \
                 patch: {type: merge, value: {spec: {colour: blue}}}\n";
    std::fs::write(&file, rules).unwrap();
    let mut options = ProxyOptions::default();
    options.resources = vec!["widgets".to_owned()];
    options.rules = Some(file);
    let proxy = within("the definition", async {
        loop {
            match Proxy::start(config(&server.kubeconfig()), options.clone()).await {
                Ok(proxy) => return proxy,
                Err(_) => tokio::time::sleep(std::time::Duration::from_millis(20)).await,
            }
        }
    })
    .await;
    let (direct, seen) = (Client::new(config(&server.kubeconfig())).unwrap(), caller(&proxy, "admin"));
    let path = "/apis/example.com/v1/namespaces/default/widgets";
    let widget: Value = json!({
        "apiVersion": "example.com/v1", "kind": "Widget", "metadata": { "name": "a" },
        "spec": { "colour": "red", "items": [1] },
    });
    direct.post().uri(path).json(&widget).send::<Value>().await.unwrap();
    let listed: Value = within("a list", async {
        loop {
            if let Ok(listed) = seen.get().uri(path).send().await {
                return listed;
            }
        }
    })
    .await;
    assert_eq!(listed["items"][0]["spec"], json!({ "colour": "blue", "items": [1] }));
    let merge = "application/merge-patch+json";
    let object = format!("{path}/a");
    let colour = seen.patch(merge).uri(&object).json(&json!({ "spec": { "colour": "green" } }));
    let refused = colour.send::<Value>().await.unwrap_err();
    assert!(refused.is_forbidden() && refused.to_string().contains("\"paint\""), "{refused}");
    let items = seen.patch(merge).uri(&object).json(&json!({ "spec": { "items": [2] } }));
    let answer: Value = items.send().await.unwrap();
    assert_eq!(answer["spec"], json!({ "colour": "blue", "items": [2] }));
    let stored: Value = direct.get().uri(&object).send().await.unwrap();
    assert_eq!(stored["spec"], json!({ "colour": "red", "items": [2] }));
    // The definition is not read: a table has the columns of any object.
    let table = seen.get().uri(path).accept("application/json;as=Table;g=meta.k8s.io;v=v1");
    let table: Value = table.send().await.unwrap();
    let names: Vec<_> = table["columnDefinitions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["Name", "Age"]);
    let selected = seen.get().uri(&format!("{path}?fieldSelector=spec.colour%3Dred")).max_retries(0);
    assert!(selected.bytes().await.unwrap_err().is_bad_request());
}

/// Regression test: a client read a long list slowly, the rules changed meanwhile, and the rest of
/// the list was in the view of the previous rules.
#[tokio::test]
async fn a_list_in_the_view_of_previous_rules_is_cut() {
    let server = ApiServer::builder().tls(true).token("admin").start().await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("rules.yaml");
    std::fs::write(&file, MARK).unwrap();
    let mut options = plain();
    options.resources = vec!["configmaps".to_owned()];
    options.rules = Some(file.clone());
    let proxy = proxy_of(&server, options).await;
    warm(&server, &proxy).await;
    // Together they are more than the sockets between proxy and client hold.
    let (stored, large) = (maps(Client::new(config(&server.kubeconfig())).unwrap()), "x".repeat(1 << 20));
    for number in 0..24 {
        stored.create(&WriteParams::default(), &map(&format!("large-{number}"), &large)).await.unwrap();
    }
    let seen = maps(caller(&proxy, "admin"));
    let newest = seen.get("large-23").await.unwrap();
    assert!(newest.data.is_some());

    let mut stream = connect(&proxy).await;
    let request = "GET /api/v1/namespaces/default/configmaps?resourceVersion=0 HTTP/1.1\r\nHost: localhost\r\n\
                   Authorization: Bearer admin\r\nAccept: application/json\r\nConnection: close\r\n\r\n";
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut read = vec![0; 4096];
    within("the beginning of the list", stream.read_exact(&mut read)).await.unwrap();
    let begin = String::from_utf8_lossy(&read).into_owned();
    assert!(begin.starts_with("HTTP/1.1 200") && begin.contains("transfer-encoding: chunked"), "{begin}");

    std::fs::write(&file, "rules:\n- match: {resource: configmaps}\n  redact: [/data/*]\n").unwrap();
    within("the new rules", async {
        while !seen.get("large-23").await.is_ok_and(|it| it.data.is_none_or(|it| it.is_empty())) {
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    })
    .await;
    let ended = within("the end of the list", stream.read_to_end(&mut read)).await;
    let is_complete = ended.is_ok() && read.ends_with(b"\r\n0\r\n\r\n");
    assert!(!is_complete && read.len() < 24 << 20, "{} bytes", read.len());
}
