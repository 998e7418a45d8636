//! The position of a strategic merge in the schema: the schema of a field and its patch strategy.
//!
//! The messages are those of k8s.io/apimachinery v0.36.4 third_party/forked/golang/json/fields.go.

use crate::ApiError;
use crate::schema::{Definitions, PatchStrategy, Scalar, Schema};
use crate::strconv;

/// A resolved schema, and its name in messages.
#[derive(Clone)]
pub(super) struct SchemaNode<'a> {
    definitions: &'a dyn Definitions,
    schema: Schema,
    /// The last part of the definition's name, such as `PodSpec`.
    name: String,
}

impl<'a> SchemaNode<'a> {
    /// Creates the node for a schema.
    pub(super) fn new(schema: &Schema, definitions: &'a dyn Definitions) -> Self {
        let mut schema = schema.clone();
        let mut name = String::new();
        while let Schema::Named(full) = &schema {
            name = full.rsplit('.').next().unwrap_or_default().to_owned();
            schema = definitions.get(full).unwrap_or(Schema::Any);
        }
        if name.is_empty() && matches!(schema, Schema::Any) {
            "RawExtension".clone_into(&mut name);
        }
        Self { definitions, schema, name }
    }

    /// Returns the schema of a field, and its patch strategy. Only structures have fields:
    /// kube-apiserver does not merge objects of other types.
    pub(super) fn field(&self, key: &str) -> Result<(Self, PatchStrategy), ApiError> {
        let unknown = || {
            let name = &self.name;
            ApiError::unexplained(format!(
                "unable to find api field in struct {name} for the json field {}",
                strconv::quote(key)
            ))
        };
        match &self.schema {
            Schema::Struct(fields) => match (fields.fields.get(key), &fields.additional) {
                (Some(field), _) => Ok((Self::new(&field.schema, self.definitions), field.patch.clone())),
                (None, Some(value)) => Ok((Self::new(value, self.definitions), PatchStrategy::default())),
                (None, None) => Err(unknown()),
            },
            _ if self.kind() == "struct" => Err(unknown()),
            _ => Err(ApiError::unexplained(format!(
                "merging an object in json but data type is not struct, instead is: {}",
                self.kind()
            ))),
        }
    }

    /// Returns the schema of the items of a list field, and the patch strategy of the list.
    pub(super) fn items(&self, key: &str) -> Result<(Self, PatchStrategy), ApiError> {
        let (field, strategy) = self.field(key)?;
        match &field.schema {
            Schema::List(list) => {
                let item = Self::new(&list.item, self.definitions);
                if matches!(item.schema, Schema::List(_)) {
                    return Err(ApiError::unexplained("unexpected slice of slice"));
                }
                Ok((item, strategy))
            }
            _ => Err(ApiError::unexplained("expected slice or array type, but got: struct")),
        }
    }

    /// Returns the Go kind (`reflect.Kind`) of the value, as kube-apiserver's messages contain it.
    pub(super) fn kind(&self) -> &'static str {
        match &self.schema {
            Schema::Map(_) => "map",
            Schema::List(_) | Schema::Scalar(Scalar::Bytes) => "slice",
            Schema::Scalar(Scalar::String) => "string",
            Schema::Scalar(Scalar::Integer) => "int32",
            Schema::Scalar(Scalar::Number) => "float64",
            Schema::Scalar(Scalar::Boolean) => "bool",
            Schema::Struct(_) | Schema::Scalar(_) | Schema::Named(_) | Schema::Any => "struct",
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::schema::{NoDefinitions, Struct};

    #[test]
    fn an_unknown_field_is_quoted_as_in_go() {
        let node = SchemaNode::new(&Schema::Struct(Arc::new(Struct::default())), &NoDefinitions);
        let error = node.field("a\u{7}\u{7f}é").err().expect("the field is unknown");
        let message = r#"unable to find api field in struct  for the json field "a\a\x7fé""#;
        assert_eq!(error.0.message, message);
    }
}
