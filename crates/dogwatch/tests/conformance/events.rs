//! Events: what a recorder tells arrives, repeats become a series, and what is too long is cut to what a server takes.

use dogwatch::controller::events::{EventBroadcaster, Note};
use dogwatch::k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use dogwatch::k8s_openapi::api::events::v1::Event;
use dogwatch::{Api, Client, ListParams, WriteParams};
use serde_json::json;

use crate::fixtures::config_map;
use crate::support::{PATIENCE, Space, client};

async fn told(client: &Client, space: &Space) -> Vec<Event> {
    space.api::<Event>(client).list(&ListParams::default()).await.expect("listed").items
}

#[tokio::test]
async fn ev_2_the_same_event_again_becomes_a_series() {
    let client = client();
    let space = Space::new(&client).await;
    let maps = space.api::<ConfigMap>(&client);
    let object = maps.create(&WriteParams::default(), &config_map("a", json!({}))).await.expect("created");
    let events = EventBroadcaster::builder(client.clone()).instance("one").start();
    let recorder = events.recorder("example.com/conformance").expect("a name");
    for number in 0..4 {
        recorder
            .record(&object, Note::warning("TooRed", "Painting").text(format!("{number}")).related(&object));
    }
    recorder.record(&object, Note::normal("Blue", "Painting"));
    assert!(events.shutdown(PATIENCE).await);

    let mut told = told(&client, &space).await;
    told.sort_by_key(|it| it.reason.clone());
    let [blue, red] = told.as_slice() else { panic!("two events, not {told:?}") };
    assert!(blue.series.is_none());
    assert_eq!(red.series.as_ref().map(|it| it.count), Some(4));
    assert_eq!((red.type_.as_deref(), red.action.as_deref()), (Some("Warning"), Some("Painting")));
    assert_eq!(red.regarding.as_ref().and_then(|it| it.uid.as_ref()), object.metadata.uid.as_ref());
    assert_eq!(red.reporting_controller.as_deref(), Some("example.com/conformance"));
}

#[tokio::test]
async fn what_is_as_long_as_allowed_is_taken() {
    let client = client();
    let space = Space::new(&client).await;
    let maps = space.api::<ConfigMap>(&client);
    let long = "a".repeat(253);
    let object = maps.create(&WriteParams::default(), &config_map(&long, json!({}))).await.expect("created");
    let events = EventBroadcaster::builder(client.clone()).instance("i".repeat(500)).start();
    let recorder = events.recorder(&format!("example.com/{}", "c".repeat(63))).expect("a name");
    recorder.record(&object, Note::normal("r".repeat(500), "a".repeat(500)).text("é".repeat(5_000)));
    assert!(events.shutdown(PATIENCE).await);
    let told = told(&client, &space).await;
    assert_eq!(told.len(), 1, "{told:?}");
    assert_eq!(told[0].note.as_ref().map(String::len), Some(1024));
}

#[tokio::test]
async fn an_event_about_an_object_of_the_cluster_is_in_the_default_namespace() {
    let client = client();
    let space = Space::new(&client).await;
    let namespace = Api::<Namespace>::all(client.clone()).get(&space.name).await.expect("there");
    let events = EventBroadcaster::builder(client.clone()).start();
    let recorder = events.recorder("conformance").expect("a name");
    recorder.record(&namespace, Note::normal("Seen", "Looking"));
    assert!(events.shutdown(PATIENCE).await);
    let all = Api::<Event>::namespaced(client.clone(), "default").list(&ListParams::default()).await;
    let ours =
        all.expect("listed").items.into_iter().filter(|it| {
            it.regarding.as_ref().and_then(|it| it.uid.as_ref()) == namespace.metadata.uid.as_ref()
        });
    assert_eq!(ours.count(), 1);
}
