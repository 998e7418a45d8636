//! Resolves the RESOURCE argument and checks the permission to read it, before anything is watched:
//! a mistake is reported at once instead of being retried for ever.

use dogwatch::api::ListParams;
use dogwatch::discovery::ServedResource;
use dogwatch::discovery::{CachedDiscovery, RestMapper};
use dogwatch::{Api, Client, Error};
use serde::de::IgnoredAny;

use crate::failure::Reason;

/// An error for a resource that cannot be listed or watched.
#[derive(Debug, thiserror::Error)]
#[error("cannot watch {resource}")]
pub(crate) struct NotWatchable {
    resource: String,
    source: Reason,
}

/// Resolves the name of a resource: `po`, `pods`, `Pod`, `deployments.apps`, `Deployment.v1.apps`.
pub(crate) async fn find(client: &Client, word: &str) -> anyhow::Result<ServedResource> {
    let mapper = RestMapper::new(CachedDiscovery::new(client.clone()));
    watchable(mapper.resolve(word).await?.resource)
}

/// Resolves a list of such names, or of categories such as `all`, each resource once.
pub(crate) async fn find_all(client: &Client, words: &str) -> anyhow::Result<Vec<ServedResource>> {
    resolve_all(&RestMapper::new(CachedDiscovery::new(client.clone())), words).await
}

/// Resolves a list of such names with a mapper.
pub(crate) async fn resolve_all(mapper: &RestMapper, words: &str) -> anyhow::Result<Vec<ServedResource>> {
    mapper.resolve_all(words).await?.into_iter().map(|it| watchable(it.resource)).collect()
}

/// Checks that a resource can be listed and watched.
fn watchable(found: ServedResource) -> anyhow::Result<ServedResource> {
    for verb in ["list", "watch"] {
        if !found.supports(verb) {
            let offered = found.verbs.join(", ");
            let source = Reason::from(format!("the server does not support {verb} for it, only {offered}"));
            return Err(NotWatchable { resource: found.group_resource(), source }.into());
        }
    }
    Ok(found)
}

/// Checks that the server allows reading the collection: lists at most one object, metadata only.
pub(crate) async fn check(api: &Api<IgnoredAny>, params: ListParams) -> Result<(), Error> {
    api.list(&params.limit(1)).await.map(|_| ())
}
