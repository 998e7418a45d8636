//! The path of a node in a schema, as messages show it: `spec.validation.properties[a].items`.
//!
//! It is only formatted for messages: the paths of all nodes of a schema can be longer than the
//! schema by orders of magnitude, if a property with a long name has many others below it.

use std::fmt;
use std::rc::Rc;

/// The path of a node, linked to that of the node around it.
#[derive(Clone, Debug)]
pub(crate) struct SchemaPath(Rc<Segment>);

#[derive(Debug)]
struct Segment {
    above: Option<SchemaPath>,
    text: String,
}

impl SchemaPath {
    /// Returns the path of the node where a walk begins.
    pub(crate) fn root(path: &str) -> Self {
        Self(Rc::new(Segment { above: None, text: path.to_owned() }))
    }

    /// Returns the path of a keyword.
    pub(crate) fn keyword(&self, key: &str) -> Self {
        self.below(format!(".{key}"))
    }

    /// Returns the path of a schema in the list of a keyword.
    pub(crate) fn item(&self, key: &str, index: usize) -> Self {
        self.below(format!(".{key}[{index}]"))
    }

    /// Returns the path of a property.
    pub(crate) fn property(&self, name: &str) -> Self {
        self.below(format!(".properties[{name}]"))
    }

    fn below(&self, text: String) -> Self {
        Self(Rc::new(Segment { above: Some(self.clone()), text }))
    }
}

impl fmt::Display for SchemaPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(above) = &self.0.above {
            write!(f, "{above}")?;
        }
        f.write_str(&self.0.text)
    }
}

impl From<SchemaPath> for String {
    fn from(path: SchemaPath) -> Self {
        path.to_string()
    }
}
