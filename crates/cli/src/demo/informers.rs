//! The shared informers of the demo: deployments, pods with an index by node, and the ingress and
//! the endpoints of its service.

use std::time::Duration;

use dogwatch::informer::{Health, Index, Selection};
use dogwatch::k8s_openapi::api::apps::v1::Deployment;
use dogwatch::k8s_openapi::api::core::v1::Pod;
use dogwatch::k8s_openapi::api::discovery::v1::EndpointSlice;
use dogwatch::k8s_openapi::api::networking::v1::Ingress;
use dogwatch::{Object, SharedInformer, Store};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;

use super::change_printer::{ChangePrinter, Tally};
use super::states;
use super::task::{DemoContext, DemoTask, Output};
use super::workload::NAMESPACE;

/// The index of pods by node.
const BY_NODE: &str = "node";
/// The interval at which the health of the informers is checked.
const CHECK_INTERVAL: Duration = Duration::from_millis(500);

/// The informers of the demo, and the counts of their events.
pub(super) struct Informers {
    pods: SharedInformer<Pod>,
    pods_tally: Tally,
    followed: Vec<WatchedInformer>,
    output: Output,
}

/// One informer, independent of its object type.
struct WatchedInformer {
    tally: Tally,
    health: Box<dyn Fn() -> Health + Send + Sync>,
    /// The last printed problem, if it persists.
    problem: Option<String>,
}

impl Informers {
    /// Gets the informers and adds a handler to each.
    pub(super) fn new(context: &DemoContext) -> anyhow::Result<Self> {
        let here = Selection::default().namespace(NAMESPACE);
        let output = || context.output.clone();
        let by_node = Index::visiting(BY_NODE, |pod: &Pod, found| {
            states::node_of(pod).into_iter().for_each(found);
        });
        let pods = context.informers.get_with::<Pod>(here.clone(), |it| it.index(by_node));
        let deployments = context.informers.get_with::<Deployment>(here.clone(), |it| it);
        let ingresses = context.informers.get_with::<Ingress>(here.clone(), |it| it);
        let slices = context.informers.get_with::<EndpointSlice>(here, |it| it);

        let store = pods.store();
        let pod_printer =
            ChangePrinter::new("pod", output(), states::of_pod).aside(move |it| neighbours(&store, it));
        let pods_tally = pod_printer.tally();
        let followed = vec![
            WatchedInformer::new(
                &deployments,
                ChangePrinter::new("deployment", output(), states::of_deployment),
            )?,
            WatchedInformer::new(&pods, pod_printer)?,
            WatchedInformer::new(&ingresses, ChangePrinter::new("ingress", output(), states::of_ingress))?,
            WatchedInformer::new(&slices, ChangePrinter::new("endpoints", output(), states::of_slice))?,
        ];
        Ok(Self { pods, pods_tally, followed, output: output() })
    }

    /// Prints the problem that keeps an informer from being synced, and when it is resolved.
    async fn check_health(&mut self) -> anyhow::Result<()> {
        let mut checks = tokio::time::interval(CHECK_INTERVAL);
        loop {
            checks.tick().await;
            for followed in &mut self.followed {
                let problem = (followed.health)().problem.map(|it| it.message);
                match &problem {
                    Some(message) if followed.problem != problem => self.output.print(message),
                    None if followed.problem.is_some() => {
                        self.output.print("synced again");
                    }
                    _ => {}
                }
                followed.problem = problem;
            }
        }
    }
}

impl WatchedInformer {
    fn new<K: Object>(
        informer: &SharedInformer<K>,
        change_printer: ChangePrinter<K>,
    ) -> anyhow::Result<Self> {
        let tally = change_printer.tally();
        // The tally is new, so the registration is not set yet.
        let _ = tally.place.set(informer.add_handler(change_printer)?);
        let informer = informer.clone();
        Ok(Self { tally, health: Box::new(move || informer.health()), problem: None })
    }
}

impl DemoTask for Informers {
    fn run(&mut self) -> BoxFuture<'_, anyhow::Result<()>> {
        self.check_health().boxed()
    }

    fn summary(&self) -> Vec<(&'static str, String)> {
        let counts: Vec<_> = self.followed.iter().map(|it| it.tally.counts()).collect();
        let events: u64 = counts.iter().map(|it| it.events).sum();
        let relists: u64 = self.followed.iter().map(|it| (it.health)().relists).sum();
        let behind = counts.iter().map(|it| it.behind).max().unwrap_or_default();
        let pending: usize = self.followed.iter().map(|it| it.tally.pending()).sum();
        let pods = self.pods_tally.counts();
        vec![
            ("events", format!("{events} received by {} informers, {relists} relists", counts.len())),
            ("lag", format!("at most {behind} pending changes, {pending} now")),
            (
                "pods",
                format!("{} created, {} deleted, {} now", pods.made, pods.gone, self.pods.store().len()),
            ),
            ("pods by node", by_node(&self.pods.store())),
        ]
    }
}

/// Formats the number of pods on each node.
fn by_node(pods: &Store<Pod>) -> String {
    let pods = pods.snapshot();
    let nodes = pods.index_values(BY_NODE).unwrap_or_default();
    let count = |node: &String| pods.index_keys(BY_NODE, node).map_or(0, |it| it.len());
    let counted: Vec<_> = nodes.iter().map(|it| format!("{it}: {}", count(it))).collect();
    if counted.is_empty() { "none".to_owned() } else { counted.join(", ") }
}

/// Formats the number of other pods on a pod's node.
fn neighbours(pods: &Store<Pod>, pod: &Pod) -> String {
    let Some(node) = states::node_of(pod) else { return String::new() };
    let there = pods.index_keys(BY_NODE, node).unwrap_or_default();
    let others = there.iter().filter(|it| Some(*it) != pod.key().as_ref()).count();
    match others {
        0 => " (no other pods on this node)".to_owned(),
        1 => " (1 other pod on this node)".to_owned(),
        others => format!(" ({others} other pods on this node)"),
    }
}
