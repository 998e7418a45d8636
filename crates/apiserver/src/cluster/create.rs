//! The create verb, also for objects that are answered without being stored.

use serde_json::Value;

use super::admission_attributes::AdmissionAttributes;
use super::decode::settle_as;
use super::namespaces::settle_namespace;
use super::object_fields::metadata_mut;
use super::reviews;
use super::write::Write;
use super::{Cluster, ObjectRef, WriteOutcome, Writer};
use crate::ApiError;
use crate::kinds::BINDING;
use crate::kinds::json_access::text;
use crate::webhook::review;

impl Cluster {
    /// Creates an object, or a subresource such as `binding` or `token`.
    ///
    /// # Errors
    /// 409 if an object of the name exists; 404 or 403 if its namespace does not exist or is
    /// terminating; 422 if it is not valid.
    pub async fn create(
        &self,
        place: &ObjectRef<'_>,
        mut object: Value,
        writer: &Writer,
    ) -> Result<WriteOutcome, ApiError> {
        settle_namespace(place, &mut object)?;
        if place.part.is_empty() && place.kind.def.has_verb("get") {
            return Write::creation(self, place, object, writer).create().await;
        }
        // Reviews, bindings and subresources are answered and never stored.
        if place.part.is_empty() {
            // Subresources have it as a precondition (`SubresourceObjectMetaPreserver` in
            // k8s.io/apiserver v0.36.4 pkg/registry/rest/rest.go).
            metadata_mut(&mut object).remove("uid");
        }
        let asked = AdmissionAttributes::create(place, writer);
        let mut mutated = Some(object.clone());
        let mut warnings = self.webhooks().mutate(&asked, &mut mutated).await?;
        let mutated = mutated.unwrap_or_default();
        let object = if mutated == object { object } else { settled(place, mutated)? };
        warnings.extend(self.webhooks().approve(&asked, Some(&object)).await?);
        let written = if !place.part.is_empty() {
            self.create_part(place, object, writer).await?
        } else if place.kind.is(&BINDING) {
            let pod = text(&object, "/metadata/name").to_owned();
            self.bind(place, &pod, &object, writer).await?
        } else {
            reviews::answer(self, place, object, writer)?
        };
        warnings.extend(written.warnings);
        Ok(WriteOutcome { warnings, ..written })
    }
}

/// Decodes an object that a webhook has changed and that is not stored: it must still be one of the
/// kind that the endpoint takes.
fn settled(place: &ObjectRef<'_>, mut object: Value) -> Result<Value, ApiError> {
    let def = &place.kind.def;
    let gvk = def.subresource(place.part).map_or_else(|| def.gvk(), |it| def.subresource_gvk(it));
    settle_as(&gvk, &mut object).map_err(|why| review::broken(&why))?;
    Ok(object)
}
