//! The mapper from names and kinds to resources, with a retry when the cached discovery is stale
//! (rule DI-5).

use std::sync::Arc;

use dogwatch_core::{Gvk, Gvr};

use super::cache::CachedDiscovery;
use super::matching::{self, Match, NoMatch};
use super::model::Discovery;
use crate::client::Client;
use crate::error::Error;

/// A mapper from names that users type, and from kinds, to resources.
///
/// Cheap to clone; clones share the discovery. An unknown name leads to another request to the
/// server, once, unless the cached discovery is [fresh](CachedDiscovery::is_fresh). The futures may
/// be dropped at any time, as that of [`CachedDiscovery::get`].
///
/// ```
/// use dogwatch_client::{Api, CachedDiscovery, RestMapper};
/// use kube_core::DynamicObject;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = dogwatch_apiserver::ApiServer::in_process().await?;
/// # let url = server.url().parse()?;
/// # let client = dogwatch_client::Client::from_service(url, "default", server.service());
/// let mapper = RestMapper::new(CachedDiscovery::new(client.clone()));
/// let found = mapper.resolve("deploy").await?; // as in `kubectl get deploy`
/// assert_eq!(found.resource.group_resource(), "deployments.apps");
/// let api = Api::<DynamicObject>::dynamic(client, found.resource.resource);
/// assert_eq!(api.resource().gvk.kind, "Deployment");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct RestMapper {
    discovery: CachedDiscovery,
}

/// An error of resolving a resource.
///
/// ```
/// use dogwatch_client::discovery::MapError;
/// use dogwatch_client::{CachedDiscovery, RestMapper};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = dogwatch_apiserver::ApiServer::in_process().await?;
/// # let url = server.url().parse()?;
/// # let client = dogwatch_client::Client::from_service(url, "default", server.service());
/// let mapper = RestMapper::new(CachedDiscovery::new(client));
/// match mapper.resolve("deploymnts").await {
///     Ok(found) => println!("{}", found.resource.group_resource()),
///     Err(MapError::NoMatch(error)) => assert_eq!(error.near[0], "deployments.apps"),
///     Err(MapError::Discovery(error)) => println!("try later: {error}"),
///     Err(error) => return Err(error.into()),
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MapError {
    /// No resource of the server matches: the message lists similar names.
    #[error(transparent)]
    NoMatch(#[from] NoMatch),
    /// Discovery failed.
    #[error("cannot discover the server's resources")]
    Discovery(#[source] Arc<Error>),
}

impl RestMapper {
    /// Creates a mapper over discovery, which may be shared.
    pub fn new(discovery: CachedDiscovery) -> Self {
        Self { discovery }
    }

    /// Returns its discovery.
    pub fn discovery(&self) -> &CachedDiscovery {
        &self.discovery
    }

    /// Returns the client.
    pub fn client(&self) -> &Client {
        self.discovery.client()
    }

    /// Resolves a name: `pods`, `pod`, `po`, `Pod`, `deployments.apps`, `deployments.v1.apps`,
    /// `Deployment.v1.apps`. Case is ignored. Core v1 comes first, then the server's order.
    ///
    /// # Errors
    /// Returns an error if no resource matches the name, or discovery fails.
    pub async fn resolve(&self, word: &str) -> Result<Match, MapError> {
        let found = self.find(|discovery| matching::by_word(discovery, word)).await?;
        match &found.ambiguity {
            Some(ambiguity) if ambiguity.short_name => tracing::warn!("{ambiguity}"),
            Some(ambiguity) => tracing::debug!("{ambiguity}"),
            None => {}
        }
        Ok(found)
    }

    /// Resolves a list such as `pods,svc` or a category such as `all`; each resource is returned
    /// once.
    ///
    /// # Errors
    /// See [`Self::resolve`], for the first name that matches nothing.
    pub async fn resolve_all(&self, words: &str) -> Result<Vec<Match>, MapError> {
        let mut all: Vec<Match> = Vec::new();
        for word in words.split(',').map(str::trim).filter(|it| !it.is_empty()) {
            let kept = self.discovery().cached().await.map_err(MapError::Discovery)?;
            let found = match in_category(&kept, word) {
                Ok(_) => self.category(word).await?,
                // An unknown name may be a category that discovery has not seen yet.
                Err(_) => match self.resolve(word).await {
                    Ok(found) => vec![found],
                    Err(MapError::NoMatch(_)) => self.category(word).await?,
                    Err(error) => return Err(error),
                },
            };
            for one in found {
                if !all.iter().any(|it| it.resource.resource == one.resource.resource) {
                    all.push(one);
                }
            }
        }
        Ok(all)
    }

    /// Returns the resources of a category, for example `all`, each in one version.
    ///
    /// # Errors
    /// Returns an error if there is no such category, or discovery fails.
    pub async fn category(&self, category: &str) -> Result<Vec<Match>, MapError> {
        // Every group may contribute, including one that failed a moment ago.
        self.find_in_all(|discovery| in_category(discovery, category)).await
    }

    /// Returns the resource of a kind; without a version, in the preferred one.
    ///
    /// # Errors
    /// See [`Self::resolve`].
    pub async fn by_kind(&self, kind: &Gvk) -> Result<Match, MapError> {
        self.find(|discovery| matching::by_kind(discovery, kind)).await
    }

    /// Returns the resource of a name; an empty group or version matches any.
    ///
    /// # Errors
    /// See [`Self::resolve`].
    pub async fn by_resource(&self, resource: &Gvr) -> Result<Match, MapError> {
        self.find(|discovery| matching::by_resource(discovery, resource)).await
    }

    /// Searches the cached result first, and requests failed versions only if that finds nothing:
    /// an aggregated API server that is down does not slow down names of other groups.
    async fn find<T>(&self, look: impl Fn(&Discovery) -> Result<T, NoMatch>) -> Result<T, MapError> {
        let kept = self.discovery.cached().await.map_err(MapError::Discovery)?;
        match look(&kept) {
            Ok(found) => Ok(found),
            Err(_) => self.find_in_all(look).await,
        }
    }

    /// Searches; if that finds nothing and the result is not fresh, asks the server and searches
    /// again.
    async fn find_in_all<T>(&self, look: impl Fn(&Discovery) -> Result<T, NoMatch>) -> Result<T, MapError> {
        let seen = self.discovery.get().await.map_err(MapError::Discovery)?;
        match look(&seen) {
            Err(_) if !self.discovery.is_fresh() => {
                tracing::debug!("name not found in the cached discovery, refreshing it");
                self.discovery.invalidate_seen(&seen);
                let seen = self.discovery.get().await.map_err(MapError::Discovery)?;
                Ok(look(&seen)?)
            }
            found => Ok(found?),
        }
    }
}

fn in_category(discovery: &Discovery, category: &str) -> Result<Vec<Match>, NoMatch> {
    let found = discovery.in_category(category);
    if found.is_empty() {
        return Err(NoMatch::new(discovery, category));
    }
    Ok(found.into_iter().map(|it| Match { resource: it.clone(), ambiguity: None }).collect())
}
