//! The version, groups and resources of a server, for `demo`.
//!
//! Only this file sends requests; [`crate::demo`] prints the result.

use dogwatch::api::ListParams;
use dogwatch::discovery::ServedResource;
use dogwatch::{Api, Client, Error};
use futures_util::future::try_join_all;
use serde::de::IgnoredAny;

/// The resources whose objects are counted: one request each, so only the best-known ones.
const COUNTED: [&str; 7] =
    ["namespaces", "nodes", "pods", "services", "configmaps", "deployments", "customresourcedefinitions"];

/// The API of one server.
#[derive(Debug)]
pub(crate) struct Survey {
    /// The address of the server.
    pub(crate) server: String,
    /// The version that it reports.
    pub(crate) version: String,
    /// Its groups with their versions, the preferred one first.
    pub(crate) groups: Vec<Group>,
    /// Its resources, each in the preferred version of its group.
    pub(crate) resources: Vec<Resource>,
}

/// A group and its versions.
#[derive(Debug)]
pub(crate) struct Group {
    /// Empty for the core group.
    pub(crate) name: String,
    pub(crate) versions: Vec<String>,
}

/// A resource, and the number of its objects.
#[derive(Debug)]
pub(crate) struct Resource {
    pub(crate) plural: String,
    pub(crate) short_names: Vec<String>,
    /// `v1` or `apps/v1`.
    pub(crate) group_version: String,
    pub(crate) kind: String,
    pub(crate) namespaced: bool,
    pub(crate) objects: Objects,
}

/// The number of objects of a resource.
#[derive(Debug)]
pub(crate) enum Objects {
    /// The number that the server returned.
    Counted(u64),
    /// The server does not allow the list.
    Forbidden,
    /// Not requested: counting everything would take a request for each resource.
    NotAsked,
}

/// Requests the version, the groups, the resources, and the number of objects of a few resources.
///
/// A group whose API server does not respond is left out and logged: it does not affect the others.
pub(crate) async fn take(client: &Client, namespace: Option<&str>) -> Result<Survey, Error> {
    let version = client.server_version().await?;
    let discovery = client.discover().await?;
    for failure in &discovery.failures {
        tracing::warn!(%failure, "cannot discover the resources of an API group");
    }
    let groups = discovery.groups.iter().map(|group| Group {
        name: group.name.to_string(),
        versions: group.versions.iter().map(|it| it.version.to_string()).collect(),
    });
    let groups = groups.collect();
    let offered = discovery.preferred_resources();
    let resources = try_join_all(offered.map(|it| resource(client, namespace, it))).await?;
    let server = client.server().to_string();
    Ok(Survey { server, version: version.git_version, groups, resources })
}

/// Returns a resource with the number of its objects, if it is one of the counted ones.
async fn resource(
    client: &Client,
    namespace: Option<&str>,
    served: &ServedResource,
) -> Result<Resource, Error> {
    let resource = &served.resource;
    let objects = if COUNTED.contains(&resource.plural.as_str()) {
        let collection = Api::<IgnoredAny>::dynamic_metadata(client.clone(), resource.clone());
        match namespace {
            Some(namespace) => count(&collection.in_namespace(namespace)).await?,
            None => count(&collection).await?,
        }
    } else {
        Objects::NotAsked
    };
    Ok(Resource {
        plural: resource.plural.to_string(),
        short_names: served.short_names.iter().map(ToString::to_string).collect(),
        group_version: resource.gvk.api_version().into_owned(),
        kind: resource.gvk.kind.to_string(),
        namespaced: served.is_namespaced(),
        objects,
    })
}

/// Lists one object, and adds the remaining count that the server reports.
async fn count(collection: &Api<IgnoredAny>) -> Result<Objects, Error> {
    match collection.list(&ListParams::default().limit(1)).await {
        Ok(page) => {
            let left = page.metadata.remaining_item_count.unwrap_or(0);
            Ok(Objects::Counted(page.items.len() as u64 + u64::try_from(left).unwrap_or(0)))
        }
        Err(error) if error.is_forbidden() => Ok(Objects::Forbidden),
        Err(error) => Err(error),
    }
}
