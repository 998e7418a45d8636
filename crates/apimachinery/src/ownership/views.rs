//! An object in the other versions of its kind, to find the fields that a manager owns in another
//! version.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::Target;
use super::check::{Duplicates, SchemaErrors, check};
use super::field_set::FieldSet;
use super::managed::Managed;
use super::pruning::only;
use super::stated::{fields_of, settled};
use crate::schema::Schema;

/// The fields that are the same in all versions.
const IN_ALL_VERSIONS: [&str; 3] = ["apiVersion", "kind", "metadata"];

/// The largest number of versions in which the fields of one object are owned. The object is
/// converted, checked and compared in each of them, on every write. kube-apiserver has no limit.
const MOST_VERSIONS: usize = 16;

/// Converts the object to another version; `None` if the version does not exist any more.
///
/// # Errors
/// An error if the schema of the version does not have all fields of the object.
pub(super) fn view<'a>(
    object: &'a Value,
    api_version: &str,
    target: &Target<'_>,
) -> Result<Option<(Cow<'a, Value>, Schema)>, SchemaErrors> {
    if api_version == target.api_version && object.get("apiVersion").is_none_or(|it| it == api_version) {
        return Ok(Some((Cow::Borrowed(object), target.schema.clone())));
    }
    let Some((object, schema)) = target.versions.convert(object, api_version) else { return Ok(None) };
    check(&object, &schema, target.definitions, Duplicates::Refused)?;
    Ok(Some((Cow::Owned(object), schema)))
}

/// Updates all sets to the current schemas, and drops entries of versions that do not exist any
/// more. If the entries are of more than [`MOST_VERSIONS`] versions, those of the last ones by name
/// are dropped as well, but never those of the target's version.
pub(super) fn settle(live: &Value, managed: &mut Managed, target: &Target<'_>) -> Result<(), SchemaErrors> {
    let versions: BTreeSet<String> = managed.sets.values().map(|owned| owned.api_version.clone()).collect();
    let mut schemas = BTreeMap::from([(target.api_version.to_owned(), target.schema.clone())]);
    for version in versions.into_iter().filter(|it| *it != target.api_version) {
        if schemas.len() == MOST_VERSIONS {
            break;
        }
        let schema = view(live, &version, target)?.map(|(_, schema)| schema);
        schemas.extend(schema.map(|schema| (version, schema)));
    }
    managed.sets.retain(|_, owned| {
        let Some(schema) = schemas.get(&owned.api_version) else { return false };
        owned.fields = settled(&owned.fields, schema, target.definitions);
        true
    });
    Ok(())
}

/// Returns all owned fields of an object, of all managers, in one version.
///
/// To find the fields that are owned in another version, an object with only those fields is
/// converted to this version.
pub(super) fn owned_in(
    version: &str,
    object: &Value,
    managed: &Managed,
    target: &Target<'_>,
) -> Result<FieldSet, SchemaErrors> {
    let mut by_version: BTreeMap<&str, Vec<FieldSet>> = BTreeMap::new();
    for owned in managed.sets.values() {
        by_version.entry(&owned.api_version).or_default().push(owned.fields.clone());
    }
    let mut found = FieldSet::union_of(by_version.remove(version).unwrap_or_default());
    let same = FieldSet::of_fields(IN_ALL_VERSIONS);
    for (another, sets) in by_version {
        let fields = FieldSet::union_of(sets);
        let failed = |why: SchemaErrors| {
            why.within(&format!(
                "failed add back owned items: failed to convert merged object at version {another}"
            ))
        };
        let Some((there, schema)) = view(object, another, target).map_err(failed)? else { continue };
        let mut owned = only(&there, &fields.union(&same), &schema, target.definitions);
        if let Some(metadata) = there.get("metadata") {
            owned["metadata"] = metadata.clone();
        }
        let Some((owned, schema)) = view(&owned, version, target)? else { continue };
        let stated = fields_of(&owned, &schema, target.definitions).without_trees(&same);
        // Fields that exist only because of their content are owned in no version.
        let owned = stated.difference(&fields.ways()).joined(fields.within_trees(&same));
        found = found.joined(owned);
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::managed::{Manager, Operation, Owned};
    use super::super::{Reset, Versions};
    use super::*;
    use crate::schema::NoDefinitions;

    /// Versions `v1` to `v30`, which differ only in their name.
    struct Thirty;

    impl Versions for Thirty {
        fn convert(&self, object: &Value, api_version: &str) -> Option<(Value, Schema)> {
            let number: usize = api_version.strip_prefix('v')?.parse().ok()?;
            (number <= 30).then(|| (object.clone(), Schema::Any))
        }
    }

    #[test]
    fn fields_are_owned_in_at_most_sixteen_versions_and_always_in_that_of_the_target() {
        let target = Target {
            api_version: "v9",
            kind: "Thing",
            schema: &Schema::Any,
            definitions: &NoDefinitions,
            empty: &json!({}),
            versions: &Thirty,
            reset: &Reset::Nothing,
        };
        let after = |versions: &[usize]| {
            let mut managed = Managed::default();
            for version in versions {
                let api_version = format!("v{version}");
                let manager =
                    Manager::new(format!("m{version}"), Operation::Apply, &api_version, String::new());
                managed.sets.insert(manager, Owned { fields: FieldSet::of_fields(["a"]), api_version });
            }
            settle(&json!({ "a": 1 }), &mut managed, &target).expect("everything is in the schema");
            managed.sets.into_values().map(|owned| owned.api_version).collect::<BTreeSet<String>>()
        };
        let few: Vec<usize> = (1..=15).chain(90..=99).collect();
        assert_eq!(after(&few).len(), 15, "versions that do not exist do not count");
        let many: Vec<usize> = (1..=30).collect();
        let left = after(&many);
        assert_eq!((left.len(), left.contains("v9")), (MOST_VERSIONS, true), "{left:?}");
    }
}
