//! One version of one object, encoded once and never changed.
//!
//! A list or a watch writes these bytes as they are: an object is held as the line of a watch that tells of it, of which the
//! object itself is a slice. The version stands at a known place in them, so that the last state of a deleted object can
//! carry the version of its deletion without being encoded again.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use dogwatch_core::{Labels, ObjectKey};
use serde::Serialize;
use serde_json::{Map, Value};

use crate::depth;

/// The field that is left out of what is encoded, and put in when the version is known.
const VERSION: &str = "resourceVersion";

/// What ties an object to others, or to this world.
const TIES: [&str; 3] = ["ownerReferences", "finalizers", "deletionTimestamp"];

/// What stands behind the object in the line of a watch.
const LINE_END: &[u8] = b"}\n";

/// A field by which an object can be selected: its name and its value.
pub type SelectableField = (Cow<'static, str>, String);

/// What an event tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Told {
    /// It came into being, or into sight.
    Added,
    /// It is not what it was.
    Modified,
    /// It is gone, or out of sight.
    Deleted,
}

/// Why an object cannot be stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unstorable {
    /// It has no name to store it under, or no metadata at all.
    #[error("the object has no name to store it under")]
    NoName,
    /// It is nested so deep that it could not be read again.
    #[error("{}", depth::exceeded())]
    TooDeep,
}

/// An object that is encoded but for its version.
///
/// [`Draft::new`] is the only way into the store, so what it accepts must be readable ever after: [`Encoded::to_value`]
/// relies on its checks.
#[derive(Clone, Debug)]
pub struct Draft {
    about: About,
    /// The object without its version, the quotes around that included.
    text: Vec<u8>,
    /// How many bytes of `text` say kind and version of the API: what items of a typed list leave out.
    preamble: usize,
    /// Where in `text` the digits of the version belong.
    version_at: usize,
}

/// What is known of an object without decoding it.
#[derive(Clone, Debug)]
struct About {
    key: ObjectKey,
    uid: String,
    labels: BTreeMap<String, String>,
    /// Whether its metadata say anything of owners, finalizers or deletion.
    tied: bool,
    /// The fields besides name and namespace by which it can be selected.
    fields: Vec<SelectableField>,
    /// The schema it was readied under.
    schema: Option<u64>,
}

/// One version of one object.
#[derive(Clone, Debug)]
pub struct Encoded {
    version: u64,
    about: Arc<About>,
    /// What `line` tells.
    told: Told,
    /// The line of a watch. Invariant: the head of what is told, one JSON object, [`LINE_END`].
    line: Bytes,
    /// How many bytes of the object say kind and version of the API.
    preamble: usize,
    /// Where in the object the digits of the version are.
    version_at: usize,
}

impl Told {
    /// As events have it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Added => "ADDED",
            Self::Modified => "MODIFIED",
            Self::Deleted => "DELETED",
        }
    }

    /// What stands before the object in the line of a watch.
    fn head(self) -> &'static [u8] {
        match self {
            Self::Added => br#"{"type":"ADDED","object":"#,
            Self::Modified => br#"{"type":"MODIFIED","object":"#,
            Self::Deleted => br#"{"type":"DELETED","object":"#,
        }
    }
}

impl Draft {
    /// Encodes an object; whatever version it carries is left out. `fields` are those, besides name and namespace, by which
    /// objects of its kind can be selected.
    ///
    /// # Errors
    /// When it has no name to store it under, or is nested too deep to be read again.
    pub fn new(object: &Value, fields: Vec<SelectableField>) -> Result<Self, Unstorable> {
        if depth::is_exceeded_by(object) {
            return Err(Unstorable::TooDeep);
        }
        let object = object.as_object().ok_or(Unstorable::NoName)?;
        let metadata = object.get("metadata").and_then(Value::as_object).ok_or(Unstorable::NoName)?;
        let text = |key: &str| metadata.get(key).and_then(Value::as_str).unwrap_or_default();
        let key =
            ObjectKey::from_parts(Some(text("namespace")), text("name")).map_err(|_| Unstorable::NoName)?;
        let labels = metadata.get("labels").and_then(Value::as_object).into_iter().flatten();
        let labels =
            labels.map(|(key, value)| (key.clone(), value.as_str().unwrap_or_default().to_owned())).collect();
        let tied = TIES.iter().any(|it| metadata.contains_key(*it));
        let about = About { key, uid: text("uid").to_owned(), labels, tied, fields, schema: None };

        let mut out = Vec::with_capacity(2048);
        out.push(b'{');
        // Kind and version come first, so that a list can leave them out.
        for name in ["kind", "apiVersion"] {
            if let Some(value) = object.get(name) {
                write_entry(&mut out, name, value);
            }
        }
        let preamble = out.len();
        let mut version_at = 0;
        for (name, value) in object {
            match name.as_str() {
                "kind" | "apiVersion" => {}
                "metadata" => {
                    out.extend_from_slice(b"\"metadata\":");
                    version_at = write_metadata(&mut out, metadata);
                    out.push(b',');
                }
                _ => write_entry(&mut out, name, value),
            }
        }
        // Behind the last entry there is a comma; there is one, for the metadata are there.
        out.pop();
        out.push(b'}');
        Ok(Self { about, text: out, preamble, version_at })
    }

    /// Notes the schema that the object was readied under: what a later schema does not know is then told from it.
    #[must_use]
    pub fn under(mut self, schema: u64) -> Self {
        self.about.schema = Some(schema);
        self
    }

    /// The key it is stored under.
    pub fn key(&self) -> &ObjectKey {
        &self.about.key
    }

    /// Whether a stored object says the same, its version aside.
    pub fn says_what(&self, stored: &Encoded) -> bool {
        let (head, tail) = self.text.split_at(self.version_at);
        let (stored_head, stored_tail) = stored.around_version();
        head == stored_head && tail == stored_tail
    }

    /// The object at a version, at which it came into being.
    pub fn at(self, version: u64) -> Encoded {
        self.told(Told::Added, version)
    }

    /// The object at a version, at which this is told of it.
    pub fn told(self, told: Told, version: u64) -> Encoded {
        let (head, tail) = self.text.split_at(self.version_at);
        let line = line(told, head, version, tail);
        let (preamble, version_at) = (self.preamble, self.version_at);
        Encoded { version, about: Arc::new(self.about), told, line, preamble, version_at }
    }
}

impl Encoded {
    /// The key it is stored under.
    pub fn key(&self) -> &ObjectKey {
        &self.about.key
    }

    /// Its version.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Tells it from an earlier object of the same name.
    pub fn uid(&self) -> &str {
        &self.about.uid
    }

    /// Its labels.
    pub fn labels(&self) -> Labels<'_> {
        Labels::from(&self.about.labels)
    }

    /// The schema it was readied under, where that was noted.
    pub fn schema(&self) -> Option<u64> {
        self.about.schema
    }

    /// Whether it says anything of owners, finalizers or its deletion. Most objects do not.
    pub fn is_tied(&self) -> bool {
        self.about.tied
    }

    /// The value of a field by which it can be selected.
    pub fn field(&self, field: &str) -> Option<&str> {
        match field {
            "metadata.name" => Some(self.key().name()),
            "metadata.namespace" => self.key().namespace(),
            other => self.about.fields.iter().find(|(it, _)| *it == other).map(|(_, value)| value.as_str()),
        }
    }

    /// The same content with another version: what a deletion shows.
    #[must_use]
    pub fn with_version(&self, version: u64) -> Self {
        let (head, tail) = self.around_version();
        let line = line(Told::Deleted, head, version, tail);
        Self { version, told: Told::Deleted, line, about: Arc::clone(&self.about), ..*self }
    }

    /// Its JSON.
    pub fn json(&self) -> &[u8] {
        &self.line[self.told.head().len()..self.line.len() - LINE_END.len()]
    }

    /// How many bytes of memory it takes, about.
    pub(super) fn size(&self) -> usize {
        size_of::<Self>() + size_of::<About>() + self.line.len()
    }

    /// Its JSON, to be kept or sent without being copied.
    pub fn bytes(&self) -> Bytes {
        self.line.slice(self.told.head().len()..self.line.len() - LINE_END.len())
    }

    /// Its JSON from behind kind and version on, as items of a typed list have it behind their bracket.
    pub fn bare_bytes(&self) -> Bytes {
        self.bytes().slice(self.preamble..)
    }

    /// The line of a watch that tells this of it, in the pieces in which it is at hand: one for what happened to it when it
    /// was stored.
    pub fn write_line(&self, told: Told, out: &mut impl Extend<Bytes>) {
        if told == self.told {
            out.extend([self.line.clone()]);
        } else {
            let head = Bytes::from_static(told.head());
            out.extend([head, self.bytes(), Bytes::from_static(LINE_END)]);
        }
    }

    /// Returns the object as a value, to be changed.
    pub fn to_value(&self) -> Value {
        serde_json::from_slice(self.json())
            .expect("a draft is encoded from a value that is less deep than the parser reads")
    }

    /// What stands before the digits of the version, and behind them.
    fn around_version(&self) -> (&[u8], &[u8]) {
        let (head, rest) = self.json().split_at(self.version_at);
        (head, &rest[digits(self.version)..])
    }
}

/// How long a number is when it is written.
fn digits(number: u64) -> usize {
    number.checked_ilog10().unwrap_or(0) as usize + 1
}

fn line(told: Told, before: &[u8], version: u64, behind: &[u8]) -> Bytes {
    let mut line = Vec::with_capacity(
        told.head().len() + before.len() + digits(version) + behind.len() + LINE_END.len(),
    );
    line.extend_from_slice(told.head());
    line.extend_from_slice(before);
    line.extend_from_slice(version.to_string().as_bytes());
    line.extend_from_slice(behind);
    line.extend_from_slice(LINE_END);
    Bytes::from(line)
}

/// Writes the metadata with an empty version, wherever its place is; gives the place of its digits.
fn write_metadata(out: &mut Vec<u8>, metadata: &Map<String, Value>) -> usize {
    let mut version_at = None;
    let mut write_version = |out: &mut Vec<u8>| {
        write_entry(out, VERSION, "");
        version_at = Some(out.len() - "\",".len());
    };
    out.push(b'{');
    let mut written = false;
    for (name, value) in metadata {
        if !written && name.as_str() >= VERSION {
            write_version(out);
            written = true;
        }
        if name != VERSION {
            write_entry(out, name, value);
        }
    }
    if !written {
        write_version(out);
    }
    out.pop();
    out.push(b'}');
    version_at.expect("the version was written")
}

/// Writes an entry of an object, and a comma behind it.
fn write_entry(out: &mut Vec<u8>, name: &str, value: &(impl Serialize + ?Sized)) {
    const TEXT: &str = "JSON values can be written to memory";
    serde_json::to_writer(&mut *out, name).expect(TEXT);
    out.push(b':');
    serde_json::to_writer(&mut *out, value).expect(TEXT);
    out.push(b',');
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_version_is_spliced_in_wherever_the_keys_fall() {
        let object = json!({ "zebra": "\"resourceVersion\":\"5\"", "metadata": { "name": "a", "namespace": "b", "uid": "u",
            "resourceVersion": "7", "labels": { "k": "v" }, "annotations": { "x": "\\u0001version\\u0001" } } });
        let encoded = Draft::new(&object, vec![("spec.nodeName".into(), "n".to_owned())])
            .expect("it has a name")
            .at(42);
        let mut expected = object;
        expected["metadata"]["resourceVersion"] = "42".into();
        assert_eq!(encoded.to_value(), expected);
        assert_eq!(encoded.with_version(43).to_value()["metadata"]["resourceVersion"], "43");
        assert_eq!((encoded.key().as_str(), encoded.uid()), ("b/a", "u"));
        assert_eq!(encoded.labels().get("k"), Some("v"));
        let fields = ["metadata.name", "metadata.namespace", "spec.nodeName", "spec.other"]
            .map(|it| encoded.field(it));
        assert_eq!(fields, [Some("a"), Some("b"), Some("n"), None]);
    }

    #[test]
    fn what_has_no_name_cannot_be_stored() {
        for object in
            [json!({}), json!({ "metadata": {} }), json!({ "metadata": { "name": "a/b" } }), json!(5)]
        {
            assert_eq!(Draft::new(&object, vec![]).map(|_| ()), Err(Unstorable::NoName));
        }
    }
}
