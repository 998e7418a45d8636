//! The create verb, with generated names and objects that are answered without being stored.

use serde_json::Value;

use super::address_claim::AddressClaim;
use super::admission_webhooks::AdmissionAttributes;
use super::decode::{AFTER_MUTATION, dedup_owner_references, settle_as};
use super::pipeline::{Owning, metadata_mut};
use super::preconditions::{check_key, check_name};
use super::{Cluster, ObjectRef, WriteOutcome, Writer};
use crate::ApiError;
use crate::kinds::BINDING;
use crate::kinds::json_access::{at, text};
use crate::store::Expect;
use crate::webhook::review;

/// The number of attempts to find a free generated name: `maxNameGenerationCreateAttempts` in
/// k8s.io/apiserver v0.36.4 pkg/registry/generic/registry/store.go.
const ATTEMPTS: usize = 8;
/// The number of characters of `generateName` that are kept: `MaxGeneratedNameLength` in
/// k8s.io/apiserver v0.36.4 pkg/storage/names/generate.go.
const LONGEST_BASE: usize = 58;

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
        Self::settle_namespace(place, &mut object)?;
        if place.part.is_empty() && place.kind.def.has_verb("get") {
            return self.make(place, object, writer, Owning::Track).await;
        }
        // Reviews, bindings and subresources are answered and never stored.
        if place.part.is_empty() {
            // Subresources have it as a precondition (`SubresourceObjectMetaPreserver` in
            // k8s.io/apiserver v0.36.4 pkg/registry/rest/rest.go).
            metadata_mut(&mut object).remove("uid");
        }
        let asked = AdmissionAttributes::create(place, writer);
        let mut mutated = Some(object.clone());
        let mut warnings = self.mutate(&asked, &mut mutated).await?;
        let mutated = mutated.unwrap_or_default();
        let object = if mutated == object { object } else { settled(place, mutated)? };
        warnings.extend(self.approve(&asked, Some(&object)).await?);
        let written = if !place.part.is_empty() {
            self.create_part(place, object, writer).await?
        } else if place.kind.is(&BINDING) {
            let pod = text(&object, "/metadata/name").to_owned();
            self.bind(place, &pod, &object, writer).await?
        } else {
            self.review(place, object, writer)?
        };
        warnings.extend(written.warnings);
        Ok(WriteOutcome { warnings, ..written })
    }

    /// Creates an object from a decoded value, for every verb that can create one.
    pub(super) async fn make(
        &self,
        place: &ObjectRef<'_>,
        object: Value,
        writer: &Writer,
        owning: Owning,
    ) -> Result<WriteOutcome, ApiError> {
        self.admit_to_namespace(place, text(&object, "/metadata/name"))?;
        let versioned = text(&object, "/metadata/resourceVersion").to_owned();
        let mut object = object;
        metadata_mut(&mut object).remove("resourceVersion");
        self.begin_new(place, &mut object, writer, owning).await;
        let asked = AdmissionAttributes::create(place, writer);
        let mut mutated = Some(object);
        let mut warnings = self.mutate(&asked, &mut mutated).await?;
        let mut object = mutated.unwrap_or_default();
        warnings.extend(dedup_owner_references(&mut object, AFTER_MUTATION));
        let generates =
            text(&object, "/metadata/name").is_empty() && !text(&object, "/metadata/generateName").is_empty();
        let written = if generates {
            self.make_named(&asked, &object, &versioned).await?
        } else {
            self.make_once(&asked, object, &versioned).await?
        };
        warnings.extend(written.warnings);
        Ok(WriteOutcome { warnings, ..written })
    }

    /// Creates an object under a generated name, with another suffix while the name is taken.
    async fn make_named(
        &self,
        asked: &AdmissionAttributes<'_>,
        object: &Value,
        versioned: &str,
    ) -> Result<WriteOutcome, ApiError> {
        let base = text(object, "/metadata/generateName");
        let kept = base.char_indices().nth(LONGEST_BASE).map_or(base, |(at, _)| &base[..at]);
        for attempt in 1.. {
            let mut new = object.clone();
            let name = format!("{kept}{}", self.source.suffix());
            metadata_mut(&mut new).insert("name".to_owned(), name.into());
            match self.make_once(asked, new, versioned).await {
                Err(refusal) if !refusal.0.is_already_exists() => return Err(refusal),
                Err(mut refusal) if attempt == ATTEMPTS => {
                    refusal.0.details.get_or_insert_default().retry_after_seconds = 1;
                    return Err(refusal);
                }
                Err(_) => {}
                written => return written,
            }
        }
        unreachable!("the loop ends at the last attempt")
    }

    /// Prepares and stores a new object that has a name. `versioned` is the resource version that
    /// the client sent.
    async fn make_once(
        &self,
        asked: &AdmissionAttributes<'_>,
        mut new: Value,
        versioned: &str,
    ) -> Result<WriteOutcome, ApiError> {
        let (place, writer) = (asked.place(), asked.writer());
        // Webhooks may have changed the metadata. A namespace other than that of the request is
        // rejected, as by `BeforeCreate` in k8s.io/apiserver v0.36.4 pkg/registry/rest/create.go. A
        // new object may get another name, unless the request names it.
        Self::settle_namespace(place, &mut new)?;
        if !place.name.is_empty() {
            check_name(place, &new)?;
        }
        let name = text(&new, "/metadata/name").to_owned();
        metadata_mut(&mut new).insert("uid".to_owned(), self.source.uid().into());
        let _claim =
            AddressClaim::of(self, place.kind, text(&new, "/metadata/uid"), place.key_of(&name).ok());
        self.ready_new(place, &mut new, &writer.user)?;
        let mut warnings = self.approve(asked, Some(&new)).await?;
        if !versioned.is_empty() && versioned != "0" {
            // In kube-apiserver the storage layer rejects this (k8s.io/apiserver v0.36.4
            // pkg/storage/errors.go), which a dry run never reaches.
            if !writer.dry_run {
                return Err(ApiError::unexplained(
                    "resourceVersion should not be set on objects to be created",
                ));
            }
            metadata_mut(&mut new).insert("resourceVersion".to_owned(), versioned.into());
        }
        let _charge = self.admit(place, None, &new, writer).await?;
        let written = self.keep(place, &name, new, writer).await?;
        warnings.extend(written.warnings);
        Ok(WriteOutcome { warnings, ..written })
    }

    /// Stores a new object that is ready.
    async fn keep(
        &self,
        place: &ObjectRef<'_>,
        name: &str,
        object: Value,
        writer: &Writer,
    ) -> Result<WriteOutcome, ApiError> {
        let kind = place.kind;
        let key = place.key_of(name)?;
        let exists = |current: Option<Value>| {
            let mut refusal = ApiError::already_exists(&kind.def.group, &kind.def.plural, name);
            if current.is_some_and(|it| at(&it, "/metadata/deletionTimestamp").is_some()) {
                refusal.0.message = format!("object is being deleted: {}", refusal.0.message);
            }
            refusal
        };
        let warnings = self.warnings(kind, &object, None);
        if writer.dry_run {
            if let Some(current) = self.get(kind, &key) {
                return Err(exists(Some(current.to_value())));
            }
            return Ok(WriteOutcome { warnings, ..WriteOutcome::value(object, true) });
        }
        let draft = self.draft(kind, &object).await?;
        self.check_defined(kind)?;
        // Webhooks may have taken their time: the namespace may be gone since the first check, and
        // nothing would delete an object in it.
        self.admit_to_namespace(place, name)?;
        check_key(&draft, &key)?;
        match self.storage.commit(&kind.collection, &key, Expect::Absent, Some(draft)).await {
            Ok(stored) => {
                self.definitions_changed(kind).await;
                Ok(WriteOutcome { warnings, ..WriteOutcome::stored(stored, true) })
            }
            Err(lost) => Err(exists(lost.current.map(|it| it.to_value()))),
        }
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
