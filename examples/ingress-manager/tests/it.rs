//! The ingress manager against an API server in the same process, on a paused clock.

use std::time::Duration;

use dogwatch::api::{DeleteParams, ListParams, Patch, PatchParams, WriteParams};
use dogwatch::controller::{CancellationToken, LeaderElector, Manager, ManagerError};
use dogwatch::k8s_openapi::api::core::v1::Service;
use dogwatch::k8s_openapi::api::networking::v1::Ingress;
use dogwatch::{Api, Client};
use dogwatch_apiserver::ApiServer;
use dogwatch_apiserver::faults::Rule;
use dogwatch_simulator::ControllerManager;
use ingress_manager::{ANNOTATION, DEFAULT_HOST};
use serde_json::{from_value, json};
use tokio::task::{JoinHandle, JoinSet};

/// The server, the garbage collector that deletes the Ingresses of deleted Services, and handles on
/// the server.
struct Fixture {
    _manager: ControllerManager,
    server: ApiServer,
    client: Client,
    services: Api<Service>,
    ingresses: Api<Ingress>,
}

/// A manager that runs until it is stopped.
struct Running {
    elector: LeaderElector,
    stop: CancellationToken,
    task: JoinHandle<Result<(), ManagerError>>,
}

impl Fixture {
    async fn new() -> Self {
        let server = ApiServer::builder().in_process().seed(7).start().await.expect("the server starts");
        let url = || server.url().parse().expect("a URL");
        let client = Client::from_service(url(), "default", server.service());
        let service = server.component_service("kube-controller-manager");
        let manager = ControllerManager::builder(Client::from_service(url(), "default", service)).start();
        let (services, ingresses) =
            (Api::default_namespaced(client.clone()), Api::default_namespaced(client.clone()));
        Self { _manager: manager, server, client, services, ingresses }
    }

    fn run(&self, identity: &str) -> Running {
        let manager = Manager::new(self.client.clone());
        let controller = ingress_manager::controller(&manager, self.client.clone());
        let elector = LeaderElector::builder(self.client.clone(), "ingress-manager").identity(identity);
        let elector = elector.build().expect("valid settings");
        let manager = manager.controller(controller).leader_election(elector.clone());
        let stop = CancellationToken::new();
        let stopped = stop.clone();
        let task = tokio::spawn(async move { manager.run_until(stopped.cancelled()).await });
        Running { elector, stop, task }
    }

    async fn add(&self, name: &str, host: Option<&str>) {
        let annotations = host.map(|host| json!({ ANNOTATION: host }));
        let service = from_value(json!({
            "metadata": {"name": name, "annotations": annotations},
            "spec": {"ports": [{"port": 8080}], "selector": {"app": name}},
        }));
        let service: Service = service.expect("a service");
        self.services.create(&WriteParams::default(), &service).await.expect("created");
    }

    async fn annotate(&self, name: &str, host: Option<&str>) {
        let patch = json!({"metadata": {"annotations": {ANNOTATION: host}}});
        let patched = self.services.patch(name, &PatchParams::default(), Patch::Merge(&patch)).await;
        patched.expect("patched");
    }

    /// Waits until the Ingress has this host, or until there is none.
    async fn until(&self, name: &str, host: Option<&str>) {
        loop {
            let found = self.ingresses.get_opt(name).await.expect("a response");
            if found.as_ref().and_then(host_of) == host && found.is_some() == host.is_some() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

impl Running {
    async fn stop(self) {
        self.stop.cancel();
        self.task.await.expect("no panic").expect("the manager ends without an error");
    }
}

fn host_of(ingress: &Ingress) -> Option<&str> {
    ingress.spec.as_ref()?.rules.as_ref()?.first()?.host.as_deref()
}

#[tokio::test(start_paused = true)]
async fn an_ingress_follows_the_annotation_of_its_service_and_is_restored() {
    let fixture = Fixture::new().await;
    let running = fixture.run("a");
    fixture.add("web", Some("shop.test")).await;
    fixture.until("web", Some("shop.test")).await;
    let ingress = fixture.ingresses.get("web").await.expect("exists");
    let owner = &ingress.metadata.owner_references.as_ref().expect("an owner")[0];
    assert_eq!((owner.kind.as_str(), owner.controller), ("Service", Some(true)));

    fixture.annotate("web", Some("")).await;
    fixture.until("web", Some(DEFAULT_HOST)).await;
    fixture.ingresses.delete("web", &DeleteParams::default()).await.expect("deleted");
    fixture.until("web", Some(DEFAULT_HOST)).await;
    fixture.annotate("web", None).await;
    fixture.until("web", None).await;

    fixture.annotate("web", Some("shop.test")).await;
    fixture.until("web", Some("shop.test")).await;
    fixture.services.delete("web", &DeleteParams::default()).await.expect("deleted");
    fixture.until("web", None).await;
    running.stop().await;
}

/// The manager restores the Ingress whether the watch shows it before its deletion, afterwards, or
/// never.
#[tokio::test(start_paused = true)]
async fn an_ingress_that_is_deleted_before_the_manager_sees_it_is_restored() {
    for (delayed, expired) in [(false, false), (true, false), (true, true)] {
        let fixture = Fixture::new().await;
        let running = fixture.run("a");
        fixture.add("other", Some("other.test")).await;
        fixture.until("other", Some("other.test")).await;
        let faults = fixture.server.faults();
        if delayed {
            faults.rule(Rule::on("watch").resource("ingresses").pause());
        }
        fixture.add("web", Some("shop.test")).await;
        while fixture.ingresses.delete("web", &DeleteParams::default()).await.is_err() {
            tokio::task::yield_now().await;
        }
        if expired {
            // The next list shows neither the Ingress nor its deletion.
            fixture.server.expire_history();
            faults.cut_watches();
        }
        if delayed {
            tokio::time::sleep(Duration::from_secs(1)).await;
            assert!(fixture.ingresses.get_opt("web").await.expect("a response").is_none());
            faults.clear();
        }
        let restored = tokio::time::timeout(Duration::from_secs(60), fixture.until("web", Some("shop.test")));
        assert!(restored.await.is_ok(), "still missing; delayed: {delayed}, expired: {expired}");
        running.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_foreign_ingress_is_left_alone_until_it_is_deleted() {
    let fixture = Fixture::new().await;
    let foreign = json!({
        "metadata": {"name": "web"},
        "spec": {"defaultBackend": {"service": {"name": "x", "port": {"number": 1}}}},
    });
    let foreign = from_value(foreign).expect("an ingress");
    fixture.ingresses.create(&WriteParams::default(), &foreign).await.expect("created");
    fixture.add("web", Some("shop.test")).await;
    let running = fixture.run("a");
    fixture.add("other", Some("other.test")).await;
    fixture.until("other", Some("other.test")).await;
    let found = fixture.ingresses.get("web").await.expect("exists");
    assert_eq!((host_of(&found), &found.metadata.owner_references), (None, &None));
    fixture.ingresses.delete("web", &DeleteParams::default()).await.expect("deleted");
    fixture.until("web", Some("shop.test")).await;
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn the_second_manager_takes_over_when_the_leader_stops() {
    let fixture = Fixture::new().await;
    let first = fixture.run("first");
    fixture.add("one", Some("one.test")).await;
    fixture.until("one", Some("one.test")).await;
    assert!(first.elector.is_leader());
    let second = fixture.run("second");
    first.stop().await;
    fixture.add("two", Some("two.test")).await;
    fixture.until("two", Some("two.test")).await;
    assert!(second.elector.is_leader());
    second.stop().await;
}

#[tokio::test(start_paused = true)]
async fn conflicting_writes_converge_without_losing_the_labels_of_others() {
    const SERVICES: usize = 30;
    const WRITES: usize = 20;
    let fixture = Fixture::new().await;
    let running = fixture.run("a");
    for index in 0..SERVICES {
        fixture.add(&format!("s{index}"), Some(&format!("h{index}.test"))).await;
    }
    for index in 0..SERVICES {
        fixture.until(&format!("s{index}"), Some(&format!("h{index}.test"))).await;
    }
    // Other clients write the same objects, and some of the manager's own writes fail with a
    // conflict or lose their response.
    let faults = fixture.server.faults();
    faults.rule(Rule::on("update").resource("ingresses").probability(0.3, 1).refuse(409).reason("Conflict"));
    faults.rule(Rule::on("update").resource("ingresses").probability(0.1, 2).reset_after());
    let mut writers = JoinSet::new();
    for index in 0..SERVICES {
        let ingresses = fixture.ingresses.clone();
        writers.spawn(async move {
            for write in 0..WRITES {
                let patch = json!({
                    "metadata": {"labels": {"theirs": write.to_string()}},
                    "spec": {"rules": [{"host": format!("wrong{write}.test")}]},
                });
                let patch = Patch::Merge(&patch);
                let _ = ingresses.patch(&format!("s{index}"), &PatchParams::default(), patch).await;
                tokio::time::sleep(Duration::from_millis(7)).await;
            }
        });
    }
    while let Some(done) = writers.join_next().await {
        done.expect("no panic");
    }
    faults.clear();
    for index in 0..SERVICES {
        fixture.until(&format!("s{index}"), Some(&format!("h{index}.test"))).await;
    }
    let all = fixture.ingresses.list(&ListParams::default()).await.expect("a list");
    assert_eq!(all.items.len(), SERVICES);
    for ingress in &all.items {
        let label = ingress.metadata.labels.as_ref().and_then(|it| it.get("theirs")).map(String::as_str);
        assert_eq!(label, Some("19"), "labels of other clients are kept");
    }
    running.stop().await;
}
