//! Finalizers: the server keeps a deleted object until the controller has cleaned up after it.
//!
//! ```text
//! phase(object): deleting, finalizer present  ──► CleanUp ──your clean-up──► done(object)
//!                deleting, finalizer absent   ──► Ignored
//!                live, finalizer absent       ──► (added) ──► Live
//!                live, finalizer present      ──► Live
//! ```
//!
//! The object may come from a stale cache. Every write names the version that it is based on; if
//! that is not the newest one, the object is read from the server and evaluated again. So the
//! finalizer is never added to an object that is being deleted, nor to a new object of the same
//! name.

use std::sync::Arc;

use dogwatch_client::api::{ConflictRetries, Patch};
use dogwatch_client::{Api, Error};
use dogwatch_core::{ObjectKey, PatchParams, names};
use kube_core::Resource;
use serde::de::DeserializeOwned;
use serde_json::json;

use crate::reconciler::Context;

/// A finalizer on the objects of one kind.
///
/// ```
/// use dogwatch_client::Api;
/// use dogwatch_controller::finalizer::Phase;
/// use dogwatch_controller::{Context, Finalizer};
/// use dogwatch_core::DeleteParams;
/// use k8s_openapi::api::core::v1::ConfigMap;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let builder = dogwatch_apiserver::ApiServer::builder().in_process();
/// # let yaml = "{apiVersion: v1, kind: ConfigMap, metadata: {name: settings}}";
/// # let server = builder.yaml(yaml).start().await?;
/// # let url = server.url().parse()?;
/// # let client = dogwatch_client::Client::from_service(url, "default", server.service());
/// let maps = Api::<ConfigMap>::default_namespaced(client);
/// let finalizer = Finalizer::new(Api::all(maps.client().clone()), "example.com/cleanup")?;
/// let context = Context::detached(); // in a reconciler: the one it receives
/// let phase = finalizer.phase(maps.get("settings").await?, &context).await?;
/// assert!(matches!(phase, Phase::Live(map) if finalizer.is_on(&map)));
///
/// maps.delete("settings", &DeleteParams::default()).await?;
/// let phase = finalizer.phase(maps.get("settings").await?, &context).await?;
/// let Phase::CleanUp(map) = phase else { panic!("it waits for the finalizer") };
/// finalizer.done(&*map, &context).await?; // after the clean-up
/// assert!(maps.get("settings").await.is_err_and(|error| error.is_not_found()));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Finalizer<K> {
    api: Api<K>,
    name: String,
}

/// An error for a name that is not valid for a finalizer.
///
/// ```
/// use dogwatch_client::Api;
/// use dogwatch_controller::Finalizer;
/// use k8s_openapi::api::core::v1::ConfigMap;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = dogwatch_apiserver::ApiServer::in_process().await?;
/// # let url = server.url().parse()?;
/// # let client = dogwatch_client::Client::from_service(url, "default", server.service());
/// let maps = Api::<ConfigMap>::all(client);
/// let error = Finalizer::new(maps, "clean up").expect_err("a blank is not allowed");
/// assert_eq!(error.name, "clean up");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{name:?} is not a valid finalizer name: use a form like example.com/cleanup")]
#[non_exhaustive]
pub struct InvalidFinalizer {
    /// The rejected name.
    pub name: String,
}

/// The state of an object with respect to a finalizer, which decides what to do about it.
///
/// ```
/// use std::sync::Arc;
///
/// use dogwatch_client::Error;
/// use dogwatch_controller::finalizer::Phase;
/// use dogwatch_controller::{Action, Context, Finalizer};
/// use k8s_openapi::api::core::v1::ConfigMap;
///
/// # async fn example(
/// #     map: Arc<ConfigMap>, finalizer: Finalizer<ConfigMap>, context: Context,
/// # ) -> Result<Action, Error> {
/// match finalizer.phase(map, &context).await? {
///     Phase::Live(map) => println!("reconcile {:?}", map.metadata.name),
///     Phase::CleanUp(map) => {
///         // Delete what belongs to it elsewhere, and then:
///         finalizer.done(&*map, &context).await?;
///     }
///     _ => {} // gone, or waits for other finalizers
/// }
/// # Ok(Action::Done)
/// # }
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Phase<K> {
    /// The object is live and has the finalizer: reconcile it.
    Live(Arc<K>),
    /// The object is being deleted and waits for this finalizer: clean up, then call
    /// [`Finalizer::done`].
    ///
    /// If the process exits in between, the next reconcile returns this phase again, so the
    /// clean-up must be idempotent.
    CleanUp(Arc<K>),
    /// The object is gone, or waits only for other finalizers.
    Ignored,
}

impl<K> Finalizer<K>
where
    K: Resource + DeserializeOwned + Send + Sync + 'static,
{
    /// Creates a finalizer of this name for the objects that `api` reaches; one handle over all
    /// namespaces is enough.
    ///
    /// The name should have a domain, as in `example.com/cleanup`. A name without one is accepted
    /// with a warning, for objects that already have it: kube-apiserver stores it on custom
    /// resources, with a warning of its own, and rejects it on built-in ones.
    ///
    /// # Errors
    /// Returns an error if the name is not one that a server stores: an optional domain and a
    /// slash, then up to 63 letters, digits, `-`, `_` and `.`.
    pub fn new(api: Api<K>, name: impl Into<String>) -> Result<Self, InvalidFinalizer> {
        let name = name.into();
        // The names of finalizers and of labels have the same syntax.
        if !names::is_qualified_name(&name) {
            return Err(InvalidFinalizer { name });
        }
        if !name.contains('/') {
            tracing::warn!(
                finalizer = name,
                "finalizer name has no domain and may collide with another program's"
            );
        }
        Ok(Self { api, name })
    }

    /// Returns true if the object has the finalizer.
    pub fn is_on(&self, object: &K) -> bool {
        object.meta().finalizers.iter().flatten().any(|it| *it == self.name)
    }

    /// Returns the phase of an object, after adding the finalizer if it is missing and the object
    /// is not being deleted. The write is [reported](Context::wrote) to the controller; the object
    /// is not copied if nothing is written.
    ///
    /// # Errors
    /// Returns an error if the finalizer cannot be added, and the last conflict if the attempts are
    /// used up.
    ///
    /// # Cancel safety
    /// If the future is dropped, the finalizer may have been added; another call returns the phase.
    pub async fn phase(&self, object: impl Into<Arc<K>>, context: &Context) -> Result<Phase<K>, Error> {
        let mut current = object.into();
        let uid = current.meta().uid.clone();
        for attempt in 1.. {
            match (current.meta().deletion_timestamp.is_some(), self.is_on(&current)) {
                (true, true) => return Ok(Phase::CleanUp(current)),
                (true, false) => return Ok(Phase::Ignored),
                (false, true) => return Ok(Phase::Live(current)),
                (false, false) => {}
            }
            let mut finalizers = current.meta().finalizers.clone().unwrap_or_default();
            finalizers.push(self.name.clone());
            match self.write(&current, &finalizers, context).await {
                Ok(written) => return Ok(Phase::Live(Arc::new(written))),
                Err(error) => match self.reread(&current, uid.as_deref(), error, attempt).await? {
                    Some(newer) => current = Arc::new(newer),
                    None => return Ok(Phase::Ignored),
                },
            }
        }
        Ok(Phase::Ignored)
    }

    /// Removes the finalizer from an object after the clean-up. Other finalizers stay; an object
    /// that is already gone is not an error. The write is [reported](Context::wrote) to the
    /// controller, so that the next reconcile does not see the object as it was.
    ///
    /// # Errors
    /// Returns an error if the finalizer cannot be removed, and the last conflict if the attempts
    /// are used up.
    ///
    /// # Cancel safety
    /// If the future is dropped, the finalizer may have been removed; another call is harmless.
    pub async fn done(&self, object: &K, context: &Context) -> Result<(), Error> {
        let uid = object.meta().uid.clone();
        let mut newest: Option<K> = None;
        for attempt in 1.. {
            let current = newest.as_ref().unwrap_or(object);
            if !self.is_on(current) {
                return Ok(());
            }
            let finalizers = current.meta().finalizers.iter().flatten().filter(|it| **it != self.name);
            let finalizers: Vec<_> = finalizers.cloned().collect();
            match self.write(current, &finalizers, context).await {
                Ok(_) => return Ok(()),
                Err(error) => match self.reread(current, uid.as_deref(), error, attempt).await? {
                    Some(newer) => newest = Some(newer),
                    None => return Ok(()),
                },
            }
        }
        Ok(())
    }

    /// Replaces the finalizers of exactly this version of the object.
    async fn write(&self, object: &K, finalizers: &[String], context: &Context) -> Result<K, Error> {
        let meta = object.meta();
        let version = meta.resource_version.as_deref().unwrap_or_default();
        let change = json!({ "metadata": {
            "uid": meta.uid, "resourceVersion": version, "finalizers": finalizers,
        } });
        let api = self.api_of(object);
        let name = meta.name.as_deref().unwrap_or_default();
        let written = api.patch(name, &PatchParams::default(), Patch::Merge(&change)).await?;
        context.wrote_object(&self.api.resource().gvk, &written);
        Ok(written)
    }

    /// Returns the object as it is on the server, if a newer version explains the error. Returns
    /// `None` if it is gone, or if its name now belongs to another object. An answer of 404 does
    /// not prove that: a webhook can deny a write with any code.
    async fn reread(
        &self,
        object: &K,
        uid: Option<&str>,
        error: Error,
        attempt: u32,
    ) -> Result<Option<K>, Error> {
        let retries = ConflictRetries::BRIEF;
        let is_retried = error.is_conflict() && attempt < retries.attempts;
        if is_retried {
            tokio::time::sleep(retries.wait).await;
        } else if !error.is_not_found() {
            return Err(error);
        }
        let name = object.meta().name.as_deref().unwrap_or_default();
        let newer = self.api_of(object).get_opt(name).await?;
        match newer.filter(|it| it.meta().uid.as_deref() == uid) {
            Some(_) if !is_retried => Err(error),
            newer => Ok(newer),
        }
    }

    /// Returns a handle for the object's own namespace.
    fn api_of(&self, object: &K) -> Api<K> {
        match object.meta().namespace.as_deref().filter(|it| !it.is_empty()) {
            Some(namespace) => self.api.clone().in_namespace(namespace),
            None => self.api.clone(),
        }
    }
}

impl<K: Resource> Phase<K> {
    /// Returns the key of the object, unless it is ignored.
    pub fn key(&self) -> Option<ObjectKey> {
        match self {
            Self::Live(object) | Self::CleanUp(object) => {
                let meta = object.meta();
                ObjectKey::from_parts(meta.namespace.as_deref(), meta.name.as_deref()?).ok()
            }
            Self::Ignored => None,
        }
    }
}
