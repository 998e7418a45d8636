//! The ingress manager on the server of `DOGWATCH_CONFORMANCE_KUBECONFIG`, or on our own by
//! default. Part of `cargo xtask conformance`.

use std::path::PathBuf;
use std::time::Duration;

use dogwatch::api::{DeleteParams, Patch, PatchParams, WriteParams};
use dogwatch::config::Overrides;
use dogwatch::controller::{CancellationToken, LeaderElector, Manager};
use dogwatch::k8s_openapi::api::core::v1::{Namespace, Service};
use dogwatch::k8s_openapi::api::networking::v1::Ingress;
use dogwatch::{Api, Client, Config};
use dogwatch_apiserver::ApiServer;
use ingress_manager::ANNOTATION;
use serde_json::{from_value, json};

/// The limit for any wait. Only a failing test waits this long.
const TIMEOUT: Duration = Duration::from_secs(60);

#[tokio::test(flavor = "multi_thread")]
async fn the_ingress_manager_restores_ingresses_and_fails_over() {
    let own = match std::env::var_os("DOGWATCH_CONFORMANCE_KUBECONFIG") {
        Some(_) => None,
        None => Some(ApiServer::builder().tls(true).start().await.expect("there is a free port")),
    };
    let client = Client::new(config(own.as_ref())).expect("the config is valid");
    let namespace = json!({ "metadata": { "generateName": "conformance-" } });
    let namespace: Namespace = from_value(namespace).expect("a namespace");
    let namespaces = Api::<Namespace>::all(client.clone());
    let namespace =
        namespaces.create(&WriteParams::default(), &namespace).await.expect("created").metadata.name;
    let namespace = namespace.expect("the server names what it stores");
    let outcome = tokio::spawn(exercise(client, namespace.clone())).await;
    namespaces.delete(&namespace, &DeleteParams::background()).await.expect("deleted");
    outcome.expect("the test body does not panic");
}

async fn exercise(client: Client, namespace: String) {
    let services = Api::<Service>::namespaced(client.clone(), &namespace);
    let ingresses = Api::<Ingress>::namespaced(client.clone(), &namespace);
    let (first, stop_first) = run(&client, &namespace, "first");
    let service = json!({
        "metadata": {"name": "web", "annotations": {ANNOTATION: "shop.test"}},
        "spec": {"ports": [{"port": 80}]},
    });
    let service = from_value(service).expect("a service");
    services.create(&WriteParams::default(), &service).await.expect("created");
    becomes(&ingresses, Some("shop.test")).await;

    // The second instance takes over where the first one stopped.
    let (second, stop_second) = run(&client, &namespace, "second");
    stop_first.cancel();
    first.await.expect("no panic").expect("the manager ends without an error");
    annotate(&services, json!("")).await;
    becomes(&ingresses, Some("example.com")).await;
    ingresses.delete("web", &DeleteParams::default()).await.expect("deleted");
    becomes(&ingresses, Some("example.com")).await;
    annotate(&services, json!(null)).await;
    becomes(&ingresses, None).await;
    stop_second.cancel();
    second.await.expect("no panic").expect("the manager ends without an error");
}

type Running = tokio::task::JoinHandle<Result<(), dogwatch::controller::ManagerError>>;

fn run(client: &Client, namespace: &str, identity: &str) -> (Running, CancellationToken) {
    let manager = Manager::new(client.clone());
    let controller = ingress_manager::controller(&manager, client.clone());
    let elector =
        LeaderElector::builder(client.clone(), "ingress-manager").namespace(namespace).identity(identity);
    let manager = manager.controller(controller).leader_election(elector.build().expect("valid settings"));
    let stop = CancellationToken::new();
    let stopped = stop.clone();
    (tokio::spawn(async move { manager.run_until(stopped.cancelled()).await }), stop)
}

async fn annotate(services: &Api<Service>, value: serde_json::Value) {
    let patch = json!({"metadata": {"annotations": {ANNOTATION: value}}});
    let patched = services.patch("web", &PatchParams::default(), Patch::Merge(&patch)).await;
    patched.expect("patched");
}

/// Waits until the Ingress has this host, or until there is none.
async fn becomes(ingresses: &Api<Ingress>, host: Option<&str>) {
    let right = |found: Option<&Ingress>| {
        let host_of = |it: &Ingress| it.spec.as_ref()?.rules.as_ref()?.first()?.host.clone();
        let going = found.is_some_and(|it| it.metadata.deletion_timestamp.is_some());
        !going && found.and_then(host_of).as_deref() == host && found.is_some() == host.is_some()
    };
    let waited = tokio::time::timeout(TIMEOUT, ingresses.wait_for("web", right)).await;
    waited
        .unwrap_or_else(|_| panic!("the host of the ingress did not become {host:?}"))
        .expect("the watch works");
}

fn config(own: Option<&ApiServer>) -> Config {
    let mut overrides = Overrides::default();
    overrides.context = std::env::var("DOGWATCH_CONFORMANCE_CONTEXT").ok();
    let config = match (own, std::env::var_os("DOGWATCH_CONFORMANCE_KUBECONFIG")) {
        (Some(own), _) => Config::from_kubeconfig_str(&own.kubeconfig(), &overrides),
        (None, file) => {
            Config::from_kubeconfig(PathBuf::from(file.expect("the variable is set")), &overrides)
        }
    };
    config.expect("the kubeconfig is valid")
}
