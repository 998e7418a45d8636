//! The bytes of a document in a response: complete, or indented or encoded as they are read.

use std::fmt;

use bytes::{Buf, Bytes};

use super::indent::Indenter;
use super::pieces::Pieces;

/// The maximum length of an indented document that is produced at once, so that its response has a
/// length.
const SMALL: usize = 16 * 1024;

/// The bytes of a document.
#[derive(Debug)]
pub(super) enum Document {
    /// The bytes exist, and may be shared with the store.
    Ready(Pieces),
    /// JSON that is indented as it is read.
    Indented(Indenter),
    /// A document that is encoded as it is read, and its pieces that are ready.
    Produced(Box<dyn Produce>, Pieces),
}

/// The producer of a document that is encoded as it is read.
pub(super) trait Produce: fmt::Debug + Send {
    /// Returns the next pieces; `None` after the last. They are empty if the work of this step has
    /// produced nothing.
    ///
    /// The work of a step is about `budget` bytes, which are counted off: those that it has read or
    /// produced, whichever are more.
    ///
    /// # Errors
    ///
    /// Returns an error if the document cannot be completed.
    fn next(&mut self, budget: &mut usize) -> Result<Option<Pieces>, Incomplete>;
}

/// The error of a document that cannot be completed: its response is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Incomplete;

impl Document {
    /// Returns the indented form of JSON that has no spaces between its tokens.
    pub(super) fn indented(json: Pieces) -> Self {
        if json.remaining() <= SMALL {
            let mut indenter = Indenter::new(json.clone());
            let whole = indenter.next(SMALL);
            if indenter.is_done() {
                return Self::Ready(whole.into());
            }
        }
        Self::Indented(Indenter::new(json))
    }

    /// Returns the number of bytes left, if it is known.
    pub(super) fn length(&self) -> Option<usize> {
        match self {
            Self::Ready(pieces) => Some(pieces.remaining()),
            Self::Indented(_) | Self::Produced(..) => None,
        }
    }

    /// Returns true if there are more than `limit` bytes left.
    pub(super) fn exceeds(&self, limit: usize) -> bool {
        match self {
            Self::Ready(pieces) => pieces.remaining() > limit,
            Self::Indented(indenter) => indenter.exceeds(limit),
            // Only long documents are produced.
            Self::Produced(..) => true,
        }
    }

    /// Returns the next bytes, about `budget` at most; `None` after the last. They are empty if the
    /// work of this step has produced nothing. The work is counted off the budget.
    ///
    /// # Errors
    ///
    /// Returns an error if the document cannot be completed.
    pub(super) fn next(&mut self, budget: &mut usize) -> Result<Option<Bytes>, Incomplete> {
        let bytes = match self {
            // One piece at a time, which is not copied.
            Self::Ready(pieces) => next_piece(pieces, *budget),
            Self::Indented(indenter) => indenter.next(*budget).into(),
            Self::Produced(producer, ready) => {
                if ready.is_empty() {
                    let Some(produced) = producer.next(budget)? else { return Ok(None) };
                    *ready = produced;
                }
                // It was counted when it was produced.
                return Ok(Some(next_piece(ready, usize::MAX)));
            }
        };
        *budget = budget.saturating_sub(bytes.len());
        Ok((!bytes.is_empty()).then_some(bytes))
    }

    /// Returns the next pieces, which may be longer than `budget` by one item; `None` after the
    /// last. They are empty if the work of this step has produced nothing.
    ///
    /// # Errors
    ///
    /// As [`Self::next`].
    pub(super) fn next_pieces(&mut self, mut budget: usize) -> Result<Option<Pieces>, Incomplete> {
        match self {
            Self::Produced(producer, ready) if ready.is_empty() => producer.next(&mut budget),
            Self::Produced(_, ready) => Ok(Some(std::mem::take(ready))),
            other => Ok(other.next(&mut budget)?.map(|it| Pieces::from_iter([it]))),
        }
    }
}

fn next_piece(pieces: &mut Pieces, limit: usize) -> Bytes {
    pieces.copy_to_bytes(pieces.chunk().len().min(limit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_small_indented_document_has_a_length() {
        let list = |n: usize| Pieces::from(format!("[{}1]", "1,".repeat(n)).into_bytes());
        let small = Document::indented(list(10));
        assert_eq!((small.length(), small.exceeds(56), small.exceeds(57)), (Some(57), true, false));
        for n in [SMALL / 3, SMALL] {
            let mut large = Document::indented(list(n));
            assert_eq!((large.length(), large.exceeds(SMALL)), (None, true));
            let mut length = 0;
            while let Some(bytes) = large.next(&mut 1000).unwrap() {
                assert!(bytes.len() < 1010, "{} bytes", bytes.len());
                length += bytes.len();
            }
            assert_eq!(length, "[\n  1\n]".len() + n * "1,\n  ".len());
        }
    }
}
