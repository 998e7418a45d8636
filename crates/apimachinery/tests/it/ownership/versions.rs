//! Field ownership across two versions of a kind that name one field differently.

use std::sync::Arc;

use dogwatch_apimachinery::ownership::{Reset, Target, Versions, apply};
use dogwatch_apimachinery::schema::{Field, Map, Scalar, Schema, Struct};
use serde_json::{Value, json};

use super::{definitions, owned, writer};

/// Two versions of a kind that name one field differently.
struct Renamed;

impl Renamed {
    fn schema(api_version: &str) -> Option<Schema> {
        let name = [("ex.io/v1", "a"), ("ex.io/v2", "b")].iter().find(|it| it.0 == api_version)?.1;
        let text = || Schema::Scalar(Scalar::String);
        let object = |fields: Vec<(&str, Schema)>| {
            let fields = fields.into_iter().map(|(name, schema)| (name.to_owned(), Field::new(schema)));
            Schema::Struct(Arc::new(Struct { fields: fields.collect(), ..Struct::default() }))
        };
        let spec = object(vec![(name, text()), ("other", text())]);
        let metadata = Schema::Map(Arc::new(Map { value: Schema::Any, atomic: false }));
        Some(object(vec![("apiVersion", text()), ("kind", text()), ("metadata", metadata), ("spec", spec)]))
    }
}

impl Versions for Renamed {
    fn convert(&self, object: &Value, api_version: &str) -> Option<(Value, Schema)> {
        let schema = Self::schema(api_version)?;
        let mut object = object.clone();
        if let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) {
            let (from, to) = if api_version == "ex.io/v1" { ("b", "a") } else { ("a", "b") };
            if let Some(value) = spec.remove(from) {
                spec.insert(to.to_owned(), value);
            }
        }
        object["apiVersion"] = json!(api_version);
        Some((object, schema))
    }
}

#[test]
fn a_field_owned_in_another_version_under_another_name_stays_until_dropped() {
    let write = |live: Option<&Value>, manager: &str, version: &str, spec: Value| {
        let schema = Renamed::schema(version).unwrap();
        let target = Target {
            api_version: version,
            kind: "Thing",
            schema: &schema,
            definitions: &definitions(),
            empty: &json!({}),
            versions: &Renamed,
            reset: &Reset::Nothing,
        };
        let applied =
            json!({"apiVersion": version, "kind": "Thing", "metadata": {"name": "t"}, "spec": spec});
        let live = live.map(|live| Renamed.convert(live, version).unwrap().0);
        apply(live.as_ref(), &applied, &target, &writer(manager, 1), false).unwrap()
    };
    let one = write(None, "one", "ex.io/v1", json!({"a": "x", "other": "1"}));
    let both = write(Some(&one), "two", "ex.io/v2", json!({"b": "x"}));
    let dropped = write(Some(&both), "one", "ex.io/v1", json!({}));
    assert_eq!(dropped["spec"], json!({"a": "x"}), "a field with a single owner is removed");
    assert_eq!(owned(&dropped, "two").to_json(), json!({"f:spec": {"f:b": {}}}));
    let unowned = write(Some(&dropped), "two", "ex.io/v2", json!({"other": "2"}));
    assert_eq!(unowned["spec"], json!({"other": "2"}));
}
