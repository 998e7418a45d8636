//! Bytes in pieces: stored bytes are written as they are, one piece after the other, without
//! copying them together.

use std::collections::VecDeque;
use std::io::IoSlice;

use bytes::{Buf, Bytes};

/// A queue of byte chunks, written with vectored I/O.
#[derive(Clone, Debug, Default)]
pub struct Pieces {
    /// The first piece. Most responses and events are one piece, which needs no queue. Invariant:
    /// empty only if there are no bytes at all.
    front: Bytes,
    /// The pieces after the first. Invariant: none is empty.
    rest: VecDeque<Bytes>,
    /// Invariant: the sum of all lengths.
    remaining: usize,
}

impl Pieces {
    /// Appends a piece.
    pub fn push(&mut self, piece: Bytes) {
        if !piece.is_empty() {
            let first = self.remaining == 0;
            self.remaining += piece.len();
            if first {
                self.front = piece;
            } else {
                self.rest.push_back(piece);
            }
        }
    }

    /// Returns the number of bytes.
    pub fn len(&self) -> usize {
        self.remaining
    }

    /// Returns true if there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.remaining == 0
    }

    /// Returns all bytes as one piece; copies unless there is only one.
    pub fn concat(mut self) -> Bytes {
        let remaining = self.remaining;
        self.copy_to_bytes(remaining)
    }
}

impl Extend<Bytes> for Pieces {
    fn extend<I: IntoIterator<Item = Bytes>>(&mut self, pieces: I) {
        pieces.into_iter().for_each(|it| self.push(it));
    }
}

impl IntoIterator for Pieces {
    type Item = Bytes;
    type IntoIter =
        std::iter::Chain<std::option::IntoIter<Bytes>, std::collections::vec_deque::IntoIter<Bytes>>;

    fn into_iter(self) -> Self::IntoIter {
        let front = (!self.front.is_empty()).then_some(self.front);
        front.into_iter().chain(self.rest)
    }
}

impl FromIterator<Bytes> for Pieces {
    fn from_iter<I: IntoIterator<Item = Bytes>>(pieces: I) -> Self {
        let mut all = Self::default();
        all.extend(pieces);
        all
    }
}

impl From<Vec<u8>> for Pieces {
    fn from(bytes: Vec<u8>) -> Self {
        Self::from_iter([Bytes::from(bytes)])
    }
}

impl Buf for Pieces {
    fn remaining(&self) -> usize {
        self.remaining
    }

    fn chunk(&self) -> &[u8] {
        &self.front
    }

    fn chunks_vectored<'a>(&'a self, slices: &mut [IoSlice<'a>]) -> usize {
        let mut filled = 0;
        let pieces = std::iter::once(&self.front).chain(&self.rest).take_while(|it| !it.is_empty());
        for (slice, piece) in slices.iter_mut().zip(pieces) {
            *slice = IoSlice::new(piece);
            filled += 1;
        }
        filled
    }

    fn advance(&mut self, mut count: usize) {
        assert!(count <= self.remaining, "cannot advance past the end");
        self.remaining -= count;
        while count > 0 {
            if count < self.front.len() {
                self.front.advance(count);
                return;
            }
            count -= self.front.len();
            self.front = self.rest.pop_front().unwrap_or_default();
        }
    }

    fn copy_to_bytes(&mut self, count: usize) -> Bytes {
        if self.front.len() >= count {
            let taken = self.front.split_to(count);
            self.remaining -= count;
            if self.front.is_empty() {
                self.front = self.rest.pop_front().unwrap_or_default();
            }
            return taken;
        }
        assert!(count <= self.remaining, "cannot take more than there is");
        let mut taken = Vec::with_capacity(count);
        while taken.len() < count {
            let chunk = self.chunk();
            let length = chunk.len().min(count - taken.len());
            taken.extend_from_slice(&chunk[..length]);
            self.advance(length);
        }
        Bytes::from(taken)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn pieces_are_the_same_bytes_however_they_are_split_and_read(
            cut in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..5), 0..12),
            takes in proptest::collection::vec(1..7usize, 0..40),
        ) {
            let whole: Vec<u8> = cut.concat();
            let mut pieces: Pieces = cut.into_iter().map(Bytes::from).collect();
            prop_assert_eq!(pieces.remaining(), whole.len());
            prop_assert_eq!(pieces.clone().concat(), whole.clone());
            let mut seen = Vec::new();
            for take in takes {
                let mut slices = [IoSlice::new(&[]); 3];
                let filled = pieces.chunks_vectored(&mut slices);
                prop_assert!(slices[..filled].iter().all(|it| !it.is_empty()));
                let take = take.min(pieces.remaining());
                let mut out = vec![0; take];
                pieces.copy_to_slice(&mut out);
                seen.extend(out);
            }
            seen.extend(pieces.concat());
            prop_assert_eq!(seen, whole);
        }
    }

    #[test]
    fn several_pieces_go_out_in_one_write() {
        let pieces: Pieces = ["a", "", "bc", "d"].map(Bytes::from).into_iter().collect();
        let mut slices = [IoSlice::new(&[]); 8];
        assert_eq!(pieces.chunks_vectored(&mut slices), 3);
    }
}
