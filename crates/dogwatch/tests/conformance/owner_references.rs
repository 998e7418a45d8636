//! Owner references: the server stores those the helper sets, and rejects those the helper rejects.

use dogwatch::Api;
use dogwatch::api::WriteParams;
use dogwatch::controller::owner::{Owner, OwnerError, controller_of};
use dogwatch::controller::upsert::{Upserted, create_or_update};
use dogwatch::k8s_openapi::api::core::v1::ConfigMap;
use serde_json::json;

use crate::fixtures::config_map;
use crate::support::{TestNamespace, client, refused};

async fn owners() -> (TestNamespace, Api<ConfigMap>, Owner, Owner) {
    let client = client();
    let space = TestNamespace::new(&client).await;
    let api: Api<ConfigMap> = space.api(&client);
    let mut owners = Vec::new();
    for name in ["one", "other"] {
        let made = api.create(&WriteParams::default(), &config_map(name, json!({}))).await.expect("created");
        owners.push(Owner::of(&made).expect("stored objects have a uid"));
    }
    let other = owners.pop().expect("two");
    (space, api, owners.pop().expect("two"), other)
}

#[tokio::test]
async fn a_controller_reference_is_stored_and_can_be_removed() {
    let (space, api, one, other) = owners().await;
    let mut object = config_map("owned", json!({}));
    object.metadata.namespace = Some(space.name.clone());
    one.set_controller_reference(&mut object).expect("no other controller");
    other.set_owner_reference(&mut object).expect("not owned yet");
    let mut stored = api.create(&WriteParams::default(), &object).await.expect("created");
    assert_eq!(stored.metadata.owner_references, object.metadata.owner_references);
    assert!(one.controls(&stored) && other.owns(&stored) && !other.controls(&stored));
    assert_eq!(controller_of(&stored).map(|it| it.name.as_str()), Some("one"));
    assert!(matches!(other.set_controller_reference(&mut stored), Err(OwnerError::AlreadyControlled { .. })));
    assert!(one.remove_owner_reference(&mut stored));
    let stored = api.replace("owned", &WriteParams::default(), &stored).await.expect("replaced");
    assert!(!one.owns(&stored) && other.owns(&stored));
}

#[tokio::test]
async fn the_server_also_rejects_two_controllers() {
    let (space, api, one, other) = owners().await;
    let controlled = |owner: &Owner| {
        let mut object = config_map("owned", json!({}));
        object.metadata.namespace = Some(space.name.clone());
        owner.set_controller_reference(&mut object).expect("no other controller");
        object.metadata.owner_references.expect("set")
    };
    let mut object = config_map("owned", json!({}));
    object.metadata.owner_references = Some([controlled(&one), controlled(&other)].concat());
    let status = refused(api.create(&WriteParams::default(), &object).await);
    assert_eq!(status.code, 422, "{status:?}");
}

#[tokio::test]
async fn rt_1_an_owned_object_is_created_once_and_then_updated_when_it_differs() {
    let (space, api, one, _other) = owners().await;
    let wanted = |object: Option<ConfigMap>| {
        let mut object = object.unwrap_or_else(|| config_map("owned", json!({})));
        object.metadata.namespace = Some(space.name.clone());
        one.set_controller_reference(&mut object).expect("no other controller");
        object
    };
    assert!(matches!(create_or_update(&api, "owned", wanted).await, Ok(Upserted::Created(_))));
    assert!(matches!(create_or_update(&api, "owned", wanted).await, Ok(Upserted::Unchanged(_))));
    let mut stored = api.get("owned").await.expect("exists");
    one.remove_owner_reference(&mut stored);
    api.replace("owned", &WriteParams::default(), &stored).await.expect("replaced");
    let Ok(Upserted::Updated(object)) = create_or_update(&api, "owned", wanted).await else {
        panic!("the object differed")
    };
    assert!(one.controls(&object));
}
