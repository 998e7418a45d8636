//! A walk over an object together with its schema: every value that the schema describes.

use serde_json::Value;

use super::Structural;

/// A value in an object, its path, and its schema.
#[derive(Debug)]
pub(crate) struct Node<'a> {
    pub(crate) path: String,
    pub(crate) value: &'a Value,
    pub(crate) schema: &'a Structural,
}

/// Returns the value itself, at a path, and every value in it that has a schema, in pre-order.
pub(crate) fn nodes<'a>(value: &'a Value, schema: &'a Structural, path: &str) -> Vec<Node<'a>> {
    let mut found = Vec::new();
    let mut open = vec![Node { path: path.to_owned(), value, schema }];
    while let Some(node) = open.pop() {
        let next = open.len();
        node.push_children(&mut open);
        open[next..].reverse();
        found.push(node);
    }
    found
}

impl<'a> Node<'a> {
    fn push_children(&self, into: &mut Vec<Self>) {
        match self.value {
            Value::Object(fields) => {
                into.extend(fields.iter().filter_map(|(key, value)| self.field(key, value)))
            }
            Value::Array(items) => {
                let Some(schema) = self.schema.items.as_deref() else { return };
                let item = |(index, value)| Node { path: format!("{}[{index}]", self.path), value, schema };
                into.extend(items.iter().enumerate().map(item));
            }
            _ => {}
        }
    }

    fn field(&self, key: &str, value: &'a Value) -> Option<Self> {
        let path = &self.path;
        if let Some(schema) = self.schema.properties.get(key) {
            return Some(Node { path: child(path, key), value, schema });
        }
        let schema = self.schema.additional_schema()?;
        Some(Node { path: format!("{path}[{key}]"), value, schema })
    }
}

/// Returns the path of a field in a value at a path.
pub(crate) fn child(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_with_a_schema_are_visited_in_order() {
        let schema = Structural::parse(&json!({"type": "object", "properties": {
            "a": {"type": "array", "items": {"type": "object", "properties": {"x": {"type": "string"}}}},
            "m": {"type": "object", "additionalProperties": {"type": "string"}},
        }}));
        let value = json!({"a": [{"x": "1", "unknown": 1}, {}], "m": {"k": "v"}, "other": {}});
        let paths: Vec<String> = nodes(&value, &schema, "").into_iter().map(|node| node.path).collect();
        assert_eq!(paths, ["", "a", "a[0]", "a[0].x", "a[1]", "m", "m[k]"]);
    }
}
