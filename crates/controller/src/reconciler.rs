//! What a user writes: a function from a key to an action, and what it is told besides the key.

use std::fmt;
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};

use dogwatch_core::{Gvk, ObjectKey, ResourceVersion, View};
use kube_core::Resource;

use crate::action::{Action, ReconcileError};

/// What keys must be able to do. Everything that can, is one.
pub trait Key: Eq + std::hash::Hash + Clone + fmt::Debug + Send + Sync + 'static {}

impl<K: Eq + std::hash::Hash + Clone + fmt::Debug + Send + Sync + 'static> Key for K {}

/// Brings what one key stands for to where it should be.
///
/// It is told a key and not what happened: it reads the state, compares it with what should be, and changes what differs. It must
/// come to the same however often it is called, since changes are merged and failures tried again.
///
/// - Calls for one key never overlap; calls for different keys do, up to the number of workers.
/// - A call whose future is dropped ends at the `await` it is at: at the timeout of the controller, at the end of the grace period of a
///   shutdown, and when leadership is lost.
/// - A call that panics is reported and tried again as one that failed.
///
/// Implement it with `async fn reconcile`, and keep what it needs in `self`; or pass a closure that takes the key and the context by
/// value and returns a future.
///
/// ```
/// use dogwatch_controller::{Action, Context, ReconcileError, Reconciler};
/// use dogwatch_core::ObjectKey;
/// use dogwatch_informer::Lister;
/// use k8s_openapi::api::core::v1::Service;
///
/// struct Greeter { services: Lister<Service> }
///
/// impl Reconciler for Greeter {
///     type Error = ReconcileError;
///
///     async fn reconcile(&self, key: &ObjectKey, _: &Context) -> Result<Action, ReconcileError> {
///         let Ok(service) = self.services.get(key) else { return Ok(Action::Done) };
///         if service.spec.is_none() {
///             return Err(ReconcileError::terminal("a service without a spec"));
///         }
///         Ok(Action::Done)
///     }
/// }
/// ```
pub trait Reconciler<K = ObjectKey>: Send + Sync + 'static {
    /// How it fails: any error, or [`ReconcileError`] to say that some failures are terminal.
    type Error: Into<ReconcileError>;

    /// Brings what this key stands for to where it should be.
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
    E: Into<ReconcileError>,
{
    type Error = E;

    fn reconcile(&self, key: &K, context: &Context) -> impl Future<Output = Result<Action, E>> + Send {
        self(key.clone(), context.clone())
    }
}

/// What a reconcile is told besides its key, and what it may tell. Clones are of the same reconcile.
#[derive(Clone)]
pub struct Context {
    call: Arc<Call>,
}

struct Call {
    controller: Arc<str>,
    id: u64,
    attempt: u32,
    priority: i32,
    /// The kinds the controller watches, in the order of its sources.
    kinds: Arc<[Gvk]>,
    writes: Mutex<Vec<Write>>,
}

/// Something a reconcile wrote that a source of its controller will show.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Write {
    /// The place of the source among those of the controller.
    pub(crate) source: usize,
    pub(crate) version: ResourceVersion,
}

impl Context {
    pub(crate) fn new(controller: &Arc<str>, kinds: &Arc<[Gvk]>, attempt: u32, priority: i32) -> Self {
        let call = Call {
            controller: Arc::clone(controller),
            id: rand::random(),
            attempt,
            priority,
            kinds: Arc::clone(kinds),
            writes: Mutex::default(),
        };
        Self { call: Arc::new(call) }
    }

    /// A context outside of any controller, to call a reconciler from a test. What is written is of no consequence in it.
    pub fn detached() -> Self {
        Self::new(&"detached".into(), &[].into(), 0, 0)
    }

    /// The name of the controller.
    pub fn controller(&self) -> &str {
        &self.call.controller
    }

    /// Names this call in logs and traces; each call has another.
    pub fn reconcile_id(&self) -> u64 {
        self.call.id
    }

    /// How many calls for this key failed in a row before this one.
    pub fn attempt(&self) -> u32 {
        self.call.attempt
    }

    /// The priority with which the key was taken from the queue.
    pub fn priority(&self) -> i32 {
        self.call.priority
    }

    /// This is what the server answered to a write, be it the whole object or a view of it. The next reconcile of this key then waits
    /// until the cache shows it or something later, so that it does not undo or repeat what was done already.
    ///
    /// It concerns every source of the controller that is of the same group and kind; where there is none it does nothing. It counts
    /// from the moment it is called, also when the reconcile fails after it.
    pub fn wrote<T: View>(&self, object: &T) {
        let kind = Gvk::new(&T::Of::group(&()), &T::Of::version(&()), &T::Of::kind(&()));
        self.wrote_version(&kind, object.version());
    }

    /// [`Self::wrote`] for a kind that is known only at run time. The version of the kind is of no matter.
    pub fn wrote_version(&self, kind: &Gvk, version: ResourceVersion) {
        if !version.is_exact() {
            return;
        }
        let mut writes = self.call.writes.lock().unwrap_or_else(PoisonError::into_inner);
        for (source, it) in self.call.kinds.iter().enumerate() {
            if it.group == kind.group && it.kind == kind.kind {
                writes.push(Write { source, version: version.clone() });
            }
        }
    }

    /// What was written so far and not taken yet.
    pub(crate) fn take_writes(&self) -> Vec<Write> {
        std::mem::take(&mut *self.call.writes.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context")
            .field("controller", &self.controller())
            .field("reconcile_id", &format_args!("{:016x}", self.reconcile_id()))
            .field("attempt", &self.attempt())
            .field("priority", &self.priority())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{ConfigMap, Pod};

    use super::*;

    #[tokio::test]
    async fn a_closure_is_a_reconciler_whatever_its_error_is() {
        async fn call<K: Key>(reconciler: impl Reconciler<K>, key: K) -> Result<Action, String> {
            let outcome = reconciler.reconcile(&key, &Context::detached()).await;
            outcome.map_err(|it| it.into().to_string())
        }
        let good = |key: u32, _: Context| async move {
            if key > 3 { Err(ReconcileError::terminal("too large")) } else { Ok(Action::Done) }
        };
        assert_eq!(call(good, 1).await, Ok(Action::Done));
        assert_eq!(call(good, 4).await, Err("too large".to_owned()));
        let bad = |key: &'static str, _: Context| async move { key.parse::<u8>().map(|_| Action::Done) };
        assert_eq!(call(bad, "7").await, Ok(Action::Done));
        assert!(call(bad, "x").await.is_err());
    }

    #[test]
    fn a_write_concerns_the_sources_of_its_kind_in_any_version() {
        let kinds = ["v1/Pod", "v2/ConfigMap", "apps/v1/Pod", "v1/ConfigMap"].map(|it| {
            let (group_version, kind) = it.rsplit_once('/').expect("written so");
            Gvk::from_api_version(group_version, kind)
        });
        let context = Context::new(&"test".into(), &kinds.into(), 0, 0);
        let mut map = ConfigMap::default();
        context.wrote(&map);
        assert_eq!(context.take_writes(), [], "what has no version was not written");
        map.metadata.resource_version = Some("7".to_owned());
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
