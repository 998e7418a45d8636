//! Classification of 64 bytes at a time: the positions of quotes, backslashes and brackets, as
//! bits.
//!
//! It feeds the scanner, and knows no JSON beyond these characters. The comparisons use the widest
//! instructions of the processor through the `fearless_simd` crate: AVX-512, AVX2, SSE2, NEON or
//! scalar code behind one safe interface. Everything here is `inline(always)` into the function
//! that dispatched on the processor: a function that is not inlined would be compiled for the
//! baseline instruction set.

use fearless_simd::{Simd, SimdBase, SimdMask, u8x64};

/// The number of bytes that are classified together: one bit of a word for each.
pub(super) const BLOCK: usize = 64;

/// The positions of characters in one block; bit `n` is for byte `n`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Classes {
    /// Every `"`, escaped or not.
    pub(super) quote: u64,
    /// Every `\`.
    pub(super) backslash: u64,
    /// Every `{` and `[`, inside strings too.
    pub(super) open: u64,
    /// Every `}` and `]`, inside strings too.
    pub(super) close: u64,
    /// Every byte below 0x20.
    pub(super) control: u64,
}

/// Finds the characters that give JSON its structure.
#[inline(always)]
pub(super) fn classify<S: Simd>(simd: S, bytes: &[u8; BLOCK]) -> Classes {
    let lane = u8x64::from_slice(simd, bytes);
    // `[` and `{` differ only in bit 0x20, and so do `]` and `}`: set it, and one comparison finds
    // both.
    let folded = lane | u8x64::splat(simd, 0x20);
    Classes {
        quote: equal(simd, lane, b'"'),
        backslash: equal(simd, lane, b'\\'),
        open: equal(simd, folded, b'{'),
        close: equal(simd, folded, b'}'),
        control: lane.simd_le(u8x64::splat(simd, 0x1f)).to_bitmask(),
    }
}

#[inline(always)]
fn equal<S: Simd>(simd: S, lane: u8x64<S>, byte: u8) -> u64 {
    lane.simd_eq(u8x64::splat(simd, byte)).to_bitmask()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use fearless_simd::{Level, dispatch};

    use super::*;

    /// Checks with the widest instructions of this processor, and with the baseline.
    fn assert_classified(bytes: &[u8; BLOCK]) {
        for level in [Level::new(), Level::baseline()] {
            assert_eq!(dispatch!(level, simd => classify(simd, bytes)), plain(bytes), "{level:?} {bytes:?}");
        }
    }

    fn plain(bytes: &[u8; BLOCK]) -> Classes {
        let bits = |wanted: &[u8]| {
            bytes.iter().enumerate().fold(0, |bits, (at, it)| bits | (u64::from(wanted.contains(it)) << at))
        };
        Classes {
            quote: bits(b"\""),
            backslash: bits(b"\\"),
            open: bits(b"{["),
            close: bits(b"}]"),
            control: bytes.iter().enumerate().fold(0, |bits, (at, it)| bits | (u64::from(*it < 0x20) << at)),
        }
    }

    #[test]
    fn every_byte_value_is_classified_the_same_at_every_position() {
        for value in 0..=u8::MAX {
            for at in [0, 7, 8, 31, 63] {
                let mut bytes = [b'x'; BLOCK];
                bytes[at] = value;
                assert_classified(&bytes);
            }
        }
    }

    proptest! {
        #[test]
        fn a_block_is_classified_as_its_bytes_one_by_one(bytes in proptest::array::uniform32(any::<u8>()), seed in any::<[u8; 32]>()) {
            let mut block = [0; BLOCK];
            block[..32].copy_from_slice(&bytes);
            for (slot, pick) in block[32..].iter_mut().zip(seed) {
                *slot = b"\"\\{}[]a\n"[usize::from(pick % 8)];
            }
            assert_classified(&block);
        }
    }
}
