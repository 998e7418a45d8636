//! The controller manager as a program uses it: its start, its health, its end, and servers that
//! fail.

use std::time::Duration;

use dogwatch_apiserver::ApiServer;
use dogwatch_apiserver::faults::Rule;
use dogwatch_client::{Client, Config};
use dogwatch_core::DeleteParams;
use dogwatch_simulator::ControllerManager;
use serde_json::Value;

use crate::managed_cluster::{MAPS, ManagedCluster, NAMESPACES, finalized, map, namespace, owner};
use crate::test_cluster::TestServer;

#[tokio::test(start_paused = true)]
async fn health_names_every_controller() {
    let it = ManagedCluster::start().await;
    let health = it.manager.health().components();
    let names: Vec<_> = health.keys().copied().collect();
    assert_eq!(
        names,
        [
            "garbage-collector",
            "namespace-controller",
            "volume-protection-controller",
            "volumeattributesclass-protection-controller",
        ]
    );
    assert!(health.values().all(|it| it.panics == 0 && it.down.is_none()), "{health:?}");
    let builder = ControllerManager::builder(it.client.clone()).garbage_collector(false);
    let some = builder.volume_protection(false).start();
    let names: Vec<_> = some.health().components().into_keys().collect();
    assert_eq!(names, ["namespace-controller"]);
}

#[tokio::test(start_paused = true)]
async fn a_manager_that_is_stopped_or_dropped_does_nothing_more() {
    for drops in [true, false] {
        let at = TestServer::start().await;
        let manager = at.manager();
        manager.ready().await;
        at.add(namespace("a")).await;
        if drops {
            drop(manager);
        } else {
            manager.stop().await;
        }
        at.delete(NAMESPACES, "a", DeleteParams::default()).await;
        let revision = at.server.revision();
        at.advance(Duration::from_secs(600)).await;
        assert_eq!(at.server.revision(), revision, "{drops}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_manager_waits_for_its_server() {
    let at = TestServer::start().await;
    let down = at.server.faults().rule(Rule::on_everything().refuse(503));
    let manager = ControllerManager::builder(at.client.clone()).clock(at.server.clock()).start();
    tokio::time::sleep(Duration::from_secs(100)).await;
    let health = manager.health().components();
    assert!(health.values().all(|it| it.down.is_some()), "{health:?}");
    down.remove();
    manager.ready().await;
    let parent = at.add(map("default", "parent", &[])).await;
    at.add(map("default", "child", &[owner(&parent, false)])).await;
    at.delete(MAPS, "default/parent", DeleteParams::default()).await;
    at.until_gone(MAPS, "default/child").await;
    manager.stop().await;
}

/// The requests of a component of the cluster are those of a user of its own, which fault rules and
/// the request log do not concern.
#[tokio::test(start_paused = true)]
async fn the_requests_of_a_component_are_neither_logged_nor_disturbed() {
    let at = TestServer::start().await;
    let broken = at.server.faults().rule(Rule::on_everything().refuse(503));
    let it = ManagedCluster::on(at);
    it.manager.ready().await;
    assert_eq!((it.server.requests().count(), broken.fired()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn writes_have_the_field_manager_of_kube_controller_manager() {
    let it = ManagedCluster::start().await;
    it.add(namespace("a")).await;
    it.add(finalized(map("a", "m", &[]))).await;
    it.delete(NAMESPACES, "a", None).await;
    let reports = |it: &Value| it["status"]["conditions"].is_array();
    let waiting = it.until_one(NAMESPACES, "a", reports).await;
    let managers = waiting["metadata"]["managedFields"].as_array().unwrap();
    let is_its = |it: &Value| it["manager"] == "kube-controller-manager" && it["subresource"] == "status";
    assert!(managers.iter().any(is_its), "{managers:?}");
}

/// With sockets, threads, credentials and the clock of the machine, as against any other server.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_manages_any_server_that_it_can_reach() {
    let server = ApiServer::builder().tls(true).start().await.unwrap();
    let config = Config::from_kubeconfig_str(&server.kubeconfig(), &Default::default()).unwrap();
    let client = Client::new(config).unwrap();
    let manager = ControllerManager::builder(client.clone()).start();
    let at = TestServer { server, client };
    at.add(namespace("a")).await;
    let parent = at.add(map("a", "parent", &[])).await;
    at.add(map("a", "child", &[owner(&parent, true)])).await;
    at.delete(MAPS, "a/parent", DeleteParams::foreground()).await;
    at.until_gone(MAPS, "a/parent").await;
    assert!(at.get(MAPS, "a/child").is_none());
    at.delete(NAMESPACES, "a", DeleteParams::default()).await;
    at.until_gone(NAMESPACES, "a").await;
    manager.stop().await;
}
