//! Handles: one collection, its payload type, and every verb.
//!
//! [`Api<K>`] is the typed handle, the dynamic one and the metadata-only one alike: what differs is where it takes its
//! names from (the type or a [`ResourceType`]) and which form of the objects it asks for.

mod form;
mod conflict;
mod read;
mod wait;
mod write;
mod apply;
mod subresource;
mod pod;
mod token;
mod table;

use std::fmt;
use std::marker::PhantomData;

use dogwatch_core::{ObjectKey, ResourceType, Scope, View};
use dogwatch_wire::Fields;
use kube_core::Resource;

use crate::client::Client;
use crate::list::{Complete, as_it_is, with_kind};
use crate::request::Request;

pub use apply::{ApplyConflict, ApplyError};
pub use conflict::{ConflictRetries, retry_on_conflict};
pub use form::StaticScope;
pub use pod::LogParams;
pub use read::List;
pub use table::{RowObject, Table, TableColumn, TableMeta, TableRow};
pub use write::{Deletion, Patch};

use form::Form;

/// A handle on one collection: all of a resource, or one namespace of it.
///
/// Cheap to clone. Methods take names of objects; none of them caches anything.
pub struct Api<K> {
    client: Client,
    resource: ResourceType,
    /// `None`: all namespaces, or a cluster-scoped resource.
    namespace: Option<String>,
    form: Form,
    fields: Fields,
    /// Fills in what the items of a list leave out.
    complete: Complete<K>,
    payload: PhantomData<fn() -> K>,
}

impl<K: View> Api<K> {
    /// Cluster-scoped objects, or those of all namespaces.
    ///
    /// Objects of all namespaces can be listed and watched; to name one, enter its namespace with [`Self::within`].
    pub fn all(client: Client) -> Self
    where
        <K::Of as Resource>::Scope: StaticScope,
    {
        let scope = <<K::Of as Resource>::Scope as StaticScope>::SCOPE;
        let form = if K::Of::metadata_api() { Form::Metadata } else { Form::Full };
        Self {
            client,
            resource: ResourceType::of::<K::Of>(&(), scope),
            namespace: None,
            form,
            fields: Fields::default(),
            complete: as_it_is,
            payload: PhantomData,
        }
    }

    /// The objects of one namespace.
    pub fn namespaced(client: Client, namespace: &str) -> Self
    where
        K::Of: Resource<Scope = k8s_openapi::NamespaceResourceScope>,
    {
        Self::all(client).within(namespace)
    }

    /// The objects of the client's own namespace.
    pub fn default_namespaced(client: Client) -> Self
    where
        K::Of: Resource<Scope = k8s_openapi::NamespaceResourceScope>,
    {
        let namespace = client.default_namespace().to_owned();
        Self::namespaced(client, &namespace)
    }
}

impl<K> Api<K> {
    /// A resource known only at run time, from discovery or a literal, over all namespaces.
    ///
    /// The payload is any type its objects decode into: `DynamicObject`, a typed object, a view.
    pub fn dynamic(client: Client, resource: ResourceType) -> Self
    where
        K: 'static,
    {
        Self {
            client,
            resource,
            namespace: None,
            form: Form::Full,
            fields: Fields::default(),
            complete: with_kind,
            payload: PhantomData,
        }
    }

    /// As [`Self::dynamic`], and asks the server for nothing but metadata; the payload is `PartialObjectMeta` or a view of it.
    pub fn dynamic_metadata(client: Client, resource: ResourceType) -> Self
    where
        K: 'static,
    {
        Self { form: Form::Metadata, ..Self::dynamic(client, resource) }
    }

    /// The same collection in one namespace. Ignored where the resource is cluster-scoped.
    #[must_use]
    pub fn within(mut self, namespace: &str) -> Self {
        self.namespace = (self.resource.scope == Scope::Namespaced).then(|| namespace.to_owned());
        self
    }

    /// Returns the handle on the namespace of an object, to read or write that object by its name.
    ///
    /// ```no_run
    /// # use dogwatch_client::{Api, Error};
    /// # use dogwatch_core::ObjectKey;
    /// # use k8s_openapi::api::core::v1::ConfigMap;
    /// # async fn example(maps: Api<ConfigMap>, key: &ObjectKey) -> Result<(), Error> {
    /// let map = maps.at(key).get_opt(key.name()).await?;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn at(&self, key: &ObjectKey) -> Self {
        self.clone().within(key.namespace().unwrap_or_default())
    }

    /// The same collection with another payload, for example a view in place of the whole object.
    pub fn reading<T: 'static>(&self) -> Api<T> {
        Api {
            complete: with_kind,
            client: self.client.clone(),
            resource: self.resource.clone(),
            namespace: self.namespace.clone(),
            form: self.form,
            fields: self.fields,
            payload: PhantomData,
        }
    }

    /// Decodes `metadata.managedFields` too. Without this they are skipped: they are half of many objects, and a server
    /// keeps them when an object comes back without.
    #[must_use]
    pub fn with_managed_fields(mut self) -> Self {
        self.fields = Fields::default().keep_managed_fields();
        self
    }

    /// The client the handle speaks through.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// What the collection is called.
    pub fn resource(&self) -> &ResourceType {
        &self.resource
    }

    /// The namespace of the handle; `None` for all of them and for cluster-scoped resources.
    pub fn namespace(&self) -> Option<&str> {
        self.namespace.as_deref()
    }

    /// A request on the collection.
    fn on_collection(&self, request: Request) -> Request {
        let request = request.resource(&self.resource);
        match &self.namespace {
            Some(namespace) => request.namespace(namespace),
            None => request,
        }
    }

    /// A request that creates an object. A handle over all namespaces cannot create one of a namespaced resource.
    fn for_create(&self) -> Request {
        let request = self.client.post().resource(&self.resource);
        match (&self.namespace, self.resource.scope) {
            (None, Scope::Cluster) => request,
            (namespace, _) => request.namespace(namespace.as_deref().unwrap_or_default()),
        }
    }

    /// A request on one object. A handle over all namespaces cannot name one of a namespaced resource.
    fn on_object(&self, request: Request, name: &str) -> Request {
        let request = request.resource(&self.resource);
        let request = match (&self.namespace, self.resource.scope) {
            (None, Scope::Cluster) => request,
            (namespace, _) => request.namespace(namespace.as_deref().unwrap_or_default()),
        };
        request.name(name)
    }
}

impl<K> Clone for Api<K> {
    fn clone(&self) -> Self {
        Self {
            client: self.client.clone(),
            resource: self.resource.clone(),
            namespace: self.namespace.clone(),
            form: self.form,
            fields: self.fields,
            complete: self.complete,
            payload: PhantomData,
        }
    }
}

impl<K> fmt::Debug for Api<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Api")
            .field("resource", &format_args!("{}", self.resource.gvr()))
            .field("namespace", &self.namespace)
            .field("form", &self.form)
            .finish_non_exhaustive()
    }
}
