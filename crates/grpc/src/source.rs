//! The endpoints of a target as they change: one watch of a namespace for all targets of a program that are in it.
//!
//! ```text
//! Resolver ─► one Namespace each (informers) ─► one task per target: look, compare, publish ─► EndpointWatch, any number
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
use tokio::sync::{Notify, watch};
use tokio::task::AbortHandle;
use tokio::time::Instant;

use crate::endpoints::EndpointSet;
use crate::gauges::Gauges;
use crate::namespace::{Look, Namespace, Wishes};
use crate::target::Target;
use crate::topology::Topology;

/// Finds the endpoints of targets. A clone is the same one: make one for a program, so that its channels share what is read.
///
/// It reads EndpointSlices (verbs list and watch) of the namespaces that targets are in, or Endpoints where slices are not served or
/// not allowed. It reads Services too, if it may, for targets with a number for a port and to say why an answer is empty.
/// When the last watch of a namespace is dropped, nothing of it is read any more.
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

struct Shared {
    client: Client,
    options: ResolverOptions,
    namespaces: Mutex<HashMap<Arc<str>, Weak<Namespace>>>,
    targets: Mutex<HashMap<Target, Weak<Running>>>,
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

    /// Reads everything again this often, at most once a minute. The watch tells of every change without it; kuberesolver does it
    /// every half hour.
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

    /// Follows the endpoints of a target; where it says no namespace, in the client's own: the pod's, or the kubeconfig's. Who
    /// asks for the same target shares one watch.
    ///
    /// # Panics
    /// When it is called outside of a tokio runtime.
    pub fn watch(&self, target: &Target) -> EndpointWatch {
        let target = target.clone().or_namespace(self.shared.client.default_namespace());
        let mut targets = self.shared.targets.lock();
        if let Some(running) = targets.get(&target).and_then(Weak::upgrade) {
            return EndpointWatch { receiver: running.receiver.clone(), running: Some(running) };
        }
        let namespace = self.namespace(target.namespace().unwrap_or("default"));
        let running = Arc::new(Running::start(&target, namespace, &self.shared.options));
        targets.retain(|_, it| it.strong_count() > 0);
        targets.insert(target, Arc::downgrade(&running));
        EndpointWatch { receiver: running.receiver.clone(), running: Some(running) }
    }

    /// The client's own namespace, which targets without one are in.
    pub fn default_namespace(&self) -> &str {
        self.shared.client.default_namespace()
    }

    fn namespace(&self, name: &str) -> Arc<Namespace> {
        let mut namespaces = self.shared.namespaces.lock();
        if let Some(known) = namespaces.get(name).and_then(Weak::upgrade) {
            return known;
        }
        let refresh = self.shared.options.refresh_every;
        let namespace = Arc::new(Namespace::new(self.shared.client.clone(), name, refresh));
        namespaces.retain(|_, it| it.strong_count() > 0);
        namespaces.insert(name.into(), Arc::downgrade(&namespace));
        namespace
    }
}

/// The endpoints of one target, now and as they change.
///
/// A clone watches independently. When the last one is dropped, the target is not followed any more.
#[derive(Clone)]
pub struct EndpointWatch {
    receiver: watch::Receiver<Arc<EndpointSet>>,
    /// `None`: somebody else's endpoints.
    running: Option<Arc<Running>>,
}

impl EndpointWatch {
    /// Endpoints that come from elsewhere than a cluster: a test, a file, another registry. Whoever sends them keeps the promises that
    /// [`EndpointSet`] makes.
    pub fn of(mut receiver: watch::Receiver<Arc<EndpointSet>>) -> Self {
        receiver.mark_changed();
        Self { receiver, running: None }
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
        if let Some(running) = &self.running {
            running.namespace.renew();
        }
    }

    /// What keeps the endpoints from being in step with the server now, in words; the last ones that were known stay meanwhile.
    pub fn problem(&self) -> Option<String> {
        let trouble = self.running.as_ref()?.namespace.trouble()?;
        Some(trouble.text().to_owned())
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
        loop {
            let known = Arc::clone(&self.sender.borrow());
            let wishes =
                Wishes { topology: &self.topology, prefer_ipv6: self.prefer_ipv6, first: !known.is_known() };
            let until = match self.namespace.look(&self.target, wishes) {
                Look::Wait(until) => until,
                Look::Set(set) => {
                    self.gauges.found(&set);
                    if let Some(next) = next(&known, set) {
                        tracing::debug!(
                            target = %self.target, generation = next.generation, endpoints = next.endpoints.len(),
                            usable = next.usable().count(), "endpoints changed"
                        );
                        self.sender.send_replace(Arc::new(next));
                    }
                    None
                }
            };
            tokio::select! {
                () = self.bell.notified() => {}
                () = at(until) => {}
            }
        }
    }
}

/// The set to publish, where it differs from the one before. An endpoint that is as it was is the same `Arc`.
fn next(known: &EndpointSet, mut set: EndpointSet) -> Option<EndpointSet> {
    if known.is_known() && known.endpoints == set.endpoints && known.unavailable == set.unavailable {
        return None;
    }
    for endpoint in &mut set.endpoints {
        let at = known.endpoints.binary_search_by(|it| it.id.cmp(&endpoint.id));
        if let Some(same) = at.ok().map(|at| &known.endpoints[at]).filter(|it| *it == endpoint) {
            *endpoint = Arc::clone(same);
        }
    }
    set.generation = known.generation + 1;
    Some(set)
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
        let namespaces: Vec<_> = self.shared.namespaces.lock().keys().cloned().collect();
        f.debug_struct("Resolver")
            .field("options", &self.shared.options)
            .field("namespaces", &namespaces)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for EndpointWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let target = self.running.as_ref().map(|it| it.target.to_string());
        f.debug_struct("EndpointWatch").field("target", &target).field("current", &self.current()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::endpoints::{Endpoint, EndpointId, Unavailable};

    fn set(ids: &[(&str, bool)]) -> EndpointSet {
        let endpoint = |(id, ready): &(&str, bool)| {
            Arc::new(Endpoint {
                id: EndpointId::new(*id),
                addresses: vec![([127, 0, 0, 1], 80).into()],
                usable: *ready,
                ready: *ready,
                serving: *ready,
                terminating: false,
                zone: None,
                node: None,
                pod: None,
                weight: 1,
            })
        };
        EndpointSet { endpoints: ids.iter().map(endpoint).collect(), ..EndpointSet::default() }
    }

    #[test]
    fn only_a_set_that_differs_is_published_and_what_stays_is_the_same() {
        let first = next(&EndpointSet::default(), set(&[("a", true), ("b", true)])).expect("the first one");
        assert_eq!(first.generation, 1);
        assert_eq!(next(&first, set(&[("a", true), ("b", true)])), None);
        let second =
            next(&first, set(&[("a", true), ("b", false), ("c", true)])).expect("b is not ready any more");
        assert_eq!(second.generation, 2);
        assert!(Arc::ptr_eq(&first.endpoints[0], &second.endpoints[0]));
        assert!(!Arc::ptr_eq(&first.endpoints[1], &second.endpoints[1]));
        let none = EndpointSet { unavailable: Some(Unavailable::NoEndpoints), ..EndpointSet::default() };
        assert_eq!(next(&second, none.clone()).map(|it| it.generation), Some(3));
        let first = next(&EndpointSet::default(), none).expect("that there is nothing is news");
        assert!(first.is_known());
    }
}
