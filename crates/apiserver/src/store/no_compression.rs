//! The compressor without the feature `zstd`: it compresses nothing.

/// A compressor that compresses nothing.
#[derive(Debug, Default)]
pub(crate) struct BytesCompressor(());

/// Compressed bytes, of which there are none.
#[derive(Debug)]
pub(super) enum CompressedBytes {}

impl BytesCompressor {
    /// Returns `None`: the bytes are to be kept as they are.
    pub(super) fn compress(&self, _bytes: &[u8]) -> Option<CompressedBytes> {
        None
    }
}

impl CompressedBytes {
    /// Never called.
    pub(super) fn decompress(&self) -> Vec<u8> {
        match *self {}
    }

    /// Never called.
    pub(super) fn len(&self) -> usize {
        match *self {}
    }
}
