//! Compression of any bytes that are alike, such as the encodings of objects of one kind.

use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::compression::{Dictionary, Training};

/// Compresses byte strings that are alike with zstd, with a dictionary of what they have in common.
///
/// The first 256 train the dictionary, and are not compressed. For objects that are decoded as they
/// are read, there is [`Compressor`](crate::Compressor).
///
/// ```
/// use dogwatch_wire::BytesCompressor;
///
/// let compressor = BytesCompressor::new();
/// let text = |number: u32| format!("{number} {}", "some words that all of them have ".repeat(20));
/// let compressed: Vec<_> = (0..300).filter_map(|it| compressor.compress(text(it).as_bytes())).collect();
/// let last = compressed.last().expect("enough to train a dictionary");
/// assert!(last.len() < 100);
/// assert_eq!(last.decompress(), text(299).as_bytes());
/// ```
#[derive(Debug)]
pub struct BytesCompressor {
    training: Mutex<Training>,
}

/// Compressed bytes. A clone shares the dictionary.
#[derive(Clone)]
pub struct CompressedBytes {
    bytes: Box<[u8]>,
    dictionary: Arc<Dictionary>,
}

impl BytesCompressor {
    /// Creates a compressor without a dictionary.
    pub fn new() -> Self {
        Self { training: Mutex::new(Training::new()) }
    }

    /// Compresses bytes; `None` if there is no dictionary yet, or if they hardly become smaller.
    /// Calls from several threads happen one after the other.
    pub fn compress(&self, bytes: &[u8]) -> Option<CompressedBytes> {
        let (bytes, dictionary) = self.training.lock().compress(bytes)?;
        Some(CompressedBytes { bytes: bytes.into_boxed_slice(), dictionary })
    }
}

impl Default for BytesCompressor {
    fn default() -> Self {
        Self::new()
    }
}

impl CompressedBytes {
    /// Returns the bytes as they were.
    pub fn decompress(&self) -> Vec<u8> {
        self.dictionary.decompress(&self.bytes).expect("the bytes were compressed with this dictionary")
    }

    /// Returns the number of compressed bytes.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Returns true if there are no bytes, which is never the case.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }
}

impl fmt::Debug for CompressedBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CompressedBytes").field("len", &self.len()).finish_non_exhaustive()
    }
}
