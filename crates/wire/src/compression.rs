//! Compression of packed objects with a dictionary of their kind.

use std::fmt;
use std::io;
use std::sync::Arc;

use parking_lot::Mutex;
use zstd::bulk;

/// The number of objects, and of their bytes, of which a dictionary is made.
const SAMPLES: usize = 256;
const SAMPLE_BYTES: usize = 2 * 1024 * 1024;
/// The number of bytes of an object that count, so that no few objects are all of the samples.
const LARGEST_SAMPLE: usize = 64 * 1024;
/// The maximal size of a dictionary.
const LARGEST_DICTIONARY: usize = 64 * 1024;
const LEVEL: i32 = 3;
/// A compressed object is kept if it has at most this share of its bytes, in percent.
const WORTHWHILE: usize = 90;
/// The length of an object before its compression.
const LENGTH: usize = 4;

/// The dictionary of a kind: the text that its objects have in common.
pub(crate) struct Dictionary {
    bytes: Vec<u8>,
    /// Decompressors that are not in use; each has its own copy of the dictionary.
    decompressors: Mutex<Vec<bulk::Decompressor<'static>>>,
}

/// The compression of the objects of one kind.
pub(crate) enum Training {
    /// Objects are collected until there are enough.
    Collecting {
        samples: Vec<u8>,
        sizes: Vec<usize>,
    },
    Trained {
        dictionary: Arc<Dictionary>,
        compressor: bulk::Compressor<'static>,
    },
    /// No dictionary can be made of the objects.
    Failed,
}

impl Training {
    pub(crate) fn new() -> Self {
        Self::Collecting { samples: Vec::new(), sizes: Vec::new() }
    }

    /// Compresses the bytes of an object, or learns from them. Returns `None` if they are to be
    /// kept as they are.
    pub(crate) fn compress(&mut self, object: &[u8]) -> Option<(Vec<u8>, Arc<Dictionary>)> {
        if let Self::Collecting { samples, sizes } = self {
            let sample = &object[..object.len().min(LARGEST_SAMPLE)];
            samples.extend_from_slice(sample);
            sizes.push(sample.len());
            if sizes.len() < SAMPLES && samples.len() < SAMPLE_BYTES {
                return None;
            }
            *self = train(samples, sizes).unwrap_or(Self::Failed);
        }
        let Self::Trained { dictionary, compressor } = self else { return None };
        let length = u32::try_from(object.len()).ok()?.to_le_bytes();
        let compressed = compressor.compress(object).ok()?;
        let is_worthwhile = compressed.len() + LENGTH <= object.len() / 100 * WORTHWHILE;
        is_worthwhile.then(|| ([&length[..], &compressed].concat(), Arc::clone(dictionary)))
    }
}

fn train(samples: &[u8], sizes: &[usize]) -> io::Result<Training> {
    let bytes = zstd::dict::from_continuous(samples, sizes, LARGEST_DICTIONARY)?;
    let compressor = bulk::Compressor::with_dictionary(LEVEL, &bytes)?;
    let dictionary = Arc::new(Dictionary { bytes, decompressors: Mutex::default() });
    Ok(Training::Trained { dictionary, compressor })
}

impl Dictionary {
    /// Returns the bytes of an object that was compressed with this dictionary.
    ///
    /// # Errors
    /// Returns an error if the bytes are something else.
    pub(crate) fn decompress(&self, compressed: &[u8]) -> io::Result<Vec<u8>> {
        let Some((length, compressed)) = compressed.split_first_chunk::<LENGTH>() else {
            return Err(io::ErrorKind::UnexpectedEof.into());
        };
        let waiting = self.decompressors.lock().pop();
        let mut decompressor = match waiting {
            Some(waiting) => waiting,
            None => bulk::Decompressor::with_dictionary(&self.bytes)?,
        };
        let length = usize::try_from(u32::from_le_bytes(*length)).unwrap_or(usize::MAX);
        let object = decompressor.decompress(compressed, length);
        self.decompressors.lock().push(decompressor);
        object
    }
}

impl fmt::Debug for Dictionary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dictionary").field("size", &self.bytes.len()).finish_non_exhaustive()
    }
}

impl fmt::Debug for Training {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Collecting { sizes, .. } => f.debug_tuple("Collecting").field(&sizes.len()).finish(),
            Self::Trained { dictionary, .. } => f.debug_tuple("Trained").field(dictionary).finish(),
            Self::Failed => f.write_str("Failed"),
        }
    }
}
