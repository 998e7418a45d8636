//! Create: an object comes into being, once.

use serde_json::Value;

use super::pipeline::{Owning, metadata_mut, warnings};
use super::{Cluster, Place, Writer, Written};
use crate::kinds::look::{at, text};
use crate::refusal::Refusal;
use crate::store::Expect;

/// How often a generated name is tried.
const ATTEMPTS: usize = 8;
/// How much of a generated name its author decides.
const LONGEST_BASE: usize = 58;

impl Cluster {
    /// Makes an object; with a part such as `binding` or `token`, asks for what that part does.
    ///
    /// # Errors
    /// 409 when there is one of its name; 404 and 403 for its namespace; 422 when it is not valid.
    pub async fn create(
        &self,
        place: &Place<'_>,
        mut object: Value,
        writer: &Writer,
    ) -> Result<Written, Refusal> {
        if !place.part.is_empty() {
            return self.create_part(place, object, writer).await;
        }
        Self::settle_namespace(place, &mut object)?;
        if place.kind.is("", "bindings") {
            let pod = text(&object, "/metadata/name").to_owned();
            return self.bind(place, &pod, &object, writer).await;
        }
        if !place.kind.def.has_verb("get") {
            return self.review(place, object, writer);
        }
        self.make(place, object, writer, Owning::Track).await
    }

    /// Makes an object of what was decoded, however it came here.
    pub(super) async fn make(
        &self,
        place: &Place<'_>,
        object: Value,
        writer: &Writer,
        owning: Owning,
    ) -> Result<Written, Refusal> {
        let kind = place.kind;
        self.admit_to_namespace(place, text(&object, "/metadata/name"))?;
        let base = text(&object, "/metadata/generateName").to_owned();
        let generated = text(&object, "/metadata/name").is_empty() && !base.is_empty();
        for attempt in 1.. {
            let mut new = object.clone();
            if generated {
                let kept = base.char_indices().nth(LONGEST_BASE).map_or(base.as_str(), |(at, _)| &base[..at]);
                let name = format!("{kept}{}", self.source.suffix());
                metadata_mut(&mut new).insert("name".to_owned(), name.into());
            }
            let versioned = text(&new, "/metadata/resourceVersion").to_owned();
            metadata_mut(&mut new).remove("resourceVersion");
            let name = text(&new, "/metadata/name").to_owned();
            let ready = self.ready_new(place, &mut new, writer, owning);
            let uid = text(&new, "/metadata/uid").to_owned();
            let kept = match ready {
                Ok(()) if versioned.is_empty() || versioned == "0" => {
                    self.keep(place, &name, new, writer).await
                }
                // It is storage that minds, and a trial never gets there.
                Ok(()) if writer.dry_run => {
                    metadata_mut(&mut new).insert("resourceVersion".to_owned(), versioned.into());
                    self.keep(place, &name, new, writer).await
                }
                Ok(()) => {
                    Err(Refusal::unexplained("resourceVersion should not be set on objects to be created"))
                }
                Err(refusal) => Err(refusal),
            };
            match kept {
                Ok(written) => return Ok(written),
                Err(refusal) => {
                    self.settle_addresses(kind, &uid, None);
                    if !(generated && refusal.0.is_already_exists()) {
                        return Err(refusal);
                    }
                    if attempt == ATTEMPTS {
                        let mut refusal = refusal;
                        refusal.0.details.get_or_insert_default().retry_after_seconds = 1;
                        return Err(refusal);
                    }
                }
            }
        }
        unreachable!("the loop ends at the last attempt")
    }

    /// Stores a new object that is ready.
    async fn keep(
        &self,
        place: &Place<'_>,
        name: &str,
        object: Value,
        writer: &Writer,
    ) -> Result<Written, Refusal> {
        let kind = place.kind;
        let key = place.key_of(name)?;
        let exists = |current: Option<Value>| {
            let mut refusal = Refusal::already_exists(&kind.def.group, &kind.def.plural, name);
            if current.is_some_and(|it| at(&it, "/metadata/deletionTimestamp").is_some()) {
                refusal.0.message = format!("object is being deleted: {}", refusal.0.message);
            }
            refusal
        };
        let warnings = warnings(kind, &object, None);
        if writer.dry_run {
            if let Some(current) = self.get(kind, &key) {
                return Err(exists(Some(current.to_value())));
            }
            self.settle_addresses(kind, text(&object, "/metadata/uid"), None);
            return Ok(Written { warnings, ..Written::value(object, true) });
        }
        let uid = text(&object, "/metadata/uid").to_owned();
        let draft = kind
            .draft(object.clone())
            .ok_or_else(|| Refusal::internal("the object has no name to store it under"))?;
        match self.storage.commit(&kind.collection, &key, Expect::Absent, Some(draft)).await {
            Ok(stored) => {
                self.settle_addresses(kind, &uid, Some(&object));
                self.definitions_changed(kind).await;
                Ok(Written { warnings, ..Written::stored(stored, true) })
            }
            Err(lost) => Err(exists(lost.current.map(|it| it.to_value()))),
        }
    }
}
