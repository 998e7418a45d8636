//! Events: the events of a recorder are stored, repetitions become a series, and texts are
//! truncated to the limits of the server.

use dogwatch::api::{ListParams, WriteParams};
use dogwatch::controller::events::{EventBroadcaster, NewEvent};
use dogwatch::k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use dogwatch::k8s_openapi::api::events::v1::Event;
use dogwatch::{Api, Client};
use serde_json::json;

use crate::fixtures::config_map;
use crate::support::{TIMEOUT, TestNamespace, client};

async fn stored(client: &Client, space: &TestNamespace) -> Vec<Event> {
    space.api::<Event>(client).list(&ListParams::default()).await.expect("listed").items
}

#[tokio::test]
async fn ev_2_the_same_event_again_becomes_a_series() {
    let client = client();
    let space = TestNamespace::new(&client).await;
    let maps = space.api::<ConfigMap>(&client);
    let object = maps.create(&WriteParams::default(), &config_map("a", json!({}))).await.expect("created");
    let events = EventBroadcaster::builder(client.clone()).instance("one").start();
    let recorder = events.recorder("example.com/conformance").expect("a name");
    for number in 0..4 {
        recorder.record(
            &object,
            NewEvent::warning("TooRed", "Painting").message(format!("{number}")).related(&object),
        );
    }
    recorder.record(&object, NewEvent::normal("Blue", "Painting"));
    assert!(events.shutdown(TIMEOUT).await);

    let mut stored = stored(&client, &space).await;
    stored.sort_by_key(|it| it.reason.clone());
    let [blue, red] = stored.as_slice() else { panic!("two events, not {stored:?}") };
    assert!(blue.series.is_none());
    assert_eq!(red.series.as_ref().map(|it| it.count), Some(4));
    assert_eq!((red.type_.as_deref(), red.action.as_deref()), (Some("Warning"), Some("Painting")));
    assert_eq!(red.regarding.as_ref().and_then(|it| it.uid.as_ref()), object.metadata.uid.as_ref());
    assert_eq!(red.reporting_controller.as_deref(), Some("example.com/conformance"));
}

#[tokio::test]
async fn texts_are_truncated_to_the_longest_the_server_accepts() {
    let client = client();
    let space = TestNamespace::new(&client).await;
    let maps = space.api::<ConfigMap>(&client);
    let long = "a".repeat(253);
    let object = maps.create(&WriteParams::default(), &config_map(&long, json!({}))).await.expect("created");
    let events = EventBroadcaster::builder(client.clone()).instance("i".repeat(500)).start();
    let recorder = events.recorder(&format!("example.com/{}", "c".repeat(63))).expect("a name");
    recorder.record(&object, NewEvent::normal("r".repeat(500), "a".repeat(500)).message("é".repeat(5_000)));
    assert!(events.shutdown(TIMEOUT).await);
    let stored = stored(&client, &space).await;
    assert_eq!(stored.len(), 1, "{stored:?}");
    assert_eq!(stored[0].note.as_ref().map(String::len), Some(1024));
}

#[tokio::test]
async fn an_event_about_a_cluster_scoped_object_is_in_the_default_namespace() {
    let client = client();
    let space = TestNamespace::new(&client).await;
    let namespace = Api::<Namespace>::all(client.clone()).get(&space.name).await.expect("exists");
    let events = EventBroadcaster::builder(client.clone()).start();
    let recorder = events.recorder("conformance").expect("a name");
    recorder.record(&namespace, NewEvent::normal("Seen", "Looking"));
    assert!(events.shutdown(TIMEOUT).await);
    let all = Api::<Event>::namespaced(client.clone(), "default").list(&ListParams::default()).await;
    let ours =
        all.expect("listed").items.into_iter().filter(|it| {
            it.regarding.as_ref().and_then(|it| it.uid.as_ref()) == namespace.metadata.uid.as_ref()
        });
    assert_eq!(ours.count(), 1);
}
