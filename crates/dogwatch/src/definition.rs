//! The run-time half of `#[derive(CustomResource)]`: definitions and their schemas.
//!
//! The derive generates one [`Definition`] with what its options say; building the object from it
//! is the same for every kind and is done here. Schemas are generated with kube-core's transforms,
//! so that they are equal to those of kube-derive.

use std::collections::BTreeMap;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceColumnDefinition, CustomResourceDefinition, CustomResourceDefinitionNames,
    CustomResourceDefinitionSpec, CustomResourceDefinitionVersion, CustomResourceSubresourceScale,
    CustomResourceSubresourceStatus, CustomResourceSubresources, CustomResourceValidation, JSONSchemaProps,
    SelectableField,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube_core::Rule;
use kube_core::schema::{OptionalEnum, OptionalIntOrString, StructuralSchemaRewriter};
use schemars::generate::SchemaSettings;
use schemars::transform::AddNullable;
use schemars::{JsonSchema, Schema};
use serde_json::{Map, Value};

/// The definition of a custom resource with one version, as the options of the derive give it.
#[derive(Debug)]
pub struct Definition {
    /// The name of the definition: the plural and the group.
    pub name: &'static str,
    /// The API group.
    pub group: &'static str,
    /// The API version.
    pub version: &'static str,
    /// The kind.
    pub kind: &'static str,
    /// The singular name.
    pub singular: &'static str,
    /// The plural name, as in URLs.
    pub plural: &'static str,
    /// Short names for kubectl.
    pub short_names: &'static [&'static str],
    /// The categories that the kind belongs to.
    pub categories: &'static [&'static str],
    /// True where objects are in namespaces.
    pub namespaced: bool,
    /// The columns of `kubectl get`.
    pub columns: &'static [Column],
    /// The paths of the fields that field selectors know.
    pub selectable: &'static [&'static str],
    /// True where the status subresource is enabled.
    pub has_status: bool,
    /// The scale subresource.
    pub scale: Option<Scale>,
    /// True where the server serves the version.
    pub served: bool,
    /// True where objects are stored in this version.
    pub storage: bool,
    /// True where the version is deprecated.
    pub deprecated: bool,
    /// The warning of a deprecated version.
    pub deprecation_warning: Option<&'static str>,
    /// The annotations of the definition.
    pub annotations: &'static [(&'static str, &'static str)],
    /// The labels of the definition.
    pub labels: &'static [(&'static str, &'static str)],
}

/// A column that kubectl prints.
#[derive(Debug)]
pub struct Column {
    /// The heading.
    pub name: &'static str,
    /// The OpenAPI type.
    pub type_: &'static str,
    /// The path of the value.
    pub json_path: &'static str,
    /// The description.
    pub description: Option<&'static str>,
    /// The OpenAPI format.
    pub format: Option<&'static str>,
    /// The importance; columns above 0 are printed with `-o wide` only.
    pub priority: Option<i32>,
}

/// The paths of the scale subresource.
#[derive(Debug)]
pub struct Scale {
    /// The path of the wanted number of replicas.
    pub spec_replicas_path: &'static str,
    /// The path of the actual number of replicas.
    pub status_replicas_path: &'static str,
    /// The path of the label selector, as a string.
    pub label_selector_path: Option<&'static str>,
}

impl Definition {
    /// Returns the object to apply to a cluster.
    #[must_use]
    pub fn build(&self, schema: Option<JSONSchemaProps>) -> CustomResourceDefinition {
        CustomResourceDefinition {
            metadata: ObjectMeta {
                name: Some(self.name.to_owned()),
                annotations: map(self.annotations),
                labels: map(self.labels),
                ..ObjectMeta::default()
            },
            spec: CustomResourceDefinitionSpec {
                group: self.group.to_owned(),
                names: CustomResourceDefinitionNames {
                    kind: self.kind.to_owned(),
                    singular: Some(self.singular.to_owned()),
                    plural: self.plural.to_owned(),
                    short_names: list(self.short_names, |it| (*it).to_owned()),
                    categories: list(self.categories, |it| (*it).to_owned()),
                    ..CustomResourceDefinitionNames::default()
                },
                scope: if self.namespaced { "Namespaced" } else { "Cluster" }.to_owned(),
                versions: vec![self.version(schema)],
                ..CustomResourceDefinitionSpec::default()
            },
            ..CustomResourceDefinition::default()
        }
    }

    fn version(&self, schema: Option<JSONSchemaProps>) -> CustomResourceDefinitionVersion {
        CustomResourceDefinitionVersion {
            name: self.version.to_owned(),
            served: self.served,
            storage: self.storage,
            deprecated: self.deprecated.then_some(true),
            deprecation_warning: self.deprecation_warning.map(str::to_owned),
            schema: Some(CustomResourceValidation { open_api_v3_schema: schema }),
            subresources: self.has_status.then(|| CustomResourceSubresources {
                status: Some(CustomResourceSubresourceStatus(Value::Object(Map::new()))),
                scale: self.scale.as_ref().map(Scale::build),
            }),
            additional_printer_columns: list(self.columns, Column::build),
            selectable_fields: list(self.selectable, |it| SelectableField { json_path: (*it).to_owned() }),
        }
    }
}

impl Column {
    fn build(&self) -> CustomResourceColumnDefinition {
        CustomResourceColumnDefinition {
            name: self.name.to_owned(),
            type_: self.type_.to_owned(),
            json_path: self.json_path.to_owned(),
            description: self.description.map(str::to_owned),
            format: self.format.map(str::to_owned),
            priority: self.priority,
        }
    }
}

impl Scale {
    fn build(&self) -> CustomResourceSubresourceScale {
        CustomResourceSubresourceScale {
            spec_replicas_path: self.spec_replicas_path.to_owned(),
            status_replicas_path: self.status_replicas_path.to_owned(),
            label_selector_path: self.label_selector_path.map(str::to_owned),
        }
    }
}

/// Returns a list, or `None` where it is empty: the object has no empty lists.
fn list<T, U>(items: &[T], build: impl Fn(&T) -> U) -> Option<Vec<U>> {
    (!items.is_empty()).then(|| items.iter().map(build).collect())
}

/// Returns a map of annotations or labels, or `None` where it is empty.
#[must_use]
pub fn map(pairs: &[(&str, &str)]) -> Option<BTreeMap<String, String>> {
    let own = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
    (!pairs.is_empty()).then(|| pairs.iter().map(own).collect())
}

/// Returns the schema of a type in the structural form that the server requires.
///
/// # Panics
/// If the schema has no structural form, for example that of an enum that mixes unit variants with
/// others.
#[must_use]
pub fn structural_schema<T: JsonSchema>() -> JSONSchemaProps {
    let settings = SchemaSettings::openapi3().with(|it| {
        // The server takes neither references nor `$schema`.
        it.inline_subschemas = true;
        it.meta_schema = None;
    });
    // The order matters: optional enums are recognised by the `nullable` that the first transform
    // adds.
    let generator = settings
        .with_transform(AddNullable::default())
        .with_transform(StructuralSchemaRewriter)
        .with_transform(OptionalEnum)
        .with_transform(OptionalIntOrString)
        .into_generator();
    let schema = generator.into_root_schema_for::<T>().to_value();
    serde_json::from_value(schema).expect("a schema of schemars is one of the Kubernetes API")
}

/// Adds a CEL rule to the schema of an object.
///
/// # Panics
/// Never: a rule consists of strings.
pub fn add_rule(schema: &mut Schema, rule: impl Into<Rule>) {
    kube_core::validate(schema, rule).expect("a rule has a JSON form");
}
