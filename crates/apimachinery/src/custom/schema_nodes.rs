//! A schema as a flat list of its nodes: parts and restrictions.
//!
//! Parts are the schema itself, its fields, items and additional properties, and theirs.
//! Restrictions are the schemas below `allOf`, `anyOf`, `oneOf` and `not`, of parts and of other
//! restrictions.

use serde_json::{Value, json};

use super::keywords::{flag, listed, named};
use super::schema_path::SchemaPath;

/// A node of a schema.
#[derive(Debug)]
pub(crate) struct SchemaNode<'a> {
    pub(crate) path: SchemaPath,
    pub(crate) schema: &'a Value,
    pub(crate) role: Role<'a>,
}

/// The role of a node.
#[derive(Debug)]
pub(crate) enum Role<'a> {
    /// It describes a value.
    Part(Level),
    /// It restricts the values of a part.
    Restriction(RestrictionTarget<'a>),
}

/// The position of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Level {
    Root,
    Item,
    Field,
}

/// The part that a restriction applies to.
#[derive(Clone, Debug)]
pub(crate) enum RestrictionTarget<'a> {
    /// The part, with its path.
    Part(&'a Value, SchemaPath),
    /// There is no such part; it should be at this path.
    Missing(SchemaPath),
    /// The part is inside of a missing one, or is not checked.
    Nothing,
}

impl SchemaNode<'_> {
    /// Returns the path of one of its keywords.
    pub(crate) fn at(&self, key: &str) -> SchemaPath {
        self.path.keyword(key)
    }

    /// Returns true for an embedded resource.
    pub(crate) fn is_embedded(&self) -> bool {
        flag(self.schema, "x-kubernetes-embedded-resource")
    }
}

/// Returns all nodes of a schema that is at a path.
pub(crate) fn schema_nodes<'a>(schema: &'a Value, path: &str) -> Vec<SchemaNode<'a>> {
    let mut found = Vec::new();
    part(schema, SchemaPath::root(path), Level::Root, &mut found);
    found
}

fn part<'a>(schema: &'a Value, path: SchemaPath, level: Level, found: &mut Vec<SchemaNode<'a>>) {
    if let Some(items) = schema.get("items") {
        part(items, path.keyword("items"), Level::Item, found);
    }
    for (name, inner) in named(schema, "properties") {
        part(inner, path.property(name), Level::Field, found);
    }
    if let Some(more) = schema.get("additionalProperties").filter(|it| it.is_object()) {
        part(more, path.keyword("additionalProperties"), Level::Field, found);
    }
    // kube-apiserver checks only the restrictions of the root for missing parts.
    let target = if level == Level::Root {
        RestrictionTarget::Part(schema, path.clone())
    } else {
        RestrictionTarget::Nothing
    };
    // `anyOf` integer or string is the only restriction that may have types: here, or in the first
    // entry of `allOf`.
    let exempt_first = listed(schema, "allOf").first().is_some_and(is_number_or_text);
    restrictions(schema, &path, &target, is_number_or_text(schema), exempt_first, found);
    found.push(SchemaNode { path, schema, role: Role::Part(level) });
}

fn is_number_or_text(schema: &Value) -> bool {
    schema.get("anyOf") == Some(&json!([{"type": "integer"}, {"type": "string"}]))
}

/// Collects the schemas below the keywords that combine restrictions, except those of an exempt
/// `anyOf`.
fn restrictions<'a>(
    schema: &'a Value,
    path: &SchemaPath,
    target: &RestrictionTarget<'a>,
    exempt: bool,
    exempt_first: bool,
    found: &mut Vec<SchemaNode<'a>>,
) {
    for key in ["allOf", "anyOf", "oneOf"] {
        if exempt && key == "anyOf" {
            continue;
        }
        for (index, inner) in listed(schema, key).iter().enumerate() {
            let exempt = exempt_first && key == "allOf" && index == 0;
            restriction(inner, path.item(key, index), target.clone(), exempt, found);
        }
    }
    if let Some(not) = schema.get("not") {
        restriction(not, path.keyword("not"), target.clone(), false, found);
    }
}

fn restriction<'a>(
    schema: &'a Value,
    path: SchemaPath,
    target: RestrictionTarget<'a>,
    exempt: bool,
    found: &mut Vec<SchemaNode<'a>>,
) {
    restrictions(schema, &path, &target, exempt, false, found);
    if let Some(items) = schema.get("items") {
        let inner = target.inner(|part| part.get("items"), |path| path.keyword("items"));
        restriction(items, path.keyword("items"), inner, false, found);
    }
    for (name, field) in named(schema, "properties") {
        let inner = target
            .inner(|part| part.get("properties").and_then(|it| it.get(name)), |path| path.property(name));
        restriction(field, path.property(name), inner, false, found);
    }
    found.push(SchemaNode { path, schema, role: Role::Restriction(target) });
}

impl<'a> RestrictionTarget<'a> {
    /// Returns the target of a restriction inside of one with this target.
    fn inner(
        &self,
        part: impl Fn(&'a Value) -> Option<&'a Value>,
        path: impl Fn(&SchemaPath) -> SchemaPath,
    ) -> Self {
        match self {
            Self::Part(outer, at) => {
                let path = path(at);
                match part(outer) {
                    Some(inner) => Self::Part(inner, path),
                    None => Self::Missing(path),
                }
            }
            Self::Missing(_) | Self::Nothing => Self::Nothing,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_and_restrictions_are_found_with_their_targets() {
        let schema = json!({
            "properties": {"a": {"items": {}, "not": {"properties": {"b": {}}}}},
            "allOf": [{"anyOf": [{"type": "integer"}, {"type": "string"}], "items": {"not": {}}}],
        });
        let mut found: Vec<String> = schema_nodes(&schema, "s")
            .into_iter()
            .map(|node| match node.role {
                Role::Part(level) => format!("{} {level:?}", node.path),
                Role::Restriction(RestrictionTarget::Part(_, path)) => format!("{} of {path}", node.path),
                Role::Restriction(RestrictionTarget::Missing(path)) => format!("{} misses {path}", node.path),
                Role::Restriction(RestrictionTarget::Nothing) => format!("{} of nothing", node.path),
            })
            .collect();
        found.sort();
        let expected = [
            "s Root",
            "s.allOf[0] of s",
            "s.allOf[0].items misses s.items",
            "s.allOf[0].items.not misses s.items",
            "s.properties[a] Field",
            "s.properties[a].items Item",
            "s.properties[a].not of nothing",
            "s.properties[a].not.properties[b] of nothing",
        ];
        assert_eq!(found, expected);
    }
}
