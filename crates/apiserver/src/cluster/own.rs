//! The second stage of a write: records in `managedFields` which manager owns which fields.

use parking_lot::Mutex;
use serde_json::Value;

use super::object_fields::metadata_mut;
use super::write::{Owning, Write};
use super::{Cluster, ObjectRef};
use crate::ApiError;
use crate::custom::convert::{self, Conversions};
use crate::kinds::DEFINITION;
use crate::kinds::traits::StatusMetadata;
use crate::ownership::{self, Reset, Target, Versions};
use crate::registry::{Catalog, Family, Kind};
use crate::schema::Schema;

/// The maximum number of steps to compute the owners of one object. In each of them an object is
/// converted to one or more versions. Each version in which a manager has written takes a few.
const MAX_STEPS: usize = 200;

/// The other versions of a kind.
struct KindVersions<'a> {
    kind: &'a Kind,
    catalog: &'a Catalog,
    /// The conversions by the webhook of the kind.
    conversions: &'a Mutex<Conversions>,
}

impl Write<'_> {
    /// Updates `managedFields`, unless an apply has done so already.
    pub(super) async fn own(&mut self) {
        if self.owning == Owning::Settled {
            return;
        }
        let (place, old) = (self.place, self.base.map(|it| it.object));
        let writer = ownership::Writer {
            manager: &self.writer.manager,
            subresource: place.part,
            now: self.cluster.source.now(),
        };
        if place.kind.converted_by_webhook().is_none() {
            let conversions = Mutex::default();
            let new = &mut self.new;
            let own = |target: &Target<'_>| ownership::update(old, new, target, &writer);
            return with_target(self.cluster, place, &conversions, own);
        }
        let before = &self.new;
        let owned = with_conversions(self.cluster, place, |target| {
            let mut owned = before.clone();
            ownership::update(old, &mut owned, target, &writer);
            owned
        });
        match owned.await {
            Ok(owned) => self.new = owned,
            // As kube-apiserver does (`UpdateNoErrors` in k8s.io/apimachinery v0.36.4
            // pkg/util/managedfields/internal/fieldmanager.go): otherwise a webhook that fails
            // would block all writes, also those in the storage version.
            Err(refusal) => {
                tracing::warn!(%refusal, "cannot convert an object to update its managedFields");
                metadata_mut(&mut self.new).remove("managedFields");
            }
        }
    }
}

/// Calls `run` with the description of what a write to this place may own. Calls it again, after
/// a conversion by the webhook of the kind, until it has all conversions that it needs.
///
/// # Errors
/// 500 if the webhook fails.
pub(super) async fn with_conversions<T>(
    cluster: &Cluster,
    place: &ObjectRef<'_>,
    run: impl Fn(&Target<'_>) -> T + Send + Sync,
) -> Result<T, ApiError> {
    let mut known = Conversions::default();
    for _ in 0..MAX_STEPS {
        let conversions = Mutex::new(known);
        let result = with_target(cluster, place, &conversions, &run);
        known = conversions.into_inner();
        if !known.has_missing() {
            return Ok(result);
        }
        drop(result);
        cluster.conversion().add_missing(place.kind, &mut known).await?;
    }
    Err(ApiError::internal("the managers of the object use too many versions"))
}

/// Calls `run` with the description of what a write to this place may own.
fn with_target<T>(
    cluster: &Cluster,
    place: &ObjectRef<'_>,
    conversions: &Mutex<Conversions>,
    run: impl FnOnce(&Target<'_>) -> T,
) -> T {
    let kind = place.kind;
    let catalog = cluster.catalog();
    let reset = reset_of(kind, place.part);
    run(&Target {
        api_version: &kind.def.api_version(),
        kind: &kind.def.kind,
        schema: &kind.schema,
        definitions: kind.definitions(),
        empty: kind.empty(),
        versions: &KindVersions { kind, catalog: &catalog, conversions },
        reset: &reset,
    })
}

impl Versions for KindVersions<'_> {
    fn convert(&self, object: &Value, api_version: &str) -> Option<(Value, Schema)> {
        if *api_version == *self.kind.def.api_version() && object["apiVersion"] == api_version {
            return Some((object.clone(), self.kind.schema.clone()));
        }
        let (group, version) = api_version.rsplit_once('/').unwrap_or(("", api_version));
        if let Family::Custom { kind, .. } = &self.kind.family {
            let wanted = kind.versions.iter().find(|it| kind.group == group && it.name == version)?;
            let converted = if convert::takes_webhook(object, kind, &wanted.name) {
                let mut known = self.conversions.lock();
                known.find(object, &wanted.name)?
            } else {
                let mut renamed = object.clone();
                convert::to_version(&mut renamed, &kind.group, &wanted.name);
                renamed
            };
            return Some((converted, wanted.schema.to_schema()));
        }
        let wanted = self.catalog.kind_of(api_version, &self.kind.def.kind)?;
        // Events of the two groups are stored together, but neither group converts to the other.
        if wanted.def.group != self.kind.def.group || wanted.collection != self.kind.collection {
            return None;
        }
        let from = self.catalog.kind_of(object["apiVersion"].as_str()?, &self.kind.def.kind)?;
        let stored = from.to_stored(object.clone()).ok()?;
        Some((wanted.shown(stored).ok()?, wanted.schema.clone()))
    }
}

/// Returns the fields that an endpoint does not write.
fn reset_of(kind: &Kind, part: &str) -> Reset {
    let custom = kind.custom_version().is_some();
    match part {
        "" if kind.traits.has_status => Reset::trees(["status"]),
        // The status of a definition is written with its metadata (`PrepareForUpdate` in
        // k8s.io/apiextensions-apiserver v0.36.4 pkg/registry/customresourcedefinition/strategy.go
        // copies it to itself), although its `GetResetFields` excludes them from ownership.
        "status" if custom || kind.is(&DEFINITION) => Reset::trees(["metadata", "spec"]),
        "status" => Reset::trees(
            match kind.traits.status_metadata {
                StatusMetadata::All => &["spec"] as &[&str],
                StatusMetadata::AllButOwners => {
                    &["spec", "metadata.deletionTimestamp", "metadata.ownerReferences"]
                }
                StatusMetadata::AllButLabels => &["spec", "metadata.labels"],
                StatusMetadata::Nothing => &["spec", "metadata"],
            }
            .iter()
            .copied(),
        ),
        "approval" => Reset::trees(["spec"]),
        _ => Reset::Nothing,
    }
}
