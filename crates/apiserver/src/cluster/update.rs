//! The update verb: replaces an object, unless it has changed since the client read it.

use serde_json::Value;

use super::commit::{ATTEMPTS, Attempt};
use super::conflict::check_stored;
use super::name_checks::check_name;
use super::namespaces::settle_namespace;
use super::object_fields::metadata_mut;
use super::scale::ScaleSubresource;
use super::write::Write;
use super::{Cluster, ObjectRef, ResponseObject, WriteOutcome, Writer};
use crate::ApiError;
use crate::kinds::json_access::text;

impl Cluster {
    /// Replaces an object, or a subresource such as `status`. Creates the object if its kind allows
    /// that.
    ///
    /// # Errors
    /// 404 if there is no such object, 409 if it has changed since the client read it, 422 if it is
    /// not valid.
    pub async fn update(
        &self,
        place: &ObjectRef<'_>,
        mut object: Value,
        writer: &Writer,
    ) -> Result<WriteOutcome, ApiError> {
        check_name(place, &object)?;
        settle_namespace(place, &mut object)?;
        if place.part == "scale" {
            return ScaleSubresource::of(self, place).update(&object, writer).await;
        }
        let wanted = text(&object, "/metadata/resourceVersion").to_owned();
        let uid = text(&object, "/metadata/uid").to_owned();
        let key = place.key()?;
        for _ in 0..ATTEMPTS {
            let current = self.get(place.kind, &key);
            let creates = place.kind.traits.allow_create_on_update && place.part.is_empty();
            if current.is_none() && !creates {
                return Err(place.kind.not_found(place.name));
            }
            check_stored(place.kind, &key, (&uid, ""), current.as_deref())?;
            let Some(current) = current else {
                let mut new = object.clone();
                metadata_mut(&mut new).remove("resourceVersion");
                match Write::creation_on_update(self, place, new, writer).create().await {
                    // Created by another request meanwhile.
                    Err(refusal) if refusal.0.is_already_exists() && self.get(place.kind, &key).is_some() => {
                        continue;
                    }
                    made => return made,
                }
            };
            let old = self.conversion().show(place.kind, &current).await?;
            let write = Write::change(self, place, (&current, &old), object.clone(), writer);
            let write = write.expecting(wanted.clone(), true);
            match write.attempt().await? {
                Attempt::Done(written) => return Ok(written),
                Attempt::Again => {}
            }
        }
        Err(place.kind.modified(place.name))
    }

    /// Applies `change` to the current state of an object, and again after a conflict. `change`
    /// returns false if there is nothing to write. Returns the object after the change, or `None`
    /// if there is no such object. For components of the server itself.
    ///
    /// # Errors
    /// 422 if the changed object is not valid.
    pub async fn change(
        &self,
        place: &ObjectRef<'_>,
        writer: &Writer,
        mut change: impl FnMut(&mut Value) -> bool + Send,
    ) -> Result<Option<ResponseObject>, ApiError> {
        for _ in 0..ATTEMPTS {
            let Some(current) = self.get(place.kind, &place.key()?) else { return Ok(None) };
            let old = self.conversion().show(place.kind, &current).await?;
            let mut new = old.clone();
            if !change(&mut new) {
                return Ok(Some(ResponseObject::Stored(current)));
            }
            if place.kind.custom_version().is_none() {
                // A request gets them when its body is decoded.
                place.kind.rules.apply_defaults(&place.kind.def.version, &mut new);
            }
            match Write::change(self, place, (&current, &old), new, writer).attempt().await? {
                Attempt::Done(written) => return Ok(Some(written.object)),
                Attempt::Again => {}
            }
        }
        Err(place.kind.modified(place.name))
    }
}
