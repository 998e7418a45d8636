//! What a server offers, as far as `demo` shows it.
//!
//! Only this file asks the server; [`crate::demo`] prints what it found.

use dogwatch::k8s_openapi::apimachinery::pkg::apis::meta::v1::{APIGroupList, APIResource, APIResourceList};
use dogwatch::k8s_openapi::apimachinery::pkg::version::Info;
use dogwatch::{Api, Client, Error, Gvk, ListParams, ResourceType};
use futures_util::future::{join_all, try_join_all};
use serde::de::IgnoredAny;

/// The resources whose objects are counted: one request each, so only those everybody knows.
const COUNTED: [&str; 7] =
    ["namespaces", "nodes", "pods", "services", "configmaps", "deployments", "customresourcedefinitions"];

/// What one server offers.
#[derive(Debug)]
pub(crate) struct Survey {
    /// The address that was asked.
    pub(crate) server: String,
    /// Its version, as it calls it.
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

/// A resource, and how many objects there are of it.
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

/// How many objects there are of a resource.
#[derive(Debug)]
pub(crate) enum Objects {
    /// This many.
    Counted(u64),
    /// The server does not let us look.
    Forbidden,
    /// Nobody asked: counting everything would take a request for each resource.
    NotAsked,
}

/// Asks the server for its version, its groups, its resources, and the number of objects of a few.
///
/// A group whose own server does not answer is left out and told in the log: it says nothing about the others.
pub(crate) async fn take(client: &Client, namespace: Option<&str>) -> Result<Survey, Error> {
    let version: Info = client.get().path(&["version"]).send().await?;
    let groups = groups(client).await?;
    let lists = join_all(groups.iter().map(|group| resources_of(client, group))).await;
    let offered = lists.into_iter().flatten();
    let resources = try_join_all(offered.map(|it| with_count(client, namespace, it))).await?;
    let server = client.server().to_string();
    Ok(Survey { server, version: version.git_version, groups, resources })
}

/// The core group, then the others in the server's order.
async fn groups(client: &Client) -> Result<Vec<Group>, Error> {
    let named: APIGroupList = client.get().path(&["apis"]).send().await?;
    let mut groups = vec![Group { name: String::new(), versions: vec!["v1".to_owned()] }];
    for group in named.groups {
        let mut versions: Vec<String> = group.versions.into_iter().map(|it| it.version).collect();
        if let Some(preferred) = group.preferred_version {
            versions.sort_by_key(|it| *it != preferred.version);
        }
        groups.push(Group { name: group.name, versions });
    }
    Ok(groups)
}

/// The resources of a group in its preferred version, subresources left out.
async fn resources_of(client: &Client, group: &Group) -> Vec<Resource> {
    let Some(version) = group.versions.first() else { return Vec::new() };
    let path = match group.name.as_str() {
        "" => vec!["api", version],
        name => vec!["apis", name, version],
    };
    match client.get().path(&path).send::<APIResourceList>().await {
        Ok(list) => {
            let whole = list.resources.into_iter().filter(|it| !it.name.contains('/'));
            whole.map(|it| resource(&list.group_version, it)).collect()
        }
        Err(error) => {
            tracing::warn!(group = group.name, %error, "the group does not tell its resources");
            Vec::new()
        }
    }
}

fn resource(group_version: &str, offered: APIResource) -> Resource {
    Resource {
        plural: offered.name,
        short_names: offered.short_names.unwrap_or_default(),
        group_version: group_version.to_owned(),
        kind: offered.kind,
        namespaced: offered.namespaced,
        objects: Objects::NotAsked,
    }
}

/// Adds the number of objects, where it is one of those worth a request.
async fn with_count(
    client: &Client,
    namespace: Option<&str>,
    mut resource: Resource,
) -> Result<Resource, Error> {
    if COUNTED.contains(&resource.plural.as_str()) {
        let gvk = Gvk::from_api_version(&resource.group_version, &resource.kind);
        let of_type = match resource.namespaced {
            true => ResourceType::namespaced(gvk, &resource.plural),
            false => ResourceType::cluster(gvk, &resource.plural),
        };
        let mut collection = Api::<IgnoredAny>::dynamic_metadata(client.clone(), of_type);
        if let Some(namespace) = namespace {
            collection = collection.within(namespace);
        }
        resource.objects = count(&collection).await?;
    }
    Ok(resource)
}

/// One page of one object, and what the server says is left.
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
