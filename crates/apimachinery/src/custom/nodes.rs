//! A walk over an object together with its schema: every value that the schema describes.

use serde_json::Value;

use super::Structural;
use super::value_path::ValuePath;

/// A value in an object, its path, and its schema.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Node<'a, 'p> {
    pub(crate) path: ValuePath<'p>,
    pub(crate) value: &'a Value,
    pub(crate) schema: &'a Structural,
}

impl<'a, 'p> Node<'a, 'p> {
    /// Calls `visit` for the value itself and for every value in it that has a schema, in
    /// pre-order.
    pub(crate) fn walk(&self, visit: &mut dyn FnMut(&Node<'a, '_>)) {
        visit(self);
        match self.value {
            Value::Object(fields) => {
                for (key, value) in fields {
                    if let Some(field) = self.field(key, value) {
                        field.walk(visit);
                    }
                }
            }
            Value::Array(items) => {
                let Some(schema) = self.schema.items.as_deref() else { return };
                for (index, value) in items.iter().enumerate() {
                    Node { path: ValuePath::Item(&self.path, index), value, schema }.walk(visit);
                }
            }
            _ => {}
        }
    }

    fn field<'s>(&'s self, key: &'s str, value: &'a Value) -> Option<Node<'a, 's>> {
        if let Some(schema) = self.schema.properties.get(key) {
            return Some(Node { path: ValuePath::Field(&self.path, key), value, schema });
        }
        let schema = self.schema.additional_schema()?;
        Some(Node { path: ValuePath::Key(&self.path, key), value, schema })
    }
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
        let mut paths = Vec::new();
        let root = Node { path: ValuePath::Root(""), value: &value, schema: &schema };
        root.walk(&mut |node| paths.push(node.path.to_string()));
        assert_eq!(paths, ["", "a", "a[0]", "a[0].x", "a[1]", "m", "m[k]"]);
    }
}
