//! Sixty-four bytes at a time: where the quotes, backslashes and brackets are, as bits.
//!
//! Feeds the scanner, knows no JSON beyond these characters. The comparisons are sixteen bytes wide, through the `wide`
//! crate: SSE2, NEON or plain code, whichever the target has, behind a safe face. (The processor's own
//! intrinsics are safe to call only from functions that no safe function may call.)

use wide::u8x16;

/// How many bytes are looked at together: one bit of a word for each.
pub(super) const BLOCK: usize = 64;

/// What stands where in one block; bit `n` speaks of byte `n`.
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
    /// Whether any byte is below 0x20; which ones is worked out by [`controls`] only then.
    pub(super) has_control: bool,
}

/// Finds the characters that give JSON its structure.
#[inline]
pub(super) fn classify(bytes: &[u8; BLOCK]) -> Classes {
    let (lanes, _) = bytes.as_chunks::<16>();
    let lanes = [0, 1, 2, 3].map(|at| u8x16::new(lanes[at]));
    // `[` and `{` differ only in bit 0x20, and so do `]` and `}`: set it, and one comparison finds both.
    let folded = lanes.map(|lane| lane | u8x16::splat(0x20));
    let [a, b, c, d] = lanes;
    let lowest = a.min(b).min(c.min(d));
    Classes {
        quote: equal(lanes, b'"'),
        backslash: equal(lanes, b'\\'),
        open: equal(folded, b'{'),
        close: equal(folded, b'}'),
        has_control: lowest.min(u8x16::splat(0x1f)).simd_eq(lowest).to_bitmask() != 0,
    }
}

#[inline]
fn equal(lanes: [u8x16; 4], byte: u8) -> u64 {
    let [a, b, c, d] = lanes.map(|lane| u64::from(lane.simd_eq(u8x16::splat(byte)).to_bitmask()));
    a | b << 16 | c << 32 | d << 48
}

/// The bits of all bytes below 0x20.
#[cold]
pub(super) fn controls(bytes: &[u8; BLOCK]) -> u64 {
    bytes.iter().enumerate().fold(0, |bits, (at, byte)| bits | (u64::from(*byte < 0x20) << at))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn plain(bytes: &[u8; BLOCK]) -> Classes {
        let bits = |wanted: &[u8]| {
            bytes.iter().enumerate().fold(0, |bits, (at, it)| bits | (u64::from(wanted.contains(it)) << at))
        };
        Classes {
            quote: bits(b"\""),
            backslash: bits(b"\\"),
            open: bits(b"{["),
            close: bits(b"}]"),
            has_control: controls(bytes) != 0,
        }
    }

    #[test]
    fn every_byte_value_is_classified_alike_wherever_it_stands() {
        for value in 0..=u8::MAX {
            for at in [0, 7, 8, 31, 63] {
                let mut bytes = [b'x'; BLOCK];
                bytes[at] = value;
                assert_eq!(classify(&bytes), plain(&bytes), "{value:#x} at {at}");
            }
        }
    }

    proptest! {
        #[test]
        fn sixteen_at_once_see_what_one_by_one_sees(bytes in proptest::array::uniform32(any::<u8>()), seed in any::<[u8; 32]>()) {
            let mut block = [0; BLOCK];
            block[..32].copy_from_slice(&bytes);
            for (slot, pick) in block[32..].iter_mut().zip(seed) {
                *slot = b"\"\\{}[]a\n"[usize::from(pick % 8)];
            }
            prop_assert_eq!(classify(&block), plain(&block));
        }
    }
}
