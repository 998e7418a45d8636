//! `#[derive(CustomResource)]` compared with kube-derive's: the same options give the same
//! definition, the same names and the same JSON of an object.

use dogwatch::kube_core::object::{HasSpec, HasStatus};
use dogwatch::kube_core::{CustomResourceExt, Resource};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// Derives the same types with both macros, in the modules `ours` and `theirs`.
macro_rules! twins {
    (mod $name:ident; $(#[kube($($options:tt)*)])+ $(@ $more:item)* spec: $item:item) => {
        mod $name {
            pub(super) mod ours {
                use super::super::*;

                #[derive(Clone, Debug, PartialEq, dogwatch::CustomResource, Deserialize, Serialize, JsonSchema)]
                $(#[kube($($options)*)])+
                $item
                $($more)*
            }

            pub(super) mod theirs {
                use super::super::*;

                #[derive(Clone, Debug, PartialEq, kube_derive::CustomResource, Deserialize, Serialize, JsonSchema)]
                $(#[kube($($options)*)])+
                #[kube(crates(kube_core = "::kube_core", k8s_openapi = "::dogwatch::k8s_openapi"))]
                $item
                $($more)*
            }
        }
    };
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
pub(crate) struct Status {
    afloat: bool,
    replicas: Option<i32>,
}

#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
pub(crate) enum Colour {
    Red,
    Green,
}

twins! {
    mod plain;
    #[kube(group = "sea.example", version = "v1", kind = "Ferry")]
    spec: pub(crate) struct FerrySpec {
        pub(crate) decks: u8,
        /// The colour of the funnel.
        pub(crate) colour: Option<Colour>,
    }
}

twins! {
    mod everything;
    #[kube(group = "sea.example", version = "v1alpha1", kind = "Buoy", root = "BuoyRoot", namespaced)]
    #[kube(status = "Status", derive = "PartialEq", derive = "Default", doc = "A buoy.\nIt floats.")]
    #[kube(attr = "allow(clippy::large_enum_variant)", attr = "doc = \"More of it.\"")]
    #[kube(singular = "buoyling", plural = "buoyes", shortname = "by", shortname = "b", category = "all")]
    #[kube(
        printcolumn(name = "Depth", type_ = "integer", json_path = ".spec.depth", description = "metres",
            format = "int32", priority = 1),
        printcolumn = r#"{"name": "Afloat", "type": "boolean", "jsonPath": ".status.afloat", "priority": 2}"#,
        selectable = ".spec.depth",
        scale(spec_replicas_path = ".spec.depth", status_replicas_path = ".status.replicas",
            label_selector_path = ".status.selector"),
    )]
    #[kube(annotation("a.example/b", "c"), annotation("d", "e"), label("f", "g"))]
    #[kube(served = false, storage = "false", deprecated = "use ships")]
    spec: #[derive(Default)] pub(crate) struct BuoySpec {
        #[schemars(range(min = 1))]
        pub(crate) depth: i32,
        #[serde(rename = "chainLength", default)]
        pub(crate) chain_length: Option<f64>,
    }
}

twins! {
    mod flat;
    #[kube(group = "sea.example", version = "v1", kind = "Compass", namespaced = true, no_spec)]
    #[kube(status = "Status", deprecated, schema = "derived")]
    #[kube(scale = r#"{"specReplicasPath":".needles","statusReplicasPath":".status.replicas"}"#)]
    spec: #[serde(rename_all = "camelCase")] pub(crate) struct CompassFields {
        pub(crate) needles: i32,
        pub(crate) north_is: Option<String>,
    }
}

twins! {
    mod choice;
    #[kube(group = "sea.example", version = "v1", kind = "Watch", storage = true)]
    spec: pub(crate) enum WatchSpec {
        Dog { hours: u8 },
        Middle { hours: u8 },
    }
}

twins! {
    mod disabled;
    #[kube(group = "sea.example", version = "v1", kind = "Anchor", schema = "disabled")]
    spec: pub(crate) struct AnchorSpec {
        pub(crate) weight: i64,
    }
}

twins! {
    mod manual;
    #[kube(group = "sea.example", version = "v1", kind = "Sail", schema = "manual", status = Status)]
    @ impl JsonSchema for Sail {
        fn schema_name() -> std::borrow::Cow<'static, str> {
            "Sail".into()
        }

        fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
            schemars::json_schema!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true })
        }
    }
    spec: pub(crate) struct SailSpec {
        pub(crate) area: i64,
    }
}

/// Everything that the two derives say about a kind.
fn kind<K>() -> Value
where
    K: Resource<DynamicType = ()> + CustomResourceExt,
{
    json!({
        "crd": K::crd(),
        "crd_name": K::crd_name(),
        "short_names": K::shortnames(),
        "api_resource": K::api_resource(),
        "names": [K::group(&()), K::version(&()), K::kind(&()), K::plural(&()), K::api_version(&())],
        "scope": std::any::type_name::<K::Scope>(),
    })
}

/// The JSON of an object, after it was read back and written again.
fn object<K: Serialize + DeserializeOwned>(object: &K) -> Value {
    let written = serde_json::to_value(object).expect("it serializes");
    let read: K = serde_json::from_value(written.clone()).expect("it deserializes");
    assert_eq!(serde_json::to_value(&read).expect("it serializes"), written);
    written
}

/// Compares the two roots of a module, and objects with the given specification.
macro_rules! compare {
    ($module:ident::$root:ident, |$side:ident| $spec:expr) => {{
        assert_eq!(kind::<$module::ours::$root>(), kind::<$module::theirs::$root>());
        let ours = {
            use $module::ours as $side;
            object(&$side::$root::new("a", $spec))
        };
        let theirs = {
            use $module::theirs as $side;
            object(&$side::$root::new("a", $spec))
        };
        assert_eq!(ours, theirs);
        ours
    }};
}

#[test]
fn a_kind_with_the_required_options_is_equal() {
    let written = compare!(plain::Ferry, |side| side::FerrySpec { decks: 2, colour: Some(Colour::Red) });
    let expected = json!({
        "apiVersion": "sea.example/v1", "kind": "Ferry", "metadata": { "name": "a" },
        "spec": { "decks": 2, "colour": "Red" },
    });
    assert_eq!(written, expected);
}

#[test]
fn a_kind_with_every_option_is_equal() {
    let written = compare!(everything::BuoyRoot, |side| side::BuoySpec { depth: 3, chain_length: Some(1.5) });
    assert_eq!(written["kind"], "Buoy");
    assert_eq!(written["metadata"]["labels"], json!({ "f": "g" }));
    let crd = json!(everything::ours::BuoyRoot::crd());
    assert_eq!(crd["metadata"]["name"], "buoyes.sea.example");
    assert_eq!(crd["spec"]["versions"][0]["additionalPrinterColumns"].as_array().map(Vec::len), Some(2));
    assert_eq!(everything::ours::BuoyRoot::default().spec.depth, 0);
    assert_eq!(everything::ours::BuoyRoot::default(), everything::ours::BuoyRoot::default());
}

#[test]
fn a_kind_without_spec_is_equal() {
    let written =
        compare!(flat::Compass, |side| side::CompassFields { needles: 1, north_is: Some("up".into()) });
    assert_eq!((&written["needles"], &written["northIs"]), (&json!(1), &json!("up")));
}

#[test]
fn a_kind_whose_specification_is_an_enum_is_equal() {
    compare!(choice::Watch, |side| side::WatchSpec::Dog { hours: 2 });
    compare!(choice::Watch, |side| side::WatchSpec::Middle { hours: 4 });
}

#[test]
fn a_kind_without_a_schema_and_one_with_its_own_are_equal() {
    compare!(disabled::Anchor, |side| side::AnchorSpec { weight: 5 });
    compare!(manual::Sail, |side| side::SailSpec { area: 5 });
    let crd = json!(manual::ours::Sail::crd());
    let schema = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    assert_eq!(schema["x-kubernetes-preserve-unknown-fields"], true);
}

#[test]
fn spec_and_status_are_reached_through_the_traits() {
    let mut compass = flat::ours::Compass::new("a", flat::ours::CompassFields { needles: 1, north_is: None });
    compass.spec_mut().needles = 2;
    *compass.status_mut() = Some(Status { afloat: true, replicas: None });
    assert_eq!(compass.spec().needles, 2);
    assert_eq!(compass.status().map(|it| it.afloat), Some(true));
    compass.meta_mut().name = Some("b".to_owned());
    let written = object(&compass);
    assert_eq!((&written["metadata"]["name"], &written["status"]["afloat"]), (&json!("b"), &json!(true)));
}

#[derive(Clone, Debug, dogwatch::CustomResource, Deserialize, Serialize, JsonSchema)]
#[kube(group = "sea.example", version = "v1", kind = "Ferry", root = "RuledFerry", status = "Status")]
#[kube(doc = " A ferry.", validation = "self.spec.decks > 0")]
#[kube(validation = Rule::new("self.metadata.name == 'one'").message("there is one").reason(Reason::FieldValueForbidden))]
struct RuledFerrySpec {
    decks: u8,
}

#[derive(Clone, Debug, kube_derive::CustomResource, Deserialize, Serialize, JsonSchema)]
#[kube(group = "sea.example", version = "v1", kind = "Ferry", root = "UnruledFerry", status = "Status")]
#[kube(doc = " A ferry.", crates(kube_core = "::kube_core", k8s_openapi = "::dogwatch::k8s_openapi"))]
struct UnruledFerrySpec {
    decks: u8,
}

/// kube-derive's rules need the crate `kube`, so the rules are added to a definition without them.
#[test]
fn rules_are_added_to_the_schema_of_the_object() {
    let mut expected = json!(UnruledFerry::crd());
    let schema = &mut expected["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    schema["title"] = json!("RuledFerry");
    schema["x-kubernetes-validations"] = json!([
        { "rule": "self.spec.decks > 0" },
        {
            "rule": "self.metadata.name == 'one'", "message": "there is one",
            "reason": "FieldValueForbidden",
        },
    ]);
    assert_eq!(json!(RuledFerry::crd()), expected);
}
