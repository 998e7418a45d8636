//! Packed objects: whole objects in the encoding of the server, decoded when they are read.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;
#[cfg(feature = "zstd")]
use std::sync::Arc;

use dogwatch_core::{Header, Object, ResourceVersion, View};
use serde::de::{DeserializeOwned, IgnoredAny, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Value, json};

use crate::bad_item::UndecodableItem;
use crate::body;
#[cfg(feature = "zstd")]
use crate::compression::Dictionary;
use crate::fields::Fields;
use crate::packed_bytes::PackedParts;
use crate::protobuf::{self, Schema};
use crate::reader::PACKED;

/// A whole object, held as the bytes that the server sent, and decoded when it is read.
///
/// A typed pod takes many times the memory of its encoding. A cache of packed objects holds the
/// encodings instead: protobuf for built-in kinds, JSON for others, without managed fields unless
/// the reader of the API keeps them. [`Self::get`] decodes the object, and [`Self::view`] a part of
/// it without the rest. Key, uid, version and labels are read without decoding.
///
/// It is a payload like any other: `Api<Packed<Pod>>` and `SharedInformer<Packed<Pod>>` read pods.
///
/// Its structure has been checked, but not whether it matches `K`: an object that does not is
/// stored, and [`Self::get`] returns the error.
///
/// With the feature `zstd`, a `Compressor` makes packed objects several times smaller.
///
/// Reading takes no lock; a packed object can be read by many threads at once.
///
/// ```
/// use dogwatch_core::Object;
/// use dogwatch_wire::{Fields, Packed, from_slice};
/// use k8s_openapi::api::core::v1::Pod;
///
/// #[derive(serde::Deserialize)]
/// struct PodNode { spec: Spec }
///
/// #[derive(serde::Deserialize)]
/// #[serde(rename_all = "camelCase")]
/// struct Spec { node_name: String }
///
/// let body = br#"{"metadata":{"name":"a","namespace":"b"},"spec":{"nodeName":"node-1","containers":[]}}"#;
/// let pod: Packed<Pod> = from_slice(body, Fields::default())?;
/// assert_eq!(pod.key().expect("it has a name").as_str(), "b/a");
/// assert_eq!(pod.view::<PodNode>()?.spec.node_name, "node-1");
/// assert!(pod.get()?.spec.is_some());
/// # Ok::<(), dogwatch_wire::UndecodableItem>(())
/// ```
pub struct Packed<K> {
    bytes: Box<[u8]>,
    /// The dictionary with which the body is compressed.
    #[cfg(feature = "zstd")]
    dictionary: Option<Arc<Dictionary>>,
    kind: PhantomData<fn() -> K>,
}

/// The bytes of a whole object.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PackedBytes {
    /// JSON without white space.
    Json(Vec<u8>),
    /// The message of a built-in kind, without an envelope. Servers leave its kind out of it.
    Protobuf(Vec<u8>),
}

impl<K> Packed<K> {
    fn new(bytes: Vec<u8>) -> Self {
        Self {
            bytes: bytes.into_boxed_slice(),
            #[cfg(feature = "zstd")]
            dictionary: None,
            kind: PhantomData,
        }
    }

    /// Replaces the body by what `compress` makes of it, if anything.
    #[cfg(feature = "zstd")]
    pub(crate) fn compressed(
        self,
        compress: impl FnOnce(&[u8]) -> Option<(Vec<u8>, Arc<Dictionary>)>,
    ) -> Self {
        let parts = self.parts();
        if parts.is_compressed {
            return self;
        }
        let Some((body, dictionary)) = compress(parts.body) else { return self };
        let compressed = PackedParts { is_compressed: true, body: &body, ..parts }.write();
        Self { dictionary: Some(dictionary), ..Self::new(compressed) }
    }

    /// Packs an object, as JSON.
    ///
    /// # Errors
    /// Returns an error if serializing the object fails.
    pub fn from_object(object: &K) -> Result<Self, serde_json::Error>
    where
        K: Serialize + Object,
    {
        Ok(Self::from_json(&object.header(), &serde_json::to_vec(object)?))
    }

    fn from_json(header: &Header<'_>, body: &[u8]) -> Self {
        let header = *header;
        Self::new(PackedParts { message: None, types: None, header, is_compressed: false, body }.write())
    }

    /// Decodes the object.
    ///
    /// # Errors
    /// Returns an error with the path of the problem if the object does not match the type.
    pub fn get(&self) -> Result<K, UndecodableItem>
    where
        K: DeserializeOwned,
    {
        self.view()
    }

    /// Decodes the fields of the object that a type names, and skips the others.
    ///
    /// # Errors
    /// Returns an error with the path of the problem if the object does not match the type.
    pub fn view<V: DeserializeOwned>(&self) -> Result<V, UndecodableItem> {
        let parts = self.parts();
        let body = self.body(&parts)?;
        // Managed fields that are to be skipped have been removed.
        let fields = Fields::default().keep_managed_fields();
        match parts.message {
            None => body::decode_json(&body, fields),
            Some(message) => {
                let bytes = protobuf::join(message, &parts.header, &body)
                    .map_err(|error| self.undecodable(error.reason(0)))?;
                body::decode_message(message, &bytes, parts.types, fields)
            }
        }
    }

    /// Returns the whole object in its encoding, to be passed on without decoding it.
    ///
    /// # Errors
    /// Returns an error if the object cannot be decompressed.
    ///
    /// ```
    /// use dogwatch_wire::{Fields, Packed, PackedBytes, from_slice};
    /// use k8s_openapi::api::core::v1::Pod;
    ///
    /// let body = br#"{"metadata":{"name":"a"}}"#;
    /// let pod: Packed<Pod> = from_slice(body, Fields::default())?;
    /// assert_eq!(pod.encoded()?, PackedBytes::Json(body.to_vec()));
    /// # Ok::<(), dogwatch_wire::UndecodableItem>(())
    /// ```
    pub fn encoded(&self) -> Result<PackedBytes, UndecodableItem> {
        let parts = self.parts();
        let body = self.body(&parts)?;
        match parts.message {
            None => Ok(PackedBytes::Json(body.into_owned())),
            Some(message) => protobuf::join(message, &parts.header, &body)
                .map(PackedBytes::Protobuf)
                .map_err(|error| self.undecodable(error.reason(0))),
        }
    }

    /// Returns the body as it was before its compression.
    #[cfg(feature = "zstd")]
    fn body<'a>(&self, parts: &PackedParts<'a>) -> Result<Cow<'a, [u8]>, UndecodableItem> {
        match &self.dictionary {
            None => Ok(Cow::Borrowed(parts.body)),
            Some(dictionary) => dictionary
                .decompress(parts.body)
                .map(Cow::Owned)
                .map_err(|error| self.undecodable(format!("the object cannot be decompressed: {error}"))),
        }
    }

    #[cfg(not(feature = "zstd"))]
    fn body<'a>(&self, parts: &PackedParts<'a>) -> Result<Cow<'a, [u8]>, UndecodableItem> {
        Ok(Cow::Borrowed(parts.body))
    }

    /// Sets the API version and the kind, unless the object has them: servers leave them out of the
    /// items of built-in lists.
    pub fn set_kind(&mut self, api_version: &str, kind: &str) {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Typed {
            #[serde(default)]
            api_version: Option<IgnoredAny>,
            #[serde(default)]
            kind: Option<IgnoredAny>,
        }

        let parts = self.parts();
        if parts.is_compressed || parts.types.is_some() {
            return;
        }
        if parts.message.is_some() {
            *self = Self::new(PackedParts { types: Some((api_version, kind)), ..parts }.write());
        } else if let Ok(Typed { api_version: None, kind: None }) = self.view()
            && let Some(members) = parts.body.strip_prefix(b"{")
        {
            let types = json!({ "apiVersion": api_version, "kind": kind }).to_string();
            let separator = if members == b"}" { "" } else { "," };
            let typed = [types.trim_end_matches('}').as_bytes(), separator.as_bytes(), members].concat();
            *self = Self::new(PackedParts { body: &typed, ..parts }.write());
        }
    }

    /// Returns the memory that the object takes on the heap, in bytes.
    pub fn size(&self) -> usize {
        self.bytes.len()
    }

    fn parts(&self) -> PackedParts<'_> {
        PackedParts::read(&self.bytes).expect("the bytes were checked when the object was packed")
    }

    #[cold]
    fn undecodable(&self, reason: String) -> UndecodableItem {
        let header = self.parts().header;
        let version = ResourceVersion::new(header.version);
        UndecodableItem { key: header.key(), version, event: None, path: String::new(), reason }
    }
}

impl<K: 'static> Object for Packed<K> {
    fn header(&self) -> Header<'_> {
        self.parts().header
    }

    fn memory(&self) -> Option<usize> {
        Some(size_of::<Self>() + self.size())
    }
}

impl<K: View> View for Packed<K> {
    type Of = K::Of;
}

impl<K> Clone for Packed<K> {
    fn clone(&self) -> Self {
        Self {
            bytes: self.bytes.clone(),
            #[cfg(feature = "zstd")]
            dictionary: self.dictionary.clone(),
            kind: PhantomData,
        }
    }
}

/// Compares the encodings: two objects that are equal when they are decoded may differ.
impl<K> PartialEq for Packed<K> {
    fn eq(&self, other: &Self) -> bool {
        self.bytes == other.bytes
    }
}

impl<K> fmt::Debug for Packed<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = self.parts().header.key();
        f.debug_struct("Packed").field("key", &key).field("size", &self.size()).finish()
    }
}

/// Decodes from any encoding. The readers of this crate keep the encoding of the server; from
/// others, the object is kept as JSON.
impl<'de, K> Deserialize<'de> for Packed<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct PackedVisitor<K>(PhantomData<fn() -> K>);

        impl<'de, K> Visitor<'de> for PackedVisitor<K> {
            type Value = Packed<K>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_byte_buf<E: serde::de::Error>(self, bytes: Vec<u8>) -> Result<Packed<K>, E> {
                // A foreign format may have bytes of its own.
                match PackedParts::read(&bytes) {
                    Some(parts) if !parts.is_compressed && parts.message.is_none_or(Schema::is_message) => {
                        Ok(Packed::new(bytes))
                    }
                    _ => Err(E::custom("bytes that are not a packed object")),
                }
            }

            fn visit_newtype_struct<D: Deserializer<'de>>(
                self,
                deserializer: D,
            ) -> Result<Packed<K>, D::Error> {
                let value = Value::deserialize(deserializer)?;
                let body = serde_json::to_vec(&value).map_err(serde::de::Error::custom)?;
                body::decode_json(&body, Fields::default().keep_managed_fields())
                    .map_err(serde::de::Error::custom)
            }
        }

        deserializer.deserialize_newtype_struct(PACKED, PackedVisitor(PhantomData))
    }
}

/// Serializes the object, not its bytes.
impl<K> Serialize for Packed<K> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.view::<Value>().map_err(serde::ser::Error::custom)?.serialize(serializer)
    }
}
