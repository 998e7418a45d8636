//! The compressor of packed objects.

use parking_lot::Mutex;

use crate::compression::Training;
use crate::packed::Packed;

/// Compresses the packed objects of one kind with zstd, with a dictionary of what they have in
/// common.
///
/// The first 256 objects train the dictionary, which takes a fraction of a second, and stay as they
/// are. Later objects are compressed one by one; one that hardly becomes smaller stays as it is.
/// Compression makes caches of similar objects several times smaller, and reading them slower: each
/// [`Packed::get`] and [`Packed::view`] decompresses the object, but not the key, the version or
/// the labels.
///
/// Used as the transform of an informer. Objects may be passed from several threads; they are
/// compressed one after the other.
///
/// ```
/// use dogwatch_wire::{Compressor, Packed};
/// use k8s_openapi::api::core::v1::ConfigMap;
///
/// let compressor = Compressor::new();
/// for number in 0..300 {
///     let mut map = ConfigMap::default();
///     map.metadata.name = Some(format!("settings-{number}"));
///     map.data = Some((0..50).map(|it| (format!("key-{it}"), format!("a common value {it}"))).collect());
///     let packed = Packed::from_object(&map)?;
///     let compressed = compressor.compress(packed.clone());
///     assert_eq!(compressed.get()?, map);
///     assert_eq!(compressed.size() < packed.size() / 5, number >= 255);
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Compressor {
    training: Mutex<Training>,
}

impl Compressor {
    /// Creates a compressor without a dictionary.
    pub fn new() -> Self {
        Self { training: Mutex::new(Training::new()) }
    }

    /// Compresses an object, or returns it as it is: see [`Compressor`].
    #[must_use]
    pub fn compress<K>(&self, object: Packed<K>) -> Packed<K> {
        object.compressed(|bytes| self.training.lock().compress(bytes))
    }
}

impl Default for Compressor {
    fn default() -> Self {
        Self::new()
    }
}
