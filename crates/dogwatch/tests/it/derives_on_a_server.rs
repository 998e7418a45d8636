//! Derived types on an API server: a custom resource is defined, written and read, and views decode
//! parts of it and of built-in kinds.

use dogwatch::api::{FieldSelector, ListParams, Meta, WriteParams};
use dogwatch::informer::Index;
use dogwatch::k8s_openapi::api::core::v1::ConfigMap;
use dogwatch::{Api, CustomResource, Object, ObjectKey, SharedInformer, View, testing};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

#[derive(Clone, Debug, PartialEq, CustomResource, Deserialize, Serialize, JsonSchema)]
#[kube(group = "sea.example", version = "v1", kind = "Buoy", namespaced, status = "BuoyStatus")]
#[kube(derive = "PartialEq", shortname = "by", selectable = ".spec.colour")]
#[kube(scale(spec_replicas_path = ".spec.depth", status_replicas_path = ".status.depth"))]
#[kube(printcolumn(name = "Depth", type_ = "integer", json_path = ".spec.depth"))]
struct BuoySpec {
    #[schemars(range(min = 1))]
    depth: i32,
    colour: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
struct BuoyStatus {
    afloat: bool,
    depth: Option<i32>,
}

/// A view of a custom resource.
#[derive(View, Debug, Deserialize)]
#[view(of = Buoy)]
struct BuoyDepth {
    metadata: Meta,
    spec: Depth,
}

#[derive(Debug, Deserialize)]
struct Depth {
    depth: i32,
}

/// A generic view with another name for the metadata.
#[derive(View, Debug, Deserialize)]
#[view(of = ConfigMap)]
struct Data<T> {
    #[serde(rename = "metadata")]
    #[view(metadata)]
    meta: Meta,
    data: T,
}

#[derive(Debug, Deserialize)]
struct Greeting {
    text: String,
}

fn buoy(name: &str, depth: i32, colour: Option<&str>) -> Buoy {
    Buoy::new(name, BuoySpec { depth, colour: colour.map(str::to_owned) })
}

#[tokio::test(start_paused = true)]
async fn a_derived_custom_resource_is_defined_and_used() {
    let cluster = testing::cluster().await.expect("a cluster");
    cluster.define::<Buoy>().await.expect("defined");
    let api = Api::<Buoy>::namespaced(cluster.client(), "default");

    let created = cluster.create(&buoy("a", 3, None)).await.expect("created");
    assert_eq!((created.spec.depth, &created.status), (3, &None));
    let mut changed = created.clone();
    changed.status = Some(BuoyStatus { afloat: true, depth: Some(3) });
    let changed = api.replace_status("a", &WriteParams::default(), &changed).await.expect("replaced");
    assert_eq!(changed.status.as_ref().map(|it| it.afloat), Some(true));
    assert_eq!(api.get("a").await.expect("there"), changed);

    let scale = api.get_scale("a").await.expect("a scale");
    assert_eq!(scale.spec.and_then(|it| it.replicas), Some(3));
    let table = api.table(&ListParams::default()).await.expect("a table");
    assert_eq!(table.cell(&table.rows[0], "Depth"), Some(&json!(3)));
}

#[tokio::test(start_paused = true)]
async fn the_server_enforces_the_derived_schema_and_knows_the_selectable_fields() {
    let cluster = testing::cluster().await.expect("a cluster");
    cluster.define::<Buoy>().await.expect("defined");
    let error = cluster.create(&buoy("a", 0, None)).await.expect_err("the depth is below the minimum");
    assert!(error.status().is_some_and(|it| it.is_invalid()), "{error}");

    cluster.create(&buoy("red", 1, Some("red"))).await.expect("created");
    cluster.create(&buoy("green", 1, Some("green"))).await.expect("created");
    let selector: FieldSelector = "spec.colour=red".parse().expect("a selector");
    let api = Api::<Buoy>::namespaced(cluster.client(), "default");
    let list = api.list(&ListParams::default().fields(selector)).await.expect("listed");
    assert_eq!(
        list.items.iter().filter_map(Object::key).map(String::from).collect::<Vec<_>>(),
        ["default/red"]
    );
}

#[tokio::test(start_paused = true)]
async fn an_informer_keeps_a_derived_view_of_a_custom_resource() {
    let cluster = testing::cluster().await.expect("a cluster");
    cluster.define::<Buoy>().await.expect("defined");
    for (name, depth) in [("a", 3), ("b", 4), ("c", 3)] {
        cluster.create(&buoy(name, depth, None)).await.expect("created");
    }
    let by_depth = Index::new("depth", |it: &BuoyDepth| Some(it.spec.depth.to_string()));
    let buoys = SharedInformer::builder(Api::<BuoyDepth>::all(cluster.client())).index(by_depth).build();
    buoys.start();
    buoys.synced().await.expect("synced");
    let snapshot = buoys.store().snapshot();
    let found = snapshot.by_index("depth", "3").expect("an index");
    let mut names: Vec<_> = found.iter().map(|it| it.metadata.name.to_string()).collect();
    names.sort_unstable();
    assert_eq!(names, ["a", "c"]);
    buoys.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_generic_view_finds_its_metadata_by_attribute() {
    let cluster = testing::cluster().await.expect("a cluster");
    let map = json!({ "metadata": { "name": "greeting" }, "data": { "text": "hello" } });
    cluster.create(&serde_json::from_value::<ConfigMap>(map).expect("a map")).await.expect("created");
    let api = Api::<Data<Greeting>>::namespaced(cluster.client(), "default");
    let read = api.get("greeting").await.expect("there");
    assert_eq!((read.data.text.as_str(), read.meta.name.as_str()), ("hello", "greeting"));
    assert_eq!(read.key(), ObjectKey::from_parts(Some("default"), "greeting").ok());
    assert_eq!(read.header().uid, read.meta.uid);
}
