//! The types of a CustomResourceDefinition that hold a JSON schema or something else.
//!
//! The OpenAPI definitions of Kubernetes say nothing about them, so that server-side apply treats
//! them as untyped. Their decoders are code: k8s.io/apiextensions-apiserver v0.36.4
//! pkg/apis/apiextensions/v1/marshal.go. Used by [`super::decode`] and [`super::typed`].

use crate::schema::{Scalar, Schema};

/// The name of the definition of a JSON schema.
const JSON_SCHEMA: &str = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps";

/// The Go name of the structure that has all fields of these types.
pub(super) const OWNER: &str = "JSONSchemaProps";

/// The error of a value that is neither a boolean nor an object.
pub(super) const NO_SCHEMA_OR_BOOL: &str = "boolean or JSON schema expected";

/// A JSON schema or something else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SchemaUnion {
    /// A schema or a boolean.
    Bool,
    /// A schema or a list of schemas. Anything else is ignored.
    List,
    /// A schema or a list of strings. Anything else is ignored.
    Strings,
}

impl SchemaUnion {
    /// Returns the union that a schema refers to, if it is one.
    pub(super) fn of(schema: &Schema) -> Option<Self> {
        let Schema::Named(name) = schema else { return None };
        match name.strip_prefix(JSON_SCHEMA)? {
            "OrBool" => Some(Self::Bool),
            "OrArray" => Some(Self::List),
            "OrStringArray" => Some(Self::Strings),
            _ => None,
        }
    }

    /// Returns the schema of an object.
    pub(super) fn object() -> Schema {
        Schema::Named(JSON_SCHEMA.into())
    }

    /// Returns the schema of the items of a list, if a list is possible.
    pub(super) fn item(self) -> Option<Schema> {
        match self {
            Self::Bool => None,
            Self::List => Some(Self::object()),
            Self::Strings => Some(Schema::Scalar(Scalar::String)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builtin::BuiltinDefinitions;
    use crate::schema::Definitions;

    #[test]
    fn the_fields_of_a_json_schema_refer_to_them() {
        let Some(Schema::Struct(properties)) = BuiltinDefinitions.get(JSON_SCHEMA) else { panic!() };
        for (field, union) in [
            ("items", Some(SchemaUnion::List)),
            ("additionalProperties", Some(SchemaUnion::Bool)),
            ("additionalItems", Some(SchemaUnion::Bool)),
            ("not", None),
            ("default", None),
        ] {
            assert_eq!(SchemaUnion::of(&properties.fields[field].schema), union, "{field}");
        }
        let Schema::Map(dependencies) = &properties.fields["dependencies"].schema else { panic!() };
        assert_eq!(SchemaUnion::of(&dependencies.value), Some(SchemaUnion::Strings));
    }
}
