//! YAML bodies, decoded as sigs.k8s.io/yaml v1.6.0 does in kube-apiserver: YAML 1.1, limited to
//! what JSON can express.
//!
//! Unquoted `yes`, `on` and `n` are booleans, as values and as keys; a key that is not a string
//! becomes one. Only the first of several documents is read.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use serde_saphyr::budget::BudgetBreach;
use serde_saphyr::{DuplicateKeyPolicy, Error, NonFiniteFloatPolicy, Options};

use crate::depth;

/// The stack size of a thread that parses YAML, with room for the deepest body several times over.
/// Unused pages cost nothing.
const STACK: usize = 16 * 1024 * 1024;

/// The floats below this are exact integers if they have no fraction: 2^53.
const LARGEST_EXACT: f64 = 9_007_199_254_740_992.0;

/// A parsed body and its duplicate keys, such as `line 7: key "k" already set in map`.
#[derive(Clone, Debug, PartialEq)]
pub struct Document {
    /// The value; null for an empty body.
    pub value: Value,
    /// The duplicate keys, which strict validation rejects.
    pub twice: Vec<String>,
}

/// Parses a body.
///
/// # Errors
///
/// Returns the error message, such as `yaml: line 2: did not find expected key`.
pub fn parse(body: &[u8]) -> Result<Document, String> {
    // serde-saphyr takes about 30 KiB of stack per level in a build without optimizations, so a
    // thread of the runtime has stack for only 70 levels. Starting a thread costs about 50 µs, and
    // most bodies are JSON.
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("yaml".to_owned()).stack_size(STACK);
        let parsing = thread.spawn_scoped(scope, || parse_here(body));
        let parsed =
            parsing.map_err(|error| format!("yaml: cannot start the parser thread: {error}"))?.join();
        parsed.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

fn parse_here(body: &[u8]) -> Result<Document, String> {
    let text = std::str::from_utf8(body).map_err(|_| "yaml: invalid leading UTF-8 octet".to_owned())?;
    match read(text, DuplicateKeyPolicy::Error) {
        Ok(value) => Ok(Document { value, twice: Vec::new() }),
        Err(error) => match error.without_snippet() {
            Error::DuplicateMappingKey { key, location } => {
                let key = key.as_deref().unwrap_or_default();
                let twice = vec![format!("line {}: key {key:?} already set in map", location.line())];
                let value = read(text, DuplicateKeyPolicy::LastWins).map_err(|it| described(&it))?;
                Ok(Document { value, twice })
            }
            error => Err(described(error)),
        },
    }
}

fn read(text: &str, duplicates: DuplicateKeyPolicy) -> Result<Value, Error> {
    let options: Options = serde_saphyr::options! {
        duplicate_keys: duplicates,
        legacy_octal_numbers: true,
        non_finite_float_policy: NonFiniteFloatPolicy::AsString,
        with_snippet: false,
        budget: serde_saphyr::budget! { max_depth: depth::TEXT },
    };
    let documents: Vec<Node> = serde_saphyr::from_multiple_with_options(text, options)?;
    Ok(documents.into_iter().next().map_or(Value::Null, |it| it.0))
}

fn described(error: &Error) -> String {
    if let Error::Budget { breach: BudgetBreach::Depth { .. }, .. } = error.without_snippet() {
        return format!("yaml: {}", depth::exceeded());
    }
    let message = error.without_snippet().to_string();
    // go-yaml puts the line first, and has no column.
    let message = message.split(" at line ").next().unwrap_or(&message);
    // The parser's own limit on brackets, which applies before the levels are counted.
    if message == "recursion limit exceeded" {
        return format!("yaml: {}", depth::exceeded());
    }
    let message = match message {
        "unclosed bracket '['" => "did not find expected ',' or ']'",
        "unclosed bracket '{'" => "did not find expected ',' or '}'",
        message => message,
    };
    match error.location() {
        // go-yaml reports scanner errors in the first line without a position.
        Some(at) if at.line() == 1 && message.starts_with("mapping values") => format!("yaml: {message}"),
        Some(at) => format!("yaml: line {}: {message}", at.line()),
        None => format!("yaml: {message}"),
    }
}

/// A node of a document as JSON.
struct Node(Value);

/// A key of any type, as a string.
struct Key(String);

struct Nodes;

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Nodes).map(Self)
    }
}

impl<'de> Deserialize<'de> for Key {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Node::deserialize(deserializer)?.0 {
            Value::String(text) => Ok(Self(text)),
            Value::Bool(flag) => Ok(Self(flag.to_string())),
            Value::Number(number) => Ok(Self(match number.as_f64() {
                Some(float) if number.is_f64() && float.fract() == 0.0 => format!("{float:.0}"),
                _ => number.to_string(),
            })),
            other => Err(serde::de::Error::custom(format!("unsupported map key: {other}"))),
        }
    }
}

impl<'de> Visitor<'de> for Nodes {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("YAML")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_none<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        // Go converts YAML to JSON first, and writes a float without a fraction as an integer.
        if value.fract() == 0.0 && value.abs() < LARGEST_EXACT {
            return Ok((value as i64).into());
        }
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(Node(item)) = items.next_element()? {
            list.push(item);
        }
        Ok(list.into())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some((Key(key), Node(value))) = entries.next_entry()? {
            map.insert(key, value);
        }
        Ok(map.into())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn unquoted_words_are_true_and_false_as_values_and_as_keys() {
        let body = "n: yes\non: off\n'yes': 'no'\n5: 0x10\n1e3: 010\nt: 2020-01-01\nlist: [~, 1.5, x]\n";
        assert_eq!(
            parse(body.as_bytes()).expect("YAML").value,
            json!({ "false": true, "true": false, "yes": "no", "5": 16, "1000": 8, "t": "2020-01-01", "list": [null, 1.5, "x"] })
        );
    }

    #[test]
    fn a_float_without_a_fraction_is_an_integer() {
        let value = parse(b"[63.0, -2.0, 1e2, 1.5, 1e300]").expect("YAML").value;
        assert_eq!(value.to_string(), "[63,-2,100,1.5,1e+300]");
    }

    #[test]
    fn a_duplicate_key_is_reported_and_its_last_value_counts() {
        let document = parse(b"data:\n  k: a\n  k: b\n").expect("YAML");
        assert_eq!(document.value, json!({ "data": { "k": "b" } }));
        assert_eq!(document.twice, ["line 3: key \"k\" already set in map"]);
    }

    #[test]
    fn the_first_document_is_read_and_an_empty_body_is_null() {
        assert_eq!(parse(b"a: 1\n---\nb: 2\n").expect("YAML").value, json!({ "a": 1 }));
        assert_eq!(parse(b"").expect("YAML").value, Value::Null);
        let why = parse(b"a: b: c\n").expect_err("malformed");
        assert!(why.starts_with("yaml: mapping values are not allowed"), "{why}");
        assert!(parse(b"a: \xff").is_err());
    }
}
