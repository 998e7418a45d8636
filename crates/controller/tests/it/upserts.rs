//! Create-or-update on a server, with concurrent writers.

use std::collections::BTreeMap;

use dogwatch_apiserver::faults::Rule;
use dogwatch_client::Api;
use dogwatch_controller::upsert::{Upserted, create_or_update, update};
use dogwatch_core::WriteParams;
use k8s_openapi::api::core::v1::ConfigMap;

use crate::in_process::{config_map, server};

fn red(object: Option<ConfigMap>) -> ConfigMap {
    let mut object = object.unwrap_or_else(|| config_map("a"));
    object.data.get_or_insert_default().insert("colour".to_owned(), "red".to_owned());
    object
}

#[tokio::test]
async fn an_object_is_created_then_left_alone_then_changed_where_it_differs() {
    let (server, client) = server().await;
    let api = Api::<ConfigMap>::default_namespaced(client);
    assert!(matches!(create_or_update(&api, "a", red).await, Ok(Upserted::Created(_))));
    let writes = || server.requests().verb("update").resource("configmaps").count();
    assert!(matches!(create_or_update(&api, "a", red).await, Ok(Upserted::Unchanged(_))));
    assert_eq!(writes(), 0);
    update(&api, "a", |it| it.data = None).await.expect("updated");
    let Ok(Upserted::Updated(object)) = create_or_update(&api, "a", red).await else {
        panic!("the object was not updated")
    };
    assert_eq!(object.data, Some(BTreeMap::from([("colour".to_owned(), "red".to_owned())])));
    assert_eq!(writes(), 2);
}

#[tokio::test]
async fn rt_1_after_a_conflict_the_newest_object_is_read_and_changed() {
    let (server, client) = server().await;
    let api = Api::<ConfigMap>::default_namespaced(client);
    server
        .faults()
        .rule(Rule::on("create").resource("configmaps").times(1).refuse(409).reason("AlreadyExists"));
    let taken = create_or_update(&api, "a", red).await.expect_err("rejected, and then not found");
    assert!(taken.is_not_found(), "{taken}");
    let mut theirs = config_map("a");
    theirs.data = Some(BTreeMap::from([("size".to_owned(), "large".to_owned())]));
    api.create(&WriteParams::default(), &theirs).await.expect("created");
    server.faults().rule(Rule::on("update").resource("configmaps").times(3).refuse(409));
    let object = create_or_update(&api, "a", red).await.expect("updated").into_inner();
    assert_eq!(object.data.expect("data").len(), 2);
    server.faults().rule(Rule::on("update").resource("configmaps").refuse(409));
    let error = update(&api, "a", |it| it.data = None).await.expect_err("every attempt conflicts");
    assert!(error.is_conflict(), "{error}");
}

/// The futures can be spawned; callers need that, and the compiler checks it.
#[tokio::test]
async fn many_writers_of_one_object_lose_no_change() {
    let (_server, client) = server().await;
    let api = Api::<ConfigMap>::default_namespaced(client);
    api.create(&WriteParams::default(), &config_map("a")).await.expect("created");
    let mut writers = tokio::task::JoinSet::new();
    for number in 0..3 {
        let api = api.clone();
        writers.spawn(async move {
            let set = move |it: &mut ConfigMap| {
                it.data.get_or_insert_default().insert(format!("key-{number}"), String::new());
            };
            update(&api, "a", set).await.map(Upserted::into_inner)
        });
    }
    assert!(writers.join_all().await.iter().all(Result::is_ok));
    assert_eq!(api.get("a").await.expect("there").data.expect("data").len(), 3);
}
