//! The entries of one index as one sorted set of value and key pairs.
//!
//! An entry is the value, a zero byte and the key of the object. A zero byte inside a value is
//! followed by 0xFF, which no key begins with because keys are UTF-8. So the entries of one value
//! are contiguous, in the order of the keys.

use std::borrow::Cow;

use super::keys::KeyBuffer;
use super::tree::Tree;

const END_OF_VALUE: u8 = 0;
const ESCAPED: u8 = 0xFF;

/// Pairs of a value and the key of an object. It knows neither the objects nor the index function.
#[derive(Clone, Debug, Default)]
pub(super) struct Postings {
    entries: Tree<()>,
}

impl Postings {
    pub(super) fn insert(&mut self, value: &str, key: &[u8]) {
        self.entries.insert(&entry(value, key), ());
    }

    pub(super) fn remove(&mut self, value: &str, key: &[u8]) {
        self.entries.remove(&entry(value, key));
    }

    /// Returns the keys under a value, from `from` on and below `to`, in order.
    pub(super) fn keys(&self, value: &str, from: &[u8], to: Option<&[u8]>) -> impl Iterator<Item = &[u8]> {
        let start = entry(value, from);
        let end = end(value, to);
        let prefix = start.len() - from.len();
        let entries = self.entries.walk_from(&start).map(|(entry, ())| entry);
        entries.take_while(move |it| **it < *end).map(move |it| &it[prefix..])
    }

    /// Returns the number of keys under a value, from `from` on and below `to`.
    pub(super) fn count(&self, value: &str, from: &[u8], to: Option<&[u8]>) -> usize {
        self.entries.count(&entry(value, from), &end(value, to))
    }

    /// Returns the values that have a key, in order. It seeks from value to value instead of
    /// iterating over the keys.
    pub(super) fn values(&self) -> impl Iterator<Item = Cow<'_, str>> {
        let mut seek = KeyBuffer::new();
        std::iter::from_fn(move || {
            let (entry, ()) = self.entries.walk_from(&seek).next()?;
            let length = value_length(entry);
            seek.clear();
            seek.extend_from_slice(&entry[..length]);
            seek.extend_from_slice(&[END_OF_VALUE, ESCAPED]);
            Some(decode(&entry[..length]))
        })
    }
}

fn entry(value: &str, key: &[u8]) -> KeyBuffer {
    let mut entry = KeyBuffer::with_capacity(value.len() + 1 + key.len());
    for byte in value.bytes() {
        entry.push(byte);
        if byte == END_OF_VALUE {
            entry.push(ESCAPED);
        }
    }
    entry.push(END_OF_VALUE);
    entry.extend_from_slice(key);
    entry
}

/// Returns the first entry after these keys of the value.
fn end(value: &str, to: Option<&[u8]>) -> KeyBuffer {
    entry(value, to.unwrap_or(&[ESCAPED]))
}

fn value_length(entry: &[u8]) -> usize {
    let ends = |at: &usize| entry[*at] == END_OF_VALUE && entry.get(at + 1) != Some(&ESCAPED);
    (0..entry.len()).find(ends).unwrap_or(entry.len())
}

fn decode(value: &[u8]) -> Cow<'_, str> {
    if !value.contains(&END_OF_VALUE) {
        return String::from_utf8_lossy(value);
    }
    let mut plain = Vec::with_capacity(value.len());
    for byte in value {
        if *byte != ESCAPED || plain.last() != Some(&END_OF_VALUE) {
            plain.push(*byte);
        }
    }
    Cow::Owned(String::from_utf8_lossy(&plain).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(postings: &Postings, value: &str) -> Vec<String> {
        postings.keys(value, b"", None).map(|it| String::from_utf8_lossy(it).into_owned()).collect()
    }

    #[test]
    fn values_do_not_mix_whatever_their_bytes_are() {
        let mut postings = Postings::default();
        let values = ["", "\0", "a", "a\0", "a\0b", "ab", "a\u{1}", "\0\0", "ÿ"];
        for (number, value) in values.iter().enumerate() {
            for key in ["b/x", "a/x", "a-b/x", &number.to_string()] {
                postings.insert(value, key.as_bytes());
            }
        }
        for (number, value) in values.iter().enumerate() {
            assert_eq!(keys(&postings, value), [&number.to_string(), "a-b/x", "a/x", "b/x"], "{value:?}");
            assert_eq!(postings.count(value, b"", None), 4, "{value:?}");
            assert_eq!(postings.count(value, b"a/", Some(b"a0")), 1, "{value:?}");
        }
        let mut sorted = values;
        sorted.sort();
        assert_eq!(postings.values().collect::<Vec<_>>(), sorted);
    }

    #[test]
    fn st_2_a_value_without_keys_is_gone() {
        let mut postings = Postings::default();
        postings.insert("a", b"x");
        postings.insert("a", b"y");
        postings.insert("b", b"x");
        postings.remove("b", b"x");
        postings.remove("a", b"x");
        assert_eq!(postings.values().collect::<Vec<_>>(), ["a"]);
        assert_eq!((keys(&postings, "a"), keys(&postings, "b")), (vec!["y".to_owned()], vec![]));
    }
}
