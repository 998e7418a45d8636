//! Access to the keywords of a schema in its JSON form.

use serde_json::Value;

/// Returns the named schemas below a keyword.
pub(crate) fn named<'a>(schema: &'a Value, key: &str) -> impl Iterator<Item = (&'a String, &'a Value)> {
    schema.get(key).and_then(Value::as_object).into_iter().flatten()
}

/// Returns the listed schemas below a keyword.
pub(crate) fn listed<'a>(schema: &'a Value, key: &str) -> &'a [Value] {
    schema.get(key).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// Returns the text of a keyword; empty if absent.
pub(crate) fn text<'a>(schema: &'a Value, key: &str) -> &'a str {
    schema.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// Returns true if a keyword is set to true.
pub(crate) fn flag(schema: &Value, key: &str) -> bool {
    schema.get(key) == Some(&Value::Bool(true))
}

/// Returns the number of schemas in a schema, including itself.
pub(crate) fn number_of_nodes(schema: &Value) -> usize {
    let single = ["items", "not", "additionalProperties", "additionalItems"];
    let single = single.iter().filter_map(|key| schema.get(*key)).filter(|it| it.is_object());
    let several = ["allOf", "anyOf", "oneOf"].iter().flat_map(|key| listed(schema, key));
    let many = ["properties", "patternProperties", "definitions"];
    let many = many.iter().flat_map(|key| named(schema, key)).map(|(_, it)| it);
    1 + single.chain(several).chain(many).map(number_of_nodes).sum::<usize>()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_schema_in_a_schema_is_a_node() {
        let inner = json!({ "properties": { "a": {}, "b": { "not": {} } } });
        assert_eq!(number_of_nodes(&inner), 4);
        let outer = json!({ "allOf": [inner, inner], "anyOf": [{}], "oneOf": [{}], "items": { "items": {} },
            "additionalProperties": {}, "additionalItems": false, "definitions": { "d": inner },
            "patternProperties": { "p": {} }, "default": inner });
        assert_eq!(number_of_nodes(&outer), 1 + 3 * 4 + 1 + 1 + 2 + 1 + 1);
        assert_eq!(number_of_nodes(&json!({ "additionalProperties": true })), 1);
    }
}
