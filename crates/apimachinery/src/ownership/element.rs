//! One step of a field path: a field, or a list item by its keys, its value, or its index.
//!
//! Two forms: the one of `managedFields` (`f:name`, `k:{"name":"x"}`, `v:"x"`, `i:0`) and the one
//! of messages (`.name`, `[name="x"]`, `[="x"]`, `[0]`). Knows nothing of schemas.

use std::cmp::Ordering;
use std::fmt;
use std::sync::LazyLock;

use compact_str::CompactString;
use serde_json::{Map, Number, Value};

use crate::plain_json;

/// One step of a field path. Ordered as in `managedFields`: fields, keys, values, indexes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Element {
    /// A field of an object.
    Field(CompactString),
    /// The item of a list with these values in its key fields, which are sorted by name.
    Key(Vec<(String, Datum)>),
    /// The item of a set with this value.
    Value(Datum),
    /// The item at this index.
    Index(i64),
}

/// A JSON value with the order and equality of structured-merge-diff: `1` and `1.0` are equal.
#[derive(Clone, Debug)]
pub struct Datum(pub Value);

/// A key of `fieldsV1` that is not a path element.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{key:?} is not a path element")]
pub struct BadElement {
    /// The key as it was written.
    pub key: String,
}

impl Element {
    /// Returns a field by its name.
    pub fn field(name: impl AsRef<str>) -> Self {
        Self::Field(name.as_ref().into())
    }

    /// Returns the item with these values in its key fields, which may be in any order.
    pub fn key(fields: impl IntoIterator<Item = (String, Value)>) -> Self {
        let mut fields: Vec<_> = fields.into_iter().map(|(name, value)| (name, Datum(value))).collect();
        fields.sort_by(|a, b| a.0.cmp(&b.0));
        Self::Key(fields)
    }

    /// Parses a key of `fieldsV1`. Returns `None` for an element of an unknown kind, which readers
    /// skip.
    ///
    /// # Errors
    /// An error if the key is not a path element.
    pub fn parse(key: &str) -> Result<Option<Self>, BadElement> {
        let bad = || BadElement { key: key.to_owned() };
        let Some((kind, rest)) = key.split_at_checked(1) else { return Err(bad()) };
        let rest = rest.strip_prefix(':').ok_or_else(bad)?;
        let element = match kind {
            "f" => Self::field(rest),
            "v" => Self::Value(Datum(plain_json::from_str(rest).map_err(|_| bad())?)),
            "k" => {
                let Ok(Value::Object(fields)) = plain_json::from_str(rest) else { return Err(bad()) };
                Self::key(fields)
            }
            "i" => Self::Index(rest.parse().map_err(|_| bad())?),
            _ => return Ok(None),
        };
        Ok(Some(element))
    }

    /// Returns the form used as a key of `fieldsV1`.
    pub fn to_key(&self) -> String {
        match self {
            Self::Field(name) => ["f:", name.as_str()].concat(),
            Self::Value(datum) => format!("v:{}", datum.to_json()),
            Self::Index(index) => format!("i:{index}"),
            Self::Key(fields) => {
                let fields: Vec<String> = fields
                    .iter()
                    .map(|(name, value)| format!("{}:{}", Value::from(name.as_str()), value.to_json()))
                    .collect();
                format!("k:{{{}}}", fields.join(","))
            }
        }
    }
}

/// The form used in messages.
impl fmt::Display for Element {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Field(name) => write!(f, ".{name}"),
            Self::Value(datum) => write!(f, "[={}]", datum.plain()),
            Self::Index(index) => write!(f, "[{index}]"),
            Self::Key(fields) => {
                f.write_str("[")?;
                for (index, (name, value)) in fields.iter().enumerate() {
                    let comma = if index == 0 { "" } else { "," };
                    write!(f, "{comma}{name}={}", value.plain())?;
                }
                f.write_str("]")
            }
        }
    }
}

impl Datum {
    fn to_json(&self) -> String {
        escape_html(&self.plain())
    }

    /// Formats the value as JSON, whole numbers without a fraction.
    fn plain(&self) -> String {
        match self.0.as_f64().filter(|it| self.0.is_f64() && it.fract() == 0.0 && it.abs() < 1e15) {
            Some(whole) => format!("{whole:.0}"),
            None => self.0.to_string(),
        }
    }
}

impl PartialEq for Datum {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Datum {}

impl PartialOrd for Datum {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Datum {
    fn cmp(&self, other: &Self) -> Ordering {
        compare(&self.0, &other.0)
    }
}

/// Returns true if two values are equal to structured-merge-diff, for which `1` and `1.0` are the
/// same.
pub(super) fn same(a: &Value, b: &Value) -> bool {
    compare(a, b) == Ordering::Equal
}

/// Escapes JSON like Go's encoder: the characters with a meaning in HTML (`HTMLEscape` in Go 1.26
/// encoding/json).
pub(super) fn escape_html(json: &str) -> String {
    let mut escaped = String::with_capacity(json.len());
    for c in json.chars() {
        match c {
            // They occur only inside of strings, so they can be replaced everywhere.
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                escaped.push_str(&format!("\\u{:04x}", u32::from(c)))
            }
            c => escaped.push(c),
        }
    }
    escaped
}

fn compare(a: &Value, b: &Value) -> Ordering {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => compare_numbers(a, b),
        (Value::String(a), Value::String(b)) => a.cmp(b),
        (Value::Bool(a), Value::Bool(b)) => a.cmp(b),
        (Value::Array(a), Value::Array(b)) => {
            let mut items = a.iter().zip(b).map(|(a, b)| compare(a, b));
            items.find(|it| it.is_ne()).unwrap_or_else(|| a.len().cmp(&b.len()))
        }
        (Value::Object(a), Value::Object(b)) => {
            let mut fields = sorted_fields(a).zip(sorted_fields(b));
            let differ = fields.find_map(|((a, x), (b, y))| {
                Some(a.cmp(b).then_with(|| compare(x, y))).filter(|it| it.is_ne())
            });
            differ.unwrap_or_else(|| a.len().cmp(&b.len()))
        }
        _ => rank(a).cmp(&rank(b)),
    }
}

/// Returns the fields of an object by name. They are not copied, since a comparison of nested
/// objects would hold a copy for each level, and not collected if they are sorted: mostly the first
/// one decides.
fn sorted_fields(object: &Map<String, Value>) -> impl Iterator<Item = (&String, &Value)> {
    let (sorted, others) = match *HAS_SORTED_OBJECTS {
        true => (Some(object.iter()), Vec::new()),
        false => {
            let mut fields: Vec<(&String, &Value)> = object.iter().collect();
            fields.sort_by_key(|(name, _)| *name);
            (None, fields)
        }
    };
    sorted.into_iter().flatten().chain(others)
}

/// True unless a crate of the program enables serde_json's feature `preserve_order`.
static HAS_SORTED_OBJECTS: LazyLock<bool> = LazyLock::new(|| {
    let mut object = Map::new();
    for key in ["b", "a"] {
        object.insert(key.to_owned(), Value::Null);
    }
    object.keys().is_sorted()
});

fn rank(value: &Value) -> u8 {
    match value {
        Value::Number(_) => 0,
        Value::String(_) => 1,
        Value::Bool(_) => 2,
        Value::Array(_) => 3,
        Value::Object(_) => 4,
        Value::Null => 5,
    }
}

fn compare_numbers(a: &Number, b: &Number) -> Ordering {
    let whole = |n: &Number| n.as_i64().map(i128::from).or_else(|| n.as_u64().map(i128::from));
    let real = |n: &Number| n.as_f64().unwrap_or_default();
    match (whole(a), whole(b)) {
        (Some(a), Some(b)) => a.cmp(&b),
        (Some(a), None) => compare_with_real(a, real(b)),
        (None, Some(b)) => compare_with_real(b, real(a)).reverse(),
        // JSON has no NaN, so this is a total order, and `-0` equals `0`.
        (None, None) => real(a).partial_cmp(&real(b)).unwrap_or(Ordering::Equal),
    }
}

/// Compares exactly, so that the order stays transitive for integers that a float cannot represent.
fn compare_with_real(whole: i128, real: f64) -> Ordering {
    // The conversion saturates, which is right for the order: no JSON integer is that large.
    let below = real.floor();
    whole.cmp(&(below as i128)).then(if below < real { Ordering::Less } else { Ordering::Equal })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn elements_print_as_keys_and_as_paths() {
        for (key, path) in [
            ("f:name", ".name"),
            ("f:a.b/c", ".a.b/c"),
            ("f:", "."),
            (r#"k:{"name":"x"}"#, r#"[name="x"]"#),
            (r#"k:{"containerPort":80,"protocol":"TCP"}"#, r#"[containerPort=80,protocol="TCP"]"#),
            (r#"v:"a""#, r#"[="a"]"#),
            ("v:true", "[=true]"),
            ("i:3", "[3]"),
        ] {
            let element = Element::parse(key).unwrap().unwrap();
            assert_eq!((element.to_key().as_str(), element.to_string().as_str()), (key, path));
        }
    }

    #[test]
    fn whole_numbers_are_written_without_a_fraction() {
        let element = Element::parse("v:1.0").unwrap().unwrap();
        assert_eq!((element.to_key().as_str(), element.to_string().as_str()), ("v:1", "[=1]"));
        assert_eq!(Element::parse("v:1.5").unwrap().unwrap().to_key(), "v:1.5");
    }

    #[test]
    fn keys_are_sorted_and_html_is_escaped() {
        let element = Element::parse(r#"k:{"b":1,"a":"<&>"}"#).unwrap().unwrap();
        assert_eq!(element.to_key(), r#"k:{"a":"\u003c\u0026\u003e","b":1}"#);
        assert_eq!(Element::parse(&element.to_key()).unwrap().unwrap(), element);
    }

    #[test]
    fn an_invalid_element_is_an_error_and_an_unknown_kind_is_none() {
        for key in ["", "f", "fx", "v:", "v:{", "k:[]", "i:x", "é:"] {
            assert_eq!(Element::parse(key), Err(BadElement { key: key.to_owned() }), "{key}");
        }
        assert_eq!(Element::parse("x:whatever"), Ok(None));
    }

    #[test]
    fn numbers_compare_by_value_and_types_by_rank() {
        assert!(same(&json!(1), &json!(1.0)));
        assert!(same(&json!({"a": [1, 2]}), &json!({"a": [1.0, 2]})));
        assert!(!same(&json!(9_007_199_254_740_993_i64), &json!(9_007_199_254_740_992.0)));
        let ordered =
            [json!(-1), json!(1.5), json!(2), json!("a"), json!(false), json!([1]), json!({}), json!(null)];
        assert!(ordered.windows(2).all(|pair| compare(&pair[0], &pair[1]) == Ordering::Less));
    }

    #[test]
    fn lists_and_objects_compare_by_their_first_difference_and_then_by_their_length() {
        for (less, more) in [
            (json!([1, 2]), json!([1, 3])),
            (json!([1, 9]), json!([2])),
            (json!([1]), json!([1, 2])),
            (json!({"a": 1}), json!({"a": 1, "b": 0})),
            (json!({"a": 1, "b": 9}), json!({"a": 2})),
            (json!({"a": 9}), json!({"b": 1})),
            (json!({"a": {"b": [1]}}), json!({"a": {"b": [2]}})),
        ] {
            assert_eq!(compare(&less, &more), Ordering::Less, "{less} {more}");
            assert_eq!(compare(&more, &less), Ordering::Greater, "{less} {more}");
        }
    }
}
