//! The order of `--sort-by`: the value of a field, compared as kubectl compares it. Pure.

use std::cmp::Ordering;
use std::str::FromStr;
use std::sync::Arc;

use dogwatch_apimachinery::custom::jsonpath::JsonPath;
use serde_json::Value;

/// The field to sort by: `.metadata.name`, or `{.metadata.name}` as in templates of kubectl.
#[derive(Clone, Debug)]
pub(crate) struct SortBy(Arc<JsonPath>);

/// The value of the field in one object. Objects without the field come first.
#[derive(Clone, Debug, Default)]
pub(crate) struct SortKey(Option<Value>);

impl FromStr for SortBy {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const EXPECTED: &str = "expected a field such as .metadata.creationTimestamp";
        let path = text.strip_prefix('{').and_then(|it| it.strip_suffix('}')).unwrap_or(text);
        let dotted = if path.starts_with(['.', '[', '$']) { path.to_owned() } else { format!(".{path}") };
        // These select the object itself, every value in it, or are templates.
        if dotted.trim_matches(['.', '$']).is_empty() || dotted.contains("..") || path.contains(['{', '}']) {
            return Err(EXPECTED);
        }
        JsonPath::parse(&dotted).map(|it| Self(Arc::new(it))).ok_or(EXPECTED)
    }
}

impl SortBy {
    /// Returns the first value of the field in an object.
    pub(crate) fn key(&self, object: &Value) -> SortKey {
        let found = self.0.find(object).and_then(|values| values.first().map(|it| (*it).clone()));
        SortKey(found.filter(|it| !it.is_null()))
    }
}

impl Ord for SortKey {
    fn cmp(&self, other: &Self) -> Ordering {
        let (Some(one), Some(other)) = (&self.0, &other.0) else {
            return self.0.is_some().cmp(&other.0.is_some());
        };
        match (one, other) {
            (Value::Number(one), Value::Number(other)) => {
                let number = |it: &serde_json::Number| it.as_f64().unwrap_or(f64::NAN);
                // Large integers may be the same number in floating point.
                let exact = || one.as_i64().cmp(&other.as_i64());
                number(one).total_cmp(&number(other)).then_with(exact)
            }
            (Value::String(one), Value::String(other)) => natural(one, other),
            (Value::Bool(one), Value::Bool(other)) => one.cmp(other),
            _ => kind(one).cmp(&kind(other)).then_with(|| one.to_string().cmp(&other.to_string())),
        }
    }
}

impl PartialOrd for SortKey {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for SortKey {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for SortKey {}

/// Returns the rank of a type, for fields that have several.
fn kind(value: &Value) -> u8 {
    match value {
        Value::Null => 0,
        Value::Bool(_) => 1,
        Value::Number(_) => 2,
        Value::String(_) => 3,
        Value::Array(_) | Value::Object(_) => 4,
    }
}

/// Compares texts with the numbers in them by their value: `web-9` comes before `web-10`.
pub(crate) fn natural(one: &str, other: &str) -> Ordering {
    let (mut left, mut right) = (one, other);
    while !left.is_empty() && !right.is_empty() {
        let ((part, left_rest), (other_part, right_rest)) = (split_part(left), split_part(right));
        let ordering = match (number(part), number(other_part)) {
            (Some(one), Some(other)) => one.len().cmp(&other.len()).then_with(|| one.cmp(other)),
            _ => part.cmp(other_part),
        };
        if ordering.is_ne() {
            return ordering;
        }
        (left, right) = (left_rest, right_rest);
    }
    left.len().cmp(&right.len()).then_with(|| one.cmp(other))
}

/// Splits off the leading digits, or the text before the next digit.
fn split_part(text: &str) -> (&str, &str) {
    let in_number = text.starts_with(|it: char| it.is_ascii_digit());
    text.split_at(text.find(|it: char| it.is_ascii_digit() != in_number).unwrap_or(text.len()))
}

/// Returns the digits of a number without leading zeros.
fn number(part: &str) -> Option<&str> {
    part.starts_with(|it: char| it.is_ascii_digit()).then(|| part.trim_start_matches('0'))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_are_compared_by_their_type_and_missing_ones_come_first() {
        let field: SortBy = ".spec.a".parse().expect("a path");
        let ordered = [
            json!({}),
            json!({ "spec": { "a": false } }),
            json!({ "spec": { "a": -1 } }),
            json!({ "spec": { "a": 9.5 } }),
            json!({ "spec": { "a": 10 } }),
            json!({ "spec": { "a": "2026-01-01T00:00:00Z" } }),
            json!({ "spec": { "a": "web-9" } }),
            json!({ "spec": { "a": "web-10" } }),
            json!({ "spec": { "a": "web-10a" } }),
            json!({ "spec": { "a": ["x"] } }),
        ];
        for (at, one) in ordered.iter().enumerate() {
            for (other_at, other) in ordered.iter().enumerate() {
                assert_eq!(field.key(one).cmp(&field.key(other)), at.cmp(&other_at), "{one} {other}");
            }
        }
    }

    #[test]
    fn a_field_may_be_written_in_the_ways_of_kubectl() {
        for text in [".metadata.name", "{.metadata.name}", "metadata.name", "$.metadata.name"] {
            let field: SortBy = text.parse().expect(text);
            assert_eq!(
                field.key(&json!({ "metadata": { "name": "a" } })),
                SortKey(Some(json!("a"))),
                "{text}"
            );
        }
        let restarts: SortBy = ".status.containerStatuses[0].restartCount".parse().expect("a path");
        let pod = json!({ "status": { "containerStatuses": [{ "restartCount": 3 }] } });
        assert_eq!(restarts.key(&pod), SortKey(Some(json!(3))));
        for text in ["", ".", "{}", "..", "a b[", "[?(", "{.a}{.b}"] {
            assert!(text.parse::<SortBy>().is_err(), "{text}");
        }
    }
}
