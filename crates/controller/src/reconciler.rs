//! The reconciler: a function, written by the user, from a key to an action; and the context of a
//! call.

use parking_lot::Mutex;
use std::any::Any;
use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::sync::Arc;

use dogwatch_core::{Gvk, Header, Object, ObjectKey, ResourceVersion, View};
use futures_core::future::BoxFuture;
use kube_core::Resource;

use crate::action::{Action, BoxError, Failure};
use crate::causes::Causes;

/// The bounds on the key of a controller. Implemented for every type that meets them.
///
/// ```
/// use dogwatch_controller::{Action, BoxError, Context, Controller};
///
/// // Any type with the bounds is a key: here, a zone and a number.
/// type Shard = (String, u32);
/// let controller = Controller::with_keys::<Shard>("shards")
///     .build(|_: Shard, _: Context| async { Ok::<_, BoxError>(Action::Done) });
/// assert_eq!(controller.name(), "shards");
/// ```
pub trait Key: Eq + std::hash::Hash + Clone + fmt::Debug + Send + Sync + 'static {}

impl<K: Eq + std::hash::Hash + Clone + fmt::Debug + Send + Sync + 'static> Key for K {}

/// Brings the object behind one key to its desired state.
///
/// A reconciler receives a key, not a change: it reads the current state, compares it with the
/// desired state, and changes what differs. It must be idempotent, since changes are merged and
/// failures are retried.
///
/// - Calls for one key never overlap; calls for different keys do, up to the number of workers.
/// - The future of a call is dropped at its current `await` when the controller's timeout expires,
///   when the grace period of a shutdown ends, and when leadership is lost.
/// - A call that panics is reported and retried like one that failed.
///
/// Implement it with `async fn reconcile`, and keep its dependencies in `self`; or pass a closure
/// that takes the key and the context by value and returns a future.
///
/// ```
/// use dogwatch_controller::{Action, BoxError, Context, Reconciler, Terminal};
/// use dogwatch_core::ObjectKey;
/// use dogwatch_informer::Lister;
/// use k8s_openapi::api::core::v1::Service;
///
/// struct Greeter { services: Lister<Service> }
///
/// impl Reconciler for Greeter {
///     type Error = BoxError;
///
///     async fn reconcile(&self, key: &ObjectKey, _: &Context) -> Result<Action, BoxError> {
///         let Some(service) = self.services.get(key) else { return Ok(Action::Done) };
///         if service.spec.is_none() {
///             return Err(Terminal::new("a service without a spec").into());
///         }
///         Ok(Action::Done)
///     }
/// }
/// ```
pub trait Reconciler<K = ObjectKey>: Send + Sync + 'static {
    /// The error type: any error, [`BoxError`] or `anyhow::Error`. An error is retried unless there
    /// is a [`Terminal`](crate::Terminal) in its source chain.
    type Error: Into<BoxError>;

    /// Brings the object behind this key to its desired state.
    fn reconcile(
        &self,
        key: &K,
        context: &Context,
    ) -> impl Future<Output = Result<Action, Self::Error>> + Send;
}

impl<K, F, W, E> Reconciler<K> for F
where
    K: Key,
    F: Fn(K, Context) -> W + Send + Sync + 'static,
    W: Future<Output = Result<Action, E>> + Send,
    E: Into<BoxError>,
{
    type Error = E;

    fn reconcile(&self, key: &K, context: &Context) -> impl Future<Output = Result<Action, E>> + Send {
        self(key.clone(), context.clone())
    }
}

/// A reconciler of any type. A controller is compiled once for each type of keys, and not for each
/// reconciler; a reconcile costs one allocation more.
pub(crate) struct BoxedReconciler<K>(Box<dyn DynReconciler<K>>);

trait DynReconciler<K>: Send + Sync {
    fn reconcile<'a>(&'a self, key: &'a K, context: &'a Context) -> BoxFuture<'a, Result<Action, Failure>>;
}

impl<K: Key, R: Reconciler<K>> DynReconciler<K> for R {
    fn reconcile<'a>(&'a self, key: &'a K, context: &'a Context) -> BoxFuture<'a, Result<Action, Failure>> {
        Box::pin(async move {
            Reconciler::reconcile(self, key, context).await.map_err(|it| Failure::new(it.into()))
        })
    }
}

impl<K: Key> BoxedReconciler<K> {
    pub(crate) fn new(reconciler: impl Reconciler<K>) -> Self {
        Self(Box::new(reconciler))
    }

    pub(crate) fn reconcile<'a>(
        &'a self,
        key: &'a K,
        context: &'a Context,
    ) -> BoxFuture<'a, Result<Action, Failure>> {
        self.0.reconcile(key, context)
    }
}

/// The context of one reconcile: its metadata, and the means to report writes. Clones refer to the
/// same reconcile.
///
/// ```
/// use dogwatch_controller::{Action, BoxError, Context, Reconciler};
/// use dogwatch_core::ObjectKey;
///
/// struct Patient;
/// impl Reconciler for Patient {
///     type Error = BoxError;
///
///     async fn reconcile(&self, key: &ObjectKey, context: &Context) -> Result<Action, BoxError> {
///         println!("{key}, after {} failures", context.attempt());
///         Ok(Action::Done)
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// // A test calls the reconciler without a controller.
/// let key = ObjectKey::namespaced("default", "settings");
/// let action = Patient.reconcile(&key, &Context::detached()).await;
/// assert_eq!(action.ok(), Some(Action::Done));
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Context {
    call: Arc<Call>,
    causes: Causes,
}

struct Call {
    controller: Arc<str>,
    id: u64,
    attempt: u32,
    priority: i32,
    /// The kinds that the controller watches, in the order of its sources.
    kinds: Arc<[Gvk]>,
    concerns: Concerns,
    writes: Mutex<Vec<Write>>,
}

/// Returns true if the source with this index maps an object to the key of this call, or `None` if
/// that is unknown because the source has another object type.
pub(crate) type Concerns = Box<dyn Fn(usize, &dyn Any) -> Option<bool> + Send + Sync>;

/// A write by a reconcile that a source of its controller will show.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Write {
    /// The index of the source in the controller.
    pub(crate) source: usize,
    pub(crate) version: ResourceVersion,
    /// `None` if the reconciler reported only a version.
    pub(crate) object: Option<Arc<Written>>,
    /// True if the source maps the written object to the key; `None` if unknown.
    pub(crate) concerns: Option<bool>,
}

/// The parts of a written object that decide if and where a cache shows it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Written {
    pub(crate) key: ObjectKey,
    pub(crate) uid: String,
    pub(crate) version: ResourceVersion,
    /// `None` if the reconciler has read the object without them.
    pub(crate) labels: Option<BTreeMap<String, String>>,
}

impl Written {
    fn new(header: &Header<'_>, has_labels: bool) -> Option<Self> {
        let labels: BTreeMap<_, _> =
            header.labels.iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
        let labels = (has_labels || !labels.is_empty()).then_some(labels);
        let version = ResourceVersion::new(header.version);
        Some(Self { key: header.key()?, uid: header.uid.to_owned(), version, labels })
    }
}

impl Context {
    pub(crate) fn new(
        controller: &Arc<str>,
        kinds: &Arc<[Gvk]>,
        attempt: u32,
        priority: i32,
        concerns: Concerns,
    ) -> Self {
        let call = Call {
            controller: Arc::clone(controller),
            id: rand::random(),
            attempt,
            priority,
            kinds: Arc::clone(kinds),
            concerns,
            writes: Mutex::default(),
        };
        Self { call: Arc::new(call), causes: Causes::default() }
    }

    /// Returns a context outside of any controller, for calling a reconciler from a test. Reported
    /// writes have no effect in it, and it has no causes; [`with_causes`](Self::with_causes) sets
    /// some.
    pub fn detached() -> Self {
        Self::new(&"detached".into(), &[].into(), 0, 0, Box::new(|_, _| None))
    }

    /// Returns the name of the controller.
    pub fn controller(&self) -> &str {
        &self.call.controller
    }

    /// Returns the identifier of this call in logs and traces; it differs for each call.
    pub fn reconcile_id(&self) -> u64 {
        self.call.id
    }

    /// Returns the number of consecutive failed calls for this key before this one.
    pub fn attempt(&self) -> u32 {
        self.call.attempt
    }

    /// Returns the priority with which the key was taken from the queue.
    pub fn priority(&self) -> i32 {
        self.call.priority
    }

    /// Returns the causes of this reconcile: which objects, streams, failures or requeues queued
    /// the key since its last reconcile. They are also the field `causes` of the tracing span of
    /// the reconcile.
    ///
    /// Use them for logs and events, or to skip work that only some causes need. The desired state
    /// must not depend on them: after a restart, the cause of every key is the initial list.
    ///
    /// ```
    /// use dogwatch_client::Api;
    /// use dogwatch_controller::{Action, BoxError, Context, Controller};
    /// use dogwatch_core::ObjectKey;
    /// use dogwatch_informer::SharedInformer;
    /// use k8s_openapi::api::core::v1::ConfigMap;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let builder = dogwatch_apiserver::ApiServer::builder().in_process();
    /// # let yaml = "{apiVersion: v1, kind: ConfigMap, metadata: {name: settings}}";
    /// # let server = builder.yaml(yaml).start().await?;
    /// # let url = server.url().parse()?;
    /// # let client = dogwatch_client::Client::from_service(url, "default", server.service());
    /// # let (sender, mut shown) = tokio::sync::mpsc::unbounded_channel();
    /// let maps = SharedInformer::new(Api::<ConfigMap>::namespaced(client, "default"));
    /// let controller = Controller::of(&maps).build(move |key: ObjectKey, context: Context| {
    ///     let sent = sender.send(format!("{key}: {}", context.causes()));
    ///     async move {
    ///         sent?;
    ///         Ok::<_, BoxError>(Action::Done)
    ///     }
    /// });
    /// # let expected = "default/settings: configmap default/settings in the initial list";
    /// # let stop = async { while shown.recv().await.expect("it runs") != expected {} };
    /// controller.run(stop).await?; // "default/settings: configmap default/settings in the initial list"
    /// # Ok(())
    /// # }
    /// ```
    pub fn causes(&self) -> &Causes {
        &self.causes
    }

    /// Returns the context with other causes, for calling a reconciler from a test.
    ///
    /// ```
    /// use dogwatch_controller::{Cause, Context};
    ///
    /// let context = Context::detached().with_causes(Cause::Retry("connection refused".into()).into());
    /// assert_eq!(context.causes().to_string(), "retry after: connection refused");
    /// assert_eq!(Context::detached().causes().count(), 0);
    /// ```
    #[must_use]
    pub fn with_causes(mut self, causes: Causes) -> Self {
        self.causes = causes;
        self
    }

    /// Reports the server's response to a write: the whole object or a view of it. The next
    /// reconcile of this key then waits until the cache shows that state or a later one, so that it
    /// does not undo or repeat the write.
    ///
    /// The report applies to every source of the controller that has the same group and kind and
    /// can contain the object by its namespaces and selectors; if there is none, it has no effect.
    /// It takes effect when it is called, also if the reconcile fails afterwards. If a cache has
    /// reached that version and does not contain the object, because another client has meanwhile
    /// deleted it or changed its owner, the key is reconciled once more, even if the cache never
    /// saw the object and so no event reported it. A source that maps the object only to other keys
    /// is waited for but never causes such a call.
    pub fn wrote<T: View>(&self, object: &T) {
        let kind = Gvk::new(&T::Of::group(&()), &T::Of::version(&()), &T::Of::kind(&()));
        // A view may omit the labels: an empty set then says nothing about the object.
        let is_whole = std::any::type_name::<T>() == std::any::type_name::<T::Of>();
        self.push(&kind, &object.version(), Some(object), Written::new(&object.header(), is_whole));
    }

    /// Like [`Self::wrote`], for an object whose kind is known only at run time. The version of the
    /// kind is ignored.
    pub fn wrote_object<T: Object>(&self, kind: &Gvk, object: &T) {
        self.push(kind, &object.version(), Some(object), Written::new(&object.header(), true));
    }

    /// Like [`Self::wrote`], if only the version of the written object is known. The key waits for
    /// the sources of the kind as a whole, which takes longer if one of their namespaces is quiet
    /// or their selectors exclude the object. The version of the kind is ignored.
    pub fn wrote_version(&self, kind: &Gvk, version: ResourceVersion) {
        self.push(kind, &version, None, None);
    }

    fn push(&self, kind: &Gvk, version: &ResourceVersion, state: Option<&dyn Any>, object: Option<Written>) {
        if !version.is_exact() {
            return;
        }
        let object = object.map(Arc::new);
        let is_shown = |it: &Gvk| it.group == kind.group && it.kind == kind.kind;
        for (source, _) in self.call.kinds.iter().enumerate().filter(|(_, it)| is_shown(it)) {
            // Called outside the lock: it runs the user's function that maps objects to keys.
            let concerns = state.and_then(|it| (self.call.concerns)(source, it));
            let write = Write { source, version: version.clone(), object: object.clone(), concerns };
            self.call.writes.lock().push(write);
        }
    }

    /// Takes the writes reported since the last call.
    pub(crate) fn take_writes(&self) -> Vec<Write> {
        std::mem::take(&mut *self.call.writes.lock())
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context")
            .field("controller", &self.controller())
            .field("reconcile_id", &format_args!("{:016x}", self.reconcile_id()))
            .field("attempt", &self.attempt())
            .field("priority", &self.priority())
            .field("causes", &format_args!("{}", self.causes))
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{ConfigMap, Pod};

    use super::*;
    use crate::action::Terminal;

    #[tokio::test]
    async fn a_closure_with_any_error_type_is_a_reconciler() {
        async fn call<K: Key>(reconciler: impl Reconciler<K>, key: K) -> Result<Action, String> {
            let outcome = reconciler.reconcile(&key, &Context::detached()).await;
            outcome.map_err(|it| it.into().to_string())
        }
        let good = |key: u32, _: Context| async move {
            if key > 3 { Err(Terminal::new("too large")) } else { Ok(Action::Done) }
        };
        assert_eq!(call(good, 1).await, Ok(Action::Done));
        assert_eq!(call(good, 4).await, Err("too large".to_owned()));
        let bad = |key: &'static str, _: Context| async move { key.parse::<u8>().map(|_| Action::Done) };
        assert_eq!(call(bad, "7").await, Ok(Action::Done));
        assert!(call(bad, "x").await.is_err());
    }

    #[test]
    fn a_write_applies_to_the_sources_of_its_kind_in_any_version() {
        let kinds = ["v1/Pod", "v2/ConfigMap", "apps/v1/Pod", "v1/ConfigMap"].map(|it| {
            let (group_version, kind) = it.rsplit_once('/').expect("each has a slash");
            Gvk::from_api_version(group_version, kind)
        });
        let context = Context::new(&"test".into(), &kinds.into(), 0, 0, Box::new(|_, _| None));
        let mut map = ConfigMap::default();
        context.wrote(&map);
        assert_eq!(context.take_writes(), [], "an object without a version was not written");
        map.metadata.resource_version = Some("7".to_owned());
        context.wrote(&map);
        assert!(
            context.take_writes().iter().all(|it| it.object.is_none()),
            "an object without a name is identified by its version"
        );
        map.metadata.name = Some("a".to_owned());
        context.wrote(&map);
        let mut pod = Pod::default();
        pod.metadata.resource_version = Some("8".to_owned());
        context.wrote(&pod);
        let places: Vec<_> =
            context.take_writes().into_iter().map(|it| (it.source, it.version.to_string())).collect();
        assert_eq!(places, [(1, "7".to_owned()), (3, "7".to_owned()), (0, "8".to_owned())]);
        assert_eq!(context.take_writes(), []);
    }
}
