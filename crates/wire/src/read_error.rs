//! The error of reading one value, in either encoding.

use std::fmt;

use serde::de::{Expected, Unexpected};

/// An error of reading a value.
#[derive(Debug)]
pub(crate) struct ReadError(Box<Fault>);

#[derive(Debug)]
struct Fault {
    what: String,
    at: Option<usize>,
    /// The way to the value, from the inside out.
    path: Vec<Segment>,
    disordered: bool,
}

/// A step of the way to a value.
#[derive(Debug)]
enum Segment {
    Member(String),
    Element(usize),
}

impl ReadError {
    /// Returns an error at a position of the body, if it is known.
    #[cold]
    pub(crate) fn new(what: impl fmt::Display, at: Option<usize>) -> Self {
        Self(Box::new(Fault { what: what.to_string(), at, path: Vec::new(), disordered: false }))
    }

    /// Returns the error of a protobuf message that is valid, but whose fields are not in the order
    /// in which they can be read.
    #[cold]
    pub(crate) fn disordered() -> Self {
        let what = "the parts of a field are not together".to_owned();
        Self(Box::new(Fault { what, at: None, path: Vec::new(), disordered: true }))
    }

    /// Returns true for an error of [`Self::disordered`].
    pub(crate) fn is_disordered(&self) -> bool {
        self.0.disordered
    }

    /// Sets the position, unless it is already known.
    pub(crate) fn or_at(mut self, at: usize) -> Self {
        self.0.at.get_or_insert(at);
        self
    }

    /// Adds a member of an object to the path of an error in its value.
    #[cold]
    pub(crate) fn in_member(mut self, name: &str) -> Self {
        self.0.path.push(Segment::Member(name.to_owned()));
        self
    }

    /// Adds an element of an array to the path of an error in it.
    #[cold]
    pub(crate) fn in_element(mut self, index: usize) -> Self {
        self.0.path.push(Segment::Element(index));
        self
    }

    /// Returns the path of the value, such as `spec.containers[0].image`; empty for the whole
    /// object.
    pub(crate) fn path(&self) -> String {
        let mut path = String::new();
        for segment in self.0.path.iter().rev() {
            match segment {
                Segment::Member(name) => {
                    path.push_str(if path.is_empty() { "" } else { "." });
                    path.push_str(name);
                }
                Segment::Element(index) => path.push_str(&format!("[{index}]")),
            }
        }
        path
    }

    /// Describes the error for an object that starts at `base`.
    pub(crate) fn reason(self, base: usize) -> String {
        match self.0.at {
            Some(at) => format!("{} at byte {} of the object", self.0.what, at.saturating_sub(base)),
            None => self.0.what,
        }
    }
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.what)
    }
}

impl std::error::Error for ReadError {}

impl serde::de::Error for ReadError {
    fn custom<M: fmt::Display>(what: M) -> Self {
        Self::new(what, None)
    }

    fn invalid_type(found: Unexpected<'_>, wanted: &dyn Expected) -> Self {
        Self::custom(format_args!("invalid type: {}, expected {wanted}", describe(found)))
    }

    fn invalid_value(found: Unexpected<'_>, wanted: &dyn Expected) -> Self {
        Self::custom(format_args!("invalid value: {}, expected {wanted}", describe(found)))
    }

    /// The variant is text of the object, and is not quoted either: see [`describe`].
    fn unknown_variant(found: &str, wanted: &'static [&'static str]) -> Self {
        let wanted = wanted.join(", ");
        Self::custom(format_args!(
            "unknown variant: a string of {} bytes, expected one of {wanted}",
            found.len()
        ))
    }
}

/// Describes the value that was found, but never quotes text: errors are logged, and the text may
/// be a secret.
fn describe(found: Unexpected<'_>) -> String {
    match found {
        Unexpected::Unit => "null".to_owned(),
        Unexpected::Str(text) => format!("a string of {} bytes", text.len()),
        Unexpected::Bytes(bytes) => format!("a string of {} bytes", bytes.len()),
        found => found.to_string(),
    }
}
