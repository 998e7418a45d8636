//! From words and kinds to resources, with a second look when the first was at old news (rule DI-5).

use std::sync::Arc;

use dogwatch_core::{Gvk, Gvr};

use super::cache::CachedDiscovery;
use super::matching::{self, Match, NoMatch};
use super::model::Discovery;
use crate::client::Client;
use crate::error::Error;

/// Turns what a user types, or what an object says of itself, into the resource that is meant.
///
/// Cheap to clone; clones share the discovery. A word that is not known makes it ask the server again, once, unless
/// what it knows is [fresh](CachedDiscovery::is_fresh).
#[derive(Clone, Debug)]
pub struct RestMapper {
    discovery: CachedDiscovery,
}

/// Why there is no resource.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MapError {
    /// The server has nothing of that name: the message says what is similar.
    #[error(transparent)]
    NoMatch(#[from] NoMatch),
    /// The server could not be asked.
    #[error("cannot find out what the server serves")]
    Discovery(#[source] Arc<Error>),
}

impl RestMapper {
    /// A mapper over discovery, which may be shared with others.
    pub fn new(discovery: CachedDiscovery) -> Self {
        Self { discovery }
    }

    /// The discovery it looks into.
    pub fn discovery(&self) -> &CachedDiscovery {
        &self.discovery
    }

    /// The client that asks.
    pub fn client(&self) -> &Client {
        self.discovery.client()
    }

    /// The resource a person means: `pods`, `pod`, `po`, `Pod`, `deployments.apps`, `deployments.v1.apps`,
    /// `Deployment.v1.apps`. Case does not matter. Core v1 comes first, then the server's own order.
    ///
    /// # Errors
    /// When nothing on the server answers to the word, or the server cannot be asked.
    pub async fn resolve(&self, word: &str) -> Result<Match, MapError> {
        let found = self.find(|discovery| matching::by_word(discovery, word)).await?;
        match &found.ambiguity {
            Some(ambiguity) if ambiguity.short_name => tracing::warn!("{ambiguity}"),
            Some(ambiguity) => tracing::debug!("{ambiguity}"),
            None => {}
        }
        Ok(found)
    }

    /// What a list such as `pods,svc` or a category such as `all` means, each resource once.
    ///
    /// # Errors
    /// As [`Self::resolve`], for the first word that means nothing.
    pub async fn resolve_all(&self, words: &str) -> Result<Vec<Match>, MapError> {
        let mut all: Vec<Match> = Vec::new();
        for word in words.split(',').map(str::trim).filter(|it| !it.is_empty()) {
            let kept = self.discovery().kept().await.map_err(MapError::Discovery)?;
            let found = match in_category(&kept, word) {
                Ok(_) => self.category(word).await?,
                // A word that is neither yet may be a category after a second look.
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

    /// The resources of a category, for example `all`, each in one version.
    ///
    /// # Errors
    /// When there is no such category, or the server cannot be asked.
    pub async fn category(&self, category: &str) -> Result<Vec<Match>, MapError> {
        // Every group may have a part in it, also one that could not be asked a moment ago.
        self.find_in_all(|discovery| in_category(discovery, category)).await
    }

    /// The resource whose objects are of a kind; without a version, in the preferred one.
    ///
    /// # Errors
    /// As [`Self::resolve`].
    pub async fn by_kind(&self, kind: &Gvk) -> Result<Match, MapError> {
        self.find(|discovery| matching::by_kind(discovery, kind)).await
    }

    /// The resource of a name, of which group and version may be empty and match any.
    ///
    /// # Errors
    /// As [`Self::resolve`].
    pub async fn by_resource(&self, resource: &Gvr) -> Result<Match, MapError> {
        self.find(|discovery| matching::by_resource(discovery, resource)).await
    }

    /// Looks at what is kept, and only if that fails at versions that have to be asked for again: an aggregated API that is
    /// down does not slow down the words of others.
    async fn find<T>(&self, look: impl Fn(&Discovery) -> Result<T, NoMatch>) -> Result<T, MapError> {
        let kept = self.discovery.kept().await.map_err(MapError::Discovery)?;
        match look(&kept) {
            Ok(found) => Ok(found),
            Err(_) => self.find_in_all(look).await,
        }
    }

    /// Looks, and if that fails in something that is not fresh, asks the server and looks once more.
    async fn find_in_all<T>(&self, look: impl Fn(&Discovery) -> Result<T, NoMatch>) -> Result<T, MapError> {
        let seen = self.discovery.get().await.map_err(MapError::Discovery)?;
        match look(&seen) {
            Err(_) if !self.discovery.is_fresh() => {
                tracing::debug!("not in what is known of the server; asking it again");
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
