//! Sorted byte strings packed into one buffer: the keys of one node of the tree.
//!
//! Packed, a search stays inside a few cache lines, a key costs its bytes and four more, and a copy is two `memcpy`s.

use std::cmp::Ordering;

use smallvec::SmallVec;

/// A key put together on the stack, where it is not longer than nearly all are.
pub(super) type KeyBuffer = SmallVec<[u8; 128]>;

/// Sorted keys, none twice. Positions are those in the order.
#[derive(Clone, Debug, Default)]
pub(super) struct Keys {
    /// The keys, one after the other.
    bytes: Vec<u8>,
    /// Where each key ends in `bytes`.
    ends: Vec<u32>,
}

impl Keys {
    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    pub(super) fn get(&self, at: usize) -> &[u8] {
        &self.bytes[self.start(at)..self.ends[at] as usize]
    }

    pub(super) fn last(&self) -> Option<&[u8]> {
        self.len().checked_sub(1).map(|at| self.get(at))
    }

    /// Where the key is, or where it belongs.
    pub(super) fn search(&self, key: &[u8]) -> Result<usize, usize> {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = low.midpoint(high);
            match self.get(middle).cmp(key) {
                Ordering::Less => low = middle + 1,
                Ordering::Equal => return Ok(middle),
                Ordering::Greater => high = middle,
            }
        }
        Err(low)
    }

    /// Inserts a key where [`Self::search`] said it belongs.
    pub(super) fn insert(&mut self, at: usize, key: &[u8]) {
        let start = self.start(at);
        if at == self.len() {
            self.bytes.extend_from_slice(key);
        } else {
            self.bytes.splice(start..start, key.iter().copied());
            self.ends[at..].iter_mut().for_each(|it| *it += offset(key.len()));
        }
        self.ends.insert(at, offset(start + key.len()));
    }

    pub(super) fn remove(&mut self, at: usize) {
        let (start, end) = (self.start(at), self.ends[at] as usize);
        self.bytes.drain(start..end);
        self.ends.remove(at);
        self.ends[at..].iter_mut().for_each(|it| *it -= offset(end - start));
    }

    /// Takes off the keys from `at` on.
    pub(super) fn split_off(&mut self, at: usize) -> Self {
        let start = self.start(at);
        let bytes = self.bytes.split_off(start);
        let mut ends = self.ends.split_off(at);
        ends.iter_mut().for_each(|it| *it -= offset(start));
        Self { bytes, ends }
    }

    /// Appends keys that all come after the own ones.
    pub(super) fn append(&mut self, later: &Self) {
        let start = offset(self.bytes.len());
        self.bytes.extend_from_slice(&later.bytes);
        self.ends.extend(later.ends.iter().map(|it| it + start));
    }

    fn start(&self, at: usize) -> usize {
        at.checked_sub(1).map_or(0, |before| self.ends[before] as usize)
    }
}

fn offset(length: usize) -> u32 {
    u32::try_from(length)
        .expect("a node has a few dozen keys, so one of them would have to be as long as 100 MB")
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
    fn a_search_finds_the_key_or_its_place() {
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
        }
        assert_eq!(Keys::default().search(b"a"), Err(0));
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
        assert_eq!(left.last(), Some(b"dd".as_slice()));
    }
}
