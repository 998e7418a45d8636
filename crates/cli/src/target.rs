//! What a user's word means on the server, and whether we may look at it: asked before anything is followed, so that what will not
//! work is told at once instead of being tried for ever.

use dogwatch::discovery::ServedResource;
use dogwatch::{Api, CachedDiscovery, Client, Error, ListParams, RestMapper};
use serde::de::IgnoredAny;

/// The resource is there and cannot be followed.
#[derive(Debug, thiserror::Error)]
#[error("{resource} cannot be followed: the server offers no {verb} of it, only {offered}")]
pub(crate) struct NotFollowed {
    resource: String,
    verb: &'static str,
    offered: String,
}

/// The resource that a word means: `po`, `pods`, `Pod`, `deployments.apps`, `Deployment.v1.apps`.
pub(crate) async fn find(client: &Client, word: &str) -> anyhow::Result<ServedResource> {
    let mapper = RestMapper::new(CachedDiscovery::new(client.clone()));
    let found = mapper.resolve(word).await?.resource;
    for verb in ["list", "watch"] {
        if !found.supports(verb) {
            let (resource, offered) = (found.group_resource(), found.verbs.join(", "));
            return Err(NotFollowed { resource, verb, offered }.into());
        }
    }
    Ok(found)
}

/// Whether the server lets us read the collection: one object of it, or none, with its metadata only.
pub(crate) async fn check(api: &Api<IgnoredAny>, params: ListParams) -> Result<(), Error> {
    api.list(&params.limit(1)).await.map(|_| ())
}
