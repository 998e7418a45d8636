//! Strict decoding: finds unknown fields, duplicate fields and values of the wrong type in a body.
//!
//! Walks over the JSON text once, in the order of the text, as kube-apiserver's decoder does.
//! Nothing of the body is kept. The caller decides what to do about a finding: reject the request,
//! warn, or ignore it.

use std::collections::{BTreeSet, HashSet};
use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use compact_str::CompactString;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

use super::go_types;
use super::schema_unions::{self, SchemaUnion};
use crate::scalar_syntax;
use crate::schema::{Definitions, NoDefinitions, Scalar, Schema, Struct};

/// The number of unknown and duplicate fields that are reported at most, as in sigs.k8s.io/json
/// internal/golang/encoding/json/kubernetes_patch.go.
const MAX_STRICT_ERRORS: usize = 100;

/// The size of all findings about fields, in bytes, from which on no more are reported.
const MAX_STRICT_BYTES: usize = 1024 * 1024;

/// The findings of a walk over a body.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    /// Messages such as `unknown field "spec.foo"` and `duplicate field "data.a"`, in the order of
    /// the text, without repeats.
    pub strict: Vec<String>,
    /// The error of the first value that cannot be decoded: `json: cannot unmarshal …`, or the
    /// error of its text form.
    pub mismatch: Option<String>,
}

/// Checks a body against the schema of its kind. Fails only if the body is not JSON.
pub fn inspect(
    body: &[u8],
    schema: &Schema,
    definitions: &dyn Definitions,
) -> Result<Findings, serde_json::Error> {
    let mut walk = Walk::new(definitions);
    let mut json = serde_json::Deserializer::from_slice(body);
    Node { walk: &mut walk, expected: Expected::Schema(schema.clone()) }.deserialize(&mut json)?;
    json.end()?;
    Ok(walk.findings)
}

/// Returns the fields of an object that are not in its schema, as
/// `unknown field "spec.containers[0].foo"`, sorted by name.
pub fn unknown_fields(object: &Value, schema: &Schema, definitions: &dyn Definitions) -> Vec<String> {
    walk_value(object, schema, definitions).strict
}

/// Returns the error of the first value of an object that has the wrong type; empty if there is
/// none.
pub fn type_errors(object: &Value, schema: &Schema, definitions: &dyn Definitions) -> Vec<String> {
    walk_value(object, schema, definitions).mismatch.into_iter().collect()
}

/// Returns the fields that occur more than once, as `duplicate field "data.a"`, without looking at
/// a schema. Returns an empty list if the body is not JSON.
pub fn duplicate_fields(body: &[u8]) -> Vec<String> {
    let mut walk = Walk::new(&NoDefinitions);
    let mut json = serde_json::Deserializer::from_slice(body);
    let node = Node { walk: &mut walk, expected: Expected::Nothing };
    if node.deserialize(&mut json).is_ok() { walk.findings.strict } else { Vec::new() }
}

fn walk_value(object: &Value, schema: &Schema, definitions: &dyn Definitions) -> Findings {
    let mut walk = Walk::new(definitions);
    let node = Node { walk: &mut walk, expected: Expected::Schema(schema.clone()) };
    node.deserialize(object).expect("walking over a parsed value cannot fail");
    walk.findings
}

/// A segment of the path from the root to a value.
#[derive(Debug)]
enum Segment {
    /// A field of a structure that has a definition.
    Field { definition: Arc<str>, name: CompactString },
    /// An entry of a map.
    Key(CompactString),
    /// An item of a list.
    Item(usize),
}

/// The state of a walk.
struct Walk<'d> {
    definitions: &'d dyn Definitions,
    steps: Vec<Segment>,
    /// The hashes of the paths to all of `steps`.
    hashes: Vec<u64>,
    hasher: RandomState,
    /// The number of [`SchemaUnion`]s around the current value.
    unions: usize,
    /// The hashes of the reported fields. A path is as long as the keys in it, so it is not
    /// formatted for each of many equal findings.
    reported: HashSet<u64>,
    /// The number of bytes of the findings about fields.
    bytes: usize,
    findings: Findings,
}

/// The knowledge about a value before it is visited.
#[derive(Clone)]
enum Expected {
    /// No schema: only duplicate fields are looked for.
    Nothing,
    Schema(Schema),
}

/// A value to walk over.
struct Node<'w, 'd> {
    walk: &'w mut Walk<'d>,
    expected: Expected,
}

impl<'d> Walk<'d> {
    fn new(definitions: &'d dyn Definitions) -> Self {
        Self {
            definitions,
            steps: Vec::new(),
            hashes: Vec::new(),
            hasher: RandomState::new(),
            unions: 0,
            reported: HashSet::new(),
            bytes: 0,
            findings: Findings::default(),
        }
    }

    fn enter(&mut self, step: Segment) {
        let above = self.hashes.last().copied().unwrap_or_default();
        self.hashes.push(match &step {
            Segment::Item(index) => self.hasher.hash_one((above, index)),
            Segment::Field { name, .. } | Segment::Key(name) => self.hasher.hash_one((above, name)),
        });
        self.steps.push(step);
    }

    fn leave(&mut self) {
        self.hashes.pop();
        self.steps.pop();
    }

    /// Adds `what field "path.name"` to the findings, once.
    fn report(&mut self, what: &str, name: &str) {
        // Go's decoders of unions are not strict: k8s.io/apiextensions-apiserver v0.36.4
        // pkg/apis/apiextensions/v1/marshal.go.
        if self.unions > 0 {
            return;
        }
        if self.findings.strict.len() >= MAX_STRICT_ERRORS || self.bytes >= MAX_STRICT_BYTES {
            return;
        }
        let above = self.hashes.last().copied().unwrap_or_default();
        if !self.reported.insert(self.hasher.hash_one((above, what, name))) {
            return;
        }
        let mut path = String::new();
        for step in &self.steps {
            match step {
                Segment::Item(index) => path.push_str(&format!("[{index}]")),
                Segment::Field { name, .. } | Segment::Key(name) => {
                    if !path.is_empty() {
                        path.push('.');
                    }
                    path.push_str(name);
                }
            }
        }
        let dot = if path.is_empty() { "" } else { "." };
        let message = format!("{what} field \"{path}{dot}{name}\"");
        self.bytes += message.len();
        self.findings.strict.push(message);
    }

    /// Records the error of the text form of a scalar, if there is one and no error was recorded
    /// before.
    fn record_error(&mut self, message: Option<String>) {
        if self.findings.mismatch.is_none() {
            self.findings.mismatch = message;
        }
    }

    /// Records that `found` does not match `schema`.
    fn mismatch(&mut self, found: &str, schema: &Schema) {
        if self.findings.mismatch.is_some() {
            return;
        }
        // Go lets a quantity decode itself (`Quantity.UnmarshalJSON` in k8s.io/apimachinery v0.36.4
        // pkg/api/resource/quantity.go): any JSON that is not a quantity gets the error of a
        // malformed one.
        if let Schema::Scalar(Scalar::Quantity) = schema.resolve(self.definitions) {
            self.record_error(scalar_syntax::quantity("?"));
            return;
        }
        let mut path = String::new();
        let mut owner = None;
        for step in &self.steps {
            let Segment::Field { definition, name } = step else { continue };
            for part in [go_types::embedded(definition, name), Some(name.as_str())].into_iter().flatten() {
                path.push('.');
                path.push_str(part);
            }
            owner = Some((definition, name));
        }
        self.findings.mismatch = Some(match owner {
            Some((definition, name)) => {
                let expected = go_types::type_of(schema, definition, name, self.definitions);
                // An error inside a union gets the structure that has the union.
                let is_inside = self.unions > 0;
                let short = if is_inside { schema_unions::OWNER } else { go_types::short(definition) };
                format!(
                    "json: cannot unmarshal {found} into Go struct field {short}{path} of type {expected}"
                )
            }
            None => {
                let expected = go_types::type_of(schema, "", "", self.definitions);
                format!("json: cannot unmarshal {found} into Go value of type {expected}")
            }
        });
    }

    /// Returns true if an integer fits the current field.
    fn fits(&self, number: i64) -> bool {
        let field = self.steps.iter().rev().find_map(|step| match step {
            Segment::Field { definition, name } => Some((definition, name)),
            Segment::Key(_) | Segment::Item(_) => None,
        });
        i32::try_from(number).is_ok()
            || field.is_none_or(|(definition, name)| go_types::is_long(definition, name))
    }
}

impl Node<'_, '_> {
    /// Returns the schema as expected, the schema that it resolves to, and the name of its
    /// definition, which is empty for a structure without one.
    fn resolved(&self) -> Option<(Schema, Schema, Arc<str>)> {
        let Expected::Schema(schema) = &self.expected else { return None };
        let name = if let Schema::Named(name) = schema { name.clone() } else { "".into() };
        Some((schema.clone(), schema.resolve(self.walk.definitions), name))
    }

    fn union(&self) -> Option<SchemaUnion> {
        let Expected::Schema(schema) = &self.expected else { return None };
        SchemaUnion::of(schema)
    }

    /// Checks a scalar; `fits` returns true if a value of this form is valid for the expected type.
    fn scalar(self, found: &str, fits: impl FnOnce(&mut Walk<'_>, Scalar) -> bool) {
        let Some((schema, resolved, _)) = self.resolved() else { return };
        match resolved {
            Schema::Any if self.union() == Some(SchemaUnion::Bool) && found != "bool" => {
                self.walk.record_error(Some(schema_unions::NO_SCHEMA_OR_BOOL.to_owned()));
            }
            Schema::Any => {}
            Schema::Scalar(scalar) if fits(self.walk, scalar) => {}
            _ => self.walk.mismatch(found, &schema),
        }
    }
}

impl Node<'_, '_> {
    /// Checks a number; `fits` decides for the types that must be integers. Only for those does the
    /// error show the number.
    fn number(self, number: impl fmt::Display, fits: impl FnOnce(&mut Walk<'_>, Scalar) -> bool) {
        let whole = |it: &Schema| matches!(it, Schema::Scalar(Scalar::Integer | Scalar::IntOrString));
        let shown = self.resolved().is_some_and(|(_, resolved, _)| whole(&resolved));
        let found = if shown { format!("number {number}") } else { "number".to_owned() };
        self.scalar(&found, |walk, scalar| {
            matches!(scalar, Scalar::Number | Scalar::Quantity) || fits(walk, scalar)
        });
    }
}

impl<'de> DeserializeSeed<'de> for Node<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        if matches!(self.expected, Expected::Schema(Schema::Any)) {
            return deserializer.deserialize_ignored_any(IgnoredAny).map(drop);
        }
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Node<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        self.scalar("bool", |_, scalar| scalar == Scalar::Boolean);
        Ok(())
    }

    fn visit_i64<E>(self, number: i64) -> Result<(), E> {
        self.number(number, |walk, scalar| match scalar {
            Scalar::Integer => walk.fits(number),
            Scalar::IntOrString => i32::try_from(number).is_ok(),
            _ => false,
        });
        Ok(())
    }

    fn visit_u64<E>(self, number: u64) -> Result<(), E> {
        self.number(number, |walk, scalar| match scalar {
            Scalar::Integer => i64::try_from(number).is_ok_and(|it| walk.fits(it)),
            Scalar::IntOrString => i32::try_from(number).is_ok(),
            _ => false,
        });
        Ok(())
    }

    fn visit_f64<E>(self, number: f64) -> Result<(), E> {
        self.number(number, |_, _| false);
        Ok(())
    }

    fn visit_str<E>(self, text: &str) -> Result<(), E> {
        self.scalar("string", |walk, scalar| {
            match scalar {
                Scalar::Time => walk.record_error(scalar_syntax::time(text)),
                Scalar::MicroTime => walk.record_error(scalar_syntax::micro_time(text)),
                Scalar::Quantity => walk.record_error(scalar_syntax::quantity(text)),
                Scalar::Bytes => walk.record_error(scalar_syntax::base64(text)),
                _ => {}
            }
            !matches!(scalar, Scalar::Integer | Scalar::Number | Scalar::Boolean)
        });
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        let union = self.union();
        if union == Some(SchemaUnion::Bool) {
            self.walk.record_error(Some(schema_unions::NO_SCHEMA_OR_BOOL.to_owned()));
        }
        let expected = match (union.and_then(SchemaUnion::item), self.resolved()) {
            (Some(item), _) => Expected::Schema(item),
            (None, None) => Expected::Nothing,
            (None, Some((_, Schema::List(list), _))) => Expected::Schema(list.item.clone()),
            (None, Some((schema, resolved, _))) => {
                if !matches!(resolved, Schema::Any) {
                    self.walk.mismatch("array", &schema);
                }
                Expected::Schema(Schema::Any)
            }
        };
        let unions = usize::from(union.is_some());
        self.walk.unions += unions;
        for index in 0.. {
            self.walk.enter(Segment::Item(index));
            let item = items.next_element_seed(Node { walk: self.walk, expected: expected.clone() });
            self.walk.leave();
            if item?.is_none() {
                break;
            }
        }
        self.walk.unions -= unions;
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<(), A::Error> {
        if self.union().is_some() {
            self.walk.unions += 1;
            let schema = Expected::Schema(SchemaUnion::object());
            let visited = Node { walk: self.walk, expected: schema }.visit_map(entries);
            self.walk.unions -= 1;
            return visited;
        }
        let inside = match self.resolved() {
            None => Contents::Entries(Expected::Nothing),
            Some((_, Schema::Struct(it), definition)) => Contents::Fields(it, definition),
            Some((_, Schema::Map(map), _)) => Contents::Entries(Expected::Schema(map.value.clone())),
            Some((schema, resolved, _)) => {
                if !matches!(resolved, Schema::Any) {
                    self.walk.mismatch("object", &schema);
                }
                while entries.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
                return Ok(());
            }
        };
        let mut seen = BTreeSet::new();
        while let Some(name) = entries.next_key::<CompactString>()? {
            let (step, expected) = match &inside {
                Contents::Entries(expected) => (Segment::Key(name.clone()), expected.clone()),
                Contents::Fields(fields, definition) => match field(fields, &name) {
                    Some(schema) => {
                        let step = Segment::Field { definition: definition.clone(), name: name.clone() };
                        (step, Expected::Schema(schema))
                    }
                    None => {
                        self.walk.report("unknown", &name);
                        entries.next_value::<IgnoredAny>()?;
                        continue;
                    }
                },
            };
            if seen.contains(&name) {
                self.walk.report("duplicate", &name);
            }
            self.walk.enter(step);
            let value = entries.next_value_seed(Node { walk: self.walk, expected });
            self.walk.leave();
            value?;
            seen.insert(name);
        }
        Ok(())
    }
}

/// The expected contents of an object.
enum Contents {
    Fields(Arc<Struct>, Arc<str>),
    Entries(Expected),
}

/// Returns the schema of the field of that name, or `None` if the structure does not keep it.
fn field(fields: &Struct, name: &str) -> Option<Schema> {
    match fields.fields.get(name) {
        Some(field) => Some(field.schema.clone()),
        None if fields.preserve_unknown => Some(Schema::Any),
        None => fields.additional.clone(),
    }
}
