//! Single objects: decoding a body that is one object, and encoding one.

use serde::Serialize;
use serde::de::{DeserializeOwned, DeserializeSeed};
use serde_json::Value;

use crate::bad_item::UndecodableItem;
use crate::body;
use crate::fields::Fields;
use crate::protobuf::{self, EncodeError, Schema};

/// Decodes a JSON body that is one object.
///
/// As in lists and watches, fields that `T` does not ask for are skipped, and managed fields are
/// skipped unless `fields` says to keep them.
///
/// # Errors
/// Returns an error if the body is empty, truncated, not JSON or more than one value, or does not
/// match the type.
pub fn from_slice<T: DeserializeOwned>(body: &[u8], fields: Fields) -> Result<T, UndecodableItem> {
    body::decode_json(body, fields)
}

/// Decodes a protobuf body that is one object in its envelope,
/// `application/vnd.kubernetes.protobuf`.
///
/// The object has the same fields as in JSON, among them `apiVersion` and `kind`, and any type that
/// decodes from JSON decodes from protobuf.
///
/// # Errors
/// Returns an error if the body has no envelope, is of an unknown kind, is malformed, or does not
/// match the type.
pub fn from_protobuf<T: DeserializeOwned>(body: &[u8], fields: Fields) -> Result<T, UndecodableItem> {
    body::decode_protobuf(body, fields)
}

/// Decodes a body that is one object in the way of a seed: protobuf if it starts with
/// [`Envelope::MAGIC`](crate::Envelope::MAGIC), or else JSON.
///
/// For readers that know only at run time which parts they need. What the seed ignores is skipped,
/// as for [`from_slice`] and [`from_protobuf`]. The seed may be used twice, for a message whose
/// fields are not in the order in which they can be read.
///
/// # Errors
/// As [`from_slice`] and [`from_protobuf`].
///
/// ```
/// use dogwatch_wire::{Fields, decode_with};
/// use std::marker::PhantomData;
///
/// let body = br#"{"spec":{"replicas":3}}"#;
/// let object = decode_with(body, Fields::default(), PhantomData::<serde_json::Value>)?;
/// assert_eq!(object["spec"]["replicas"], 3);
/// # Ok::<(), dogwatch_wire::UndecodableItem>(())
/// ```
pub fn decode_with<S, T>(body: &[u8], fields: Fields, seed: S) -> Result<T, UndecodableItem>
where
    S: Copy + for<'de> DeserializeSeed<'de, Value = T>,
{
    body::decode_with(body, fields, seed)
}

/// Returns a body that is one object, in protobuf or in JSON, with another resource version.
/// Everything else in it stays as it is, also fields that this crate does not know.
///
/// # Errors
/// Returns an error if the body is malformed, or, in JSON, if its metadata has no resource version.
///
/// ```
/// let object = br#"{"metadata":{"name":"a","resourceVersion":"7"},"data":{"k":"v"}}"#;
/// let newer = dogwatch_wire::with_resource_version(object, "18")?;
/// assert_eq!(newer, br#"{"metadata":{"name":"a","resourceVersion":"18"},"data":{"k":"v"}}"#);
/// # Ok::<(), dogwatch_wire::UndecodableItem>(())
/// ```
pub fn with_resource_version(body: &[u8], version: &str) -> Result<Vec<u8>, UndecodableItem> {
    body::with_version(body, version)
}

/// Returns whether a kind has a protobuf encoding that this crate knows: the built-in kinds of
/// Kubernetes 1.36 have one, custom resources do not.
///
/// ```
/// assert!(dogwatch_wire::has_protobuf("apps/v1", "Deployment"));
/// assert!(!dogwatch_wire::has_protobuf("example.com/v1", "Widget"));
/// ```
pub fn has_protobuf(api_version: &str, kind: &str) -> bool {
    Schema::get().of_kind(api_version, kind).is_some()
}

/// Encodes an object as JSON.
///
/// # Errors
/// Returns an error if serializing the type fails, or if it has a map whose keys are not strings.
pub fn to_vec<T: Serialize + ?Sized>(object: &T) -> Result<Vec<u8>, serde_json::Error> {
    serde_json::to_vec(object)
}

/// Encodes an object of a built-in kind as protobuf, in its envelope.
///
/// The object must have an API version and a kind, as typed objects of k8s-openapi have.
///
/// # Errors
/// Returns an error if the kind has no protobuf encoding, if a value does not have the type of its
/// field, or if protobuf has no such field, as for types of other versions of Kubernetes than 1.36
/// and 1.37: it would be lost.
///
/// ```
/// use dogwatch_wire::{Fields, from_protobuf, to_protobuf};
/// use k8s_openapi::api::core::v1::ConfigMap;
///
/// let mut map = ConfigMap::default();
/// map.metadata.name = Some("settings".to_owned());
/// let body = to_protobuf(&map)?;
/// assert_eq!(from_protobuf::<ConfigMap>(&body, Fields::default())?, map);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn to_protobuf<T: Serialize + ?Sized>(object: &T) -> Result<Vec<u8>, EncodeError> {
    protobuf::encode(&serde_json::to_value(object).map_err(EncodeError::new)?, true)
}

/// Encodes the JSON value of an object of a built-in kind as protobuf. Fields that the kind does
/// not have in protobuf are left out.
///
/// # Errors
/// Returns an error if the kind has no protobuf encoding, or if a value does not have the type of
/// its field.
pub fn value_to_protobuf(object: &Value) -> Result<Vec<u8>, EncodeError> {
    protobuf::encode(object, false)
}
