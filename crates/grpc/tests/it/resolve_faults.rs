//! Endpoints while the API server is down, has compacted its history, forbids access, or is slow.

use std::time::Duration;

use dogwatch_apiserver::faults::Rule;
use dogwatch_grpc::Unavailable;
use serde_json::json;

use crate::cluster::{TestCluster, describe, until};

const MINUTE: Duration = Duration::from_secs(60);

#[tokio::test(start_paused = true)]
async fn the_last_endpoints_survive_an_outage_and_missed_changes_are_applied() {
    let cluster = TestCluster::start().await;
    cluster.slice("web", "web-1", &["=80"], &["10.0.0.1 a", "10.0.0.2 b"]).await;
    let mut watch = cluster.watch("kubernetes:///web");
    let before = until(&mut watch, "10.0.0.1:80 10.0.0.2:80").await;
    assert_eq!(watch.problem(), None);

    let outage = cluster.server.faults().rule(Rule::on("list").or("watch").reset_before());
    cluster.server.faults().cut_watches();
    cluster.slice("web", "web-1", &["=80"], &["10.0.0.2 b", "10.0.0.3 c"]).await;
    tokio::time::sleep(MINUTE).await;
    assert_eq!(watch.current().generation, before.generation, "the endpoints should be kept");
    let problem = watch.problem().expect("the outage should be visible");
    assert!(problem.contains("API server"), "{problem}");

    outage.remove();
    until(&mut watch, "10.0.0.2:80 10.0.0.3:80").await;
    tokio::time::sleep(MINUTE).await;
    assert_eq!(watch.problem(), None);
}

#[tokio::test(start_paused = true)]
async fn an_unreachable_server_is_the_reason_until_it_is_reached() {
    let cluster = TestCluster::start().await;
    cluster.slice("web", "web-1", &["=80"], &["10.0.0.1 a"]).await;
    let outage = cluster.server.faults().rule(Rule::on("list").or("watch").reset_before());
    let mut watch = cluster.watch("kubernetes:///web");
    let set = watch.known().await;
    assert!(matches!(set.unavailable, Some(Unavailable::ApiUnreachable(_))), "{}", describe(&set));
    outage.remove();
    until(&mut watch, "10.0.0.1:80").await;
}

/// kuberesolver takes the error for an empty slice.
#[tokio::test(start_paused = true)]
async fn an_expired_history_is_listed_again() {
    let cluster = TestCluster::start().await;
    cluster.slice("web", "web-1", &["=80"], &["10.0.0.1 a", "10.0.0.2 b"]).await;
    cluster.slice("web", "web-2", &["=80"], &["10.0.0.3 c"]).await;
    let mut watch = cluster.watch("kubernetes:///web");
    until(&mut watch, "10.0.0.1:80 10.0.0.2:80 10.0.0.3:80").await;
    cluster.server.faults().pause();
    cluster.delete_slice("web-2").await;
    cluster.slice("web", "web-1", &["=80"], &["10.0.0.1 a", "10.0.0.4 d"]).await;
    cluster.server.expire_history();
    cluster.server.faults().resume();
    let set = until(&mut watch, "10.0.0.1:80 10.0.0.4:80").await;
    assert_eq!(set.generation, 2, "there should be no set in between");
}

#[tokio::test(start_paused = true)]
async fn the_old_endpoints_stay_while_a_new_list_is_slow() {
    let cluster = TestCluster::start().await;
    cluster.slice("web", "web-1", &["=80"], &["10.0.0.1 a"]).await;
    let mut watch = cluster.watch("kubernetes:///web");
    let before = until(&mut watch, "10.0.0.1:80").await;
    let slow = Rule::on("list").or("watch").resource("endpointslices").delay(Duration::from_secs(12));
    let slow = cluster.server.faults().rule(slow);
    cluster.slice("web", "web-1", &["=80"], &["10.0.0.2 b"]).await;
    until(&mut watch, "10.0.0.2:80").await;
    cluster.server.expire_history();
    cluster.slice("web", "web-1", &["=80"], &["10.0.0.3 c"]).await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!((describe(&watch.current()), slow.fired() > 0), ("10.0.0.2:80".to_owned(), true));
    assert_eq!(watch.current().generation, before.generation + 1);
    until(&mut watch, "10.0.0.3:80").await;
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_may_not_read_slices_gets_the_reason_and_recovers_when_allowed() {
    let cluster = TestCluster::start().await;
    cluster.slice("web", "web-1", &["=80"], &["10.0.0.1 a"]).await;
    let message = "endpointslices is forbidden";
    let slices = cluster
        .server
        .faults()
        .rule(Rule::on("list").or("watch").resource("endpointslices").refuse(403).message(message));
    let legacy = cluster.server.faults().rule(Rule::on("list").or("watch").resource("endpoints").refuse(403));
    let mut watch = cluster.watch("kubernetes:///web");
    let set = watch.known().await;
    let Some(Unavailable::Forbidden(why)) = &set.unavailable else { panic!("{}", describe(&set)) };
    assert!(why.contains(message), "{why}");
    slices.remove();
    legacy.remove();
    until(&mut watch, "10.0.0.1:80").await;
}

#[tokio::test(start_paused = true)]
async fn if_slices_are_not_served_or_forbidden_endpoints_objects_are_read() {
    for code in [403, 404] {
        let cluster = TestCluster::start().await;
        cluster.endpoints("web", 80, &["10.0.0.1", "10.0.0.2"]).await;
        cluster.slice("web", "web-1", &["=80"], &["10.0.0.9 z"]).await;
        let refusal = Rule::on("list").or("watch").resource("endpointslices").refuse(code);
        let refusal = cluster.server.faults().rule(refusal);
        let mut watch = cluster.watch("kubernetes:///web");
        until(&mut watch, "10.0.0.1:80 10.0.0.2:80").await;
        assert_eq!(watch.current().generation, 1, "{code}: there should be no earlier set");
        cluster.endpoints("web", 80, &["10.0.0.2", "10.0.0.3"]).await;
        until(&mut watch, "10.0.0.2:80 10.0.0.3:80").await;
        let mut nothing = cluster.watch("kubernetes:///nothing");
        assert_eq!(describe(&nothing.known().await), "(there is no such service)");

        // When slices can be read after all, they take precedence, and Endpoints are no longer
        // read.
        refusal.remove();
        until(&mut watch, "10.0.0.9:80").await;
        tokio::time::sleep(MINUTE).await;
        let asked = cluster.requests("watch", "endpoints");
        tokio::time::sleep(30 * MINUTE).await;
        assert_eq!(cluster.requests("watch", "endpoints"), asked, "{code}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_may_not_read_services_gets_the_pods_port_and_rarely_retries() {
    let cluster = TestCluster::start().await;
    cluster.slice("web", "web-1", &["grpc=8080"], &["10.0.0.1 a"]).await;
    cluster.service("web", json!({ "ports": [{ "name": "grpc", "port": 80 }] })).await;
    let refusal = Rule::on("list").or("watch").resource("services").refuse(403);
    let refusal = cluster.server.faults().rule(refusal);
    let mut watch = cluster.watch("kubernetes:///web:80");
    assert_eq!(describe(&watch.known().await), "10.0.0.1:80");
    // A few retries at first, in case the role is bound a little later, and then one in five
    // minutes.
    tokio::time::sleep(10 * MINUTE).await;
    let asked = cluster.requests("list", "services");
    assert!(asked <= 8, "{asked} requests in ten minutes");
    tokio::time::sleep(60 * MINUTE).await;
    let asked = cluster.requests("list", "services") - asked;
    assert!((8..=12).contains(&asked), "{asked} requests in an hour");
    refusal.remove();
    // No change of the slices is needed.
    until(&mut watch, "10.0.0.1:8080").await;
}

#[tokio::test(start_paused = true)]
async fn unanswered_reads_of_services_are_not_waited_for_forever() {
    let cluster = TestCluster::start().await;
    cluster.slice("web", "web-1", &["grpc=8080"], &["10.0.0.1 a"]).await;
    cluster.service("web", json!({ "ports": [{ "name": "grpc", "port": 80 }] })).await;
    let failing = Rule::on("list").or("watch").resource("services").refuse(500);
    let failing = cluster.server.faults().rule(failing);
    let mut watch = cluster.watch("kubernetes:///web:80");
    assert_eq!(describe(&watch.known().await), "10.0.0.1:80");
    failing.remove();
    until(&mut watch, "10.0.0.1:8080").await;
}
