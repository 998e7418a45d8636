//! The endpoints of a target as they change. The first services of a namespace that a program asks for have a watch each, which
//! the server filters; all others of that namespace share one.
//!
//! ```text
//! Resolver ─► a Namespace per watch (informers) ─► one task per target: look, compare, publish ─► EndpointWatch, any number
//! ```
//!
//! Nothing here knows connections. The last set stays until something better is known: a server that cannot be reached takes
//! nothing away.

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
use crate::gauges::Gauges;
use crate::namespace::{Look, Namespace, Wishes};
use crate::target::Target;
use crate::topology::Topology;

/// Finds the endpoints of targets. A clone is the same one: make one for a program, so that its channels share what is read.
///
/// It reads EndpointSlices (verbs list and watch) of the namespaces that targets are in, or Endpoints where slices are not served or
/// not allowed. It reads Services too (the same verbs), if it may: for targets with a number for a port or none where pods have
/// several, for callers that know their node ([`Topology`]), and to say why an answer is empty.
///
/// The first four services of a namespace have a watch each, which the server filters; from the fifth on, one watch of the namespace
/// serves all others. When the last watch of a target is dropped, nothing of it is read any more.
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use dogwatch_client::Client;
/// use dogwatch_grpc::{Resolver, Target};
///
/// let resolver = Resolver::new(Client::from_env().await?);
/// let target: Target = "kubernetes:///greeter.shop:grpc".parse()?;
/// let mut watch = resolver.watch(&target);
/// while let Some(set) = watch.changed().await {
///     match &set.unavailable {
///         None => println!("{} endpoints to call", set.usable().count()),
///         Some(reason) => println!("{target} cannot be called: {reason}"),
///     }
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Resolver {
    shared: Arc<Shared>,
}

/// How many services of a namespace have a watch of their own before the others share one of all.
const SELECTED: usize = 4;

struct Shared {
    client: Client,
    options: ResolverOptions,
    /// By runtime as well: the tasks of a watch end with the runtime that they were started on, and others would never hear of it.
    namespaces: Mutex<HashMap<(runtime::Id, Arc<str>), Readers>>,
    targets: Mutex<HashMap<(runtime::Id, Target), Weak<Running>>>,
}

/// What is read of one namespace.
#[derive(Default)]
struct Readers {
    /// By service.
    selected: HashMap<Arc<str>, Weak<Namespace>>,
    all: Weak<Namespace>,
}

impl Readers {
    /// The one that has this service, made by `make` if there is none: for one service alone, or for all.
    fn of(&mut self, service: &str, make: impl FnOnce(Option<&str>) -> Namespace) -> Arc<Namespace> {
        self.selected.retain(|_, it| it.strong_count() > 0);
        if let Some(known) = self.selected.get(service).and_then(Weak::upgrade) {
            return known;
        }
        if let Some(all) = self.all.upgrade() {
            return all;
        }
        if self.selected.len() < SELECTED {
            let made = Arc::new(make(Some(service)));
            self.selected.insert(service.into(), Arc::downgrade(&made));
            return made;
        }
        let made = Arc::new(make(None));
        self.all = Arc::downgrade(&made);
        made
    }

    fn is_empty(&self) -> bool {
        self.all.strong_count() == 0 && self.selected.values().all(|it| it.strong_count() == 0)
    }
}

/// What one may choose about a [`Resolver`].
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct ResolverOptions {
    /// Where the caller is, for hints.
    pub topology: Topology,
    /// Of a pod with addresses of both families, the one of IPv6 is tried first.
    pub prefer_ipv6: bool,
    /// How often everything is read again, although nothing says that it must; never unless given.
    pub refresh_every: Option<Duration>,
}

impl ResolverOptions {
    /// Where the caller is: endpoints that are meant for others are left alone, by the rules of kube-proxy.
    #[must_use]
    pub fn topology(mut self, topology: Topology) -> Self {
        self.topology = topology;
        self
    }

    /// Of a pod with addresses of both families, tries the one of IPv6 first.
    #[must_use]
    pub fn prefer_ipv6(mut self) -> Self {
        self.prefer_ipv6 = true;
        self
    }

    /// Reads everything again this often, at most once a minute and each time up to a fifth later, so that programs that were
    /// started together do not all list together. The watch reports every change without it; kuberesolver does it every half hour.
    #[must_use]
    pub fn refresh_every(mut self, period: Duration) -> Self {
        self.refresh_every = Some(period.max(Duration::from_secs(60)));
        self
    }
}

impl Resolver {
    /// A resolver with the usual options. Nothing is asked before something is watched.
    pub fn new(client: Client) -> Self {
        Self::with_options(client, ResolverOptions::default())
    }

    /// A resolver with these options.
    pub fn with_options(client: Client, options: ResolverOptions) -> Self {
        let (namespaces, targets) = (Mutex::default(), Mutex::default());
        Self { shared: Arc::new(Shared { client, options, namespaces, targets }) }
    }

    /// Follows the endpoints of a target; where it says no namespace, in the client's own: the pod's, or the kubeconfig's. Callers on
    /// one runtime that ask for the same target share one watch, which ends with that runtime.
    ///
    /// # Panics
    /// When it is called outside of a tokio runtime.
    pub fn watch(&self, target: &Target) -> EndpointWatch {
        let target = target.clone().or_namespace(self.shared.client.default_namespace());
        let key = (Handle::current().id(), target);
        let mut targets = self.shared.targets.lock();
        if let Some(running) = targets.get(&key).and_then(Weak::upgrade) {
            return EndpointWatch { receiver: running.receiver.clone(), source: Source::Cluster(running) };
        }
        let target = &key.1;
        let namespace = self.namespace(key.0, target.namespace().unwrap_or("default"), target.service());
        let running = Arc::new(Running::start(target, namespace, &self.shared.options));
        targets.retain(|_, it| it.strong_count() > 0);
        targets.insert(key, Arc::downgrade(&running));
        EndpointWatch { receiver: running.receiver.clone(), source: Source::Cluster(running) }
    }

    /// The client's own namespace, which targets without one are in.
    pub fn default_namespace(&self) -> &str {
        self.shared.client.default_namespace()
    }

    fn namespace(&self, runtime: runtime::Id, name: &str, service: &str) -> Arc<Namespace> {
        let mut namespaces = self.shared.namespaces.lock();
        namespaces.retain(|known, it| (known.0 == runtime && &*known.1 == name) || !it.is_empty());
        let refresh = self.shared.options.refresh_every;
        let make = |only: Option<&str>| Namespace::new(self.shared.client.clone(), name, only, refresh);
        namespaces.entry((runtime, name.into())).or_default().of(service, make)
    }

    /// Whether this is the same resolver, that is a clone of it.
    #[cfg(test)]
    pub(crate) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }

    pub(crate) fn downgrade(&self) -> WeakResolver {
        WeakResolver(Arc::downgrade(&self.shared))
    }
}

/// A resolver that is there as long as others have it.
#[derive(Clone)]
pub(crate) struct WeakResolver(Weak<Shared>);

impl WeakResolver {
    pub(crate) fn upgrade(&self) -> Option<Resolver> {
        self.0.upgrade().map(|shared| Resolver { shared })
    }
}

/// The endpoints of one target, now and as they change.
///
/// A clone watches independently. When the last one is dropped, the target is not followed any more.
#[derive(Clone)]
pub struct EndpointWatch {
    receiver: watch::Receiver<Arc<EndpointSet>>,
    source: Source,
}

/// Where the endpoints of a watch come from.
#[derive(Clone)]
enum Source {
    Cluster(Arc<Running>),
    Dns(Arc<DnsWatch>),
    /// The sender is the caller's, or gone.
    Other,
}

impl EndpointWatch {
    /// Endpoints that come from elsewhere than a cluster: a test, a file, another registry. Whoever sends them keeps the promises that
    /// [`EndpointSet`] makes.
    pub fn of(mut receiver: watch::Receiver<Arc<EndpointSet>>) -> Self {
        receiver.mark_changed();
        Self { receiver, source: Source::Other }
    }

    /// Endpoints that never change.
    pub fn fixed(set: EndpointSet) -> Self {
        Self::of(watch::channel(Arc::new(set)).1)
    }

    /// The addresses of a host at this port, by DNS, asked again every half minute.
    pub(crate) fn of_host(host: &str, port: u16) -> Self {
        let dns = DnsWatch::start(host, port);
        Self { receiver: dns.receiver(), source: Source::Dns(Arc::new(dns)) }
    }

    /// Where the sets come out, for a channel.
    pub(crate) fn receiver(&self) -> watch::Receiver<Arc<EndpointSet>> {
        self.receiver.clone()
    }

    /// The endpoints that are known now; of generation 0 until anything is.
    pub fn current(&self) -> Arc<EndpointSet> {
        Arc::clone(&self.receiver.borrow())
    }

    /// The next set that this watch has not given out here or by [`Self::known`]: at first what is known now, then every change, or
    /// the newest of several. `None` when there will be no more. It may be dropped at any time.
    pub async fn changed(&mut self) -> Option<Arc<EndpointSet>> {
        self.receiver.changed().await.ok()?;
        Some(Arc::clone(&self.receiver.borrow_and_update()))
    }

    /// Waits until anything is known, endpoints or why there are none, and gives it. It may be dropped at any time.
    pub async fn known(&mut self) -> Arc<EndpointSet> {
        // It fails when nobody sends any more; then the last set is all there is.
        let _ = self.receiver.wait_for(|it| it.is_known()).await;
        self.current()
    }

    /// Asks the server now whether there is something new, as one does when connections fail. It returns at once; a watch that is a few
    /// seconds old is as good as a new one, and one that waits after a failure goes on waiting.
    pub fn resolve_now(&self) {
        match &self.source {
            Source::Cluster(running) => running.namespace.renew(),
            Source::Dns(dns) => dns.renew(),
            Source::Other => {}
        }
    }

    /// What keeps the endpoints from being in step with the server now, in words; the last ones that were known stay meanwhile.
    pub fn problem(&self) -> Option<String> {
        match &self.source {
            Source::Cluster(running) => running.namespace.trouble().map(|it| it.text().to_owned()),
            Source::Dns(dns) => dns.problem(),
            Source::Other => None,
        }
    }
}

/// A target that is followed, as long as somebody has this.
struct Running {
    target: Target,
    namespace: Arc<Namespace>,
    receiver: watch::Receiver<Arc<EndpointSet>>,
    task: AbortHandle,
}

impl Running {
    fn start(target: &Target, namespace: Arc<Namespace>, options: &ResolverOptions) -> Self {
        let (sender, receiver) = watch::channel(Arc::default());
        let follower = Follower {
            bell: namespace.bell(target.service()),
            gauges: Gauges::new(target),
            target: target.clone(),
            namespace: Arc::clone(&namespace),
            topology: options.topology.clone(),
            prefer_ipv6: options.prefer_ipv6,
            sender,
        };
        let task = tokio::spawn(follower.run()).abort_handle();
        Self { target: target.clone(), namespace, receiver, task }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The task of one target.
struct Follower {
    target: Target,
    namespace: Arc<Namespace>,
    bell: Arc<Notify>,
    topology: Topology,
    prefer_ipv6: bool,
    gauges: Gauges,
    sender: watch::Sender<Arc<EndpointSet>>,
}

impl Follower {
    /// Looks, and looks again whenever the bell rings; it ends by being aborted.
    async fn run(self) {
        let mut confirmed = self.namespace.confirmed();
        self.gauges.confirmed(*confirmed.borrow_and_update());
        loop {
            let known = Arc::clone(&self.sender.borrow());
            let wishes =
                Wishes { topology: &self.topology, prefer_ipv6: self.prefer_ipv6, first: !known.is_known() };
            let until = match self.namespace.look(&self.target, wishes) {
                Look::Wait(until) => until,
                Look::Set(set, until) => {
                    self.gauges.found(&set);
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

    /// Waits until it is time to look again. Meanwhile the gauge of the last confirmation follows it.
    async fn wait(&self, until: Option<Instant>, confirmed: &mut watch::Receiver<u64>) {
        let now = self.namespace.confirmed();
        if !now.same_channel(confirmed) {
            // Endpoints are read in place of slices, or slices again.
            *confirmed = now;
            self.gauges.confirmed(*confirmed.borrow_and_update());
        }
        let until = at(until);
        tokio::pin!(until);
        loop {
            tokio::select! {
                () = self.bell.notified() => return,
                () = &mut until => return,
                Ok(()) = confirmed.changed() => self.gauges.confirmed(*confirmed.borrow_and_update()),
            }
        }
    }
}

/// Waits until then; for ever where there is no such time.
async fn at(time: Option<Instant>) {
    match time {
        Some(time) => tokio::time::sleep_until(time).await,
        None => std::future::pending().await,
    }
}

impl fmt::Debug for Resolver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let namespaces: Vec<_> = self.shared.namespaces.lock().keys().map(|it| Arc::clone(&it.1)).collect();
        f.debug_struct("Resolver")
            .field("options", &self.shared.options)
            .field("namespaces", &namespaces)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for EndpointWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let target = match &self.source {
            Source::Cluster(running) => Some(running.target.to_string()),
            Source::Dns(dns) => Some(format!("dns:///{}", dns.name())),
            Source::Other => None,
        };
        f.debug_struct("EndpointWatch").field("target", &target).field("current", &self.current()).finish()
    }
}
