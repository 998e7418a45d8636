//! Sorted byte strings packed together: the keys of one node of the tree.
//!
//! A search first compares heads: for every key, the eight bytes after the prefix common to all
//! keys of the node, as a number. Heads are contiguous in memory and nearly always decide, so a
//! search touches few other cache lines. Cache misses dominate the cost once the objects do not fit
//! into the caches.

use std::cmp::Ordering;

use smallvec::SmallVec;

/// A key on the stack; only unusually long keys spill to the heap.
pub(super) type KeyBuffer = SmallVec<[u8; 128]>;

/// Sorted keys without duplicates. Positions are indexes into the sorted order.
#[derive(Clone, Debug, Default)]
pub(super) struct Keys {
    /// The length of the prefix that all keys share. It is the common prefix of the first and the
    /// last key, because keys are sorted.
    common: usize,
    /// For each key, the [`head`] of the bytes after the common prefix. Heads are sorted like the
    /// keys; some may be equal.
    heads: SmallVec<[u64; 32]>,
    /// The end of each key in `bytes`.
    ends: SmallVec<[u32; 32]>,
    /// The keys, one after the other.
    bytes: Vec<u8>,
}

impl Keys {
    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    pub(super) fn get(&self, at: usize) -> &[u8] {
        &self.bytes[self.start(at)..self.ends[at] as usize]
    }

    /// Returns the position of the key, or `Err` with the position where it would be inserted.
    pub(super) fn search(&self, key: &[u8]) -> Result<usize, usize> {
        if self.ends.is_empty() {
            return Err(0);
        }
        let (common, rest) = key.split_at(self.common.min(key.len()));
        match common.cmp(&self.bytes[..self.common]) {
            Ordering::Less => return Err(0),
            Ordering::Greater => return Err(self.len()),
            Ordering::Equal => {}
        }
        let head = head(rest);
        let mut low = self.heads.partition_point(|it| *it < head);
        while self.heads.get(low) == Some(&head) {
            match self.get(low).cmp(key) {
                Ordering::Less => low += 1,
                Ordering::Equal => return Ok(low),
                Ordering::Greater => break,
            }
        }
        Err(low)
    }

    /// Returns the position of the key. Faster than [`Self::search`], which also finds the
    /// insertion position of a missing key.
    pub(super) fn find(&self, key: &[u8]) -> Option<usize> {
        let head = head(key.get(self.common..)?);
        let first = self.heads.partition_point(|it| *it < head);
        let equal = self.heads[first..].iter().take_while(|it| **it == head).count();
        (first..first + equal).find(|at| self.get(*at) == key)
    }

    /// Inserts a key at the position that [`Self::search`] returned.
    pub(super) fn insert(&mut self, at: usize, key: &[u8]) {
        let start = self.start(at);
        let tail = self.bytes.len() - start;
        self.bytes.extend_from_slice(key);
        self.bytes[start..].rotate_left(tail);
        self.ends[at..].iter_mut().for_each(|it| *it += offset(key.len()));
        self.ends.insert(at, offset(start + key.len()));
        self.heads.insert(at, head(&key[self.common.min(key.len())..]));
        self.settle();
    }

    pub(super) fn remove(&mut self, at: usize) {
        let (start, end) = (self.start(at), self.ends[at] as usize);
        self.bytes.drain(start..end);
        self.ends.remove(at);
        self.ends[at..].iter_mut().for_each(|it| *it -= offset(end - start));
        self.heads.remove(at);
        self.settle();
    }

    /// Splits off the keys from `at` on.
    pub(super) fn split_off(&mut self, at: usize) -> Self {
        let start = self.start(at);
        let bytes = self.bytes.split_off(start);
        let ends = self.ends.drain(at..).map(|it| it - offset(start)).collect();
        let mut right = Self { common: self.common, heads: self.heads.drain(at..).collect(), ends, bytes };
        self.settle();
        right.settle();
        right
    }

    /// Appends keys that all sort after the existing ones.
    pub(super) fn append(&mut self, later: &Self) {
        let start = offset(self.bytes.len());
        self.bytes.extend_from_slice(&later.bytes);
        self.ends.extend(later.ends.iter().map(|it| it + start));
        // Placeholders: `settle` recomputes all heads, because `common` is invalid.
        self.heads.extend_from_slice(&later.heads);
        self.common = usize::MAX;
        self.settle();
    }

    /// Recomputes the heads if the common prefix has changed.
    fn settle(&mut self) {
        let common = match self.len() {
            0 | 1 => 0,
            count => {
                let pairs = self.get(0).iter().zip(self.get(count - 1));
                pairs.take_while(|(first, last)| first == last).count()
            }
        };
        if common != self.common {
            self.common = common;
            for at in 0..self.len() {
                self.heads[at] = head(&self.get(at)[common..]);
            }
        }
    }

    fn start(&self, at: usize) -> usize {
        at.checked_sub(1).map_or(0, |before| self.ends[before] as usize)
    }
}

/// Returns the first eight bytes as a big-endian number, which sorts like the bytes. Shorter input
/// is padded with zeros.
fn head(bytes: &[u8]) -> u64 {
    match bytes.first_chunk() {
        Some(first) => u64::from_be_bytes(*first),
        None => {
            let mut first = [0; 8];
            first[..bytes.len()].copy_from_slice(bytes);
            u64::from_be_bytes(first)
        }
    }
}

fn offset(length: usize) -> u32 {
    u32::try_from(length).expect("a node has a few dozen keys, so one would have to be longer than 100 MB")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(of: &[&str]) -> Keys {
        let mut keys = Keys::default();
        for (at, key) in of.iter().enumerate() {
            keys.insert(at, key.as_bytes());
        }
        keys
    }

    fn texts(keys: &Keys) -> Vec<String> {
        (0..keys.len()).map(|at| String::from_utf8_lossy(keys.get(at)).into_owned()).collect()
    }

    #[test]
    fn a_search_finds_the_key_or_its_insertion_position() {
        let keys = keys(&["a", "bb", "c"]);
        for (key, expected) in [
            ("a", Ok(0)),
            ("bb", Ok(1)),
            ("c", Ok(2)),
            ("", Err(0)),
            ("b", Err(1)),
            ("bc", Err(2)),
            ("d", Err(3)),
        ] {
            assert_eq!(keys.search(key.as_bytes()), expected, "{key:?}");
            assert_eq!(keys.find(key.as_bytes()), expected.ok(), "{key:?}");
        }
        assert_eq!((Keys::default().search(b"a"), Keys::default().find(b"a")), (Err(0), None));
    }

    #[test]
    fn keys_of_any_length_are_inserted_removed_split_and_joined() {
        let mut left = keys(&["a", "ccc", "dd"]);
        left.insert(1, b"bb");
        left.insert(0, b"");
        assert_eq!(texts(&left), ["", "a", "bb", "ccc", "dd"]);
        left.remove(3);
        let right = left.split_off(2);
        assert_eq!(
            (texts(&left), texts(&right)),
            (vec!["".into(), "a".into()], vec!["bb".into(), "dd".into()])
        );
        left.append(&right);
        assert_eq!(texts(&left), ["", "a", "bb", "dd"]);
    }

    #[test]
    fn keys_with_equal_heads_are_compared_in_full() {
        let mut sorted =
            ["ns/", "ns/a", "ns/a\0", "ns/a\0\0", "ns/abcdefgh", "ns/abcdefghi", "ns/abcdefghj", "ns/b"];
        sorted.sort();
        let keys = keys(&sorted);
        for (at, key) in sorted.iter().enumerate() {
            assert_eq!(keys.search(key.as_bytes()), Ok(at), "{key:?}");
            let after = format!("{key}\0\0\0");
            let expected = sorted.binary_search(&after.as_str());
            assert_eq!(keys.search(after.as_bytes()), expected, "{after:?}");
            assert_eq!(
                (keys.find(key.as_bytes()), keys.find(after.as_bytes())),
                (Some(at), expected.ok()),
                "{key:?}"
            );
        }
        for (key, expected) in
            [("", 0), ("n", 0), ("ns", 0), ("nr/x", 0), ("nt", 8), ("z", 8), ("ns/abcdefghz", 7)]
        {
            assert_eq!(keys.search(key.as_bytes()), Err(expected), "{key:?}");
        }
    }
}
