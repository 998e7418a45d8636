//! Sorted byte strings packed together: the keys of one node of the tree.
//!
//! What a search looks at first are the heads: for every key the eight bytes after what all keys of the node begin with, as a
//! number. They are next to each other, and nearly always decide, so that a search reads few other places of the memory; that is what
//! a search costs, once there are more objects than caches hold.

use std::cmp::Ordering;

use smallvec::SmallVec;

/// A key put together on the stack, where it is not longer than nearly all are.
pub(super) type KeyBuffer = SmallVec<[u8; 128]>;

/// Sorted keys, none twice. Positions are those in the order.
#[derive(Clone, Debug, Default)]
pub(super) struct Keys {
    /// The number of bytes with which all keys begin. It is that of the first and the last, because keys are sorted.
    common: usize,
    /// For each key what [`head`] makes of the bytes after the common ones. As keys are sorted, so are heads; some may be equal.
    heads: SmallVec<[u64; 32]>,
    /// Where each key ends in `bytes`.
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

    /// Where the key is, or where it belongs.
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

    /// Inserts a key where [`Self::search`] said it belongs.
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

    /// Takes off the keys from `at` on.
    pub(super) fn split_off(&mut self, at: usize) -> Self {
        let start = self.start(at);
        let bytes = self.bytes.split_off(start);
        let ends = self.ends.drain(at..).map(|it| it - offset(start)).collect();
        let mut right = Self { common: self.common, heads: self.heads.drain(at..).collect(), ends, bytes };
        self.settle();
        right.settle();
        right
    }

    /// Appends keys that all come after the own ones.
    pub(super) fn append(&mut self, later: &Self) {
        let start = offset(self.bytes.len());
        self.bytes.extend_from_slice(&later.bytes);
        self.ends.extend(later.ends.iter().map(|it| it + start));
        // Whatever they are: they have to be made anew.
        self.heads.extend_from_slice(&later.heads);
        self.common = usize::MAX;
        self.settle();
    }

    /// Makes the heads anew when the common beginning has changed.
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

/// The first eight bytes as a number, which orders as they do; where there are less, zeros follow.
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
    }

    #[test]
    fn heads_that_are_equal_do_not_decide() {
        let mut sorted =
            ["ns/", "ns/a", "ns/a\0", "ns/a\0\0", "ns/abcdefgh", "ns/abcdefghi", "ns/abcdefghj", "ns/b"];
        sorted.sort();
        let keys = keys(&sorted);
        for (at, key) in sorted.iter().enumerate() {
            assert_eq!(keys.search(key.as_bytes()), Ok(at), "{key:?}");
            let after = format!("{key}\0\0\0");
            let expected = sorted.binary_search(&after.as_str());
            assert_eq!(keys.search(after.as_bytes()), expected, "{after:?}");
        }
        for (key, expected) in
            [("", 0), ("n", 0), ("ns", 0), ("nr/x", 0), ("nt", 8), ("z", 8), ("ns/abcdefghz", 7)]
        {
            assert_eq!(keys.search(key.as_bytes()), Err(expected), "{key:?}");
        }
    }
}
