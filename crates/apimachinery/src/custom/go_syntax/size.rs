//! The size of an expression when it is compiled, estimated while it is parsed.

use super::error::{SyntaxError, error};

/// The number of bytes that a compiled expression may take. Compiling takes three times as much
/// memory for a moment, and 20 ns for each byte: half a second for the largest expression, in a
/// build without optimizations. `[\p{L}\p{N}_.-]{1,256}` takes 6 MiB, and `\p{L}{0,1000}` 20 MiB.
pub(in crate::custom) const LARGEST: u64 = 16 << 20;
/// The approximate number of bytes of a compiled expression without any atoms.
pub(super) const OF_EXPRESSION: u64 = 4_000;
/// The approximate number of bytes of a literal, in either case and with up to four bytes, or of a
/// position.
pub(super) const OF_LITERAL: u64 = 160;
/// The approximate number of bytes of a class of ASCII characters.
pub(super) const OF_CLASS: u64 = 200;
/// The approximate number of bytes that each further range of a class takes.
pub(super) const OF_RANGE: u64 = 100;
/// The approximate number of bytes of a class of all characters except a few.
pub(super) const OF_OTHERS: u64 = 450;
/// The approximate number of bytes of the repetition of a group. The sizes of other atoms include
/// theirs.
pub(super) const OF_REPETITION: u64 = 160;
/// The number of code points that the crate compares with the table of cases in the time that it
/// takes for one byte of a compiled expression.
pub(super) const FOLDED_PER_BYTE: u64 = 4;
/// The number of bytes of alternatives that the crate sorts again for each further one, if all are
/// single characters, in the time that it takes for one byte of a compiled expression.
pub(super) const SORTED_PER_BYTE: u64 = 1_000;
/// The number of all code points.
pub(super) const ALL: u64 = 0x11_0000;

/// A group that is being parsed.
#[derive(Default)]
pub(super) struct Group {
    /// The last atom, which can still be repeated.
    pub(super) atom: Option<Atom>,
    /// The largest product of nested repetitions in the group.
    pub(super) repeats: u64,
    /// The sum of the sizes of the settled atoms in the group.
    pub(super) size: u64,
    /// The number of atoms in the current alternative.
    pub(super) atoms: usize,
    /// True if an earlier alternative has no atom or several.
    pub(super) has_sequences: bool,
    /// True if there is anything but literals in it.
    pub(super) has_others: bool,
}

/// An expression that can be repeated.
#[derive(Clone, Copy)]
pub(super) struct Atom {
    pub(super) repeats: u64,
    pub(super) size: u64,
    pub(super) is_group: bool,
    /// The position of the operator that repeats it, if there is one.
    pub(super) repeated_at: Option<usize>,
}

impl Group {
    /// Adds the last atom to the group: it cannot be repeated any more.
    pub(super) fn settle(&mut self) {
        if let Some(atom) = self.atom.take() {
            self.repeats = self.repeats.max(atom.repeats);
            self.size = self.size.saturating_add(atom.size);
        }
    }

    pub(super) fn check_size(&self) -> Result<(), SyntaxError> {
        check_size(self.size.saturating_add(self.atom.map_or(0, |atom| atom.size)))
    }
}

pub(super) fn check_size(size: u64) -> Result<(), SyntaxError> {
    let fits = size <= LARGEST - OF_EXPRESSION;
    if fits { Ok(()) } else { Err(error("expression too large", "")) }
}
