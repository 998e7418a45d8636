//! Writing an object as it should be, whatever it is now: created where it is missing, changed where it differs, left alone
//! otherwise.
//!
//! Objects are written as a whole, by PUT: fields that the type `K` does not have are dropped from the object on the server. Where the
//! server may know more fields than the compiled type, use [`Api::apply`] or a patch, which leave the others alone.
//!
//! To wait for an object to be in a state, there is [`Api::wait_for`]; to own only some fields of it, [`Api::apply`].

use dogwatch_client::api::{ConflictRetries, retry_on_conflict};
use dogwatch_client::{Api, Error};
use dogwatch_core::WriteParams;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// What became of an object.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Upserted<K> {
    /// It was not there.
    Created(K),
    /// It was changed.
    Updated(K),
    /// It was as it should be; nothing was written.
    Unchanged(K),
}

impl<K> Upserted<K> {
    /// The object as stored.
    pub fn into_inner(self) -> K {
        match self {
            Self::Created(object) | Self::Updated(object) | Self::Unchanged(object) => object,
        }
    }
}

/// Creates the object of this name, or changes it to what it should be.
///
/// `wanted` is given the object as it is on the server, or `None`, and gives it as it should be. It is called again when somebody
/// else was faster, so it must not change anything but its answer. An answer equal to what is there is not written.
///
/// # Errors
/// The last conflict when others keep being faster, any other error at once.
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

/// Changes an object that is there, again and again until nobody was faster. An object that stays the same is not written.
///
/// # Errors
/// `NotFound` when it is not there, the last conflict when others keep being faster, any other error at once.
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
            // Made by somebody else since we looked.
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
    // An object that cannot be compared is written; the server knows best what changed.
    let same = match (serde_json::to_value(&object), serde_json::to_value(&wanted)) {
        (Ok(is), Ok(should)) => is == should,
        _ => false,
    };
    if same {
        return Ok(Upserted::Unchanged(object));
    }
    api.replace(name, &WriteParams::default(), &wanted).await.map(Upserted::Updated)
}
