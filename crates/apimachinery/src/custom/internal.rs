//! Parts of a definition as kube-apiserver prints them in a message: in its internal form, with all
//! fields in the order of the Go struct.

use serde_json::Value;

use super::go_format::{json, quoted};

#[derive(Clone, Copy)]
enum Shape {
    /// A string, empty if absent.
    Text,
    /// False if absent.
    Flag,
    /// Zero if absent.
    Count,
    /// Any JSON value, null if absent.
    Raw,
    Schema,
    Schemas,
    NamedSchemas,
    Items,
    Additional,
    Rules,
}

type Fields = [(&'static str, &'static str, Shape)];

const SCHEMA: &Fields = &[
    ("ID", "id", Shape::Text),
    ("Schema", "$schema", Shape::Text),
    ("Ref", "$ref", Shape::Raw),
    ("Description", "description", Shape::Text),
    ("Type", "type", Shape::Text),
    ("Nullable", "nullable", Shape::Flag),
    ("Format", "format", Shape::Text),
    ("Title", "title", Shape::Text),
    ("Default", "default", Shape::Raw),
    ("Maximum", "maximum", Shape::Raw),
    ("ExclusiveMaximum", "exclusiveMaximum", Shape::Flag),
    ("Minimum", "minimum", Shape::Raw),
    ("ExclusiveMinimum", "exclusiveMinimum", Shape::Flag),
    ("MaxLength", "maxLength", Shape::Raw),
    ("MinLength", "minLength", Shape::Raw),
    ("Pattern", "pattern", Shape::Text),
    ("MaxItems", "maxItems", Shape::Raw),
    ("MinItems", "minItems", Shape::Raw),
    ("UniqueItems", "uniqueItems", Shape::Flag),
    ("MultipleOf", "multipleOf", Shape::Raw),
    ("Enum", "enum", Shape::Raw),
    ("MaxProperties", "maxProperties", Shape::Raw),
    ("MinProperties", "minProperties", Shape::Raw),
    ("Required", "required", Shape::Raw),
    ("Items", "items", Shape::Items),
    ("AllOf", "allOf", Shape::Schemas),
    ("OneOf", "oneOf", Shape::Schemas),
    ("AnyOf", "anyOf", Shape::Schemas),
    ("Not", "not", Shape::Schema),
    ("Properties", "properties", Shape::NamedSchemas),
    ("AdditionalProperties", "additionalProperties", Shape::Additional),
    ("PatternProperties", "patternProperties", Shape::NamedSchemas),
    ("Dependencies", "dependencies", Shape::Raw),
    ("AdditionalItems", "additionalItems", Shape::Additional),
    ("Definitions", "definitions", Shape::NamedSchemas),
    ("ExternalDocs", "externalDocs", Shape::Raw),
    ("Example", "example", Shape::Raw),
    ("XPreserveUnknownFields", "x-kubernetes-preserve-unknown-fields", Shape::Raw),
    ("XEmbeddedResource", "x-kubernetes-embedded-resource", Shape::Flag),
    ("XIntOrString", "x-kubernetes-int-or-string", Shape::Flag),
    ("XListMapKeys", "x-kubernetes-list-map-keys", Shape::Raw),
    ("XListType", "x-kubernetes-list-type", Shape::Raw),
    ("XMapType", "x-kubernetes-map-type", Shape::Raw),
    ("XValidations", "x-kubernetes-validations", Shape::Rules),
];

const RULE: &Fields = &[
    ("Rule", "rule", Shape::Text),
    ("Message", "message", Shape::Text),
    ("MessageExpression", "messageExpression", Shape::Text),
    ("Reason", "reason", Shape::Raw),
    ("FieldPath", "fieldPath", Shape::Text),
    ("OptionalOldSelf", "optionalOldSelf", Shape::Raw),
];

const COLUMN: &Fields = &[
    ("Name", "name", Shape::Text),
    ("Type", "type", Shape::Text),
    ("Format", "format", Shape::Text),
    ("Description", "description", Shape::Text),
    ("Priority", "priority", Shape::Count),
    ("JSONPath", "jsonPath", Shape::Text),
];

const SCALE: &Fields = &[
    ("SpecReplicasPath", "specReplicasPath", Shape::Text),
    ("StatusReplicasPath", "statusReplicasPath", Shape::Text),
    ("LabelSelectorPath", "labelSelectorPath", Shape::Raw),
];

/// Formats a schema.
pub(crate) fn schema(schema: &Value) -> String {
    fields(schema, SCHEMA)
}

/// The fields that are equal in all versions, which kube-apiserver moves to the top of the
/// definition.
pub(crate) struct SharedByVersions {
    /// `schema`.
    pub(crate) schema: bool,
    /// `subresources`.
    pub(crate) subresources: bool,
    /// `additionalPrinterColumns`.
    pub(crate) columns: bool,
    /// `selectableFields`.
    pub(crate) selectable: bool,
}

impl SharedByVersions {
    /// Compares the fields of these versions.
    pub(crate) fn of(versions: &[Value]) -> Self {
        let alike = |key: &str| versions.windows(2).all(|pair| pair[0].get(key) == pair[1].get(key));
        Self {
            schema: alike("schema"),
            subresources: alike("subresources"),
            columns: alike("additionalPrinterColumns"),
            selectable: alike("selectableFields"),
        }
    }

    /// Formats the versions of a definition, without the fields that they share.
    pub(crate) fn versions(&self, versions: &Value) -> String {
        list(versions, |version| self.version(version))
    }

    fn version(&self, version: &Value) -> String {
        let own = |shared: bool, key: &str| if shared { &Value::Null } else { &version[key] };
        let schemas = object(own(self.schema, "schema"), |it| {
            format!("{{\"OpenAPIV3Schema\":{}}}", object(&it["openAPIV3Schema"], schema))
        });
        let subresources = object(own(self.subresources, "subresources"), |it| {
            let scale = object(&it["scale"], |scale| fields(scale, SCALE));
            format!("{{\"Status\":{},\"Scale\":{scale}}}", object(&it["status"], |_| "{}".to_owned()))
        });
        let columns = list(own(self.columns, "additionalPrinterColumns"), |it| fields(it, COLUMN));
        let selectable = list(own(self.selectable, "selectableFields"), |it| {
            format!("{{\"JSONPath\":{}}}", shaped(&it["jsonPath"], Shape::Text))
        });
        format!(
            "{{\"Name\":{},\"Served\":{},\"Storage\":{},\"Deprecated\":{},\"DeprecationWarning\":{},\"Schema\":{schemas},\
             \"Subresources\":{subresources},\"AdditionalPrinterColumns\":{columns},\"SelectableFields\":{selectable}}}",
            shaped(&version["name"], Shape::Text),
            shaped(&version["served"], Shape::Flag),
            shaped(&version["storage"], Shape::Flag),
            shaped(&version["deprecated"], Shape::Flag),
            json(&version["deprecationWarning"]),
        )
    }
}

fn fields(value: &Value, fields: &Fields) -> String {
    let shown: Vec<String> = fields
        .iter()
        .map(|(name, key, shape)| format!("\"{name}\":{}", shaped(&value[*key], *shape)))
        .collect();
    format!("{{{}}}", shown.join(","))
}

fn shaped(value: &Value, shape: Shape) -> String {
    match (shape, value) {
        (Shape::Text, Value::Null) => "\"\"".to_owned(),
        (Shape::Flag, Value::Null) => "false".to_owned(),
        (Shape::Count, Value::Null) => "0".to_owned(),
        (Shape::Text | Shape::Flag | Shape::Count | Shape::Raw, value) => json(value),
        (Shape::Schema, value) => object(value, schema),
        (Shape::Schemas, value) => list(value, schema),
        (Shape::NamedSchemas, Value::Object(named)) => {
            let shown: Vec<String> =
                named.iter().map(|(name, it)| format!("{}:{}", quoted(name), schema(it))).collect();
            format!("{{{}}}", shown.join(","))
        }
        (Shape::NamedSchemas, _) => "null".to_owned(),
        (Shape::Items, value) => {
            object(value, |it| format!("{{\"Schema\":{},\"JSONSchemas\":null}}", schema(it)))
        }
        (Shape::Additional, Value::Bool(allows)) => format!("{{\"Allows\":{allows},\"Schema\":null}}"),
        (Shape::Additional, value) => {
            object(value, |it| format!("{{\"Allows\":true,\"Schema\":{}}}", schema(it)))
        }
        (Shape::Rules, value) => list(value, |rule| fields(rule, RULE)),
    }
}

fn object(value: &Value, show: impl FnOnce(&Value) -> String) -> String {
    if value.is_object() { show(value) } else { "null".to_owned() }
}

fn list(value: &Value, show: impl Fn(&Value) -> String) -> String {
    let Some(items) = value.as_array() else { return "null".to_owned() };
    format!("[{}]", items.iter().map(show).collect::<Vec<_>>().join(","))
}
