//! Custom resources: kinds that are defined at run time, used through typed and dynamic handles,
//! and removed.

use dogwatch::api::{
    DeleteParams, DynamicObject, EventKind, FieldSelector, FieldValidation, Gvk, ListParams, Patch,
    PatchParams, ResourceType, WatchEvent, WatchParams, WriteParams,
};
use dogwatch::k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use dogwatch::kube_core::CustomResourceExt as _;
use dogwatch::{Api, Client};
use futures_util::StreamExt;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::fixtures::{names, object};
use crate::support::{
    TestNamespace, chain, client, next_change, next_event, refused, run_cleanup, until, within,
};

#[cfg(feature = "derive")]
#[derive(Clone, Debug, PartialEq, dogwatch::CustomResource, Deserialize, Serialize, JsonSchema)]
#[kube(group = "typed.conformance.example", version = "v1", kind = "Buoy", namespaced, status = "BuoyStatus")]
#[kube(derive = "PartialEq", shortname = "by")]
struct BuoySpec {
    depth: i32,
}

#[cfg(feature = "derive")]
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
struct BuoyStatus {
    afloat: bool,
}

/// A type of kube-derive's own derive: the two are interchangeable.
#[derive(Clone, Debug, PartialEq, kube_derive::CustomResource, Deserialize, Serialize, JsonSchema)]
#[kube(group = "kube-derive.conformance.example", version = "v1", kind = "Beacon", namespaced)]
#[kube(crates(kube_core = "::kube_core", k8s_openapi = "::dogwatch::k8s_openapi"))]
struct BeaconSpec {
    range: i32,
}

/// A CustomResourceDefinition that exists until the end of the test.
pub(crate) struct Definition {
    api: Api<CustomResourceDefinition>,
    name: String,
}

impl Definition {
    /// Defines a kind and waits until the server has established it.
    async fn new(client: &Client, definition: &CustomResourceDefinition) -> Self {
        let api = Api::all(client.clone());
        let name = definition.metadata.name.clone().expect("the test names its definitions");
        let this = Self { api, name };
        this.api
            .apply(&this.name, &PatchParams::apply("conformance").force(), definition)
            .await
            .expect("defined");
        let params = WatchParams::initial_events().fields(FieldSelector::name(&this.name));
        let mut watch = this.api.watch(&params).await.expect("a watch");
        loop {
            let event = next_event(&mut watch).await;
            if let WatchEvent::Added(it) | WatchEvent::Modified(it) = event
                && is_established(&it)
            {
                return this;
            }
        }
    }

    /// Deletes the definition with all its objects, and waits until it is gone.
    pub(crate) async fn remove(self) {
        let version = self.api.list(&ListParams::default()).await.expect("listed").metadata.version;
        self.api.delete(&self.name, &DeleteParams::default()).await.expect("accepted");
        let params = WatchParams::after(version).fields(FieldSelector::name(&self.name));
        let mut watch = self.api.watch(&params).await.expect("a watch");
        while next_change(&mut watch).await.0 != EventKind::Deleted {}
    }
}

impl Drop for Definition {
    /// Deletes the definition also if the test fails before it reaches [`Self::remove`].
    fn drop(&mut self) {
        let name = self.name.clone();
        run_cleanup(async move |client| {
            let _ =
                Api::<CustomResourceDefinition>::all(client).delete(&name, &DeleteParams::default()).await;
        });
    }
}

fn is_established(definition: &CustomResourceDefinition) -> bool {
    let conditions = definition.status.as_ref().and_then(|it| it.conditions.as_deref()).unwrap_or_default();
    conditions.iter().any(|it| it.type_ == "Established" && it.status == "True")
}

/// Waits until the kind is served: the handler of a new kind may lag behind the `Established`
/// condition.
async fn served<K: serde::de::DeserializeOwned>(api: &Api<K>) {
    let ask = async || match api.list(&ListParams::default()).await {
        Ok(_) => Some(()),
        Err(error) if error.is_not_found() => None,
        Err(error) => panic!("{}", chain(&error)),
    };
    until("the new kind being served", ask).await;
}

/// Defines the kind `Ship` for one test, in a group named after the test's namespace.
pub(crate) async fn ships(client: &Client, space: &TestNamespace) -> (Definition, Api<DynamicObject>) {
    let group = format!("{}.conformance.example", space.name);
    let schema = json!({ "type": "object", "properties": {
        "spec": { "type": "object", "required": ["masts"], "properties": {
            "masts": { "type": "integer", "minimum": 1 },
            "flag": { "type": "string", "default": "none" },
        }},
        "status": { "type": "object", "properties": { "port": { "type": "string" }, "masts": { "type": "integer" } } },
    }});
    let scale = json!({ "specReplicasPath": ".spec.masts", "statusReplicasPath": ".status.masts" });
    let version = json!({
        "name": "v1", "served": true, "storage": true,
        "schema": { "openAPIV3Schema": schema },
        "subresources": { "status": {}, "scale": scale },
        "additionalPrinterColumns": [
            { "name": "Masts", "type": "integer", "jsonPath": ".spec.masts" },
            { "name": "Port", "type": "string", "jsonPath": ".status.port", "priority": 1 },
        ],
    });
    let definition = object(json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": format!("ships.{group}") },
        "spec": {
            "group": group, "scope": "Namespaced", "versions": [version],
            "names": { "plural": "ships", "singular": "ship", "kind": "Ship", "shortNames": ["sail"] },
        },
    }));
    let definition = Definition::new(client, &definition).await;
    let resource = ResourceType::namespaced(Gvk::new(&group, "v1", "Ship"), "ships");
    let api = Api::dynamic(client.clone(), resource).in_namespace(&space.name);
    served(&api).await;
    (definition, api)
}

pub(crate) fn ship(api: &Api<DynamicObject>, name: &str, spec: Value) -> DynamicObject {
    DynamicObject::new(name, &api.resource().api_resource()).data(json!({ "spec": spec }))
}

#[cfg(feature = "derive")]
#[tokio::test]
async fn a_derived_type_is_a_resource_like_any_other() {
    let client = client();
    let space = TestNamespace::new(&client).await;
    let definition = Definition::new(&client, &Buoy::crd()).await;
    let api = space.api::<Buoy>(&client);
    served(&api).await;
    let version = api.list(&ListParams::default()).await.expect("listed").metadata.version;

    let made =
        api.create(&WriteParams::default(), &Buoy::new("a", BuoySpec { depth: 3 })).await.expect("created");
    assert_eq!((made.spec.depth, made.metadata.generation), (3, Some(1)));
    let mut changed = made.clone();
    changed.spec.depth = 4;
    changed.status = Some(BuoyStatus { afloat: true });
    let replaced = api.replace("a", &WriteParams::default(), &changed).await.expect("replaced");
    assert_eq!(
        (replaced.spec.depth, &replaced.status),
        (4, &None),
        "the status changes only through its subresource"
    );
    changed = replaced.clone();
    changed.spec.depth = 5;
    changed.status = Some(BuoyStatus { afloat: true });
    let updated = api.replace_status("a", &WriteParams::default(), &changed).await.expect("replaced");
    assert_eq!((updated.spec.depth, updated.status.as_ref().map(|it| it.afloat)), (4, Some(true)));
    assert_eq!(updated.metadata.generation, replaced.metadata.generation);
    assert_eq!(api.get("a").await.expect("exists"), updated);
    api.delete("a", &DeleteParams::default()).await.expect("deleted");

    let mut watch = api.watch(&WatchParams::after(version)).await.expect("a watch");
    for expected in
        [(EventKind::Added, made), (EventKind::Modified, replaced), (EventKind::Modified, updated)]
    {
        assert_eq!(next_change(&mut watch).await, expected);
    }
    assert_eq!(next_change(&mut watch).await.0, EventKind::Deleted);
    definition.remove().await;
}

#[tokio::test]
async fn a_type_that_kube_derive_derives_is_a_resource_too() {
    let client = client();
    let space = TestNamespace::new(&client).await;
    let definition = Definition::new(&client, &Beacon::crd()).await;
    let api = space.api::<Beacon>(&client);
    served(&api).await;
    let beacon = Beacon::new("a", BeaconSpec { range: 20 });
    let created = api.create(&WriteParams::default(), &beacon).await.expect("created");
    let read = api.get("a").await.expect("there");
    assert_eq!((read.spec, read.metadata.uid), (created.spec, created.metadata.uid));
    definition.remove().await;
}

#[tokio::test]
async fn a_dynamic_kind_has_every_verb() {
    let client = client();
    let space = TestNamespace::new(&client).await;
    let (definition, api) = ships(&client, &space).await;
    let made =
        api.create(&WriteParams::default(), &ship(&api, "a", json!({ "masts": 3 }))).await.expect("created");
    assert_eq!(made.data["spec"], json!({ "masts": 3, "flag": "none" }), "defaults are filled in");
    api.create(&WriteParams::default(), &ship(&api, "b", json!({ "masts": 1 }))).await.expect("created");
    assert_eq!(
        names(&api.list_all(&ListParams::default().limit(1)).await.expect("listed").items),
        ["a", "b"]
    );

    let patch = json!({ "spec": { "flag": "red" } });
    let patched = api.patch("a", &PatchParams::default(), Patch::Merge(&patch)).await.expect("patched");
    assert_eq!(patched.data["spec"], json!({ "masts": 3, "flag": "red" }));
    let status = json!({ "status": { "port": "Kiel" }, "spec": { "masts": 9 } });
    let updated =
        api.patch_status("a", &PatchParams::default(), Patch::Merge(&status)).await.expect("patched");
    assert_eq!(
        (&updated.data["spec"]["masts"], &updated.data["status"]["port"]),
        (&json!(3), &json!("Kiel"))
    );
    let scale = api.set_replicas("a", &PatchParams::default(), 2).await.expect("scaled");
    assert_eq!(scale.spec.and_then(|it| it.replicas), Some(2));
    let stated = ship(&api, "c", json!({ "masts": 2 }));
    api.apply("c", &PatchParams::apply("ours"), &stated).await.expect("applied");

    assert_eq!(
        api.delete_collection(&DeleteParams::default(), &ListParams::default()).await.expect("deleted"),
        3
    );
    assert!(api.list(&ListParams::default()).await.expect("listed").items.is_empty());
    definition.remove().await;
}

#[tokio::test]
async fn the_schema_of_a_kind_is_enforced_and_unknown_fields_are_pruned() {
    let client = client();
    let space = TestNamespace::new(&client).await;
    let (definition, api) = ships(&client, &space).await;
    let status = refused(api.create(&WriteParams::default(), &ship(&api, "a", json!({ "masts": 0 }))).await);
    assert!(status.is_invalid(), "{status:?}");
    assert!(status.causes().iter().any(|it| it.field == "spec.masts"), "{status:?}");

    let odd = ship(&api, "a", json!({ "masts": 1, "cannons": 4 }));
    let strict = WriteParams::default().validation(FieldValidation::Strict);
    let status = refused(api.create(&strict, &odd).await);
    assert!(status.is_bad_request() && status.message.contains("spec.cannons"), "{status:?}");
    let made = api.create(&WriteParams::default(), &odd).await.expect("created");
    assert!(made.data["spec"].get("cannons").is_none());

    let patch = json!({ "spec": { "flag": "red" } });
    let status = refused(api.patch("a", &PatchParams::default(), Patch::Strategic(&patch)).await);
    assert!(status.is_unsupported_media_type(), "{status:?}");
    definition.remove().await;
}

#[tokio::test]
async fn the_columns_of_a_kind_are_the_columns_of_its_table() {
    let client = client();
    let space = TestNamespace::new(&client).await;
    let (definition, api) = ships(&client, &space).await;
    api.create(&WriteParams::default(), &ship(&api, "a", json!({ "masts": 3 }))).await.expect("created");
    let table = api.table(&ListParams::default()).await.expect("a table");
    let columns: Vec<_> = table.column_definitions.iter().map(|it| (it.name.as_str(), it.priority)).collect();
    assert_eq!(columns, [("Name", 0), ("Masts", 0), ("Port", 1)]);
    let row = table.rows.first().expect("one row");
    assert_eq!(table.cell(row, "Name"), Some(&json!("a")));
    assert_eq!(table.cell(row, "Masts"), Some(&json!(3)));
    definition.remove().await;
}

/// The history of a kind starts with the kind: versions before it are compacted or never existed.
#[tokio::test]
async fn a_watch_from_before_the_history_expires() {
    let client = client();
    let space = TestNamespace::new(&client).await;
    let (definition, api) = ships(&client, &space).await;
    let expired = |code: u16| code == 410;
    match api.watch(&WatchParams::after("1")).await {
        Err(error) => assert!(error.is_expired(), "{}", chain(&error)),
        Ok(mut watch) => match next_event(&mut watch).await {
            WatchEvent::Error(status) => assert!(expired(status.code), "{status:?}"),
            other => panic!("{other:?}"),
        },
    }
    let mut resuming = api.watch_from(WatchParams::after("1")).expect("a version to start from");
    let WatchEvent::Error(status) = next_event(&mut resuming).await else { panic!("not an error") };
    assert!(expired(status.code), "{status:?}");
    assert!(within("the end of the stream", resuming.next()).await.is_none());
    definition.remove().await;
}

#[tokio::test]
async fn a_kind_that_was_removed_is_not_found() {
    let client = client();
    let space = TestNamespace::new(&client).await;
    let (definition, api) = ships(&client, &space).await;
    api.create(&WriteParams::default(), &ship(&api, "a", json!({ "masts": 3 }))).await.expect("created");
    definition.remove().await;
    let gone = async || api.list(&ListParams::default()).await.err();
    let error = until("the kind being gone", gone).await;
    assert!(error.is_not_found(), "{}", chain(&error));
}
