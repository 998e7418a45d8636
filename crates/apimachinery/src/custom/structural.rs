//! The structural schema of one version of a custom kind, parsed from its `openAPIV3Schema`.
//!
//! Parsing never fails: malformed parts are ignored, since [`super::check`] has rejected such
//! definitions before. Pruning, defaulting, validation and printing read this form; server-side
//! apply reads the result of [`Structural::to_schema`].

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Deref;
use std::sync::Arc;

use serde_json::{Map as Object, Value};

use super::pattern::Pattern;
use crate::schema::{Field, List, Map, Scalar, Schema, Struct, Topology};

/// The name of the definition of `metadata`, to be looked up in the definitions of the built-in
/// kinds.
pub const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";

/// One node of a structural schema, or of a value validation below `allOf`, `anyOf`, `oneOf` or
/// `not`.
#[derive(Clone, Debug, Default)]
pub struct Structural {
    /// `type`.
    pub kind: Option<Type>,
    /// `properties`.
    pub properties: BTreeMap<String, Structural>,
    /// The properties that have a default.
    pub(crate) defaulted: Vec<String>,
    /// `additionalProperties`.
    pub additional: Option<Additional>,
    /// `items`.
    pub items: Option<Box<Structural>>,
    /// `nullable`.
    pub nullable: bool,
    /// `default`. A default of null counts as none.
    pub default: Option<Value>,
    /// The limits of values.
    pub limits: NodeLimits,
    /// `x-kubernetes-preserve-unknown-fields`.
    pub preserve_unknown: bool,
    /// `x-kubernetes-embedded-resource`.
    pub embedded: bool,
    /// `x-kubernetes-int-or-string`.
    pub int_or_string: bool,
    /// `x-kubernetes-list-type` with its keys. Absent means atomic.
    pub list: Option<Topology>,
    /// `x-kubernetes-map-type: atomic`.
    pub atomic_map: bool,
    /// `x-kubernetes-validations`, as they are in the definition.
    pub rules: Vec<Value>,
}

/// The values of an `enum`, in a form that is searched quickly: a list can have as many items as an
/// enum has values.
#[derive(Clone, Debug, Default)]
pub struct EnumValues {
    /// The values in the order of the schema.
    pub listed: Vec<Value>,
    /// The values other than numbers.
    pub(crate) exact: HashSet<Value>,
    /// The integers among the values.
    pub(crate) integers: HashSet<i64>,
    /// The bits of the other numbers.
    pub(crate) floats: HashSet<u64>,
}

/// The limits of a node. Most nodes have none, which takes little memory.
#[derive(Clone, Debug, Default)]
pub struct NodeLimits(Option<Box<Limits>>);

/// The restrictions of a value beyond its type.
#[derive(Clone, Debug, Default)]
pub struct Limits {
    /// `format`, if it is one that is checked for the type.
    pub format: Option<String>,
    /// `enum`, unless it is empty.
    pub one_of_values: Option<Box<EnumValues>>,
    /// `minimum`.
    pub minimum: Option<f64>,
    /// `exclusiveMinimum`.
    pub exclusive_minimum: bool,
    /// `maximum`.
    pub maximum: Option<f64>,
    /// `exclusiveMaximum`.
    pub exclusive_maximum: bool,
    /// `multipleOf`.
    pub multiple_of: Option<f64>,
    /// `minLength`, in characters.
    pub min_length: Option<u64>,
    /// `maxLength`, in characters.
    pub max_length: Option<u64>,
    /// `pattern`.
    pub pattern: Option<Pattern>,
    /// `minItems`.
    pub min_items: Option<u64>,
    /// `maxItems`.
    pub max_items: Option<u64>,
    /// `minProperties`.
    pub min_properties: Option<u64>,
    /// `maxProperties`.
    pub max_properties: Option<u64>,
    /// `required`, without repeats: every object is checked for each of them.
    pub required: Vec<String>,
    /// `allOf`.
    pub all_of: Vec<Structural>,
    /// `anyOf`.
    pub any_of: Vec<Structural>,
    /// `oneOf`.
    pub one_of: Vec<Structural>,
    /// `not`.
    pub not: Option<Box<Structural>>,
}

/// The types that a schema can name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    /// `string`.
    String,
    /// `number`.
    Number,
    /// `integer`.
    Integer,
    /// `boolean`.
    Boolean,
    /// `array`.
    Array,
    /// `object`.
    Object,
}

/// The value of `additionalProperties`.
#[derive(Clone, Debug)]
pub enum Additional {
    /// `true` or `false`.
    Allowed(bool),
    /// A schema for the values.
    Of(Box<Structural>),
}

impl Type {
    /// Returns the type of that name.
    pub fn named(name: &str) -> Option<Self> {
        Some(match name {
            "string" => Self::String,
            "number" => Self::Number,
            "integer" => Self::Integer,
            "boolean" => Self::Boolean,
            "array" => Self::Array,
            "object" => Self::Object,
            _ => return None,
        })
    }

    /// Returns the name of the type.
    pub fn name(self) -> &'static str {
        match self {
            Self::String => "string",
            Self::Number => "number",
            Self::Integer => "integer",
            Self::Boolean => "boolean",
            Self::Array => "array",
            Self::Object => "object",
        }
    }
}

impl Structural {
    /// Parses an `openAPIV3Schema`.
    pub fn parse(schema: &Value) -> Self {
        let Some(object) = schema.as_object() else { return Self::default() };
        let kind = text(object, "type").and_then(Type::named);
        let int_or_string = flag(object, "x-kubernetes-int-or-string");
        let properties = properties(object);
        let defaulted = properties.iter().filter(|(_, it)| it.default.is_some()).map(|(key, _)| key.clone());
        Self {
            kind,
            defaulted: defaulted.collect(),
            properties,
            additional: additional(object),
            items: object
                .get("items")
                .filter(|items| items.is_object())
                .map(|items| Box::new(Self::parse(items))),
            nullable: flag(object, "nullable"),
            default: object.get("default").filter(|default| !default.is_null()).cloned(),
            limits: NodeLimits::parse(object, kind, int_or_string),
            preserve_unknown: flag(object, "x-kubernetes-preserve-unknown-fields"),
            embedded: flag(object, "x-kubernetes-embedded-resource"),
            int_or_string,
            list: topology(object),
            atomic_map: text(object, "x-kubernetes-map-type") == Some("atomic"),
            rules: array(object, "x-kubernetes-validations").to_vec(),
        }
    }

    /// Returns the types that a value may have; empty means any.
    pub fn types(&self) -> &'static [Type] {
        match self.kind {
            _ if self.int_or_string => &[Type::Integer, Type::String],
            None => &[],
            Some(Type::String) => &[Type::String],
            Some(Type::Number) => &[Type::Number],
            Some(Type::Integer) => &[Type::Integer],
            Some(Type::Boolean) => &[Type::Boolean],
            Some(Type::Array) => &[Type::Array],
            Some(Type::Object) => &[Type::Object],
        }
    }

    /// Returns the schema of `additionalProperties`, for keys without a property of their own.
    pub fn additional_schema(&self) -> Option<&Self> {
        match &self.additional {
            Some(Additional::Of(schema)) => Some(schema),
            _ => None,
        }
    }

    /// Returns the schema of a key: its property, or else that of `additionalProperties`.
    pub fn child(&self, key: &str) -> Option<&Self> {
        self.properties.get(key).or_else(|| self.additional_schema())
    }

    /// Returns true if this node or one below has rules.
    pub fn has_rules(&self) -> bool {
        !self.rules.is_empty()
            || self.properties.values().any(Self::has_rules)
            || self.items.as_deref().is_some_and(Self::has_rules)
            || self.additional_schema().is_some_and(Self::has_rules)
    }

    /// Returns the schema of whole objects for server-side apply: this one, with `apiVersion`,
    /// `kind` and `metadata` (the definition [`OBJECT_META`]) at the root and in embedded
    /// resources.
    pub fn to_schema(&self) -> Schema {
        convert(self, true, false)
    }
}

impl EnumValues {
    /// Returns `None` for an empty list, which allows every value.
    fn parse(listed: &[Value]) -> Option<Self> {
        if listed.is_empty() {
            return None;
        }
        let mut values = Self { listed: listed.to_vec(), ..Self::default() };
        for value in listed {
            match (value.as_i64(), value.as_f64()) {
                (Some(integer), _) => _ = values.integers.insert(integer),
                (None, Some(float)) => _ = values.floats.insert(Self::bits(float)),
                (None, None) => _ = values.exact.insert(value.clone()),
            }
        }
        Some(values)
    }

    /// Returns the bits of a float; those of both zeros are the same.
    pub(crate) fn bits(float: f64) -> u64 {
        (float + 0.0).to_bits()
    }
}

/// The limits of a node that has none.
static NO_LIMITS: Limits = Limits {
    format: None,
    one_of_values: None,
    minimum: None,
    exclusive_minimum: false,
    maximum: None,
    exclusive_maximum: false,
    multiple_of: None,
    min_length: None,
    max_length: None,
    pattern: None,
    min_items: None,
    max_items: None,
    min_properties: None,
    max_properties: None,
    required: Vec::new(),
    all_of: Vec::new(),
    any_of: Vec::new(),
    one_of: Vec::new(),
    not: None,
};

impl NodeLimits {
    fn parse(object: &Object<String, Value>, kind: Option<Type>, int_or_string: bool) -> Self {
        let has_any = object.keys().any(|key| Limits::KEYWORDS.contains(&key.as_str()));
        Self(has_any.then(|| Box::new(Limits::parse(object, kind, int_or_string))))
    }
}

impl Deref for NodeLimits {
    type Target = Limits;

    fn deref(&self) -> &Limits {
        self.0.as_deref().unwrap_or(&NO_LIMITS)
    }
}

impl Limits {
    /// The keywords of all limits.
    const KEYWORDS: [&str; 19] = [
        "format",
        "enum",
        "minimum",
        "exclusiveMinimum",
        "maximum",
        "exclusiveMaximum",
        "multipleOf",
        "minLength",
        "maxLength",
        "pattern",
        "minItems",
        "maxItems",
        "minProperties",
        "maxProperties",
        "required",
        "allOf",
        "anyOf",
        "oneOf",
        "not",
    ];

    fn parse(object: &Object<String, Value>, kind: Option<Type>, int_or_string: bool) -> Self {
        let list = |key| array(object, key).iter().map(Structural::parse).collect();
        Self {
            format: text(object, "format")
                .filter(|format| checked(format, kind, int_or_string))
                .map(str::to_owned),
            one_of_values: EnumValues::parse(array(object, "enum")).map(Box::new),
            minimum: number(object, "minimum"),
            exclusive_minimum: flag(object, "exclusiveMinimum"),
            maximum: number(object, "maximum"),
            exclusive_maximum: flag(object, "exclusiveMaximum"),
            multiple_of: number(object, "multipleOf"),
            min_length: count(object, "minLength"),
            max_length: count(object, "maxLength"),
            pattern: text(object, "pattern").filter(|text| !text.is_empty()).map(Pattern::new),
            min_items: count(object, "minItems"),
            max_items: count(object, "maxItems"),
            min_properties: count(object, "minProperties"),
            max_properties: count(object, "maxProperties"),
            required: distinct(array(object, "required").iter().filter_map(Value::as_str)),
            all_of: list("allOf"),
            any_of: list("anyOf"),
            one_of: list("oneOf"),
            not: object.get("not").filter(|not| not.is_object()).map(|not| Box::new(Structural::parse(not))),
        }
    }
}

/// Returns true if a format is checked for that type; others are ignored.
pub(crate) fn checked(format: &str, kind: Option<Type>, int_or_string: bool) -> bool {
    match kind {
        _ if int_or_string => super::formats::known(format),
        None | Some(Type::String) => super::formats::known(format),
        Some(Type::Integer) => matches!(format, "int32" | "int64"),
        Some(Type::Number) => matches!(format, "float" | "double"),
        Some(_) => false,
    }
}

fn properties(object: &Object<String, Value>) -> BTreeMap<String, Structural> {
    let known = object.get("properties").and_then(Value::as_object);
    known.into_iter().flatten().map(|(name, schema)| (name.clone(), Structural::parse(schema))).collect()
}

fn additional(object: &Object<String, Value>) -> Option<Additional> {
    match object.get("additionalProperties")? {
        Value::Bool(allowed) => Some(Additional::Allowed(*allowed)),
        schema @ Value::Object(_) => Some(Additional::Of(Box::new(Structural::parse(schema)))),
        _ => None,
    }
}

fn topology(object: &Object<String, Value>) -> Option<Topology> {
    match text(object, "x-kubernetes-list-type")? {
        "set" => Some(Topology::Set),
        "map" => {
            let keys = array(object, "x-kubernetes-list-map-keys").iter();
            Some(Topology::Map(keys.filter_map(Value::as_str).map(str::to_owned).collect()))
        }
        _ => Some(Topology::Atomic),
    }
}

/// Converts a node. `inherited` is set if a schema above preserves unknown fields: apply then
/// accepts them all the way down.
fn convert(node: &Structural, root: bool, inherited: bool) -> Schema {
    let inherited = inherited || node.preserve_unknown;
    if node.int_or_string {
        return Schema::Scalar(Scalar::IntOrString);
    }
    match node.kind {
        Some(Type::String) => Schema::Scalar(Scalar::String),
        Some(Type::Number) => Schema::Scalar(Scalar::Number),
        Some(Type::Integer) => Schema::Scalar(Scalar::Integer),
        Some(Type::Boolean) => Schema::Scalar(Scalar::Boolean),
        Some(Type::Array) => {
            let item = node.items.as_deref().map_or(Schema::Any, |items| convert(items, false, inherited));
            Schema::List(Arc::new(List { item, topology: node.list.clone().unwrap_or(Topology::Atomic) }))
        }
        Some(Type::Object) => convert_object(node, root, inherited),
        None if node.properties.is_empty() && !root => Schema::Any,
        None => convert_object(node, root, inherited),
    }
}

fn convert_object(node: &Structural, root: bool, inherited: bool) -> Schema {
    let whole = root || node.embedded;
    let additional = match &node.additional {
        Some(Additional::Of(schema)) => Some(convert(schema, false, inherited)),
        Some(Additional::Allowed(true)) => Some(Schema::Any),
        Some(Additional::Allowed(false)) => None,
        // An object without any description may have any fields.
        None if inherited || (node.properties.is_empty() && !root) => Some(Schema::Any),
        None => None,
    };
    if node.properties.is_empty()
        && !whole
        && let Some(value) = additional
    {
        return Schema::Map(Arc::new(Map { value, atomic: node.atomic_map }));
    }
    let mut fields: HashMap<String, Field> = HashMap::new();
    let required: HashSet<&String> = node.limits.required.iter().collect();
    for (name, property) in &node.properties {
        let mut field = Field::new(convert(property, false, inherited));
        field.required = required.contains(name);
        field.default.clone_from(&property.default);
        fields.insert(name.clone(), field);
    }
    if whole {
        for name in ["apiVersion", "kind"] {
            fields.insert(name.to_owned(), Field::new(Schema::Scalar(Scalar::String)));
        }
        fields.insert("metadata".to_owned(), Field::new(Schema::Named(OBJECT_META.into())));
    }
    let preserve_unknown = inherited;
    Schema::Struct(Arc::new(Struct { fields, additional, atomic: node.atomic_map, preserve_unknown }))
}

fn text<'a>(object: &'a Object<String, Value>, key: &str) -> Option<&'a str> {
    object.get(key).and_then(Value::as_str)
}

fn flag(object: &Object<String, Value>, key: &str) -> bool {
    object.get(key).and_then(Value::as_bool).unwrap_or(false)
}

fn number(object: &Object<String, Value>, key: &str) -> Option<f64> {
    object.get(key).and_then(Value::as_f64)
}

fn count(object: &Object<String, Value>, key: &str) -> Option<u64> {
    object.get(key).and_then(Value::as_u64)
}

/// Returns the texts without repeats, in the order of their first occurrence.
fn distinct<'a>(texts: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut seen = HashSet::new();
    texts.filter(|it| seen.insert(*it)).map(str::to_owned).collect()
}

fn array<'a>(object: &'a Object<String, Value>, key: &str) -> &'a [Value] {
    object.get(key).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn repeated_required_fields_count_once() {
        let node = Structural::parse(&json!({ "type": "object", "required": ["b", "a", "b", "a", "c"] }));
        assert_eq!(node.limits.required, ["b", "a", "c"]);
    }

    /// A definition has up to 100,000 nodes.
    #[test]
    fn a_node_without_limits_is_small() {
        assert!(size_of::<Structural>() <= 192, "{}", size_of::<Structural>());
        assert!(Structural::parse(&json!({ "type": "string", "description": "d" })).limits.0.is_none());
    }

    #[test]
    fn each_limit_is_parsed_if_it_is_the_only_one() {
        let every = json!({ "format": "email", "enum": [1], "minimum": 1, "exclusiveMinimum": true, "maximum": 1,
            "exclusiveMaximum": true, "multipleOf": 1, "minLength": 1, "maxLength": 1, "pattern": "p",
            "minItems": 1, "maxItems": 1, "minProperties": 1, "maxProperties": 1, "required": ["r"],
            "allOf": [{}], "anyOf": [{}], "oneOf": [{}], "not": {} });
        let every = every.as_object().expect("an object");
        assert_eq!(every.len(), Limits::KEYWORDS.len());
        let none = format!("{:?}", *NodeLimits::default());
        for (key, value) in every {
            let node = Structural::parse(&json!({ key: value }));
            assert_ne!(format!("{:?}", *node.limits), none, "{key}");
        }
    }

    #[test]
    fn required_fields_cost_in_proportion_to_their_number() {
        let time = |count: usize| {
            let names: Vec<String> = (0..count).map(|it| format!("{}{it:05}", "f".repeat(60))).collect();
            let properties: serde_json::Map<String, Value> =
                names.iter().map(|it| (it.clone(), json!({ "type": "string" }))).collect();
            let node = Structural::parse(
                &json!({ "type": "object", "properties": { "spec": { "type": "object", "required": names, "properties": properties } } }),
            );
            let start = cpu_time::ThreadTime::now();
            drop(node.to_schema());
            start.elapsed().as_secs_f64()
        };
        let (small, large) = (time(1_000), time(8_000));
        assert!(large < 24.0 * small.max(0.002), "{small} s and {large} s");
    }
}
