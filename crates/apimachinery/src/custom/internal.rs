//! Parts of a definition as kube-apiserver prints them in a message: in its internal form, with all
//! fields in the order of the Go struct (k8s.io/apiextensions-apiserver v0.36.4
//! pkg/apis/apiextensions/types.go and types_jsonschema.go).
//!
//! An empty schema has 763 bytes in this form, so a text ends after its first MiB. kube-apiserver
//! has no limit.

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

/// The size of a text, in bytes, from which on nothing is added to it.
const MAX_BYTES: usize = 1024 * 1024;

/// The end of a text that is not complete.
const CUT: &str = "...";

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

const SELECTABLE: &Fields = &[("JSONPath", "jsonPath", Shape::Text)];

/// Formats a schema.
pub(crate) fn schema(schema: &Value) -> String {
    let mut printer = Printer::default();
    printer.schema(schema);
    printer.finish()
}

/// Formats a rule.
pub(crate) fn rule(rule: &Value) -> String {
    let mut printer = Printer::default();
    printer.fields(rule, RULE);
    printer.finish()
}

/// The fields that are equal in all versions, which kube-apiserver moves to the top of the
/// definition
/// (`Convert_v1_CustomResourceDefinitionSpec_To_apiextensions_CustomResourceDefinitionSpec` in
/// k8s.io/apiextensions-apiserver v0.36.4 pkg/apis/apiextensions/v1/conversion.go).
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
        let mut printer = Printer::default();
        printer.list(versions, |printer, version| self.version(printer, version));
        printer.finish()
    }

    fn version(&self, printer: &mut Printer, version: &Value) {
        let own = |shared: bool, key: &str| if shared { &Value::Null } else { &version[key] };
        printer.push("{\"Name\":");
        printer.shaped(&version["name"], Shape::Text);
        for (name, key) in
            [(",\"Served\":", "served"), (",\"Storage\":", "storage"), (",\"Deprecated\":", "deprecated")]
        {
            printer.push(name);
            printer.shaped(&version[key], Shape::Flag);
        }
        printer.push(",\"DeprecationWarning\":");
        printer.shaped(&version["deprecationWarning"], Shape::Raw);
        printer.push(",\"Schema\":");
        printer.object(own(self.schema, "schema"), |printer, it| {
            printer.push("{\"OpenAPIV3Schema\":");
            printer.object(&it["openAPIV3Schema"], Printer::schema);
            printer.push("}");
        });
        printer.push(",\"Subresources\":");
        printer.object(own(self.subresources, "subresources"), |printer, it| {
            printer.push("{\"Status\":");
            printer.object(&it["status"], |printer, _| printer.push("{}"));
            printer.push(",\"Scale\":");
            printer.object(&it["scale"], |printer, scale| printer.fields(scale, SCALE));
            printer.push("}");
        });
        printer.push(",\"AdditionalPrinterColumns\":");
        let columns = own(self.columns, "additionalPrinterColumns");
        printer.list(columns, |printer, it| printer.fields(it, COLUMN));
        printer.push(",\"SelectableFields\":");
        let selectable = own(self.selectable, "selectableFields");
        printer.list(selectable, |printer, it| printer.fields(it, SELECTABLE));
        printer.push("}");
    }
}

/// A text of limited size. What follows its end is not formatted.
#[derive(Default)]
struct Printer {
    text: String,
}

impl Printer {
    fn is_full(&self) -> bool {
        self.text.len() >= MAX_BYTES
    }

    /// Returns the text, cut at the limit.
    fn finish(mut self) -> String {
        if self.is_full() {
            self.text.truncate(self.text.floor_char_boundary(MAX_BYTES));
            self.text.push_str(CUT);
        }
        self.text
    }

    fn push(&mut self, text: &str) {
        if !self.is_full() {
            self.text.push_str(text);
        }
    }

    fn schema(&mut self, schema: &Value) {
        self.fields(schema, SCHEMA);
    }

    fn fields(&mut self, value: &Value, fields: &Fields) {
        self.braced("{", fields, "}", |printer, (name, key, shape)| {
            printer.push("\"");
            printer.push(name);
            printer.push("\":");
            printer.shaped(&value[*key], *shape);
        });
    }

    fn shaped(&mut self, value: &Value, shape: Shape) {
        match (shape, value) {
            _ if self.is_full() => {}
            (Shape::Text, Value::Null) => self.push("\"\""),
            (Shape::Flag, Value::Null) => self.push("false"),
            (Shape::Count, Value::Null) => self.push("0"),
            (Shape::Text | Shape::Flag | Shape::Count | Shape::Raw, value) => self.push(&json(value)),
            (Shape::Schema, value) => self.object(value, Self::schema),
            (Shape::Schemas, value) => self.list(value, Self::schema),
            (Shape::NamedSchemas, Value::Object(named)) => {
                self.braced("{", named, "}", |printer, (name, it)| {
                    printer.push(&quoted(name));
                    printer.push(":");
                    printer.schema(it);
                });
            }
            (Shape::NamedSchemas, _) => self.push("null"),
            (Shape::Items, value) => self.object(value, |printer, it| {
                printer.push("{\"Schema\":");
                printer.schema(it);
                printer.push(",\"JSONSchemas\":null}");
            }),
            (Shape::Additional, Value::Bool(allows)) => {
                self.push(if *allows { "{\"Allows\":true," } else { "{\"Allows\":false," });
                self.push("\"Schema\":null}");
            }
            (Shape::Additional, value) => self.object(value, |printer, it| {
                printer.push("{\"Allows\":true,\"Schema\":");
                printer.schema(it);
                printer.push("}");
            }),
            (Shape::Rules, value) => self.list(value, |printer, rule| printer.fields(rule, RULE)),
        }
    }

    fn object(&mut self, value: &Value, show: impl FnOnce(&mut Self, &Value)) {
        if value.is_object() { show(self, value) } else { self.push("null") }
    }

    fn list(&mut self, value: &Value, show: impl Fn(&mut Self, &Value)) {
        match value.as_array() {
            Some(items) => self.braced("[", items, "]", show),
            None => self.push("null"),
        }
    }

    /// Formats items with commas between them, until the text is full.
    fn braced<T>(
        &mut self,
        open: &str,
        items: impl IntoIterator<Item = T>,
        close: &str,
        show: impl Fn(&mut Self, T),
    ) {
        self.push(open);
        for (index, item) in items.into_iter().enumerate() {
            if self.is_full() {
                break;
            }
            if index > 0 {
                self.push(",");
            }
            show(self, item);
        }
        self.push(close);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_large_schema_is_shown_in_part() {
        let wide = |count: usize| json!({ "description": "é", "allOf": vec![json!({}); count] });
        let small = schema(&wide(1));
        assert!(small.starts_with("{\"ID\":\"\",") && small.ends_with("\"XValidations\":null}"), "{small}");
        assert_eq!(schema(&wide(2)).len(), small.len() + ",".len() + schema(&json!({})).len());
        let large = schema(&wide(100_000));
        assert_eq!(large.len(), MAX_BYTES + CUT.len());
        assert!(large.starts_with(&small[..500]) && large.ends_with(CUT));
    }
}
