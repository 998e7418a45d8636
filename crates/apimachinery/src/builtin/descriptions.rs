//! The descriptions of built-in definitions and their fields, for OpenAPI documents.
//!
//! Compressed in the binary. They are decompressed while a document is being generated and freed
//! afterwards: they take half a megabyte.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::io::Read;
use std::ops::Range;
use std::sync::{Arc, Weak};

use flate2::read::GzDecoder;
use serde_json::Value;

static COMPRESSED: &[u8] = include_bytes!("../../data/generated/prose.gz");

/// The descriptions of all definitions.
#[derive(Debug)]
pub(crate) struct Descriptions {
    text: String,
    /// The range of the lines of each definition in `text`.
    lines: HashMap<String, Range<usize>>,
}

impl Descriptions {
    /// Returns the descriptions, shared with concurrent users or decompressed.
    pub(crate) fn get() -> Arc<Self> {
        static SHARED: Mutex<Weak<Descriptions>> = Mutex::new(Weak::new());
        let mut shared = SHARED.lock();
        shared.upgrade().unwrap_or_else(|| {
            let descriptions = Arc::new(Self::decompress());
            *shared = Arc::downgrade(&descriptions);
            descriptions
        })
    }

    /// Returns a fingerprint of the descriptions: the checksum and the length at the end of the
    /// gzip data.
    pub(crate) fn fingerprint() -> &'static [u8] {
        &COMPRESSED[COMPRESSED.len() - 8..]
    }

    fn decompress() -> Self {
        let mut text = String::new();
        GzDecoder::new(COMPRESSED).read_to_string(&mut text).expect("the generator compresses UTF-8 text");
        let mut lines: HashMap<String, Range<usize>> = HashMap::new();
        let (mut at, mut begun) = (0, None);
        for line in text.split_inclusive('\n') {
            if !line.starts_with('\t')
                && let Some((name, _)) = line.split_once('\t')
            {
                lines.extend(begun.replace((name, at)).map(|(name, from)| (name.to_owned(), from..at)));
            }
            at += line.len();
        }
        lines.extend(begun.map(|(name, from)| (name.to_owned(), from..at)));
        Self { text, lines }
    }

    /// Adds the descriptions of the definition of that name, and of its fields, to its schema.
    pub(crate) fn describe(&self, name: &str, schema: &mut Value) {
        let lines = self.lines.get(name).and_then(|it| self.text.get(it.clone())).unwrap_or_default();
        for line in lines.lines() {
            match line.strip_prefix('\t').map(|it| it.split_once('\t')) {
                None => {
                    put(Some(&mut *schema), line.split_once('\t').map_or("", |(_, description)| description))
                }
                Some(Some((field, description))) => {
                    put(schema.get_mut("properties").and_then(|it| it.get_mut(field)), description);
                }
                Some(None) => {}
            }
        }
    }

    /// Returns the description of one field of the definition of that name.
    pub(crate) fn of_field(&self, name: &str, field: &str) -> Option<String> {
        let lines = self.text.get(self.lines.get(name)?.clone())?.lines();
        let mut fields = lines.filter_map(|it| it.strip_prefix('\t')?.split_once('\t'));
        fields.find(|(name, _)| *name == field).map(|(_, description)| unescape(description))
    }
}

fn put(schema: Option<&mut Value>, description: &str) {
    if let Some(Value::Object(schema)) = schema
        && !description.is_empty()
    {
        schema.insert("description".to_owned(), unescape(description).into());
    }
}

/// Unescapes a description; escapes keep it on one line.
fn unescape(description: &str) -> String {
    let mut out = String::with_capacity(description.len());
    let mut rest = description.chars();
    while let Some(it) = rest.next() {
        out.push(match it {
            '\\' => match rest.next() {
                Some('n') => '\n',
                Some('t') => '\t',
                _ => '\\',
            },
            it => it,
        });
    }
    out
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn definitions_and_their_fields_get_their_descriptions() {
        let descriptions = Descriptions::get();
        let mut schema = json!({"properties": {"data": {"type": "object"}, "new": {}}});
        descriptions.describe("io.k8s.api.core.v1.ConfigMap", &mut schema);
        assert_eq!(schema["description"], "ConfigMap holds configuration data for pods to consume.");
        let data = schema["properties"]["data"]["description"].as_str().unwrap();
        assert!(data.starts_with("Data contains the configuration data."), "{data}");
        assert_eq!(schema["properties"]["new"], json!({}));
        let protocol = descriptions.of_field("io.k8s.api.core.v1.ServicePort", "appProtocol").unwrap();
        assert!(protocol.contains("either:\n\n* Un-prefixed"), "{protocol}");
        assert_eq!(descriptions.of_field("io.k8s.api.core.v1.ServicePort", "nothing"), None);
        assert_eq!(descriptions.of_field("nothing", "kind"), None);
    }

    #[test]
    fn concurrent_users_share_the_decompressed_descriptions() {
        let descriptions = Descriptions::get();
        assert!(Arc::ptr_eq(&descriptions, &Descriptions::get()));
    }

    #[test]
    fn escapes_are_reversed() {
        assert_eq!(unescape(r"a\n\tb\\n"), "a\n\tb\\n");
    }
}
