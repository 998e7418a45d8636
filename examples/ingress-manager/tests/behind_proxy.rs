//! The ingress manager, unmodified, behind a proxy with the rules of `rules.yaml`: it acts on the
//! Services that the rules show it, and the stored ones stay as they are.

use std::time::Duration;

use dogwatch::api::{ListParams, Patch, PatchParams, WriteParams};
use dogwatch::config::Overrides;
use dogwatch::controller::{CancellationToken, LeaderElector, Manager};
use dogwatch::k8s_openapi::api::core::v1::Service;
use dogwatch::k8s_openapi::api::networking::v1::Ingress;
use dogwatch::{Api, Client, Config};
use dogwatch_apiserver::ApiServer;
use dogwatch_proxy::{Proxy, ProxyOptions};
use ingress_manager::ANNOTATION;
use serde_json::{Value, from_value, json};

const RULES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/rules.yaml");
const TOKEN: &str = "demo";
/// The limit for the whole test. Only a failing test takes this long.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A server with a proxy in front of it. The handles read and write the stored objects.
struct Fixture {
    server: ApiServer,
    proxy: Proxy,
    services: Api<Service>,
    ingresses: Api<Ingress>,
}

impl Fixture {
    async fn new() -> Self {
        let server = ApiServer::builder().tls(true).token(TOKEN).start().await.expect("there is a free port");
        let config = parsed(&server.kubeconfig());
        let mut options = ProxyOptions::default();
        options.resources = vec!["services".to_owned(), "ingresses.networking.k8s.io".to_owned()];
        options.rules = Some(RULES.into());
        let proxy = Proxy::start(config.clone(), options).await.expect("the rules are valid");
        let client = Client::new(config).expect("a client");
        let (services, ingresses) =
            (Api::default_namespaced(client.clone()), Api::default_namespaced(client));
        Self { server, proxy, services, ingresses }
    }

    /// Returns a client of the proxy.
    fn client(&self) -> Client {
        let mut config = parsed(&self.proxy.kubeconfig(&self.proxy.url()));
        config.auth.token = Some(TOKEN.into());
        Client::new(config).expect("a client")
    }

    async fn add(&self, name: &str, labels: Value, host: &str) {
        let service = from_value(json!({
            "metadata": {"name": name, "labels": labels, "annotations": {ANNOTATION: host}},
            "spec": {"ports": [{"port": 80}], "selector": {"app": name}},
        }));
        let service: Service = service.expect("a service");
        self.services.create(&WriteParams::default(), &service).await.expect("created");
    }

    async fn remove_label(&self, name: &str, label: &str) {
        let patch = json!({"metadata": {"labels": {label: null}}});
        let patched = self.services.patch(name, &PatchParams::default(), Patch::Merge(&patch)).await;
        patched.expect("patched");
    }

    /// Waits until the stored Ingress has this host.
    async fn until(&self, name: &str, host: &str) {
        let right = |found: Option<&Ingress>| {
            let rule = found.and_then(|it| it.spec.as_ref()?.rules.as_ref()?.first());
            rule.and_then(|it| it.host.as_deref()) == Some(host)
        };
        let waited = tokio::time::timeout(TIMEOUT, self.ingresses.wait_for(name, right)).await;
        waited.unwrap_or_else(|_| panic!("{name} did not get the host {host}")).expect("the watch works");
    }
}

fn parsed(kubeconfig: &str) -> Config {
    Config::from_kubeconfig_str(kubeconfig, &Overrides::default()).expect("the kubeconfig is valid")
}

#[tokio::test(flavor = "multi_thread")]
async fn the_manager_acts_on_rewritten_services_and_the_stored_ones_stay_as_they_are() {
    let fixture = Fixture::new().await;
    fixture.add("web", json!({"rewrite": "yes"}), "shop.test").await;
    fixture.add("blog", json!({}), "blog.test").await;
    fixture.add("internal", json!({"staging": "no"}), "internal.test").await;
    let stored = fixture.services.list(&ListParams::default()).await.expect("a list").items;

    let client = fixture.client();
    let manager = Manager::new(client.clone());
    let controller = ingress_manager::controller(&manager, client.clone());
    let elector = LeaderElector::builder(client.clone(), "ingress-manager").identity("test");
    let manager = manager.controller(controller).leader_election(elector.build().expect("valid settings"));
    let stop = CancellationToken::new();
    let running = tokio::spawn(manager.run_until(stop.clone().cancelled_owned()));

    fixture.until("web", "shop.staging.test").await;
    fixture.until("blog", "blog.test").await;
    let seen =
        Api::<Service>::default_namespaced(client).list(&ListParams::default()).await.expect("a list").items;
    assert_eq!(host_of(&seen, "web"), Some("shop.staging.test"));
    assert_eq!(host_of(&seen, "internal"), None, "the rules hide it");
    let after = fixture.services.list(&ListParams::default()).await.expect("a list").items;
    assert_eq!(after, stored);
    assert_eq!(host_of(&after, "web"), Some("shop.test"));
    let hidden = fixture.ingresses.get_opt("internal").await.expect("a response");
    assert_eq!(hidden, None, "it does not exist for the manager");

    // Without the labels, no rule is for these Services: the watch of the manager shows them as
    // stored.
    fixture.remove_label("web", "rewrite").await;
    fixture.until("web", "shop.test").await;
    fixture.remove_label("internal", "staging").await;
    fixture.until("internal", "internal.test").await;

    stop.cancel();
    running.await.expect("no panic").expect("the manager ends without an error");
    fixture.proxy.stop().await;
    fixture.server.stop().await;
}

/// Returns the host that a Service in a list requests.
fn host_of<'a>(services: &'a [Service], name: &str) -> Option<&'a str> {
    let service = services.iter().find(|it| it.metadata.name.as_deref() == Some(name))?;
    service.metadata.annotations.as_ref()?.get(ANNOTATION).map(String::as_str)
}
