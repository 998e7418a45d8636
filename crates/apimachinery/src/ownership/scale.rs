//! Ownership through `/scale`: the number of replicas in a Scale is a field of the object that it
//! scales, at a path of its own.
//!
//! Before a write to `/scale`, [`to_scale`] gives the old Scale the owners of that field; the write
//! is then tracked as for any object; [`from_scale`] copies the result back.

use std::collections::BTreeMap;

use serde_json::Value;

use super::element::Element;
use super::field_set::{FieldSet, Path};
use super::managed::{Managed, Manager, Owned};

/// The version of Scale objects.
const SCALE_VERSION: &str = "autoscaling/v1";

/// The path of the number of replicas in a Scale.
const IN_SCALE: &str = "spec.replicas";

/// The path of the number of replicas in each version of a kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Replicas(BTreeMap<String, Option<Path>>);

impl Replicas {
    /// Takes all versions of a kind, each with the path written with dots, or `None` for a version
    /// without `/scale`.
    pub fn new<'a>(versions: impl IntoIterator<Item = (&'a str, Option<&'a str>)>) -> Self {
        let path = |path: &str| Path(path.split('.').map(Element::field).collect());
        let each = versions.into_iter().map(|(version, at)| (version.to_owned(), at.map(path)));
        Self(each.collect())
    }

    fn at(&self, owned: &Owned) -> Option<&Path> {
        let path = self.0.get(&owned.api_version)?.as_ref();
        path.filter(|path| owned.fields.contains(&path.0))
    }
}

/// Gives a Scale of `parent` the owners of the number of replicas.
pub fn to_scale(parent: &Value, scale: &mut Value, replicas: &Replicas) {
    let mut managed = Managed::of(parent).unwrap_or_default();
    managed.sets.retain(|_, owned| {
        let here = replicas.at(owned).is_some();
        *owned = Owned { fields: FieldSet::of_fields([IN_SCALE]), api_version: SCALE_VERSION.to_owned() };
        here
    });
    managed.write(scale);
}

/// Copies the owners of a Scale after a write to the object that it scales, in the version of the
/// request. Entries of unknown versions are dropped. A new owner has no time, since a Scale does
/// not keep it.
pub fn from_scale(parent: &mut Value, scale: &Value, api_version: &str, replicas: &Replicas) {
    let mut managed = Managed::of(parent).unwrap_or_default();
    let mut of_scale = Managed::of(scale).unwrap_or_default();
    managed.sets.retain(|manager, owned| {
        if !replicas.0.contains_key(&owned.api_version) {
            return false;
        }
        if let Some(path) = replicas.at(owned)
            && of_scale.sets.remove(&renamed(manager, SCALE_VERSION)).is_none()
        {
            let mut lost = FieldSet::new();
            lost.insert(&path.0);
            owned.fields = owned.fields.difference(&lost);
        }
        !owned.fields.is_empty()
    });
    let Some(Some(path)) = replicas.0.get(api_version) else { return managed.write(parent) };
    let in_scale: Vec<Element> = IN_SCALE.split('.').map(Element::field).collect();
    for (manager, owned) in of_scale.sets {
        if owned.fields.contains(&in_scale) {
            let mut fields = FieldSet::new();
            fields.insert(&path.0);
            let manager = renamed(&manager, api_version);
            managed.times.remove(&manager);
            managed.sets.insert(manager, Owned { fields, api_version: api_version.to_owned() });
        }
    }
    managed.write(parent);
}

/// Returns the manager under another version.
fn renamed(manager: &Manager, api_version: &str) -> Manager {
    Manager::new(manager.name.clone(), manager.operation, api_version, manager.subresource.clone())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn entry(manager: &str, operation: &str, subresource: &str, fields: Value) -> Value {
        let mut entry = json!({"manager": manager, "operation": operation, "apiVersion": "apps/v1",
            "fieldsType": "FieldsV1", "fieldsV1": fields});
        if !subresource.is_empty() {
            entry["subresource"] = json!(subresource);
        }
        entry
    }

    fn owned_by(entries: &[Value]) -> Value {
        json!({"metadata": {"name": "d", "managedFields": entries}})
    }

    /// Recorded: an applier owns the replicas, `sc` scales to another number.
    #[test]
    fn a_scaler_becomes_the_owner_of_the_replicas_without_a_time() {
        let replicas = Replicas::new([("apps/v1", Some("spec.replicas"))]);
        let mut parent =
            owned_by(&[entry("m1", "Apply", "", json!({"f:spec": {"f:replicas": {}, "f:x": {}}}))]);
        let mut scale = json!({"metadata": {"name": "d"}});
        to_scale(&parent, &mut scale, &replicas);
        assert_eq!(scale["metadata"]["managedFields"][0]["apiVersion"], "autoscaling/v1");

        let mut scaled = entry("sc", "Update", "scale", json!({"f:spec": {"f:replicas": {}}}));
        scaled["apiVersion"] = json!("autoscaling/v1");
        scaled["time"] = json!("2026-01-01T00:00:00Z");
        from_scale(&mut parent, &owned_by(&[scaled.clone()]), "apps/v1", &replicas);
        let expected = owned_by(&[
            entry("m1", "Apply", "", json!({"f:spec": {"f:x": {}}})),
            entry("sc", "Update", "scale", json!({"f:spec": {"f:replicas": {}}})),
        ]);
        assert_eq!(parent, expected);

        from_scale(&mut parent, &owned_by(&[scaled]), "apps/v1", &replicas);
        assert_eq!(parent, expected, "a second time changes nothing");
    }

    #[test]
    fn entries_of_unknown_versions_are_dropped_and_of_versions_without_scale_are_kept() {
        let replicas = Replicas::new([("apps/v1", None)]);
        let mut gone = entry("old", "Update", "", json!({"f:a": {}}));
        gone["apiVersion"] = json!("apps/v0");
        let kept = entry("m1", "Apply", "", json!({"f:spec": {"f:replicas": {}}}));
        let mut parent = owned_by(&[kept.clone(), gone]);
        from_scale(&mut parent, &json!({}), "apps/v1", &replicas);
        assert_eq!(parent, owned_by(&[kept]));
    }
}
