//! The program whose page is looked at: a server in this process, informers with handlers, two
//! controllers, a queue, a gRPC channel, and writes and calls that never end.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use dogwatch::api::{Packed, PatchParams};
use dogwatch::diagnostics::{Diagnostics, Served};
use dogwatch::grpc::KubeChannel;
use dogwatch::informer::{Changes, HandlerOptions};
use dogwatch::k8s_openapi::api::core::v1::{ConfigMap, Pod};
use dogwatch::testing::{self, TestCluster};
use dogwatch::workqueue::WorkQueue;
use dogwatch::{Action, Api, Client, Context, Manager, SharedInformer};
use grpc_testkit::{Handler, MethodKind};
use http::uri::PathAndQuery;
use serde_json::json;
use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;
use tonic::client::Grpc;
use tonic::{Request, Status};
use tonic_prost::ProstCodec;

const METHOD: &str = "/page.Echo/One";

/// The names of the buttons.
pub(super) const CUT: &str = "Cut the watches";
pub(super) const EXPIRE: &str = "Expire the history";

/// The number of objects that are written in turn.
const OBJECTS: u64 = 40;

/// The interval of writes and of calls.
const PERIOD: Duration = Duration::from_millis(40);

/// A running program with its page. Dropping it ends both.
#[derive(Debug)]
pub(super) struct Program {
    page: Diagnostics,
    served: Option<Served>,
    address: SocketAddr,
    _parts: Parts,
}

/// The parts that the program keeps alive.
#[derive(Debug)]
struct Parts {
    _cluster: Arc<TestCluster>,
    _packed: SharedInformer<Packed<ConfigMap>>,
    /// A handler that never reads its changes.
    _stuck: Changes<Packed<ConfigMap>>,
    _queue: WorkQueue<String>,
    _pods: Vec<grpc_testkit::Pod<Echo>>,
    _tasks: JoinSet<()>,
}

impl Program {
    pub(super) async fn start() -> Result<Self> {
        let cluster = Arc::new(testing::cluster().await?);
        let client = cluster.client();
        let packed = SharedInformer::builder(Api::<Packed<ConfigMap>>::all(client.clone())).name("packed");
        let packed = packed.build();
        let stuck = packed.changes_with(HandlerOptions::default().name("never reads"))?;
        packed.start();
        let manager = manager(&client);
        let queue = queue();
        let pods = grpc_testkit::Pod::<Echo>::start_many(3).await;
        let mut addresses: Vec<_> = pods.iter().map(|it| it.address.to_string()).collect();
        addresses.push("127.0.0.1:1".to_owned());
        let channel = KubeChannel::to(addresses)?.build()?;

        let page = Diagnostics::new().program("live-page");
        page.add_manager(&manager);
        page.add_informer(&packed);
        page.add_queue("uploads", &queue);
        page.add_channel("echo", &channel);
        page.add_action(CUT, {
            let cluster = Arc::clone(&cluster);
            move || {
                cluster.server().faults().cut_watches();
                async {}
            }
        });
        page.add_action(EXPIRE, {
            let cluster = Arc::clone(&cluster);
            move || {
                cluster.server().expire_history();
                async {}
            }
        });
        let served = page.serve("127.0.0.1:0").await?;
        let address = served.address();
        let mut tasks = JoinSet::new();
        tasks.spawn(write(client));
        tasks.spawn(call(channel));
        tasks.spawn(async move {
            let _ = manager.run_until(std::future::pending()).await;
        });
        let parts = Parts {
            _cluster: cluster,
            _packed: packed,
            _stuck: stuck,
            _queue: queue,
            _pods: pods,
            _tasks: tasks,
        };
        Ok(Self { page, served: Some(served), address, _parts: parts })
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}/", self.address)
    }

    /// Ends the page, as if the program had ended.
    pub(super) fn stop_page(&mut self) {
        self.served = None;
    }

    /// Serves the page again, at the same address.
    pub(super) async fn serve_again(&mut self) -> Result<()> {
        self.served = Some(self.page.serve(self.address).await.context("the address is free again")?);
        Ok(())
    }
}

/// Returns a manager with two controllers, of which one fails for some objects.
fn manager(client: &Client) -> Manager {
    let manager = Manager::new(client.clone());
    let maps = manager.controller_for::<ConfigMap>().configure(|it| it.named("settings").workers(4));
    let maps = maps.reconcile(|map: Arc<ConfigMap>, _: Context| async move {
        tokio::time::sleep(Duration::from_millis(30)).await;
        let name = map.metadata.name.as_deref().unwrap_or_default();
        anyhow::ensure!(!name.ends_with('7'), "the name of {name} ends with a seven");
        Ok(Action::Done)
    });
    let pods = manager.controller_for::<Pod>().configure(|it| it.named("pods"));
    let pods = pods.reconcile(|_: Arc<Pod>, _: Context| async { anyhow::Ok(Action::Done) });
    manager.controller(maps).controller(pods)
}

fn queue() -> WorkQueue<String> {
    let queue = WorkQueue::new();
    for number in 0..3 {
        queue.add(format!("upload-{number}"));
        queue.add_after(format!("upload-{}", number + 3), Duration::from_secs(600));
    }
    queue
}

/// Changes one object after another, for ever.
async fn write(client: Client) {
    let maps = Api::<ConfigMap>::default_namespaced(client);
    let mut timer = tokio::time::interval(PERIOD);
    timer.set_missed_tick_behavior(MissedTickBehavior::Delay);
    for number in 0u64.. {
        timer.tick().await;
        let name = format!("settings-{}", number % OBJECTS);
        let map = json!({ "data": { "text": "x".repeat(200), "number": number.to_string() } });
        // A write that fails because of an injected fault is followed by others.
        let _ = maps.apply(&name, &PatchParams::apply("live-page").force(), &map).await;
    }
}

/// Makes one call after another, for ever.
async fn call(channel: KubeChannel) {
    let mut timer = tokio::time::interval(PERIOD / 4);
    timer.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut client = Grpc::new(channel);
    loop {
        timer.tick().await;
        let codec = ProstCodec::<Number, Number>::default();
        let _ =
            client.unary(Request::new(Number { value: 7 }), PathAndQuery::from_static(METHOD), codec).await;
    }
}

#[derive(Clone, PartialEq, prost::Message)]
struct Number {
    #[prost(uint64, tag = "1")]
    value: u64,
}

/// A service that echoes a number.
#[derive(Debug, Default)]
struct Echo;

impl Handler for Echo {
    const NAME: &'static str = "page.Echo";
    const METHODS: &'static [(&'static str, MethodKind)] = &[(METHOD, MethodKind::Unary)];
    type Message = Number;

    async fn unary(self: Arc<Self>, message: Number) -> Result<Number, Status> {
        Ok(message)
    }
}
