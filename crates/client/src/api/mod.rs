//! Handles on collections: the payload type, and every verb.
//!
//! [`Api<K>`] is the typed, the dynamic and the metadata-only handle: they differ in the source of
//! their names (the type or a [`ResourceType`]) and in the form of the objects they request.

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
use crate::encoding::{Encoding, EncodingChoice};
use crate::list::{CompleteItem, set_kind, unchanged};
use crate::request::Request;

pub use apply::{ApplyConflict, ApplyError};
pub use conflict::{ConflictRetries, retry_on_conflict};
pub use form::{Representation, StaticScope};
pub use pod::LogParams;
pub use read::List;
pub use table::{RowObject, Table, TableColumn, TableMeta, TableRow};
pub use write::{Deletion, Patch};

use form::Form;

/// A handle on one collection: all of a resource, or one namespace of it.
///
/// Cheap to clone. Methods take names of objects; none of them caches anything.
///
/// Calls may run concurrently, and their order on the server is not defined: await one before the
/// other if it matters. Dropping the future of a call cancels its request; a write that was already
/// sent may still be carried out.
///
/// ```
/// use dogwatch_client::Api;
/// use dogwatch_core::ListParams;
/// use k8s_openapi::api::core::v1::ConfigMap;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let builder = dogwatch_apiserver::ApiServer::builder().in_process();
/// # let yaml = "{apiVersion: v1, kind: ConfigMap, metadata: {name: settings}, data: {colour: \
/// #     blue}}";
/// # let server = builder.yaml(yaml).start().await?;
/// # let url = server.url().parse()?;
/// # let client = dogwatch_client::Client::from_service(url, "default", server.service());
/// let maps = Api::<ConfigMap>::namespaced(client, "default");
/// let list = maps.list(&ListParams::default()).await?;
/// assert_eq!(list.items[0].metadata.name.as_deref(), Some("settings"));
///
/// // The same collection, metadata only.
/// let metadata = maps.reading::<kube_core::metadata::PartialObjectMeta<ConfigMap>>();
/// assert_eq!(metadata.namespace(), Some("default"));
/// # Ok(())
/// # }
/// ```
///
/// # Parameters
///
/// Every request takes its parameters by reference, so that one value serves many requests. Writes
/// always name them, as in client-go: whether a write is a dry run, and who its field manager is,
/// should be visible where it is made. [`Self::get`] has none, because nearly all reads of one
/// object use the defaults; [`Self::get_with`] takes them. [`Self::watch`] sends its request and is
/// asynchronous; [`Self::watch_from`] sends nothing yet, and keeps its parameters for the requests
/// that it will make, so it takes them by value.
pub struct Api<K> {
    client: Client,
    resource: ResourceType,
    /// `None` means all namespaces, or a cluster-scoped resource.
    namespace: Option<String>,
    form: Form,
    fields: Fields,
    encoding: EncodingChoice,
    /// The encoding of the objects that are sent whole.
    body_encoding: EncodingChoice,
    /// Fills in the fields that the items of a list leave out.
    complete: CompleteItem<K>,
    payload: PhantomData<fn() -> K>,
}

impl<K: View> Api<K> {
    /// Creates a handle on cluster-scoped objects, or on those of all namespaces.
    ///
    /// Objects of all namespaces can be listed and watched; for a single object, set its namespace
    /// with [`Self::in_namespace`].
    pub fn all(client: Client) -> Self
    where
        <K::Of as Resource>::Scope: StaticScope,
    {
        let scope = <<K::Of as Resource>::Scope as StaticScope>::SCOPE;
        let form = if K::Of::metadata_api() { Form::Metadata } else { Form::Full };
        let resource = ResourceType::of::<K::Of>(&(), scope);
        Self {
            client,
            encoding: EncodingChoice::new(preferred_encoding(&resource)),
            body_encoding: EncodingChoice::new(Encoding::Json),
            resource,
            namespace: None,
            form,
            fields: Fields::default(),
            complete: unchanged,
            payload: PhantomData,
        }
    }

    /// Creates a handle on the objects of one namespace.
    pub fn namespaced(client: Client, namespace: &str) -> Self
    where
        K::Of: Resource<Scope = k8s_openapi::NamespaceResourceScope>,
    {
        Self::all(client).in_namespace(namespace)
    }

    /// Creates a handle on the objects of the client's default namespace.
    pub fn default_namespaced(client: Client) -> Self
    where
        K::Of: Resource<Scope = k8s_openapi::NamespaceResourceScope>,
    {
        let namespace = client.default_namespace().to_owned();
        Self::namespaced(client, &namespace)
    }
}

impl<K> Api<K> {
    /// Creates a handle on a resource known only at run time, from discovery or a literal, over all
    /// namespaces.
    ///
    /// The payload is any type that its objects decode into: `DynamicObject`, a typed object, a
    /// view.
    pub fn dynamic(client: Client, resource: ResourceType) -> Self
    where
        K: 'static,
    {
        Self {
            client,
            encoding: EncodingChoice::new(preferred_encoding(&resource)),
            body_encoding: EncodingChoice::new(Encoding::Json),
            resource,
            namespace: None,
            form: Form::Full,
            fields: Fields::default(),
            complete: set_kind,
            payload: PhantomData,
        }
    }

    /// Like [`Self::dynamic`], but requests only metadata; the payload is `PartialObjectMeta` or a
    /// view of it.
    pub fn dynamic_metadata(client: Client, resource: ResourceType) -> Self
    where
        K: 'static,
    {
        Self { form: Form::Metadata, ..Self::dynamic(client, resource) }
    }

    /// Sets the namespace. Ignored for a cluster-scoped resource. An empty name stands for all
    /// namespaces, as in client-go.
    #[must_use]
    pub fn in_namespace(mut self, namespace: &str) -> Self {
        let is_one = self.resource.scope == Scope::Namespaced && !namespace.is_empty();
        self.namespace = is_one.then(|| namespace.to_owned());
        self
    }

    /// Returns the handle on the namespace of an object, to read or write that object by its name.
    ///
    /// ```
    /// use dogwatch_client::Api;
    /// use dogwatch_core::ObjectKey;
    /// use k8s_openapi::api::core::v1::ConfigMap;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = dogwatch_apiserver::ApiServer::in_process().await?;
    /// # let url = server.url().parse()?;
    /// # let client = dogwatch_client::Client::from_service(url, "default", server.service());
    /// let maps = Api::<ConfigMap>::all(client);
    /// let key: ObjectKey = "shop/settings".parse()?; // from a queue, for example
    /// let map = maps.at(&key).get_opt(key.name()).await?;
    /// assert!(map.is_none());
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn at(&self, key: &ObjectKey) -> Self {
        self.clone().in_namespace(key.namespace().unwrap_or_default())
    }

    /// Returns a handle on the same collection with another payload, for example a view instead of
    /// the whole object.
    pub fn reading<T: 'static>(&self) -> Api<T> {
        Api {
            complete: set_kind,
            client: self.client.clone(),
            resource: self.resource.clone(),
            namespace: self.namespace.clone(),
            form: self.form,
            fields: self.fields,
            // A type that reads more than this one may find a field that this one does not.
            encoding: EncodingChoice::new(self.encoding.preferred()),
            // It may also have fields that protobuf does not have.
            body_encoding: EncodingChoice::new(Encoding::Json),
            payload: PhantomData,
        }
    }

    /// Requests and decodes `metadata.managedFields` too. By default they are skipped: they are
    /// half of many objects, and a server keeps them if an object is written without them.
    ///
    /// Without them, requests have the media type parameter `drop=metadata.managedFields`. Servers
    /// that know it (KEP-5958, after Kubernetes 1.37) do not send managed fields at all; others
    /// ignore it.
    #[must_use]
    pub fn with_managed_fields(mut self) -> Self {
        self.fields = Fields::default().keep_managed_fields();
        self
    }

    /// Sets the preferred encoding of lists and watches. Defaults to protobuf for kinds that have
    /// it, the built-in kinds of Kubernetes, and to JSON for others. What a server sends is decoded
    /// whatever it is. Single objects are always requested in JSON; [`Self::with_body_encoding`] is
    /// for request bodies.
    ///
    /// In protobuf, fields have numbers and no names, and those of a server that is newer than this
    /// library (Kubernetes 1.37) are not known. As soon as an object has one, the handle and its
    /// clones request JSON: a list is read again, and a watch ends, and can be resumed. Ignored for
    /// kinds without a protobuf encoding, such as custom resources.
    #[must_use]
    pub fn with_encoding(mut self, encoding: Encoding) -> Self {
        self.encoding = EncodingChoice::new(if_supported(encoding, &self.resource));
        self
    }

    /// Returns the preferred encoding of lists and watches.
    pub fn encoding(&self) -> Encoding {
        self.encoding.preferred()
    }

    /// Returns the preferred encoding of the objects that [`Self::create`] and [`Self::replace`]
    /// send.
    pub fn body_encoding(&self) -> Encoding {
        self.body_encoding.preferred()
    }

    /// Returns the client of the handle.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Returns the resource type of the collection.
    pub fn resource(&self) -> &ResourceType {
        &self.resource
    }

    /// Returns the namespace of the handle; `None` for all namespaces and for cluster-scoped
    /// resources.
    pub fn namespace(&self) -> Option<&str> {
        self.namespace.as_deref()
    }

    /// Returns the parts of objects that the handle reads. A cache of objects that several handles
    /// share needs it in its key.
    pub fn representation(&self) -> Representation {
        Representation { form: self.form, fields: self.fields, encoding: self.encoding.preferred() }
    }

    /// Targets a request at the collection.
    fn on_collection(&self, request: Request) -> Request {
        let request = request.resource(&self.resource);
        match &self.namespace {
            Some(namespace) => request.namespace(namespace),
            None => request,
        }
    }

    /// Starts a request that creates an object. It fails for a namespaced resource if the handle
    /// has no namespace.
    fn for_create(&self) -> Request {
        let request = self.client.post().resource(&self.resource);
        match (&self.namespace, self.resource.scope) {
            (None, Scope::Cluster) => request,
            (namespace, _) => request.namespace(namespace.as_deref().unwrap_or_default()),
        }
    }

    /// Targets a request at one object. It fails for a namespaced resource if the handle has no
    /// namespace.
    fn on_object(&self, request: Request, name: &str) -> Request {
        let request = request.resource(&self.resource);
        let request = match (&self.namespace, self.resource.scope) {
            (None, Scope::Cluster) => request,
            (namespace, _) => request.namespace(namespace.as_deref().unwrap_or_default()),
        };
        request.name(name)
    }
}

impl<K: k8s_openapi::Resource> Api<K> {
    /// Sets the encoding of the objects that [`Self::create`] and [`Self::replace`] send. Defaults
    /// to JSON; patches and subresources are always JSON.
    ///
    /// Protobuf is smaller, and faster for the server to decode. It has exactly the fields of the
    /// built-in kinds: that is why it is only for the types of k8s-openapi, never the default, and
    /// not kept by [`Self::reading`]. Ignored for kinds without a protobuf encoding, such as custom
    /// resources.
    ///
    /// A server that does not decode protobuf answers with 415 (Unsupported Media Type). The object
    /// is then sent again as JSON, and the handle and its clones send JSON from then on.
    ///
    /// ```
    /// use dogwatch_client::{Api, Encoding};
    /// use k8s_openapi::api::core::v1::Pod;
    ///
    /// # let url = "http://localhost".parse()?;
    /// # let client = dogwatch_client::Client::new(dogwatch_client::Config::new(url))?;
    /// let pods = Api::<Pod>::all(client);
    /// assert_eq!(pods.body_encoding(), Encoding::Json);
    /// assert_eq!(pods.with_body_encoding(Encoding::Protobuf).body_encoding(), Encoding::Protobuf);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn with_body_encoding(mut self, encoding: Encoding) -> Self {
        self.body_encoding = EncodingChoice::new(if_supported(encoding, &self.resource));
        self
    }
}

/// Returns an encoding, or JSON if the resource does not have it.
fn if_supported(encoding: Encoding, resource: &ResourceType) -> Encoding {
    match preferred_encoding(resource) {
        Encoding::Protobuf => encoding,
        Encoding::Json => Encoding::Json,
    }
}

fn preferred_encoding(resource: &ResourceType) -> Encoding {
    match dogwatch_wire::has_protobuf(&resource.gvk.api_version(), &resource.gvk.kind) {
        true => Encoding::Protobuf,
        false => Encoding::Json,
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
            encoding: self.encoding.clone(),
            body_encoding: self.body_encoding.clone(),
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
