//! A test cluster: an in-process API server, and hand-written slices, Endpoints and Services.

use std::sync::Arc;
use std::time::Duration;

use dogwatch_apiserver::ApiServer;
use dogwatch_client::{Api, Client};
use dogwatch_core::{DeleteParams, PatchParams};
use dogwatch_grpc::{EndpointSet, EndpointWatch, Resolver, ResolverOptions};
use k8s_openapi::api::core::v1::{Endpoints, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use serde_json::{Value, json};

/// Longer than anything takes; the clock is paused.
pub(crate) const TEST_TIMEOUT: Duration = Duration::from_secs(600);

/// An API server, its client, and a resolver over the client.
pub(crate) struct TestCluster {
    pub(crate) server: ApiServer,
    pub(crate) client: Client,
    pub(crate) resolver: Resolver,
}

impl TestCluster {
    pub(crate) async fn start() -> Self {
        Self::with(ResolverOptions::default()).await
    }

    pub(crate) async fn with(options: ResolverOptions) -> Self {
        let server = ApiServer::builder()
            .in_process()
            .seed(1)
            .request_log(10_000)
            .start()
            .await
            .expect("the server starts");
        let client = Client::from_service(server.url().parse().expect("a URL"), "default", server.service());
        let resolver = Resolver::with_options(client.clone(), options);
        Self { server, client, resolver }
    }

    pub(crate) fn watch(&self, target: &str) -> EndpointWatch {
        self.resolver.watch(&target.parse().expect("a target"))
    }

    fn params() -> PatchParams {
        PatchParams::apply("test").force()
    }

    /// Writes a slice of a service: ports as `name=port`, endpoints as `address pod`, ready by
    /// default. A suffix sets the conditions: `!` not ready, `?` none, `x` terminating, `~`
    /// terminating and serving, `published` ready although not serving.
    pub(crate) async fn slice(&self, service: &str, name: &str, ports: &[&str], endpoints: &[&str]) {
        let port = |it: &&str| {
            let (name, port) = it.split_once('=').expect("name=port");
            json!({ "name": name, "port": port.parse::<u16>().expect("a port"), "protocol": "TCP" })
        };
        let endpoint = |it: &&str| {
            let words: Vec<_> = it.split(' ').collect();
            let conditions = match words.get(2).copied() {
                None => json!({ "ready": true }),
                Some("!") => json!({ "ready": false }),
                Some("?") => json!({}),
                Some("x") => json!({ "ready": false, "serving": false, "terminating": true }),
                Some("published") => json!({ "ready": true, "serving": false, "terminating": false }),
                Some(_) => json!({ "ready": false, "serving": true, "terminating": true }),
            };
            json!({ "addresses": [words[0]], "conditions": conditions, "nodeName": "n1", "zone": "z1",
                "targetRef": { "kind": "Pod", "name": words[1], "uid": words[1] } })
        };
        let family = if endpoints.iter().any(|it| it.contains("::")) { "IPv6" } else { "IPv4" };
        let slice = json!({
            "metadata": { "labels": { "kubernetes.io/service-name": service } },
            "addressType": family,
            "ports": ports.iter().map(port).collect::<Vec<_>>(),
            "endpoints": endpoints.iter().map(endpoint).collect::<Vec<_>>(),
        });
        let slices = Api::<EndpointSlice>::default_namespaced(self.client.clone());
        slices.apply(name, &Self::params(), &slice).await.expect("the slice is written");
    }

    pub(crate) async fn delete_slice(&self, name: &str) {
        let slices = Api::<EndpointSlice>::default_namespaced(self.client.clone());
        slices.delete(name, &DeleteParams::default()).await.expect("the slice is deleted");
    }

    /// Writes an Endpoints object with these addresses at this port.
    pub(crate) async fn endpoints(&self, service: &str, port: u16, addresses: &[&str]) {
        let addresses: Vec<_> = addresses.iter().map(|it| json!({ "ip": it })).collect();
        let endpoints = json!({ "subsets": [{ "addresses": addresses, "ports": [{ "port": port }] }] });
        let all = Api::<Endpoints>::default_namespaced(self.client.clone());
        all.apply(service, &Self::params(), &endpoints).await.expect("the Endpoints are written");
    }

    pub(crate) async fn service(&self, name: &str, spec: Value) {
        let services = Api::<Service>::default_namespaced(self.client.clone());
        services
            .apply(name, &Self::params(), &json!({ "spec": spec }))
            .await
            .expect("the Service is written");
    }

    /// Returns the number of requests with this verb for this resource.
    pub(crate) fn requests(&self, verb: &str, resource: &str) -> usize {
        self.server.requests().verb(verb).resource(resource).count()
    }
}

/// Formats the usable endpoints by their addresses, then the others with a leading `-`; or the
/// reason.
pub(crate) fn describe(set: &Arc<EndpointSet>) -> String {
    let one = |usable: bool| {
        let some = set.endpoints.iter().filter(move |it| it.usable == usable);
        some.map(move |it| format!("{}{}", if usable { "" } else { "-" }, it.addresses[0]))
    };
    let mut words: Vec<String> = one(true).chain(one(false)).collect();
    words.extend(set.unavailable.as_ref().map(|it| format!("({it})")));
    words.join(" ")
}

/// Waits until the formatted endpoints are as expected.
pub(crate) async fn until(watch: &mut EndpointWatch, expected: &str) -> Arc<EndpointSet> {
    let waiting = async {
        loop {
            let current = watch.current();
            if describe(&current) == expected {
                return current;
            }
            assert!(watch.changed().await.is_some(), "the watch has ended");
        }
    };
    match tokio::time::timeout(TEST_TIMEOUT, waiting).await {
        Ok(set) => set,
        Err(_) => panic!("wanted {expected:?}, have {:?}", describe(&watch.current())),
    }
}
