//! The fields that were added, modified and removed between two objects of one schema.

use std::cmp::Ordering;

use serde_json::Value;

use super::content::{Content, Part, PartValue};
use super::element::same;
use super::field_set::FieldSet;
use super::merge_join::{Pair, merge_join};
use super::stated::everything_in;
use crate::schema::{Definitions, Schema};

/// The difference of two objects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Comparison {
    /// Fields that only the second object has.
    pub added: FieldSet,
    /// Fields that both have, with different values.
    pub modified: FieldSet,
    /// Fields that only the first object has.
    pub removed: FieldSet,
}

/// Compares two objects. An object that is added or removed is listed with everything in it.
pub fn compare(old: &Value, new: &Value, schema: &Schema, definitions: &dyn Definitions) -> Comparison {
    between(old, new, schema, definitions, 0).1
}

/// Returns true if values at this depth are first compared as a whole.
///
/// Equal values need no look at their parts. The comparison of values that differ is repeated in
/// their parts, though: at every depth, a change at the bottom would cost the size of the object
/// times its depth.
const fn is_compared_whole(depth: usize) -> bool {
    depth < 8 || depth.is_power_of_two()
}

/// Returns true if the value itself has changed, and the differences in it.
fn between(
    old: &Value,
    new: &Value,
    schema: &Schema,
    definitions: &dyn Definitions,
    depth: usize,
) -> (bool, Comparison) {
    if is_compared_whole(depth) && old == new {
        return (false, Comparison::default());
    }
    let was = Content::of(old, schema, definitions);
    let is = Content::of(new, schema, definitions);
    // Under a schema that allows anything, a value with parts may become one without. Then it is
    // another value, and its parts are removed or added. A value that only loses or gains all its
    // parts is still the same.
    let another = match (&was, &is) {
        (Content::Parts(_), Content::Parts(_) | Content::Empty) | (Content::Empty, Content::Parts(_)) => {
            false
        }
        (Content::Parts(_), Content::Leaf) | (Content::Leaf, Content::Parts(_)) => true,
        _ => !same(old, new),
    };
    (another, of_parts(was.parts(), is.parts(), definitions, depth + 1))
}

fn of_parts(
    old: Vec<Part<'_>>,
    new: Vec<Part<'_>>,
    definitions: &dyn Definitions,
    depth: usize,
) -> Comparison {
    let mut found = Comparison::default();
    let order = |a: &Part<'_>, b: &Part<'_>| -> Ordering { a.element.cmp(&b.element) };
    for pair in merge_join(old, new, order) {
        match pair {
            Pair::Left(gone) => found.add_removed(gone, definitions),
            Pair::Right(come) => found.add_new(come, definitions),
            Pair::Both(was, is) => found.compare_part(was, is, definitions, depth),
        }
    }
    found
}

impl Comparison {
    fn add_new(&mut self, part: Part<'_>, definitions: &dyn Definitions) {
        let below = everything_in(part.content(definitions), definitions);
        self.added.put(part.element, true, below);
    }

    fn add_removed(&mut self, part: Part<'_>, definitions: &dyn Definitions) {
        let below = everything_in(part.content(definitions), definitions);
        self.removed.put(part.element, true, below);
    }

    /// Compares a part that both objects have. Duplicate items are one value together; an item that
    /// is added to them or removed changes it.
    fn compare_part(&mut self, was: Part<'_>, is: Part<'_>, definitions: &dyn Definitions, depth: usize) {
        match (&was.held, &is.held) {
            (PartValue::One(old), PartValue::One(new)) => {
                let (another, inside) = between(old, new, &is.schema, definitions, depth);
                for (all, below) in [(&mut self.added, inside.added), (&mut self.removed, inside.removed)] {
                    if !below.is_empty() {
                        all.put(is.element.clone(), false, below);
                    }
                }
                self.modified.put(is.element, another, inside.modified);
            }
            (PartValue::Several(old), PartValue::Several(new)) => {
                let equal = old.len() == new.len() && old.iter().zip(new).all(|(old, new)| same(old, new));
                self.modified.put(is.element, !equal, FieldSet::new());
            }
            _ => {
                self.add_removed(was, definitions);
                self.add_new(is, definitions);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;
    use crate::schema::{List, NoDefinitions, Scalar, Topology};

    #[test]
    fn changes_are_listed_with_everything_in_them() {
        for (old, new, added, modified, removed) in [
            (json!({}), json!({"a": {"b": 1}}), json!({"f:a": {".": {}, "f:b": {}}}), json!({}), json!({})),
            (json!({"a": 1}), json!({"a": 2}), json!({}), json!({"f:a": {}}), json!({})),
            (json!({"a": [1]}), json!({"a": [1, 2]}), json!({}), json!({"f:a": {}}), json!({})),
            (
                json!({"a": {"b": 1}}),
                json!({"a": 5}),
                json!({}),
                json!({"f:a": {}}),
                json!({"f:a": {"f:b": {}}}),
            ),
            (json!({"a": {}}), json!({"a": null}), json!({}), json!({"f:a": {}}), json!({})),
            (json!({"a": 1}), json!({"a": 1.0}), json!({}), json!({}), json!({})),
        ] {
            let found = compare(&old, &new, &Schema::Any, &NoDefinitions);
            let found = (found.added.to_json(), found.modified.to_json(), found.removed.to_json());
            assert_eq!(found, (added, modified, removed), "{old} to {new}");
        }
    }

    #[test]
    fn differences_at_any_depth_are_found_with_few_comparisons_of_whole_values() {
        assert!((0..100).filter(|it| is_compared_whole(*it)).count() <= 12);
        for levels in [1, 7, 8, 9, 31, 32, 33, 90] {
            let nested = |value: u8| (0..levels).fold(json!(value), |it, _| json!({ "a": it, "b": 1 }));
            let found = compare(&nested(1), &nested(2), &Schema::Any, &NoDefinitions);
            assert_eq!((found.modified.len(), found.added.len(), found.removed.len()), (1, 0, 0), "{levels}");
        }
    }

    #[test]
    fn duplicate_items_are_one_leaf() {
        let item = Schema::Scalar(Scalar::String);
        let schema = Schema::List(Arc::new(List { item, topology: Topology::Set }));
        let compared = |old: Value, new: Value| compare(&old, &new, &schema, &NoDefinitions);
        let a = FieldSet::from_json(&json!({"v:\"a\"": {}})).unwrap();
        assert_eq!(compared(json!(["a", "a"]), json!(["a", "a"])), Comparison::default());
        assert_eq!(compared(json!(["a", "a"]), json!(["a", "a", "a"])).modified, a);
        let fewer = compared(json!(["a", "a"]), json!(["a"]));
        assert_eq!((fewer.added, fewer.removed), (a.clone(), a.clone()));
        let more = compared(json!(["a"]), json!(["a", "a"]));
        assert_eq!((more.added, more.removed), (a.clone(), a));
    }
}
