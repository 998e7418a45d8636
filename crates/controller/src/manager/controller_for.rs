//! The short way to a controller: the manager supplies the informers, and a function receives the
//! object.

use std::fmt;
use std::future::Future;
use std::sync::Arc;

use dogwatch_client::api::StaticScope;
use dogwatch_core::{Object, ObjectKey, View};
use dogwatch_informer::{SharedInformer, Store};
use kube_core::Resource;

use super::manager::Manager;
use crate::action::{Action, BoxError};
use crate::controller::{Controller, ControllerBuilder};
use crate::reconciler::{Context, Reconciler};
use crate::source::Owned;

/// Builds a controller for the objects of one type over the informers of a [`Manager`].
///
/// Created by [`Manager::controller_for`].
///
/// ```
/// use std::sync::Arc;
///
/// use dogwatch_controller::{Action, BoxError, Context, Manager};
/// use k8s_openapi::api::core::v1::ConfigMap;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let builder = dogwatch_apiserver::ApiServer::builder().in_process();
/// # let yaml = "{apiVersion: v1, kind: ConfigMap, metadata: {name: settings}}";
/// # let server = builder.yaml(yaml).start().await?;
/// # let url = server.url().parse()?;
/// # let client = dogwatch_client::Client::from_service(url, "default", server.service());
/// let (names, mut reconciled) = tokio::sync::mpsc::unbounded_channel();
/// let manager = Manager::new(client);
/// let controller = manager
///     .controller_for::<ConfigMap>()
///     .configure(|it| it.workers(2))
///     .reconcile(move |map: Arc<ConfigMap>, _: Context| {
///         let _ = names.send(map.metadata.name.clone());
///         async { Ok::<_, BoxError>(Action::Done) }
///     });
/// let settings = Some(Some("settings".to_owned()));
/// let stop = async move { while reconciled.recv().await != settings {} };
/// manager.controller(controller).run_until(stop).await?;
/// # Ok(())
/// # }
/// ```
#[must_use]
pub struct ControllerFor<'m, T: Object> {
    manager: &'m Manager,
    informer: SharedInformer<T>,
    builder: ControllerBuilder<ObjectKey>,
}

impl Manager {
    /// Starts to build a controller for the objects of a type, whose informer the manager supplies.
    ///
    /// The reconciler is a function of the object, so that the smallest controller is short:
    ///
    /// ```
    /// use std::sync::Arc;
    ///
    /// use dogwatch_client::Client;
    /// use dogwatch_controller::{Action, Context, Manager};
    /// use k8s_openapi::api::core::v1::{ConfigMap, Pod};
    ///
    /// struct State {
    ///     client: Client,
    /// }
    ///
    /// async fn reconcile(map: Arc<ConfigMap>, _: Context, state: Arc<State>) -> anyhow::Result<Action> {
    ///     println!("{:?}, with {:?}", map.metadata.name, state.client);
    ///     Ok(Action::Done)
    /// }
    ///
    /// # async fn example(client: Client) -> anyhow::Result<()> {
    /// let manager = Manager::new(client.clone());
    /// let controller = manager.controller_for::<ConfigMap>().owns::<Pod>().reconcile_with(State { client }, reconcile);
    /// manager.controller(controller).run().await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// A controller that must act when an object is gone uses a [finalizer](crate::Finalizer), or a
    /// [`Reconciler`] that receives the key, with [`Controller::of`].
    pub fn controller_for<T: View>(&self) -> ControllerFor<'_, T>
    where
        <T::Of as Resource>::Scope: StaticScope,
    {
        let informer = self.informer::<T>();
        let builder = Controller::of(&informer);
        ControllerFor { manager: self, informer, builder }
    }
}

impl<T: View> ControllerFor<'_, T> {
    /// Also reconciles an object when an object of another type that it controls changes.
    ///
    /// See [`ControllerBuilder::owns`].
    pub fn owns<C: View + Owned>(mut self) -> Self
    where
        <C::Of as Resource>::Scope: StaticScope,
    {
        self.builder = self.builder.owns(&self.manager.informer::<C>());
        self
    }

    /// Also reconciles the keys that the function returns for a changed object of another type.
    ///
    /// See [`ControllerBuilder::watches`].
    pub fn watches<C: View, I>(mut self, keys: impl Fn(&C) -> I + Send + Sync + 'static) -> Self
    where
        <C::Of as Resource>::Scope: StaticScope,
        I: IntoIterator<Item = ObjectKey>,
    {
        self.builder = self.builder.watches(&self.manager.informer::<C>(), keys);
        self
    }

    /// Changes any other setting of the controller, for example the number of workers:
    /// `.configure(|it| it.workers(4))`.
    pub fn configure(
        mut self,
        change: impl FnOnce(ControllerBuilder<ObjectKey>) -> ControllerBuilder<ObjectKey>,
    ) -> Self {
        self.builder = change(self.builder);
        self
    }

    /// Builds the controller from a function of the object and the context.
    ///
    /// The object is the newest state in the cache. The function is not called for objects that no
    /// longer exist. All other rules are those of [`Reconciler::reconcile`].
    pub fn reconcile<F, W, E>(self, reconcile: F) -> Controller
    where
        F: Fn(Arc<T>, Context) -> W + Send + Sync + 'static,
        W: Future<Output = Result<Action, E>> + Send,
        E: Into<BoxError> + 'static,
    {
        self.builder.build(ObjectReconciler { store: self.informer.store(), reconcile })
    }

    /// Builds the controller from a function of the object, the context and some state, which all
    /// calls share.
    pub fn reconcile_with<S, F, W, E>(self, state: S, reconcile: F) -> Controller
    where
        S: Send + Sync + 'static,
        F: Fn(Arc<T>, Context, Arc<S>) -> W + Send + Sync + 'static,
        W: Future<Output = Result<Action, E>> + Send,
        E: Into<BoxError> + 'static,
    {
        let state = Arc::new(state);
        self.reconcile(move |object, context| reconcile(object, context, Arc::clone(&state)))
    }
}

impl<T: Object> fmt::Debug for ControllerFor<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ControllerFor").field("builder", &self.builder).finish_non_exhaustive()
    }
}

/// A reconciler that looks the object up and calls a function with it.
struct ObjectReconciler<T: Object, F> {
    store: Store<T>,
    reconcile: F,
}

impl<T, F, W, E> Reconciler for ObjectReconciler<T, F>
where
    T: View,
    F: Fn(Arc<T>, Context) -> W + Send + Sync + 'static,
    W: Future<Output = Result<Action, E>> + Send,
    E: Into<BoxError> + 'static,
{
    type Error = E;

    async fn reconcile(&self, key: &ObjectKey, context: &Context) -> Result<Action, E> {
        match self.store.get(key) {
            Some(object) => (self.reconcile)(object, context.clone()).await,
            None => Ok(Action::Done),
        }
    }
}
