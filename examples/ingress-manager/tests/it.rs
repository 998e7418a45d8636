//! The ingress manager against an API server in the same process, on a clock that stands still unless all wait.

use std::time::Duration;

use dogwatch::controller::{CancellationToken, LeaderElector, Manager, ManagerError};
use dogwatch::k8s_openapi::api::core::v1::Service;
use dogwatch::k8s_openapi::api::networking::v1::Ingress;
use dogwatch::{Api, Client, DeleteParams, ListParams, Patch, PatchParams, WriteParams};
use dogwatch_apiserver::ApiServer;
use dogwatch_apiserver::faults::Rule;
use ingress_manager::{ANNOTATION, DEFAULT_HOST};
use serde_json::{from_value, json};
use tokio::task::{JoinHandle, JoinSet};

struct World {
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

impl World {
    async fn new() -> Self {
        let server = ApiServer::builder().in_process().seed(7).start().await.expect("it starts");
        let url = server.url().parse().expect("a URL");
        let client = Client::from_service(url, "default", server.service());
        let (services, ingresses) =
            (Api::default_namespaced(client.clone()), Api::default_namespaced(client.clone()));
        Self { server, client, services, ingresses }
    }

    fn run(&self, identity: &str) -> Running {
        let manager = Manager::new(self.client.clone());
        let controller = ingress_manager::controller(&manager, self.client.clone());
        let elector = LeaderElector::builder(self.client.clone(), "ingress-manager").identity(identity);
        let elector = elector.build().expect("valid settings");
        let manager = manager.controller(controller).elect(elector.clone());
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
        self.services.create(&WriteParams::default(), &service).await.expect("it is created");
    }

    async fn annotate(&self, name: &str, host: Option<&str>) {
        let patch = json!({"metadata": {"annotations": {ANNOTATION: host}}});
        let patched = self.services.patch(name, &PatchParams::default(), Patch::Merge(&patch)).await;
        patched.expect("it is patched");
    }

    /// Waits until the host of an ingress is this one, or until there is none.
    async fn until(&self, name: &str, host: Option<&str>) {
        loop {
            let found = self.ingresses.get_opt(name).await.expect("it can be read");
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
        self.task.await.expect("no panic").expect("it ends well");
    }
}

fn host_of(ingress: &Ingress) -> Option<&str> {
    ingress.spec.as_ref()?.rules.as_ref()?.first()?.host.as_deref()
}

#[tokio::test(start_paused = true)]
async fn an_ingress_comes_with_the_annotation_goes_with_it_and_comes_back() {
    let world = World::new().await;
    let running = world.run("a");
    world.add("web", Some("shop.test")).await;
    world.until("web", Some("shop.test")).await;
    let ingress = world.ingresses.get("web").await.expect("there");
    let owner = &ingress.metadata.owner_references.as_ref().expect("an owner")[0];
    assert_eq!((owner.kind.as_str(), owner.controller), ("Service", Some(true)));

    world.annotate("web", Some("")).await;
    world.until("web", Some(DEFAULT_HOST)).await;
    world.ingresses.delete("web", &DeleteParams::default()).await.expect("deleted");
    world.until("web", Some(DEFAULT_HOST)).await;
    world.annotate("web", None).await;
    world.until("web", None).await;

    world.annotate("web", Some("shop.test")).await;
    world.until("web", Some("shop.test")).await;
    world.services.delete("web", &DeleteParams::default()).await.expect("deleted");
    world.until("web", None).await;
    running.stop().await;
}

/// Whether the watch shows the ingress before it is deleted, afterwards, or never: the manager restores it.
#[tokio::test(start_paused = true)]
async fn an_ingress_that_is_deleted_before_the_manager_saw_it_comes_back() {
    for (held_up, expired) in [(false, false), (true, false), (true, true)] {
        let world = World::new().await;
        let running = world.run("a");
        world.add("other", Some("other.test")).await;
        world.until("other", Some("other.test")).await;
        let faults = world.server.faults();
        if held_up {
            faults.rule(Rule::on("watch").resource("ingresses").pause());
        }
        world.add("web", Some("shop.test")).await;
        while world.ingresses.delete("web", &DeleteParams::default()).await.is_err() {
            tokio::task::yield_now().await;
        }
        if expired {
            // The next list shows neither the ingress nor that it went.
            faults.expire(world.server.cluster());
            faults.cut_watches();
        }
        if held_up {
            tokio::time::sleep(Duration::from_secs(1)).await;
            assert!(world.ingresses.get_opt("web").await.expect("an answer").is_none());
            faults.clear();
        }
        let restored = tokio::time::timeout(Duration::from_secs(60), world.until("web", Some("shop.test")));
        assert!(restored.await.is_ok(), "still missing; held up: {held_up}, expired: {expired}");
        running.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_ingress_of_somebody_else_is_left_alone_until_it_goes() {
    let world = World::new().await;
    let theirs = json!({
        "metadata": {"name": "web"},
        "spec": {"defaultBackend": {"service": {"name": "x", "port": {"number": 1}}}},
    });
    let theirs = from_value(theirs).expect("an ingress");
    world.ingresses.create(&WriteParams::default(), &theirs).await.expect("created");
    world.add("web", Some("shop.test")).await;
    let running = world.run("a");
    world.add("other", Some("other.test")).await;
    world.until("other", Some("other.test")).await;
    let found = world.ingresses.get("web").await.expect("there");
    assert_eq!((host_of(&found), &found.metadata.owner_references), (None, &None));
    world.ingresses.delete("web", &DeleteParams::default()).await.expect("deleted");
    world.until("web", Some("shop.test")).await;
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn when_the_leader_ends_the_other_goes_on() {
    let world = World::new().await;
    let first = world.run("first");
    world.add("one", Some("one.test")).await;
    world.until("one", Some("one.test")).await;
    assert!(first.elector.is_leader());
    let second = world.run("second");
    first.stop().await;
    world.add("two", Some("two.test")).await;
    world.until("two", Some("two.test")).await;
    assert!(second.elector.is_leader());
    second.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_storm_of_conflicts_ends_with_every_ingress_right_and_nothing_of_others_lost() {
    const SERVICES: usize = 30;
    const WRITES: usize = 20;
    let world = World::new().await;
    let running = world.run("a");
    for index in 0..SERVICES {
        world.add(&format!("s{index}"), Some(&format!("h{index}.test"))).await;
    }
    for index in 0..SERVICES {
        world.until(&format!("s{index}"), Some(&format!("h{index}.test"))).await;
    }
    // Others write the same objects, and some of the manager's own writes meet a conflict or are cut off after they were carried out.
    let faults = world.server.faults();
    faults.rule(Rule::on("update").resource("ingresses").probability(0.3, 1).refuse(409).reason("Conflict"));
    faults.rule(Rule::on("update").resource("ingresses").probability(0.1, 2).reset_after());
    let mut storm = JoinSet::new();
    for index in 0..SERVICES {
        let ingresses = world.ingresses.clone();
        storm.spawn(async move {
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
    while let Some(done) = storm.join_next().await {
        done.expect("no panic");
    }
    faults.clear();
    for index in 0..SERVICES {
        world.until(&format!("s{index}"), Some(&format!("h{index}.test"))).await;
    }
    let all = world.ingresses.list(&ListParams::default()).await.expect("a list");
    assert_eq!(all.items.len(), SERVICES);
    for ingress in &all.items {
        let label = ingress.metadata.labels.as_ref().and_then(|it| it.get("theirs")).map(String::as_str);
        assert_eq!(label, Some("19"), "what others wrote is theirs");
    }
    running.stop().await;
}
