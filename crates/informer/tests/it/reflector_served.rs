//! A reflector of our own API server, through the whole client, with and without fault injection.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use dogwatch_apiserver::ApiServer;
use dogwatch_apiserver::faults::Rule;
use dogwatch_client::{Api, Client};
use dogwatch_core::{DeleteParams, WriteParams};
use dogwatch_informer::{Delta, DeltaQueue, DeltaReceiver, HealthWatch, Reflector, ReflectorOptions};
use futures_util::FutureExt;
use k8s_openapi::api::core::v1::ConfigMap;

/// A server, a handle on its config maps, and a reflector that follows them.
struct Served {
    server: ApiServer,
    maps: Api<ConfigMap>,
    receiver: DeltaReceiver<ConfigMap>,
    health: HealthWatch,
    /// The state that results from the deltas: names and values.
    copy: BTreeMap<String, String>,
    list: Option<BTreeMap<String, String>>,
}

fn map(name: &str, value: &str) -> ConfigMap {
    let mut map = ConfigMap::default();
    map.metadata.name = Some(name.to_owned());
    map.data = Some([("value".to_owned(), value.to_owned())].into());
    map
}

fn entry(map: ConfigMap) -> (String, String) {
    let value = map.data.and_then(|mut it| it.remove("value"));
    (map.metadata.name.expect("a name"), value.expect("a value"))
}

impl Served {
    async fn start(rules: impl IntoIterator<Item = Rule>, options: ReflectorOptions<ConfigMap>) -> Self {
        let server = ApiServer::builder().in_process().seed(1).start().await.expect("the server starts");
        let url = server.url().parse().expect("a URL");
        let maps = Api::default_namespaced(Client::from_service(url, "default", server.service()));
        for name in ["a", "b"] {
            maps.create(&WriteParams::default(), &map(name, "1")).await.expect("created");
        }
        for rule in rules {
            server.faults().rule(rule);
        }
        let (sender, receiver) = DeltaQueue::channel(DeltaQueue::CAPACITY);
        let reflector = Reflector::new(Arc::new(maps.clone()), options, sender);
        let health = reflector.health();
        tokio::spawn(reflector.run());
        Self { server, maps, receiver, health, copy: BTreeMap::new(), list: None }
    }

    /// Lets a minute pass, in which everything settles, and returns the copy as text.
    async fn settled(&mut self) -> String {
        tokio::time::sleep(Duration::from_secs(60)).await;
        let mut batch = Vec::new();
        while self.receiver.recv_batch(&mut batch, 100).now_or_never() == Some(true) {}
        for delta in batch {
            match delta {
                Delta::Begin => self.list = Some(BTreeMap::new()),
                Delta::Item(it) => self.list.as_mut().expect("within a list").extend([entry(it)]),
                Delta::End { .. } => self.copy = self.list.take().expect("a list"),
                Delta::Abort => self.list = None,
                Delta::Applied(it) => self.copy.extend([entry(it)]),
                Delta::Deleted(it) => drop(self.copy.remove(&entry(it).0)),
                Delta::Bookmark(_) => {}
                other => panic!("unexpected delta: {other:?}"),
            }
        }
        self.copy.iter().map(|(name, value)| format!("{name}={value} ")).collect()
    }

    async fn put(&self, name: &str, value: &str) {
        self.maps.replace(name, &WriteParams::default(), &map(name, value)).await.expect("replaced");
    }
}

#[tokio::test(start_paused = true)]
async fn a_reflector_follows_a_server_through_closed_and_cut_watches_and_expired_history() {
    for options in [ReflectorOptions::default(), ReflectorOptions::default().without_watch_list()] {
        let mut served = Served::start([], options).await;
        assert_eq!(served.settled().await, "a=1 b=1 ");
        served.put("a", "2").await;
        served.maps.delete("b", &DeleteParams::default()).await.expect("deleted");
        served.maps.create(&WriteParams::default(), &map("c", "1")).await.expect("created");
        assert_eq!(served.settled().await, "a=2 c=1 ");

        served.server.faults().drop_watches();
        served.put("a", "3").await;
        assert_eq!(served.settled().await, "a=3 c=1 ");
        served.server.faults().cut_watches();
        served.put("a", "4").await;
        assert_eq!(served.settled().await, "a=4 c=1 ");
        assert_eq!(served.health.get().relists, 0, "ended watches are resumed");

        served.maps.delete("c", &DeleteParams::default()).await.expect("deleted");
        served.server.expire_history();
        assert_eq!(served.settled().await, "a=4 ");
        let health = served.health.get();
        assert_eq!((health.relists, health.rewinds, health.is_ok()), (1, 0, true), "{health}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_reflector_ends_with_the_state_of_the_server_after_faults() {
    let rules = [
        Rule::on("watch").or("list").refuse(503).probability(0.3, 7),
        Rule::on("watch").refuse(429).retry_after(2).probability(0.2, 8),
        Rule::on("list").reset_after().probability(0.3, 9),
    ];
    let mut served = Served::start(rules, ReflectorOptions::default()).await;
    for value in 2..30 {
        served.put("a", &value.to_string()).await;
        if value % 5 == 0 {
            served.server.faults().cut_watches();
        }
        if value % 7 == 0 {
            served.server.expire_history();
        }
        served.settled().await;
    }
    served.server.faults().clear();
    served.settled().await;
    assert_eq!(served.settled().await, "a=29 b=1 ");
    assert!(served.health.get().is_ok(), "{}", served.health.get());
}

#[tokio::test(start_paused = true)]
async fn a_forbidden_list_is_reported_in_the_health() {
    let rule = Rule::on("watch").or("list").refuse(403);
    let mut served = Served::start([rule], ReflectorOptions::default()).await;
    assert_eq!(served.settled().await, "");
    let health = served.health.get();
    assert!(!health.synced);
    let received = health.to_string();
    assert!(received.contains("grant the verbs list and watch on configmaps"), "{received}");
    served.server.faults().clear();
    assert_eq!(served.settled().await, "a=1 b=1 ");
}
