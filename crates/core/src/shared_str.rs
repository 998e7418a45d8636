//! Strings that objects share: the nodes, namespaces and images of a cluster recur in thousands of
//! objects.
//!
//! The fields of views have this type; each thread that decodes them remembers the last strings. A
//! table for all threads would share more, but every decoder would wait for its locks, and the last
//! object with a string would have to remove it there.

use std::borrow::Borrow;
use std::cell::RefCell;
use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::sync::{Arc, Weak};

use serde::de::Visitor;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The strings that a thread remembers are in sets of this many, by their hash.
const WAYS: usize = 4;

/// The number of sets. The names of a few thousand nodes and images fit.
const SETS: usize = 2048;

/// The maximum length of a string that is remembered. Longer ones rarely recur.
const LONGEST: usize = 1024;

thread_local! {
    /// The last strings, the most recent one of each set first.
    static LAST: RefCell<Vec<Remembered>> = const { RefCell::new(Vec::new()) };
}

/// A string of which equal ones share their memory, for fields of views that recur in many objects.
///
/// It takes 8 bytes in the object, and the text is in memory once for each thread that decodes
/// objects, instead of once for each object. A thread remembers up to 8,192 strings of at most
/// 1,024 bytes in a table of 128 KB. It does not keep them: a text is released with the last object
/// that has it. Sharing is best effort, and strings that are not shared are equal nevertheless.
/// Decoding one takes about as long as allocating it, and no lock.
///
/// It suits names of nodes and images, which are long; a short text, such as the name of a
/// namespace, fits into a string that holds it in place. `cargo xtask bench strings` measures both.
///
/// ```
/// use dogwatch_core::SharedStr;
///
/// #[derive(serde::Deserialize)]
/// #[serde(rename_all = "camelCase")]
/// struct Spec {
///     node_name: Option<SharedStr>,
/// }
///
/// let text = r#"{"nodeName":"ip-10-0-7-31.eu-west-1.compute.internal"}"#;
/// let (one, two): (Spec, Spec) = (serde_json::from_str(text)?, serde_json::from_str(text)?);
/// let (one, two) = (one.node_name.unwrap_or_default(), two.node_name.unwrap_or_default());
/// assert_eq!(one, "ip-10-0-7-31.eu-west-1.compute.internal");
/// assert!(SharedStr::is_same(&one, &two));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone)]
pub struct SharedStr(Arc<SharedText>);

/// A text in a box of its own, so that it is released while threads still remember where it was.
struct SharedText(Box<str>);

/// A string that a thread has decoded.
#[derive(Clone, Default)]
struct Remembered {
    hash: u32,
    text: Weak<SharedText>,
}

impl SharedStr {
    /// Returns true if both are the same string in memory, and not only equal.
    pub fn is_same(one: &Self, other: &Self) -> bool {
        Arc::ptr_eq(&one.0, &other.0)
    }

    /// Returns the text.
    pub fn as_str(&self) -> &str {
        &self.0.0
    }
}

/// Returns this text, shared with earlier objects if this thread has decoded it recently.
fn shared(text: &str) -> Arc<SharedText> {
    let new = || Arc::new(SharedText(text.into()));
    if text.len() > LONGEST {
        return new();
    }
    let hash = hash(text);
    LAST.with_borrow_mut(|last| {
        if last.is_empty() {
            last.resize(SETS * WAYS, Remembered::default());
        }
        let start = hash as usize % SETS * WAYS;
        let set = &mut last[start..start + WAYS];
        let equal = |it: &Remembered| {
            let found = (it.hash == hash).then(|| it.text.upgrade()).flatten();
            found.filter(|found| *found.0 == *text)
        };
        let found = set.iter().enumerate().find_map(|(at, it)| equal(it).map(|found| (at, found)));
        let (at, text) = found.unwrap_or_else(|| {
            // The place of a text that was released, or of the one that was not used for longest.
            let at = set.iter().position(|it| it.text.strong_count() == 0).unwrap_or(WAYS - 1);
            let text = new();
            set[at] = Remembered { hash, text: Arc::downgrade(&text) };
            (at, text)
        });
        set[..=at].rotate_right(1);
        text
    })
}

/// Returns a hash of a text. Texts that are made to collide displace each other, which only costs
/// memory.
fn hash(text: &str) -> u32 {
    let mut hash = text.len() as u64;
    for chunk in text.as_bytes().chunks(8) {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        hash = (hash.rotate_left(5) ^ u64::from_le_bytes(word)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
    (hash >> 32) as u32
}

impl Deref for SharedStr {
    type Target = str;

    fn deref(&self) -> &str {
        self.as_str()
    }
}

impl AsRef<str> for SharedStr {
    fn as_ref(&self) -> &str {
        self
    }
}

impl Borrow<str> for SharedStr {
    fn borrow(&self) -> &str {
        self
    }
}

impl From<&str> for SharedStr {
    fn from(text: &str) -> Self {
        Self(shared(text))
    }
}

impl From<String> for SharedStr {
    fn from(text: String) -> Self {
        Self::from(text.as_str())
    }
}

impl From<SharedStr> for String {
    fn from(text: SharedStr) -> Self {
        text.as_str().to_owned()
    }
}

impl Default for SharedStr {
    fn default() -> Self {
        Self::from("")
    }
}

impl PartialEq for SharedStr {
    fn eq(&self, other: &Self) -> bool {
        Self::is_same(self, other) || self.as_str() == other.as_str()
    }
}

impl Eq for SharedStr {}

impl PartialEq<str> for SharedStr {
    fn eq(&self, other: &str) -> bool {
        self.as_str() == other
    }
}

impl PartialEq<&str> for SharedStr {
    fn eq(&self, other: &&str) -> bool {
        self.as_str() == *other
    }
}

impl PartialOrd for SharedStr {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for SharedStr {
    fn cmp(&self, other: &Self) -> Ordering {
        self.as_str().cmp(other.as_str())
    }
}

/// The hash of the text, as [`Borrow`] requires.
impl Hash for SharedStr {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_str().hash(state);
    }
}

impl fmt::Debug for SharedStr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

impl fmt::Display for SharedStr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self.as_str(), f)
    }
}

impl Serialize for SharedStr {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self)
    }
}

impl<'de> Deserialize<'de> for SharedStr {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TextVisitor;

        impl Visitor<'_> for TextVisitor {
            type Value = SharedStr;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }

            fn visit_str<E>(self, text: &str) -> Result<SharedStr, E> {
                Ok(text.into())
            }
        }

        deserializer.deserialize_str(TextVisitor)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, HashMap};

    use super::*;

    #[test]
    fn equal_strings_are_shared_and_others_are_not() {
        let (one, two, other) = (SharedStr::from("node-a"), SharedStr::from("node-a"), "node-b".into());
        assert!(SharedStr::is_same(&one, &two));
        assert!(!SharedStr::is_same(&one, &other));
        assert_eq!((&*one, &*other), ("node-a", "node-b"));
        assert_eq!(SharedStr::default(), "");
    }

    #[test]
    fn a_text_is_released_with_its_last_object() {
        let one = SharedStr::from("a text that is released");
        let (two, text) = (one.clone(), Arc::downgrade(&one.0));
        drop(one);
        assert_eq!(text.strong_count(), 1);
        drop(two);
        assert_eq!(text.strong_count(), 0);
        assert_eq!(SharedStr::from("a text that is released"), "a text that is released");
    }

    #[test]
    fn the_memory_of_a_thread_is_bounded() {
        let texts: Vec<_> = (0..3 * SETS * WAYS).map(|it| SharedStr::from(it.to_string())).collect();
        LAST.with_borrow(|last| assert_eq!(last.len(), SETS * WAYS));
        for (number, text) in texts.iter().enumerate() {
            assert_eq!(*text, *number.to_string());
        }
    }

    #[test]
    fn the_names_of_a_thousand_nodes_are_shared() {
        let name = |number: usize| SharedStr::from(format!("ip-10-0-{number}.eu-west-1.compute.internal"));
        let first: Vec<_> = (0..1000).map(name).collect();
        let shared = (0..1000).filter(|it| SharedStr::is_same(&first[*it], &name(*it))).count();
        assert!(shared > 980, "{shared} of 1000 are shared");
    }

    #[test]
    fn a_released_text_gives_way_before_one_in_use() {
        // Texts of one set: the first of them is used, the others are released at once.
        let set = hash("kept") as usize % SETS;
        let mut same = (0..).map(|it: u32| it.to_string()).filter(|it| hash(it) as usize % SETS == set);
        let kept = SharedStr::from("kept");
        for text in same.by_ref().take(2 * WAYS) {
            drop(SharedStr::from(text));
        }
        assert!(SharedStr::is_same(&kept, &"kept".into()));
        // More texts in use than a set has: the one that was not used for longest gives way.
        let _used: Vec<_> = same.take(WAYS).map(SharedStr::from).collect();
        assert!(!SharedStr::is_same(&kept, &"kept".into()));
    }

    #[test]
    fn long_strings_are_not_remembered() {
        let text = "x".repeat(LONGEST + 1);
        let (one, two) = (SharedStr::from(text.as_str()), SharedStr::from(text));
        assert_eq!(one, two);
        assert!(!SharedStr::is_same(&one, &two));
    }

    #[test]
    fn threads_have_equal_strings_of_their_own() {
        let here = SharedStr::from("node-c");
        let there = std::thread::spawn(|| SharedStr::from("node-c")).join().expect("no panic");
        assert_eq!(here, there);
        assert!(!SharedStr::is_same(&here, &there));
    }

    #[test]
    fn it_is_found_in_maps_and_ordered_by_its_text() {
        let hashed = HashMap::from([(SharedStr::from("a"), 1)]);
        let ordered = BTreeMap::from([(SharedStr::from("b"), 2), ("a".into(), 1)]);
        assert_eq!((hashed.get("a"), hashed.get("b")), (Some(&1), None));
        assert_eq!(ordered.keys().map(|it| &**it).collect::<Vec<_>>(), ["a", "b"]);
    }

    #[test]
    fn it_is_a_string_in_json_of_a_pointer_in_memory() {
        let text: SharedStr = serde_json::from_str(r#""a \"quoted\" one""#).expect("a string");
        assert_eq!(text, r#"a "quoted" one"#);
        assert_eq!(serde_json::to_string(&text).expect("JSON"), r#""a \"quoted\" one""#);
        assert_eq!((format!("{text}"), format!("{text:?}")), (text.to_string(), format!("{:?}", &*text)));
        assert!(serde_json::from_str::<SharedStr>("7").is_err());
        assert_eq!(size_of::<Option<SharedStr>>(), size_of::<usize>());
    }
}
