//! Create-or-update: creates a missing object, changes it where it differs from the desired state,
//! and writes nothing otherwise.
//!
//! Objects are replaced as a whole with PUT: fields that the type `K` does not have are removed
//! from the object on the server. If the server may know more fields than the compiled type, use
//! [`Api::apply`] or a patch, which leave other fields alone.
//!
//! To wait until an object reaches a state, see [`Api::wait_for`]; to manage only some of its
//! fields, [`Api::apply`].

use dogwatch_client::api::{ConflictRetries, retry_on_conflict};
use dogwatch_client::{Api, Error};
use dogwatch_core::WriteParams;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// The outcome of an upsert, with the object as stored.
///
/// ```
/// use dogwatch_client::Api;
/// use dogwatch_controller::create_or_update;
/// use dogwatch_controller::upsert::Upserted;
/// use k8s_openapi::api::core::v1::ConfigMap;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = dogwatch_apiserver::ApiServer::in_process().await?;
/// # let url = server.url().parse()?;
/// # let client = dogwatch_client::Client::from_service(url, "default", server.service());
/// let maps = Api::<ConfigMap>::default_namespaced(client);
/// let wanted = |current: Option<ConfigMap>| {
///     let mut map = current.unwrap_or_default();
///     map.metadata.name = Some("settings".to_owned());
///     map.data.get_or_insert_default().insert("colour".to_owned(), "red".to_owned());
///     map
/// };
/// let first = create_or_update(&maps, "settings", wanted).await?;
/// assert!(matches!(first, Upserted::Created(_)));
/// let second = create_or_update(&maps, "settings", wanted).await?;
/// assert!(matches!(second, Upserted::Unchanged(_)));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Upserted<K> {
    /// The object did not exist.
    Created(K),
    /// The object was changed.
    Updated(K),
    /// The object already had the desired state; nothing was written.
    Unchanged(K),
}

impl<K> Upserted<K> {
    /// Returns the object as stored.
    pub fn into_inner(self) -> K {
        match self {
            Self::Created(object) | Self::Updated(object) | Self::Unchanged(object) => object,
        }
    }
}

/// Creates the object of this name, or updates it to the desired state.
///
/// `wanted` receives the current object, or `None` if there is none, and returns the desired
/// object. It is called again after a conflict with another writer, so it must be free of side
/// effects. If it returns an object equal to the current one, nothing is written.
///
/// # Errors
/// Returns the last conflict if the attempts are used up, and any other error at once.
///
/// # Cancel safety
/// If the future is dropped, the write may still be carried out; another call finds its result.
///
/// # Examples
/// ```
/// use dogwatch_client::Api;
/// use dogwatch_controller::create_or_update;
/// use k8s_openapi::api::core::v1::ConfigMap;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = dogwatch_apiserver::ApiServer::in_process().await?;
/// # let url = server.url().parse()?;
/// # let client = dogwatch_client::Client::from_service(url, "default", server.service());
/// let maps = Api::<ConfigMap>::default_namespaced(client);
/// let stored = create_or_update(&maps, "settings", |current| {
///     let mut map = current.unwrap_or_default(); // keeps what other writers set
///     map.metadata.name = Some("settings".to_owned());
///     map
/// });
/// assert!(stored.await?.into_inner().metadata.uid.is_some());
/// # Ok(())
/// # }
/// ```
pub async fn create_or_update<K>(
    api: &Api<K>,
    name: &str,
    wanted: impl Fn(Option<K>) -> K,
) -> Result<Upserted<K>, Error>
where
    K: Clone + Serialize + DeserializeOwned,
{
    retry_on_conflict(ConflictRetries::BRIEF, || put(api, name, &wanted)).await
}

/// Changes an existing object, and retries after conflicts with other writers. An object that stays
/// the same is not written.
///
/// # Errors
/// Returns `NotFound` if the object does not exist, the last conflict if the attempts are used up,
/// and any other error at once.
///
/// # Cancel safety
/// If the future is dropped, the write may still be carried out.
///
/// # Examples
/// ```
/// use dogwatch_client::Api;
/// use dogwatch_controller::upsert::{Upserted, update};
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
/// let outcome = update(&maps, "settings", |map| map.immutable = Some(true)).await?;
/// assert!(matches!(outcome, Upserted::Updated(_)));
/// # Ok(())
/// # }
/// ```
pub async fn update<K>(api: &Api<K>, name: &str, change_it: impl Fn(&mut K)) -> Result<Upserted<K>, Error>
where
    K: Clone + Serialize + DeserializeOwned,
{
    let changed = |mut object: K| {
        change_it(&mut object);
        object
    };
    let write = || async { change(api, name, api.get(name).await?, &changed).await };
    retry_on_conflict(ConflictRetries::BRIEF, write).await
}

async fn put<K>(api: &Api<K>, name: &str, wanted: &impl Fn(Option<K>) -> K) -> Result<Upserted<K>, Error>
where
    K: Clone + Serialize + DeserializeOwned,
{
    let object = match api.get_opt(name).await? {
        Some(object) => object,
        None => match api.create(&WriteParams::default(), &wanted(None)).await {
            // Another client has created it since the read.
            Err(error) if error.is_already_exists() => api.get(name).await?,
            created => return created.map(Upserted::Created),
        },
    };
    change(api, name, object, &|it| wanted(Some(it))).await
}

async fn change<K>(
    api: &Api<K>,
    name: &str,
    object: K,
    changed: &impl Fn(K) -> K,
) -> Result<Upserted<K>, Error>
where
    K: Clone + Serialize + DeserializeOwned,
{
    let wanted = changed(object.clone());
    // An object that cannot be serialized for the comparison is written; the server detects a
    // no-op.
    let same = match (serde_json::to_value(&object), serde_json::to_value(&wanted)) {
        (Ok(is), Ok(should)) => is == should,
        _ => false,
    };
    if same {
        return Ok(Upserted::Unchanged(object));
    }
    api.replace(name, &WriteParams::default(), &wanted).await.map(Upserted::Updated)
}
