//! Server-side apply: state the wanted fields, own them, and get conflicts with other owners.

use std::fmt;

use dogwatch_core::{PatchParams, Status};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::Api;
use crate::error::{Error, InvalidRequest};

/// The content type of an apply. JSON is YAML too, and every server supports this type.
const APPLY: &str = "application/apply-patch+yaml";

/// An error of an apply.
///
/// ```
/// use dogwatch_client::Api;
/// use dogwatch_client::api::ApplyError;
/// use dogwatch_core::PatchParams;
/// use k8s_openapi::api::core::v1::ConfigMap;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = dogwatch_apiserver::ApiServer::in_process().await?;
/// # let url = server.url().parse()?;
/// # let client = dogwatch_client::Client::from_service(url, "default", server.service());
/// let maps = Api::<ConfigMap>::default_namespaced(client);
/// let wanted = serde_json::json!({ "data": { "colour": "red" } });
/// # let blue = serde_json::json!({ "data": { "colour": "blue" } });
/// # maps.apply("settings", &PatchParams::apply("another-program"), &blue).await?;
/// match maps.apply("settings", &PatchParams::apply("my-program"), &wanted).await {
///     Ok(map) => println!("{:?}", map.data),
///     Err(ApplyError::Conflict(conflicts)) => assert_eq!(conflicts[0].field, ".data.colour"),
///     Err(error) => return Err(error.into()),
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ApplyError {
    /// Other managers own fields that this would change. Leave them out, use their value, or force.
    #[error("other managers own {}", list(.0))]
    Conflict(Vec<ApplyConflict>),
    /// Anything else.
    #[error(transparent)]
    Other(#[from] Error),
}

/// A field that another manager owns.
///
/// ```
/// use dogwatch_client::api::ApplyConflict;
///
/// let conflict = ApplyConflict { field: ".spec.replicas".into(), manager: "autoscaler".into() };
/// assert!(conflict.to_string().contains("autoscaler"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApplyConflict {
    /// The field, as a path such as `.spec.replicas`.
    pub field: String,
    /// The manager that owns it.
    pub manager: String,
}

impl<K: DeserializeOwned> Api<K> {
    /// Applies a state: creates the object, or changes the given fields, and returns it as stored.
    ///
    /// `state` is anything that serialises to an object with the fields to own; a typed object that
    /// omits its defaults is fine. `apiVersion`, `kind` and the name, which the server requires,
    /// are filled in if missing. `params` must name the manager: see [`PatchParams::apply`].
    ///
    /// # Errors
    /// [`ApplyError::Conflict`] if other managers own fields that would change.
    pub async fn apply(
        &self,
        name: &str,
        params: &PatchParams,
        state: &impl Serialize,
    ) -> Result<K, ApplyError> {
        self.apply_at(name, None, params, state).await
    }

    /// Like [`Self::apply`], for a subresource such as `status`.
    ///
    /// # Errors
    /// [`ApplyError::Conflict`] if other managers own fields that would change.
    pub async fn apply_subresource(
        &self,
        name: &str,
        subresource: &str,
        params: &PatchParams,
        state: &impl Serialize,
    ) -> Result<K, ApplyError> {
        self.apply_at(name, Some(subresource), params, state).await
    }

    async fn apply_at(
        &self,
        name: &str,
        subresource: Option<&str>,
        params: &PatchParams,
        state: &impl Serialize,
    ) -> Result<K, ApplyError> {
        let mut state = serde_json::to_value(state)
            .map_err(|error| Error::from(InvalidRequest::Body(error.to_string())))?;
        let has_managed_fields = state
            .pointer("/metadata/managedFields")
            .is_some_and(|it| *it != Value::Null && *it != Value::Array(vec![]));
        if has_managed_fields {
            let problem = "the applied object must not have metadata.managedFields: clear it, or set only your own fields";
            return Err(Error::from(InvalidRequest::Object(problem)).into());
        }
        self.complete(name, &mut state);
        let mut request = self.on_object(self.client.patch(APPLY), name);
        if let Some(subresource) = subresource {
            request = request.subresource(subresource);
        }
        let request = request.checked_params(params.query(true)).json(&state);
        self.read_object(request).await.map_err(|error| match error.status().map(conflicts) {
            Some(conflicts) if error.is_conflict() && !conflicts.is_empty() => {
                ApplyError::Conflict(conflicts)
            }
            _ => ApplyError::Other(error),
        })
    }
}

impl<K> Api<K> {
    /// Fills in the fields that the handle knows.
    fn complete(&self, name: &str, state: &mut Value) {
        let Some(object) = state.as_object_mut() else { return };
        let gvk = &self.resource.gvk;
        object.entry("apiVersion").or_insert_with(|| gvk.api_version().as_ref().into());
        object.entry("kind").or_insert_with(|| gvk.kind.as_str().into());
        if let Some(metadata) =
            object.entry("metadata").or_insert_with(|| Value::Object(Map::new())).as_object_mut()
        {
            metadata.entry("name").or_insert_with(|| name.into());
        }
    }
}

impl From<ApplyError> for Error {
    fn from(error: ApplyError) -> Self {
        match error {
            ApplyError::Other(error) => error,
            ApplyError::Conflict(_) => {
                Status::failure(dogwatch_core::Reason::Conflict, error.to_string()).into()
            }
        }
    }
}

impl fmt::Display for ApplyConflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.field, self.manager)
    }
}

fn list(conflicts: &[ApplyConflict]) -> String {
    conflicts.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// Parses causes such as `conflict with "kubectl" using v1: .spec.replicas`; the manager is between
/// the quotes.
fn conflicts(status: &Status) -> Vec<ApplyConflict> {
    let of_manager = status.causes().iter().filter(|it| it.reason == "FieldManagerConflict");
    let conflict = |cause: &dogwatch_core::Cause| ApplyConflict {
        field: cause.field.clone(),
        manager: cause.message.split('"').nth(1).unwrap_or_default().to_owned(),
    };
    of_manager.map(conflict).collect()
}

#[cfg(test)]
mod tests {
    use dogwatch_core::{Cause, Details, Reason};

    use super::*;

    #[test]
    fn conflicts_name_the_field_and_the_manager() {
        let cause = |message: &str, field: &str| Cause {
            reason: "FieldManagerConflict".to_owned(),
            message: message.to_owned(),
            field: field.to_owned(),
        };
        let causes = vec![
            cause(r#"conflict with "kubectl" using apps/v1"#, ".spec.replicas"),
            cause(r#"conflict with "hpa" with subresource "scale" using autoscaling/v1"#, ".spec.other"),
        ];
        let details = Some(Details { causes, ..Details::default() });
        let status = Status { details, ..Status::failure(Reason::Conflict, "no") };
        let error = ApplyError::Conflict(conflicts(&status));
        assert_eq!(error.to_string(), "other managers own .spec.replicas (kubectl), .spec.other (hpa)");
        assert!(Error::from(error).is_conflict());
    }
}
