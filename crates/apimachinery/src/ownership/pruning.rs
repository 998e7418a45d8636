//! The removal of fields that an applier no longer states.
//!
//! A field that an applier stated before and does not state now has no owner, unless another
//! manager owns it too, and is removed. A value is removed with everything in it: a list item is
//! removed even if other managers own fields in it.

use serde_json::{Map, Value};

use super::content::{Content, Part};
use super::element::Element;
use super::field_set::FieldSet;
use super::shape::Shape;
use crate::schema::{Definitions, Schema, Topology};

/// Returns the fields of an object that are removed, if an applier owned `before` and all managers
/// together own `now`.
///
/// Of each removed branch only the top is listed.
pub(super) fn dropped(
    object: &Value,
    before: &FieldSet,
    now: &FieldSet,
    schema: &Schema,
    definitions: &dyn Definitions,
) -> FieldSet {
    dropped_parts(Content::of(object, schema, definitions), before, now, Above::default(), definitions)
}

/// The ownership of the parts around a part.
#[derive(Clone, Copy, Debug, Default)]
struct Above {
    /// The applier owned one of them.
    owned: bool,
    /// One of them has no owner now, and was owned by the applier, or was inside a part that was.
    abandoned: bool,
}

fn dropped_parts(
    content: Content<'_>,
    before: &FieldSet,
    now: &FieldSet,
    above: Above,
    definitions: &dyn Definitions,
) -> FieldSet {
    let (mut gone, nothing) = (FieldSet::new(), FieldSet::new());
    for part in content.parts() {
        // If the applier owned nothing here, nothing is removed.
        let Some((was, owned_in_it)) = before.at(&part.element) else { continue };
        let (is, owned_now) = now.at(&part.element).unwrap_or((false, &nothing));
        let content = part.content(definitions);
        // A named field is owned if something in it is.
        let was_owned = was || (part.named && !owned_in_it.is_empty());
        let is_owned = is || (part.named && !owned_now.is_empty());
        let states_anything = states_anything(&part, &content, definitions);
        let owned = above.owned || was_owned;
        let abandoned = above.abandoned || (states_anything && owned && !is_owned);
        if was_owned && states_anything && abandoned {
            gone.put(part.element, true, FieldSet::new());
        } else {
            let above = Above { owned, abandoned };
            let inside = dropped_parts(content, owned_in_it, owned_now, above, definitions);
            gone.put(part.element, false, inside);
        }
    }
    gone
}

/// Returns true if a part, or anything in it, is stated: an empty list between named fields is not.
fn states_anything(part: &Part<'_>, content: &Content<'_>, definitions: &dyn Definitions) -> bool {
    let inside = |inner: &Part<'_>| states_anything(inner, &inner.content(definitions), definitions);
    part.is_stated(content) || matches!(content, Content::Parts(parts) if parts.iter().any(inside))
}

/// Returns the value without the fields of a set. A list or object that loses everything becomes
/// null.
pub(super) fn without(
    value: &Value,
    set: &FieldSet,
    schema: &Schema,
    definitions: &dyn Definitions,
) -> Value {
    let keep = |element: &Element, value: &Value, schema: &Schema| match set.at(element) {
        None => Some(value.clone()),
        Some((true, _)) => None,
        Some((false, below)) => Some(without(value, below, schema, definitions)),
    };
    let left = filtered(value, schema, definitions, keep);
    if left.as_array().is_some_and(Vec::is_empty) || left.as_object().is_some_and(Map::is_empty) {
        return Value::Null;
    }
    left
}

/// Returns the value with only the fields of a set, the values that contain them, and the keys of
/// list items.
pub(super) fn only(value: &Value, set: &FieldSet, schema: &Schema, definitions: &dyn Definitions) -> Value {
    let shape = Shape::of(schema, Some(value), definitions);
    filtered(value, schema, definitions, |element, value, inner| {
        let (_, below) = set.at(element)?;
        let mut left = only(value, below, inner, definitions);
        if let (Shape::List(list), Some(item), Some(left)) = (&shape, value.as_object(), left.as_object_mut())
            && let Topology::Map(keys) = list.topology()
        {
            let keys = keys.iter().filter_map(|key| item.get(key).map(|value| (key.clone(), value.clone())));
            left.extend(keys);
        }
        Some(left)
    })
}

/// Returns the value with each of its parts replaced by the result of `keep`, or removed if that is
/// `None`. Everything that is not a part is kept.
fn filtered(
    value: &Value,
    schema: &Schema,
    definitions: &dyn Definitions,
    keep: impl Fn(&Element, &Value, &Schema) -> Option<Value>,
) -> Value {
    match (Shape::of(schema, Some(value), definitions), value) {
        (shape, value) if shape.is_atomic() => value.clone(),
        (Shape::List(list), Value::Array(items)) => {
            let kept = items.iter().filter_map(|item| match list.element(item, definitions) {
                Ok(element) => keep(&element, item, list.schema()),
                Err(_) => Some(item.clone()),
            });
            Value::Array(kept.collect())
        }
        (Shape::Object { members, .. }, Value::Object(fields)) => {
            let kept = fields.iter().filter_map(|(name, value)| {
                let schema = members.schema(name).unwrap_or(Schema::Any);
                Some((name.clone(), keep(&Element::field(name), value, &schema)?))
            });
            Value::Object(kept.collect())
        }
        (_, value) => value.clone(),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;
    use crate::schema::{Field, List, NoDefinitions, Scalar, Struct};

    /// Returns the schema of an object with a list that is keyed by name, and a map.
    fn schema() -> Schema {
        let text = || Schema::Scalar(Scalar::String);
        let named = |fields: Vec<(&str, Schema)>| {
            let fields = fields.into_iter().map(|(name, schema)| (name.to_owned(), Field::new(schema)));
            Schema::Struct(Arc::new(Struct { fields: fields.collect(), ..Struct::default() }))
        };
        let item = named(vec![("name", text()), ("v", text())]);
        let topology = Topology::Map(vec!["name".to_owned()]);
        let list = Schema::List(Arc::new(List { item, topology }));
        let map = Schema::Map(Arc::new(crate::schema::Map { value: text(), atomic: false }));
        named(vec![("spec", named(vec![("list", list), ("map", map)]))])
    }

    fn set(fields: Value) -> FieldSet {
        FieldSet::from_json(&fields).unwrap()
    }

    /// Each case: the fields that the applier owned, all fields that are owned now, and the removed
    /// fields.
    #[test]
    fn fields_without_an_owner_are_removed_and_others_are_kept() {
        let object =
            json!({"spec": {"list": [{"name": "a", "v": "1"}, {"name": "b"}], "map": {"x": "1", "y": "2"}}});
        let map = |fields: Value| json!({"f:spec": {"f:map": fields}});
        let item = |fields: Value| json!({"f:spec": {"f:list": {r#"k:{"name":"a"}"#: fields}}});
        let whole = json!({".": {}, "f:name": {}, "f:v": {}});
        for (what, before, now, expected) in [
            ("a key", map(json!({"f:x": {}})), map(json!({"f:y": {}})), vec![".spec.map.x"]),
            ("a key that another owns", map(json!({"f:x": {}})), map(json!({"f:x": {}, "f:y": {}})), vec![]),
            ("everything", map(json!({"f:x": {}})), json!({}), vec![".spec"]),
            ("a missing key", map(json!({"f:z": {}})), map(json!({"f:y": {}})), vec![]),
            ("an item", item(whole.clone()), map(json!({"f:x": {}})), vec![".spec.list"]),
            (
                "an item next to another manager's",
                item(whole.clone()),
                json!({"f:spec": {"f:list": {r#"k:{"name":"b"}"#: {}}}}),
                vec![r#".spec.list[name="a"]"#],
            ),
            (
                "an item in which another manager owns a field",
                item(whole.clone()),
                item(json!({"f:v": {}})),
                vec![r#".spec.list[name="a"]"#],
            ),
            (
                "a field in an item that another manager owns",
                item(whole),
                item(json!({".": {}, "f:name": {}})),
                vec![r#".spec.list[name="a"].v"#],
            ),
        ] {
            let gone = dropped(&object, &set(before), &set(now), &schema(), &NoDefinitions);
            let gone: Vec<String> = gone.paths().iter().map(ToString::to_string).collect();
            assert_eq!(gone, expected, "{what}");
        }
    }

    #[test]
    fn an_object_that_loses_everything_becomes_null() {
        let fields = set(json!({"f:a": {"f:b": {}}, "f:c": {}}));
        let left = without(&json!({"a": {"b": 1}, "c": 2, "d": 3}), &fields, &Schema::Any, &NoDefinitions);
        assert_eq!(left, json!({"a": null, "d": 3}));
    }

    #[test]
    fn items_keep_their_keys_if_only_fields_in_them_are_kept() {
        let object = json!({"spec": {"list": [{"name": "b"}, {"name": "a", "v": "1"}], "map": {"x": "1"}}});
        let fields = set(json!({"f:spec": {"f:list": {r#"k:{"name":"a"}"#: {"f:v": {}}}}}));
        let left = only(&object, &fields, &schema(), &NoDefinitions);
        assert_eq!(left, json!({"spec": {"list": [{"name": "a", "v": "1"}]}}));
    }
}
