//! Finalizers: an object is not gone before we have cleaned up after it.
//!
//! ```text
//! phase(object): being deleted, ours is there ──► CleanUp ──your clean-up──► done(object)
//!                being deleted, ours is not   ──► Ignored
//!                lives, ours is not           ──► (added) ──► Live
//!                lives, ours is there         ──► Live
//! ```
//!
//! The object may come from a cache that is behind. Every write says which version it is about; when that is no longer the newest,
//! the object is read from the server and judged again. So nothing is added to an object that is being deleted, nor to another
//! one that has its name.

use std::sync::Arc;

use dogwatch_client::api::{ConflictRetries, Patch};
use dogwatch_client::{Api, Error};
use dogwatch_core::{LabelSelector, ObjectKey, PatchParams};
use kube_core::Resource;
use serde::de::DeserializeOwned;
use serde_json::json;

use crate::reconciler::Context;

/// One finalizer, on the objects of one kind.
#[derive(Clone, Debug)]
pub struct Finalizer<K> {
    api: Api<K>,
    name: String,
}

/// Why a name cannot be that of a finalizer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{name:?} cannot be the name of a finalizer: it has to be like example.com/cleanup")]
#[non_exhaustive]
pub struct InvalidFinalizer {
    /// The name.
    pub name: String,
}

/// What is to be done about an object.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Phase<K> {
    /// It lives and has the finalizer: work on it.
    Live(Arc<K>),
    /// It is being deleted and waits for us: clean up, then call [`Finalizer::done`].
    ///
    /// A process that ends in between leads here again, so cleaning up twice must do no harm.
    CleanUp(Arc<K>),
    /// It is gone, or waits for others only.
    Ignored,
}

impl<K> Finalizer<K>
where
    K: Resource + DeserializeOwned + Send + Sync + 'static,
{
    /// A finalizer of this name, for the objects that `api` reaches; one handle over all namespaces will do.
    ///
    /// The name should have a domain, as `example.com/cleanup` has. One without is accepted with a warning, for objects that have it
    /// already: kube-apiserver stores it on custom resources, with a warning of its own, and rejects it on built-in ones.
    ///
    /// # Errors
    /// When the name is none that a server stores: an optional domain and a slash, then up to 63 letters, digits, `-`, `_` and `.`.
    pub fn new(api: Api<K>, name: impl Into<String>) -> Result<Self, InvalidFinalizer> {
        let name = name.into();
        if !is_qualified(&name) {
            return Err(InvalidFinalizer { name });
        }
        if !name.contains('/') {
            tracing::warn!(
                finalizer = name,
                "a finalizer without a domain may be taken for another program's"
            );
        }
        Ok(Self { api, name })
    }

    /// Whether an object has the finalizer.
    pub fn is_on(&self, object: &K) -> bool {
        object.meta().finalizers.iter().flatten().any(|it| *it == self.name)
    }

    /// Decides what to do about an object, after adding the finalizer where it is missing and may be added. The write is
    /// [reported](Context::wrote) to the controller; the object is not copied where nothing is written.
    ///
    /// # Errors
    /// When the finalizer can be added neither now nor in a few attempts.
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
                Err(error) => match self.look_again(&current, uid.as_deref(), error, attempt).await? {
                    Some(newer) => current = Arc::new(newer),
                    None => return Ok(Phase::Ignored),
                },
            }
        }
        Ok(Phase::Ignored)
    }

    /// Takes the finalizer off an object that was cleaned up after. Others' finalizers stay; an object that is gone is fine. The write
    /// is [reported](Context::wrote) to the controller, so that the next reconcile does not find the object as it was.
    ///
    /// # Errors
    /// When that can be done neither now nor in a few attempts.
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
                Err(error) => match self.look_again(current, uid.as_deref(), error, attempt).await? {
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
        let api = self.beside(object);
        let name = meta.name.as_deref().unwrap_or_default();
        let written = api.patch(name, &PatchParams::default(), Patch::Merge(&change)).await?;
        context.wrote_object(&self.api.resource().gvk, &written);
        Ok(written)
    }

    /// The object as it is on the server, where a newer version explains the error; `None` when it is gone, or its name is
    /// another object's now.
    async fn look_again(
        &self,
        object: &K,
        uid: Option<&str>,
        error: Error,
        attempt: u32,
    ) -> Result<Option<K>, Error> {
        let retries = ConflictRetries::BRIEF;
        if error.is_not_found() {
            return Ok(None);
        }
        if !error.is_conflict() || attempt >= retries.attempts {
            return Err(error);
        }
        tokio::time::sleep(retries.wait).await;
        let name = object.meta().name.as_deref().unwrap_or_default();
        let newer = self.beside(object).get_opt(name).await?;
        Ok(newer.filter(|it| it.meta().uid.as_deref() == uid))
    }

    /// A handle on the object's own namespace.
    fn beside(&self, object: &K) -> Api<K> {
        match object.meta().namespace.as_deref().filter(|it| !it.is_empty()) {
            Some(namespace) => self.api.clone().within(namespace),
            None => self.api.clone(),
        }
    }
}

impl<K: Resource> Phase<K> {
    /// The key of the object, where there is something to do about it.
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

/// Whether a server would store the name: the names of finalizers and of labels have one form.
fn is_qualified(name: &str) -> bool {
    LabelSelector::everything().equals(name, "x").is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finalizer_is_a_qualified_name_with_or_without_a_domain() {
        for name in ["example.com/cleanup", "example/cleanup", "documents.kube.rs", "cleanup"] {
            assert!(is_qualified(name), "{name}");
        }
        for name in ["", "example.com/", "/cleanup", "example.com/a/b", "a b", "-a", "Example.com/a"] {
            assert!(!is_qualified(name), "{name}");
        }
    }
}
