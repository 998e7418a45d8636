//! The resolver: follows the endpoints of targets. The first services that a program asks for in a
//! namespace have a watch each, filtered by the server; all others in that namespace share one.
//!
//! ```text
//! Resolver ─► a Namespace per watch (informers) ─► one task per target: resolve, compare, publish ─► EndpointWatch, any number
//! ```
//!
//! Knows nothing of connections. The last set stays until newer information arrives: an unreachable
//! API server removes no endpoints.

use std::fmt;
use std::sync::{Arc, Weak};
use std::time::Duration;

use dogwatch_client::Client;
use hashbrown::HashMap;
use parking_lot::Mutex;
use tokio::runtime::{self, Handle};
use tokio::sync::{Notify, watch};
use tokio::task::AbortHandle;
use tokio::time::Instant;

use crate::dns::DnsWatch;
use crate::endpoints::EndpointSet;
use crate::metrics::TargetMetrics;
use crate::namespace::{Namespace, Resolution, ResolveOptions};
use crate::target::Target;
use crate::topology::Topology;

/// Resolves targets to endpoints. Clones share their state: create one per program, so that its
/// channels share their watches.
///
/// Reads EndpointSlices (verbs list and watch) in the namespaces of the targets, or Endpoints if
/// slices are not served or not allowed. Also reads Services (same verbs), if allowed: for targets
/// with a port number, for targets without a port whose pods have several, for callers that know
/// their node ([`Topology`]), and to explain an empty set.
///
/// The first four services of a namespace have a watch each, filtered by the server; from the fifth
/// on, one watch of the namespace serves all others. When the last [`EndpointWatch`] of a target is
/// dropped, its watch ends.
///
/// ```
/// use dogwatch_grpc::{Resolver, Target};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = dogwatch_apiserver::ApiServer::in_process().await?;
/// # let url = server.url().parse()?;
/// # let client = dogwatch_client::Client::from_service(url, "default", server.service());
/// let resolver = Resolver::new(client); // for example from Client::from_env
/// let target: Target = "kubernetes:///greeter.shop:grpc".parse()?;
/// let mut watch = resolver.watch(&target);
/// while let Some(set) = watch.changed().await {
///     match &set.unavailable {
///         None => println!("{} endpoints to call", set.usable().count()),
///         Some(reason) => println!("{target} cannot be called: {reason}"),
///     }
/// #   if set.is_known() { break }
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Resolver {
    state: Arc<ResolverState>,
}

/// The number of services of a namespace that have a watch of their own before the others share
/// one.
const MAX_FILTERED_WATCHES: usize = 4;

struct ResolverState {
    client: Client,
    options: ResolverOptions,
    /// Keyed by runtime as well: the tasks of a watch end with the runtime they were started on,
    /// and readers on other runtimes would never notice.
    namespaces: Mutex<HashMap<(runtime::Id, Arc<str>), NamespaceWatches>>,
    targets: Mutex<HashMap<(runtime::Id, Target), Weak<TargetWatch>>>,
}

/// The watches of one namespace.
#[derive(Default)]
struct NamespaceWatches {
    /// By service.
    filtered: HashMap<Arc<str>, Weak<Namespace>>,
    all: Weak<Namespace>,
}

impl NamespaceWatches {
    /// Returns the watch that covers this service. If there is none, creates one with `make`, for
    /// this service alone or for all.
    fn of(&mut self, service: &str, make: impl FnOnce(Option<&str>) -> Namespace) -> Arc<Namespace> {
        self.filtered.retain(|_, it| it.strong_count() > 0);
        if let Some(known) = self.filtered.get(service).and_then(Weak::upgrade) {
            return known;
        }
        if let Some(all) = self.all.upgrade() {
            return all;
        }
        if self.filtered.len() < MAX_FILTERED_WATCHES {
            let made = Arc::new(make(Some(service)));
            self.filtered.insert(service.into(), Arc::downgrade(&made));
            return made;
        }
        let made = Arc::new(make(None));
        self.all = Arc::downgrade(&made);
        made
    }

    fn is_empty(&self) -> bool {
        self.all.strong_count() == 0 && self.filtered.values().all(|it| it.strong_count() == 0)
    }
}

/// The options of a [`Resolver`].
///
/// ```
/// use std::time::Duration;
///
/// use dogwatch_grpc::{Resolver, ResolverOptions, Topology};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let yaml = "{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, addressType: IPv4, \
/// #     metadata: {name: greeter-1, labels: {kubernetes.io/service-name: greeter}}, \
/// #     ports: [{name: grpc, port: 50051}], endpoints: [{addresses: [10.0.0.7]}]}";
/// # let builder = dogwatch_apiserver::ApiServer::builder().in_process();
/// # let server = builder.yaml(yaml).start().await?;
/// # let url = server.url().parse()?;
/// # let client = dogwatch_client::Client::from_service(url, "default", server.service());
/// let options = ResolverOptions::default()
///     .topology(Topology::hints().zone("zone-a"))
///     .refresh_every(Duration::from_secs(1800));
/// let resolver = Resolver::with_options(client, options);
/// let set = resolver.watch(&"kubernetes:///greeter:grpc".parse()?).known().await;
/// assert_eq!(set.usable().count(), 1);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct ResolverOptions {
    /// The location of the caller, for topology hints.
    pub topology: Topology,
    /// Tries the IPv6 address of a dual-stack pod first.
    pub prefer_ipv6: bool,
    /// The interval at which everything is listed again. Defaults to never.
    pub refresh_every: Option<Duration>,
}

impl ResolverOptions {
    /// Sets the location of the caller: endpoints that are meant for callers elsewhere are not
    /// used, by the rules of kube-proxy.
    #[must_use]
    pub fn topology(mut self, topology: Topology) -> Self {
        self.topology = topology;
        self
    }

    /// Tries the IPv6 address of a dual-stack pod first.
    #[must_use]
    pub fn prefer_ipv6(mut self) -> Self {
        self.prefer_ipv6 = true;
        self
    }

    /// Lists everything again at this interval, which is raised to one minute if shorter. Each
    /// refresh is delayed by up to a fifth, so that programs that were started together do not list
    /// at the same time. Not needed for correctness, since the watch reports every change;
    /// kuberesolver refreshes every half hour.
    #[must_use]
    pub fn refresh_every(mut self, period: Duration) -> Self {
        self.refresh_every = Some(period.max(Duration::from_secs(60)));
        self
    }
}

impl Resolver {
    /// Creates a resolver with default options. Sends no request before a target is watched.
    pub fn new(client: Client) -> Self {
        Self::with_options(client, ResolverOptions::default())
    }

    /// Creates a resolver with these options.
    pub fn with_options(client: Client, options: ResolverOptions) -> Self {
        let (namespaces, targets) = (Mutex::default(), Mutex::default());
        Self { state: Arc::new(ResolverState { client, options, namespaces, targets }) }
    }

    /// Watches the endpoints of a target. A target without a namespace is looked up in the client's
    /// default namespace: that of the pod or of the kubeconfig. Callers on one runtime that watch
    /// the same target share one watch, which ends with that runtime.
    ///
    /// # Panics
    /// Panics if called outside of a tokio runtime.
    pub fn watch(&self, target: &Target) -> EndpointWatch {
        let target = target.clone().or_namespace(self.state.client.default_namespace());
        let key = (Handle::current().id(), target);
        let mut targets = self.state.targets.lock();
        if let Some(target_watch) = targets.get(&key).and_then(Weak::upgrade) {
            return EndpointWatch {
                receiver: target_watch.receiver.clone(),
                source: Source::Cluster(target_watch),
            };
        }
        let target = &key.1;
        let namespace = self.namespace(key.0, target.namespace().unwrap_or("default"), target.service());
        let target_watch = Arc::new(TargetWatch::start(target, namespace, &self.state.options));
        targets.retain(|_, it| it.strong_count() > 0);
        targets.insert(key, Arc::downgrade(&target_watch));
        EndpointWatch { receiver: target_watch.receiver.clone(), source: Source::Cluster(target_watch) }
    }

    /// Returns the client's default namespace, which is used for targets without one.
    pub fn default_namespace(&self) -> &str {
        self.state.client.default_namespace()
    }

    fn namespace(&self, runtime: runtime::Id, name: &str, service: &str) -> Arc<Namespace> {
        let mut namespaces = self.state.namespaces.lock();
        namespaces.retain(|known, it| (known.0 == runtime && &*known.1 == name) || !it.is_empty());
        let refresh = self.state.options.refresh_every;
        let make = |only: Option<&str>| Namespace::new(self.state.client.clone(), name, only, refresh);
        namespaces.entry((runtime, name.into())).or_default().of(service, make)
    }

    /// Returns true if the other resolver is a clone of this one.
    #[cfg(test)]
    pub(crate) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.state, &other.state)
    }

    pub(crate) fn downgrade(&self) -> WeakResolver {
        WeakResolver(Arc::downgrade(&self.state))
    }
}

/// A resolver that does not keep its watches alive.
#[derive(Clone)]
pub(crate) struct WeakResolver(Weak<ResolverState>);

impl WeakResolver {
    pub(crate) fn upgrade(&self) -> Option<Resolver> {
        self.0.upgrade().map(|state| Resolver { state })
    }
}

/// The endpoints of one target, now and as they change.
///
/// Clones watch independently. Dropping the last one ends the watch of the target.
///
/// ```
/// use dogwatch_grpc::{Resolver, Target};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let yaml = "{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, addressType: IPv4, \
/// #     metadata: {name: greeter-1, labels: {kubernetes.io/service-name: greeter}}, \
/// #     ports: [{name: grpc, port: 50051}], endpoints: [{addresses: [10.0.0.7]}]}";
/// # let builder = dogwatch_apiserver::ApiServer::builder().in_process();
/// # let server = builder.yaml(yaml).start().await?;
/// # let url = server.url().parse()?;
/// # let client = dogwatch_client::Client::from_service(url, "default", server.service());
/// let target: Target = "kubernetes:///greeter.default:grpc".parse()?;
/// let mut watch = Resolver::new(client).watch(&target);
/// let set = watch.known().await;
/// assert_eq!(set.endpoints[0].addresses, ["10.0.0.7:50051".parse()?]);
/// assert_eq!(watch.problem(), None);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct EndpointWatch {
    receiver: watch::Receiver<Arc<EndpointSet>>,
    source: Source,
}

/// The source of the endpoints.
#[derive(Clone)]
enum Source {
    Cluster(Arc<TargetWatch>),
    Dns(Arc<DnsWatch>),
    /// The caller owns the sender, or it is gone.
    Other,
}

impl EndpointWatch {
    /// Creates a watch of endpoints that come from elsewhere than a cluster: a test, a file,
    /// another registry. The sender must keep the invariants of [`EndpointSet`].
    ///
    /// The source keeps the sender of a tokio channel, as for
    /// [`KubeChannel::from_endpoints`](crate::KubeChannel::from_endpoints). This type is not such a
    /// receiver itself, because it also knows the reason for missing endpoints and can ask its
    /// source again.
    pub fn of(mut receiver: watch::Receiver<Arc<EndpointSet>>) -> Self {
        receiver.mark_changed();
        Self { receiver, source: Source::Other }
    }

    /// Creates a watch of endpoints that never change.
    pub fn fixed(set: EndpointSet) -> Self {
        Self::of(watch::channel(Arc::new(set)).1)
    }

    /// Creates a watch of the addresses of a host at this port, by DNS, resolved every half minute.
    pub(crate) fn of_host(host: &str, port: u16) -> Self {
        let dns = DnsWatch::start(host, port);
        Self { receiver: dns.receiver(), source: Source::Dns(Arc::new(dns)) }
    }

    /// Returns the receiver of the sets, for a channel.
    pub(crate) fn receiver(&self) -> watch::Receiver<Arc<EndpointSet>> {
        self.receiver.clone()
    }

    /// Returns the endpoints that are known now; a set of generation 0 until anything is known.
    pub fn current(&self) -> Arc<EndpointSet> {
        Arc::clone(&self.receiver.borrow())
    }

    /// Returns the next set that this watch has not yet returned here or from [`Self::known`]: at
    /// first the current one, then every change, or the newest of several. Returns `None` if there
    /// will be no more.
    ///
    /// It returns the set, where [`HealthWatch::changed`](dogwatch_informer::HealthWatch::changed)
    /// returns only if there was a change, since a set is one shared pointer and every reader wants
    /// it.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: no set is lost if the future is dropped.
    pub async fn changed(&mut self) -> Option<Arc<EndpointSet>> {
        self.receiver.changed().await.ok()?;
        Some(Arc::clone(&self.receiver.borrow_and_update()))
    }

    /// Waits until the endpoints, or the reason for their absence, are known, and returns them.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn known(&mut self) -> Arc<EndpointSet> {
        // Fails when the sender is gone; then the last set is final.
        let _ = self.receiver.wait_for(|it| it.is_known()).await;
        self.current()
    }

    /// Asks the source for changes now, for example because connections fail. Returns immediately;
    /// a watch that is only a few seconds old is not renewed, and a retry that is waiting for its
    /// backoff keeps waiting.
    pub fn resolve_now(&self) {
        match &self.source {
            Source::Cluster(target_watch) => target_watch.namespace.renew(),
            Source::Dns(dns) => dns.renew(),
            Source::Other => {}
        }
    }

    /// Returns the error that currently keeps the endpoints from being synced with the server. The
    /// last known endpoints are kept meanwhile.
    pub fn problem(&self) -> Option<String> {
        match &self.source {
            Source::Cluster(target_watch) => {
                target_watch.namespace.read_error().map(|it| it.text().to_owned())
            }
            Source::Dns(dns) => dns.problem(),
            Source::Other => None,
        }
    }
}

/// A watched target. Dropping it ends the task.
struct TargetWatch {
    target: Target,
    namespace: Arc<Namespace>,
    receiver: watch::Receiver<Arc<EndpointSet>>,
    task: AbortHandle,
}

impl TargetWatch {
    fn start(target: &Target, namespace: Arc<Namespace>, options: &ResolverOptions) -> Self {
        let (sender, receiver) = watch::channel(Arc::default());
        let task_state = TargetTask {
            changes: namespace.subscribe(target.service()),
            metrics: TargetMetrics::new(target),
            target: target.clone(),
            namespace: Arc::clone(&namespace),
            topology: options.topology.clone(),
            prefer_ipv6: options.prefer_ipv6,
            sender,
        };
        let task = tokio::spawn(task_state.run()).abort_handle();
        Self { target: target.clone(), namespace, receiver, task }
    }
}

impl Drop for TargetWatch {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The task of one target.
struct TargetTask {
    target: Target,
    namespace: Arc<Namespace>,
    changes: Arc<Notify>,
    topology: Topology,
    prefer_ipv6: bool,
    metrics: TargetMetrics,
    sender: watch::Sender<Arc<EndpointSet>>,
}

impl TargetTask {
    /// Resolves the target, and again after each notification, until the task is aborted.
    async fn run(self) {
        let mut confirmed = self.namespace.confirmed();
        self.metrics.confirmed(*confirmed.borrow_and_update());
        loop {
            let known = Arc::clone(&self.sender.borrow());
            let options = ResolveOptions {
                topology: &self.topology,
                prefer_ipv6: self.prefer_ipv6,
                first: !known.is_known(),
            };
            let until = match self.namespace.resolve(&self.target, options) {
                Resolution::Wait(until) => until,
                Resolution::Set(set, until) => {
                    self.metrics.found(&set);
                    if let Some(next) = set.after(&known) {
                        tracing::debug!(
                            target = %self.target, generation = next.generation, endpoints = next.endpoints.len(),
                            usable = next.usable().count(), "endpoints changed"
                        );
                        self.sender.send_replace(Arc::new(next));
                    }
                    until
                }
            };
            self.wait(until, &mut confirmed).await;
        }
    }

    /// Waits until it is time to resolve again. Meanwhile updates the gauge of the last
    /// confirmation.
    async fn wait(&self, until: Option<Instant>, confirmed: &mut watch::Receiver<u64>) {
        let now = self.namespace.confirmed();
        if !now.same_channel(confirmed) {
            // Endpoints are read instead of slices, or slices again.
            *confirmed = now;
            self.metrics.confirmed(*confirmed.borrow_and_update());
        }
        let until = sleep_until_some(until);
        tokio::pin!(until);
        loop {
            tokio::select! {
                () = self.changes.notified() => return,
                () = &mut until => return,
                Ok(()) = confirmed.changed() => self.metrics.confirmed(*confirmed.borrow_and_update()),
            }
        }
    }
}

/// Waits until then; forever if there is no such time.
async fn sleep_until_some(time: Option<Instant>) {
    match time {
        Some(time) => tokio::time::sleep_until(time).await,
        None => std::future::pending().await,
    }
}

impl fmt::Debug for Resolver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let namespaces: Vec<_> = self.state.namespaces.lock().keys().map(|it| Arc::clone(&it.1)).collect();
        f.debug_struct("Resolver")
            .field("options", &self.state.options)
            .field("namespaces", &namespaces)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for EndpointWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let target = match &self.source {
            Source::Cluster(target_watch) => Some(target_watch.target.to_string()),
            Source::Dns(dns) => Some(format!("dns:///{}", dns.name())),
            Source::Other => None,
        };
        f.debug_struct("EndpointWatch").field("target", &target).field("current", &self.current()).finish()
    }
}
