//! Other representations of objects: metadata only, views with a few fields, tables.

use std::collections::BTreeMap;

use dogwatch::api::{
    DeleteParams, EventKind, Gvk, Header, ListParams, Meta, PartialObjectMeta, Patch, PatchParams,
    ResourceType, WatchParams, WriteParams,
};
use dogwatch::k8s_openapi::api::apps::v1::Deployment;
use dogwatch::k8s_openapi::api::core::v1::Pod;
use dogwatch::{Api, Client, Object, View};
use serde::Deserialize;
use serde_json::json;

use crate::fixtures::{deployment, names, pod};
use crate::support::{TestNamespace, client, next_change};

/// Five fields of a pod.
#[derive(Debug, Deserialize)]
struct PodView {
    metadata: Meta,
    spec: PodSpecView,
    #[serde(default)]
    status: PodStatusView,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct PodSpecView {
    scheduler_name: String,
    restart_policy: String,
    containers: Vec<ContainerView>,
}

#[derive(Debug, Deserialize)]
struct ContainerView {
    image: String,
}

#[derive(Debug, Default, Deserialize)]
struct PodStatusView {
    #[serde(default)]
    phase: String,
}

impl Object for PodView {
    fn header(&self) -> Header<'_> {
        self.metadata.header()
    }
}

impl View for PodView {
    type Of = Pod;
}

/// Creates two pods, `a` and `b`.
async fn pods() -> (Client, TestNamespace) {
    let client = client();
    let space = TestNamespace::new(&client).await;
    for name in ["a", "b"] {
        space.api(&client).create(&WriteParams::default(), &pod(name)).await.expect("created");
    }
    (client, space)
}

#[tokio::test]
async fn a_view_reads_the_fields_it_names_from_objects_lists_and_watches() {
    let (client, space) = pods().await;
    let api = space.api::<PodView>(&client);
    let view = api.get("a").await.expect("exists");
    assert_eq!((view.metadata.name.as_str(), view.metadata.namespace.as_str()), ("a", space.name.as_str()));
    assert_eq!(
        (view.spec.scheduler_name.as_str(), view.spec.restart_policy.as_str()),
        ("no-such-scheduler", "Always")
    );
    assert_eq!(
        (view.spec.containers[0].image.as_str(), view.status.phase.as_str()),
        ("example.invalid/main", "Pending")
    );
    assert_eq!(view.metadata.labels().get("app"), Some("a"));

    let list = api.list(&ListParams::default()).await.expect("listed");
    assert_eq!(names(&list.items), ["a", "b"]);
    let mut watch = api.watch(&WatchParams::after(list.metadata.version)).await.expect("a watch");
    space.api::<Pod>(&client).delete("a", &DeleteParams::default()).await.expect("deleted");
    // Depending on the server, a deletion is one event or several.
    let last = loop {
        let (kind, view) = next_change(&mut watch).await;
        assert_eq!(view.metadata.name, "a");
        if kind == EventKind::Deleted {
            break view;
        }
    };
    assert_eq!(last.spec.scheduler_name, "no-such-scheduler");
}

#[tokio::test]
async fn a_typed_handle_on_metadata_gets_metadata_only() {
    let (client, space) = pods().await;
    let api = space.api::<PartialObjectMeta<Pod>>(&client);
    let list = api.list(&ListParams::default()).await.expect("listed");
    assert_eq!(list.metadata.kind, "PartialObjectMetadataList");
    assert_eq!(names(&list.items), ["a", "b"]);
    let one = api.get("a").await.expect("exists");
    assert_eq!(one.types.as_ref().map(|it| it.kind.as_str()), Some("PartialObjectMetadata"));
    assert_eq!(one.metadata, space.api::<Pod>(&client).get("a").await.expect("exists").metadata);

    let mut watch = api.watch(&WatchParams::after(list.metadata.version)).await.expect("a watch");
    let patch = json!({ "metadata": { "labels": { "seen": "yes" } } });
    let patched = api.patch("a", &PatchParams::default(), Patch::Merge(&patch)).await.expect("patched");
    let (kind, received) = next_change(&mut watch).await;
    assert_eq!((kind, &received.metadata), (EventKind::Modified, &patched.metadata));
    assert_eq!(received.types.map(|it| it.kind).as_deref(), Some("PartialObjectMetadata"));
}

#[tokio::test]
async fn a_dynamic_handle_on_metadata_gets_metadata_only() {
    let client = client();
    let space = TestNamespace::new(&client).await;
    space
        .api::<Deployment>(&client)
        .create(&WriteParams::default(), &deployment("a"))
        .await
        .expect("created");
    let resource = ResourceType::namespaced(Gvk::new("apps", "v1", "Deployment"), "deployments");
    let api = Api::<PartialObjectMeta>::dynamic_metadata(client.clone(), resource).in_namespace(&space.name);
    assert_eq!(names(&api.list(&ListParams::default()).await.expect("listed").items), ["a"]);
    api.delete("a", &DeleteParams::background()).await.expect("deleted");
    assert!(api.get_opt("a").await.expect("a response").is_none());

    // Reading the same response as raw JSON proves that the server sent only metadata.
    space
        .api::<Deployment>(&client)
        .create(&WriteParams::default(), &deployment("b"))
        .await
        .expect("created");
    let raw = api.reading::<BTreeMap<String, serde_json::Value>>().get("b").await.expect("exists");
    assert_eq!(raw.into_keys().collect::<Vec<_>>(), ["apiVersion", "kind", "metadata"]);
}

#[tokio::test]
async fn a_table_has_a_row_for_each_object() {
    let (client, space) = pods().await;
    let api = space.api::<Pod>(&client);
    let table = api.table(&ListParams::default()).await.expect("a table");
    let heading = table.column_definitions.iter().find(|it| it.format == "name").expect("a column of names");
    for row in &table.rows {
        let name = row.object.as_ref().expect("metadata is included").metadata.name.as_str();
        assert_eq!(table.cell(row, &heading.name), Some(&json!(name)));
        assert_eq!(row.cells.len(), table.column_definitions.len());
    }
    assert_eq!(table.rows.len(), 2);
    assert_eq!(api.table_of("a").await.expect("a table").rows.len(), 1);
    let none = api.table(&crate::fixtures::labelled("app=nothing")).await.expect("a table");
    assert!(none.rows.is_empty() && !none.column_definitions.is_empty());
}
