//! Owner references: what the helper sets, a server keeps, and what it refuses, a server refuses or would act upon.

use dogwatch::controller::owner::{Owner, OwnerError, controller_of};
use dogwatch::controller::upsert::{Upserted, create_or_update};
use dogwatch::k8s_openapi::api::core::v1::ConfigMap;
use dogwatch::{Api, WriteParams};
use serde_json::json;

use crate::fixtures::config_map;
use crate::support::{Space, client, refused};

async fn owners() -> (Space, Api<ConfigMap>, Owner, Owner) {
    let client = client();
    let space = Space::new(&client).await;
    let api: Api<ConfigMap> = space.api(&client);
    let mut owners = Vec::new();
    for name in ["one", "other"] {
        let made = api.create(&WriteParams::default(), &config_map(name, json!({}))).await.expect("created");
        owners.push(Owner::of(&made).expect("it has a uid"));
    }
    let other = owners.pop().expect("two");
    (space, api, owners.pop().expect("two"), other)
}

#[tokio::test]
async fn a_controller_reference_is_kept_as_it_was_set_and_may_be_taken_away() {
    let (space, api, one, other) = owners().await;
    let mut object = config_map("owned", json!({}));
    object.metadata.namespace = Some(space.name.clone());
    one.control(&mut object).expect("free");
    other.own(&mut object).expect("free");
    let mut stored = api.create(&WriteParams::default(), &object).await.expect("created");
    assert_eq!(stored.metadata.owner_references, object.metadata.owner_references);
    assert!(one.controls(&stored) && other.owns(&stored) && !other.controls(&stored));
    assert_eq!(controller_of(&stored).map(|it| it.name.as_str()), Some("one"));
    assert!(matches!(other.control(&mut stored), Err(OwnerError::AlreadyControlled { .. })));
    assert!(one.disown(&mut stored));
    let stored = api.replace("owned", &WriteParams::default(), &stored).await.expect("replaced");
    assert!(!one.owns(&stored) && other.owns(&stored));
}

#[tokio::test]
async fn two_controllers_are_refused_by_the_server_too() {
    let (space, api, one, other) = owners().await;
    let controlled = |owner: &Owner| {
        let mut object = config_map("owned", json!({}));
        object.metadata.namespace = Some(space.name.clone());
        owner.control(&mut object).expect("free");
        object.metadata.owner_references.expect("set")
    };
    let mut object = config_map("owned", json!({}));
    object.metadata.owner_references = Some([controlled(&one), controlled(&other)].concat());
    let status = refused(api.create(&WriteParams::default(), &object).await);
    assert_eq!(status.code, 422, "{status:?}");
}

#[tokio::test]
async fn rt_1_an_object_that_is_owned_is_created_once_and_then_kept_as_it_should_be() {
    let (space, api, one, _other) = owners().await;
    let wanted = |object: Option<ConfigMap>| {
        let mut object = object.unwrap_or_else(|| config_map("owned", json!({})));
        object.metadata.namespace = Some(space.name.clone());
        one.control(&mut object).expect("free or ours");
        object
    };
    assert!(matches!(create_or_update(&api, "owned", wanted).await, Ok(Upserted::Created(_))));
    assert!(matches!(create_or_update(&api, "owned", wanted).await, Ok(Upserted::Unchanged(_))));
    let mut stored = api.get("owned").await.expect("there");
    one.disown(&mut stored);
    api.replace("owned", &WriteParams::default(), &stored).await.expect("replaced");
    let Ok(Upserted::Updated(object)) = create_or_update(&api, "owned", wanted).await else {
        panic!("it differed")
    };
    assert!(one.controls(&object));
}
