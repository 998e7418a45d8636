//! The log of the changes of a collection, in order.
//!
//! The changes are in segments of [`SEGMENT`], each reference-counted: a clone shares them all, and
//! a write copies at most the last. Positions count from the first change ever, so that a position
//! stays valid when changes are dropped at the front. Changes may have the same version.

use std::collections::VecDeque;
use std::sync::{Arc, OnceLock};

use dogwatch_core::ObjectKey;

use super::encoded::Encoded;

/// The number of changes in a segment.
const SEGMENT: u64 = 256;

/// A change to one object.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Change {
    /// The version of the change.
    pub version: u64,
    /// The object before the change; `None` if it was created.
    pub before: Option<Arc<Encoded>>,
    /// The object after the change; `None` if it was deleted.
    pub after: Option<Arc<Encoded>>,
    /// The object before the change with the version of the change, encoded once for all watchers.
    last: OnceLock<Arc<Encoded>>,
    /// The result of [`Self::changes_spec`], which takes parsing both states.
    changes_spec: OnceLock<bool>,
}

impl Change {
    /// Creates a change from one state to another.
    pub fn new(version: u64, before: Option<Arc<Encoded>>, after: Option<Arc<Encoded>>) -> Self {
        Self { version, before, after, last: OnceLock::new(), changes_spec: OnceLock::new() }
    }

    /// Sets the last state of a deleted object. By default it is the object before the change, with
    /// the version of the change.
    #[must_use]
    pub fn with_last(self, last: Arc<Encoded>) -> Self {
        Self { last: OnceLock::from(last), ..self }
    }

    /// Returns the object before the change, with the version of the change. Watchers whose
    /// selection it left get this state.
    pub fn last(&self) -> Option<Arc<Encoded>> {
        let before = self.before.as_ref()?;
        if let Some(known) = self.last.get() {
            return Some(Arc::clone(known));
        }
        // The versions differ for an object of a copy that was listed: see `copy.rs`.
        let version = self.after.as_ref().map_or(self.version, |it| it.version());
        let encode = || Arc::new(before.with_version(version));
        if before.is_compressed() {
            // It would be kept for as long as the change, and it is many times larger.
            return Some(encode());
        }
        Some(Arc::clone(self.last.get_or_init(encode)))
    }

    /// Returns true if the `spec` after the change is another than before. Computed once for all
    /// watchers, of which there may be thousands.
    pub(crate) fn changes_spec(&self) -> bool {
        let spec = |state: &Option<Arc<Encoded>>| state.as_ref().map(|it| it.to_value()["spec"].take());
        *self.changes_spec.get_or_init(|| spec(&self.before) != spec(&self.after))
    }

    /// Returns the key of the object.
    pub(super) fn key(&self) -> Option<&ObjectKey> {
        self.after.as_ref().or(self.before.as_ref()).map(|it| it.key())
    }

    /// Returns the memory that it may hold: both states, and for a deletion the last state once
    /// more. Changes of one object share states, so the sum over a log is an upper bound.
    pub(super) fn size(&self) -> usize {
        let of = |state: &Option<Arc<Encoded>>| state.as_ref().map_or(0, |it| it.size());
        let before = of(&self.before);
        size_of::<Self>() + before + if self.after.is_some() { of(&self.after) } else { before }
    }
}

/// The kept changes.
///
/// Invariant: segment boundaries are at multiples of [`SEGMENT`]; the first segment starts at
/// `first`, and only the last may have room left.
#[derive(Clone, Debug, Default)]
pub(super) struct Log {
    segments: VecDeque<Arc<Vec<Arc<Change>>>>,
    /// The position of the first kept change.
    first: u64,
    len: usize,
    /// The sum of [`Change::size`].
    size: usize,
}

impl Log {
    pub(super) fn push(&mut self, change: Arc<Change>) {
        self.size += change.size();
        if self.len == 0 || self.end().is_multiple_of(SEGMENT) {
            self.segments.push_back(Arc::default());
        }
        let last = self.segments.back_mut().expect("a segment was just pushed, or the last one has room");
        Arc::make_mut(last).push(change);
        self.len += 1;
    }

    /// Returns the number of kept changes.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Returns the memory that the changes may hold.
    pub(super) fn size(&self) -> usize {
        self.size
    }

    /// Returns the oldest kept change.
    pub(super) fn oldest(&self) -> Option<&Arc<Change>> {
        self.segments.front()?.first()
    }

    /// Returns the change at a position: `Some(None)` if it has not happened yet, `None` if it was
    /// dropped.
    pub(super) fn get(&self, position: u64) -> Option<Option<&Arc<Change>>> {
        position.checked_sub(self.first)?;
        if position >= self.end() {
            return Some(None);
        }
        let (segment, begin) = self.place(position);
        Some(self.segments[segment].get(usize::try_from(position - begin).unwrap_or(usize::MAX)))
    }

    /// Returns the position of the first change that is newer than a version.
    pub(super) fn position_after(&self, version: u64) -> u64 {
        let old = |it: &Arc<Vec<Arc<Change>>>| it.last().is_some_and(|it| it.version <= version);
        let segment = self.segments.partition_point(old);
        let Some(changes) = self.segments.get(segment) else { return self.end() };
        let begin = self.begin_of(segment);
        begin + changes.partition_point(|it| it.version <= version) as u64
    }

    /// Returns the changes that are newer than a version, oldest first.
    pub(super) fn after(&self, version: u64) -> impl Iterator<Item = &Arc<Change>> {
        let position = self.position_after(version);
        let (segment, begin) = self.place(position);
        let passed = usize::try_from(position - begin).unwrap_or(usize::MAX);
        self.segments.iter().skip(segment).flat_map(|it| it.iter()).skip(passed)
    }

    /// Returns the number of changes that are newer than a version.
    pub(super) fn count_after(&self, version: u64) -> usize {
        usize::try_from(self.end() - self.position_after(version)).unwrap_or(usize::MAX)
    }

    /// Returns the version up to which changes have to be dropped to keep within the number `most`
    /// and the size `largest`; `None` if the log is within them already. The newest change may have
    /// any size: without it, no watch could ever receive it.
    pub(super) fn excess(&self, most: usize, largest: usize) -> Option<u64> {
        let (mut len, mut size, mut version) = (self.len, self.size, None);
        for change in self.segments.iter().flat_map(|it| it.iter()) {
            if len <= most && (size <= largest || len == 1) {
                break;
            }
            (len, size) = (len - 1, size - change.size());
            version = Some(change.version);
        }
        version
    }

    /// Drops the changes up to a version. Returns the version of the last one dropped.
    pub(super) fn drop_to(&mut self, version: u64) -> Option<u64> {
        let mut last = None;
        while let Some(front) = self.segments.front_mut()
            && let Some(oldest) = front.first()
            && oldest.version <= version
        {
            let old = front.partition_point(|it| it.version <= version);
            self.size -= front[..old].iter().map(|it| it.size()).sum::<usize>();
            last = front[..old].last().map(|it| it.version);
            (self.first, self.len) = (self.first + old as u64, self.len - old);
            if old == front.len() {
                self.segments.pop_front();
            } else {
                Arc::make_mut(front).drain(..old);
            }
        }
        last
    }

    /// Returns the position after the newest change.
    fn end(&self) -> u64 {
        self.first + self.len as u64
    }

    /// Returns the segment of a position, and the position at which that segment starts.
    fn place(&self, position: u64) -> (usize, u64) {
        let segment = position / SEGMENT - self.first / SEGMENT;
        let segment = usize::try_from(segment).unwrap_or(usize::MAX);
        (segment, self.begin_of(segment))
    }

    fn begin_of(&self, segment: usize) -> u64 {
        let begin = (self.first / SEGMENT).saturating_add(segment as u64).saturating_mul(SEGMENT);
        begin.max(self.first)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Compares the segments with a plain list while changes are dropped.
        #[test]
        fn segments_hold_what_a_plain_list_holds(
            steps in proptest::collection::vec((1..400u64, 0..4u8), 1..12),
            asked in 0..3000u64,
        ) {
            let (mut log, mut model, mut version) = (Log::default(), Vec::new(), 0);
            for (many, part) in steps {
                for _ in 0..many {
                    version += 2;
                    log.push(Arc::new(Change::new(version, None, None)));
                    model.push(version);
                }
                let drop = version * u64::from(part) / 4;
                log.drop_to(drop);
                model.retain(|it| *it > drop);
            }
            let expected: Vec<_> = model.iter().copied().filter(|it| *it > asked).collect();
            prop_assert_eq!(log.after(asked).map(|it| it.version).collect::<Vec<_>>(), expected.clone());
            prop_assert_eq!((log.len(), log.count_after(asked)), (model.len(), expected.len()));
            prop_assert_eq!(log.oldest().map(|it| it.version), model.first().copied());
            let mut position = log.position_after(asked);
            for version in expected {
                prop_assert_eq!(log.get(position).flatten().map(|it| it.version), Some(version));
                position += 1;
            }
            prop_assert!(matches!(log.get(position), Some(None)), "it has not happened yet");
            prop_assert!(log.first == 0 || log.get(log.first - 1).is_none(), "it is no longer kept");
            prop_assert_eq!(log.size(), log.after(0).map(|it| it.size()).sum::<usize>());
        }
    }
}
