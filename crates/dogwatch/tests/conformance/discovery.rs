//! Discovery: the resources a server serves, and the names that resolve to them.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use dogwatch::api::{DynamicObject, Gvk, Gvr, ListParams, PatchParams, Scope, WriteParams};
use dogwatch::client::ResponseBody;
use dogwatch::discovery::{CachedDiscovery, Discovery, RestMapper};
use dogwatch::discovery::{DiscoveryFormat, DiskCache, MapError};
use dogwatch::http::Response;
use dogwatch::http::header::ETAG;
use dogwatch::k8s_openapi::api::apps::v1::Deployment;
use dogwatch::{Api, Client};
use serde_json::json;

use crate::custom_resources::ships;
use crate::fixtures::{deployment, names};
use crate::support::{TestNamespace, client, config, until};

/// Resources that every server serves: group, version, kind, plural, short name, scope.
const SERVED: &[(&str, &str, &str, &str, &str, Scope)] = &[
    ("", "v1", "Pod", "pods", "po", Scope::Namespaced),
    ("", "v1", "ConfigMap", "configmaps", "cm", Scope::Namespaced),
    ("", "v1", "Namespace", "namespaces", "ns", Scope::Cluster),
    ("", "v1", "ServiceAccount", "serviceaccounts", "sa", Scope::Namespaced),
    ("apps", "v1", "Deployment", "deployments", "deploy", Scope::Namespaced),
    (
        "apiextensions.k8s.io",
        "v1",
        "CustomResourceDefinition",
        "customresourcedefinitions",
        "crd",
        Scope::Cluster,
    ),
];

fn assert_serves(discovery: &Discovery) {
    // Other tests create and delete kinds at the same time, so their groups may fail.
    let mut failures = discovery.failures.iter();
    assert!(failures.all(|it| it.group.ends_with(".conformance.example")), "{:?}", discovery.failures);
    assert_eq!(discovery.groups[0].name, "", "the core group comes first");
    for (group, version, kind, plural, short, scope) in SERVED {
        let found = discovery.by_resource(&Gvr::new(group, version, plural));
        let found = found.unwrap_or_else(|| panic!("{plural} is not served"));
        assert_eq!(found.resource.gvk, Gvk::new(group, version, kind));
        assert_eq!(found.resource.scope, *scope, "{plural}");
        assert_eq!(found.short_names.first().map(String::as_str), Some(*short));
        assert_eq!(found.singular, kind.to_lowercase());
        assert!(
            found.supports_all(&["get", "list", "watch", "create", "update", "patch", "delete"]),
            "{plural}"
        );
    }
}

#[tokio::test]
async fn aggregated_documents_list_every_resource() {
    assert_serves(&client().discover().await.expect("a response"));
}

#[tokio::test]
async fn legacy_documents_list_the_same_resources() {
    let client = client();
    let legacy = Discovery::fetch_as(&client, DiscoveryFormat::Legacy).await.expect("a response");
    assert_serves(&legacy);
    let aggregated = client.discover().await.expect("a response");
    for (group, version, _, plural, ..) in SERVED {
        let gvr = Gvr::new(group, version, plural);
        let mut pair = [&legacy, &aggregated].map(|it| it.by_resource(&gvr).expect("served").clone());
        for one in &mut pair {
            one.verbs.sort();
            one.subresources.sort_by(|left, right| left.name.cmp(&right.name));
            one.subresources.iter_mut().for_each(|it| it.verbs.sort());
        }
        assert_eq!(pair[0], pair[1]);
    }
}

#[tokio::test]
async fn subresources_are_listed_with_their_kinds() {
    let discovery = client().discover().await.expect("a response");
    let deployments = discovery.by_kind(&Gvk::new("apps", "v1", "Deployment")).expect("served");
    let scale = deployments.subresource("scale").expect("deployments can be scaled");
    assert_eq!(scale.gvk, Gvk::new("autoscaling", "v1", "Scale"));
    assert!(scale.supports("update") && deployments.subresource("status").is_some());
    let pods = discovery.by_kind(&Gvk::new("", "v1", "Pod")).expect("served");
    for name in ["log", "status", "eviction", "binding"] {
        assert!(pods.subresource(name).is_some(), "{name}");
    }
}

#[tokio::test]
async fn names_resolve_to_their_resource() {
    let mapper = RestMapper::new(CachedDiscovery::new(client()));
    for (group, version, kind, plural, short, _) in SERVED {
        let gvk = Gvk::new(group, version, kind);
        let dotted = if group.is_empty() { (*plural).to_owned() } else { format!("{plural}.{group}") };
        let full = Gvr::new(group, version, plural).to_string();
        for word in [*plural, short, kind, &kind.to_lowercase(), &dotted, &full] {
            let found = mapper.resolve(word).await.unwrap_or_else(|error| panic!("{word}: {error}"));
            assert_eq!(found.resource.resource.gvk, gvk, "{word}");
        }
        assert_eq!(mapper.by_kind(&gvk).await.expect("served").resource.resource.plural, *plural);
    }
    let all = mapper.category("all").await.expect("a category");
    assert!(all.iter().any(|it| it.resource.resource.plural == "deployments"));
}

#[tokio::test]
async fn an_unknown_name_is_reported_with_similar_names() {
    let mapper = RestMapper::new(CachedDiscovery::new(client()));
    let error = mapper.resolve("configmapz").await.expect_err("there is no such resource");
    let MapError::NoMatch(no_match) = &error else { panic!("{error}") };
    assert!(no_match.near.iter().any(|it| it == "configmaps"), "{error}");
}

#[tokio::test]
async fn a_resolved_resource_is_usable_through_the_api() {
    let client = client();
    let space = TestNamespace::new(&client).await;
    space
        .api::<Deployment>(&client)
        .create(&WriteParams::default(), &deployment("a"))
        .await
        .expect("created");
    let mapper = RestMapper::new(CachedDiscovery::new(client.clone()));
    let found = mapper.resolve("deploy").await.expect("served").resource.resource;
    let api = Api::<DynamicObject>::dynamic(client.clone(), found).in_namespace(&space.name);
    assert_eq!(names(&api.list(&ListParams::default()).await.expect("listed").items), ["a"]);
    let scalable = mapper.scalable("deploy").await.expect("it has replicas").in_namespace(&space.name);
    let scale = scalable.set_replicas("a", &PatchParams::default(), 3).await.expect("scaled");
    assert_eq!(scale.spec.and_then(|it| it.replicas), Some(3));
    assert!(mapper.scalable("configmaps").await.is_err());
}

#[tokio::test]
async fn a_new_kind_is_found_after_the_cache_is_invalidated() {
    let client = client();
    let space = TestNamespace::new(&client).await;
    let discovery = CachedDiscovery::new(client.clone());
    let group = format!("{}.conformance.example", space.name);
    assert!(discovery.get().await.expect("a response").group(&group).is_none());
    let (definition, api) = ships(&client, &space).await;
    let lookup = async || {
        discovery.invalidate();
        let served = discovery.get().await.expect("a response");
        served.by_resource(&api.resource().gvr()).cloned()
    };
    let found = until("the new kind in discovery", lookup).await;
    assert_eq!(&found.resource, api.resource());
    assert_eq!(found.short_names, ["sail"]);
    assert!(found.subresource("status").is_some() && found.subresource("scale").is_some());
    let mapper = RestMapper::new(discovery);
    let by_short_name = mapper.resolve(&format!("sail.{group}")).await.expect("served");
    assert_eq!(by_short_name.resource, found);

    let stored = json!({ "apiVersion": api.resource().gvk.api_version(), "kind": "Ship", "metadata": { "name": "a" }, "spec": { "masts": 1 } });
    let stored: DynamicObject = crate::fixtures::object(stored);
    api.create(&WriteParams::default(), &stored).await.expect("created");
    definition.remove().await;
}

#[tokio::test]
async fn the_server_reports_its_version() {
    let version = client().server_version().await.expect("a response");
    assert!(version.git_version.starts_with('v') && !version.major.is_empty(), "{version:?}");
}

/// Documents change while other tests define kinds, so this test waits for one that did not change:
/// it must come from disk.
#[tokio::test]
async fn di_4_documents_cached_on_disk_are_revalidated_and_not_sent_again() {
    let folder = tempfile::tempdir().expect("a folder for the responses");
    let responses = Arc::new(Mutex::new(Vec::new()));
    let record = Arc::clone(&responses);
    let layer = tower::util::MapResponseLayer::new(move |response: Response<ResponseBody>| {
        let tagged = response.headers().contains_key(ETAG);
        record.lock().expect("not poisoned").push((response.status().as_u16(), tagged));
        response
    });
    let client = Client::builder(config()).layer(layer).build().expect("a client");
    // Each call acts as a new process for which every document on disk is stale; only the HTTP
    // cache is still of use.
    let later = || {
        let disk = DiskCache::new(folder.path().join("discovery"), Duration::ZERO);
        CachedDiscovery::on_disk(client.clone(), disk.http(folder.path().join("http")))
    };
    assert_serves(&later().get().await.expect("a response"));
    let first = std::mem::take(&mut *responses.lock().expect("not poisoned"));
    assert_eq!(first, [(200, true), (200, true)], "aggregated documents have tags");
    until("a 304 for a cached document", async || {
        assert_serves(&later().get().await.expect("a response"));
        let codes = std::mem::take(&mut *responses.lock().expect("not poisoned"));
        (codes.contains(&(304, true)) || codes.contains(&(304, false))).then_some(())
    })
    .await;
}
