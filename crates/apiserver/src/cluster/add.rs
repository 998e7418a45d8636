//! Creation of objects by the server itself, in the namespace that each object names.

use serde_json::Value;

use super::{Body, Cluster, FieldValidation, ObjectRef, WriteOutcome, Writer, decode};
use crate::ApiError;

impl Cluster {
    /// Creates an object of any served kind, in the namespace that it names, or `default` if it
    /// names none. For objects that do not come from a request.
    ///
    /// # Errors
    /// Those of [`Cluster::create`]; 400 for a kind that is not served.
    pub async fn add(&self, object: Value, writer: &Writer) -> Result<WriteOutcome, ApiError> {
        let says =
            |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
        let (api_version, kind_name) = (says("/apiVersion"), says("/kind"));
        let unknown =
            || ApiError::bad_request(format!("no kind {kind_name:?} is served in version {api_version:?}"));
        let kind = self.catalog().kind_of(&api_version, &kind_name).ok_or_else(unknown)?;
        let body = Body { bytes: object.to_string().into(), form: crate::request::BodyForm::Json };
        let (decoded, _) = decode(&kind, &body, FieldValidation::Strict)?;
        let namespace = match says("/metadata/namespace") {
            given if !given.is_empty() => Some(given),
            _ => kind.def.namespaced.then(|| "default".to_owned()),
        };
        let namespace = namespace.filter(|_| kind.def.namespaced);
        let place = ObjectRef { kind: &kind, namespace: namespace.as_deref(), name: "", part: "" };
        self.create(&place, decoded, writer).await
    }
}
