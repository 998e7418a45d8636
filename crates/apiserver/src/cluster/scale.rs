//! The scale subresource: reads and writes the number of replicas wherever the object keeps it.

use serde_json::Value;

use super::admission_attributes::AdmissionAttributes;
use super::commit::{ATTEMPTS, Attempt};
use super::conflict::{check_stored, check_version};
use super::decode::check_strict;
use super::object_fields::{metadata_mut, object_mut};
use super::patch_body::{PatchBody, decode_applied, decode_patch};
use super::write::{Owning, Write};
use super::{Cluster, ObjectRef, ResponseObject, WriteOutcome, Writer};
use crate::builtin::{self, BuiltinDefinitions};
use crate::custom::scale::{self, ScalePaths};
use crate::kinds::json_access::{at, entries, items, number, text};
use crate::kinds::{self, defaults};
use crate::ownership::{self, OneVersion, Replicas, Reset, Target};
use crate::registry::{Family, Kind};
use crate::schema::Schema;
use crate::store::Encoded;
use crate::webhook::review;
use crate::{ApiError, FieldError, FieldErrorKind};

const API_VERSION: &str = "autoscaling/v1";

/// The Scale of one object.
#[derive(Clone, Copy, Debug)]
pub(super) struct ScaleSubresource<'a> {
    cluster: &'a Cluster,
    place: &'a ObjectRef<'a>,
}

impl<'a> ScaleSubresource<'a> {
    /// Returns the Scale of the object at a place.
    pub(super) fn of(cluster: &'a Cluster, place: &'a ObjectRef<'a>) -> Self {
        Self { cluster, place }
    }
}

impl ScaleSubresource<'_> {
    /// Reads the Scale of the stored object.
    pub(super) async fn read(&self, current: &Encoded) -> Result<Value, ApiError> {
        let kind = self.place.kind;
        let object = self.cluster.conversion().show(kind, current).await?;
        let scale = scale::read_scale(&object, &paths(kind))?;
        Ok(finished(kind, &object, scale))
    }

    /// Replaces the Scale.
    pub(super) async fn update(&self, wanted: &Value, writer: &Writer) -> Result<WriteOutcome, ApiError> {
        let uid = text(wanted, "/metadata/uid");
        self.change(uid, (writer, Owning::Track), |_| Ok((wanted.clone(), Vec::new()))).await
    }

    /// Patches the Scale.
    pub(super) async fn patch(&self, patch: &PatchBody, writer: &Writer) -> Result<WriteOutcome, ApiError> {
        let schema = schema();
        match patch {
            PatchBody::Patch(kind, body) => {
                self.change("", (writer, Owning::Track), |base| {
                    let patch = decode_patch(self.place, *kind, body, writer)?;
                    let mut scale = patch.apply(base, &schema, &BuiltinDefinitions)?;
                    let patched = scale.to_string();
                    let found = settle(&schema, &mut scale).map_err(|why| patch.unfit(&patched, &why))?;
                    let strict = patch.strict_errors().iter().cloned().chain(found).collect();
                    let warnings = check_strict(strict, writer.validation, |why| patch.unfit(&patched, why))?;
                    Ok((scale, warnings))
                })
                .await
            }
            PatchBody::Apply { body, force } => {
                let (applied, warnings) = decode_applied(body, writer.validation)?;
                self.change("", (writer, Owning::Settled), |base| {
                    let (owner, target) = (self.owner(writer), target(&schema));
                    let mut scale = ownership::apply(Some(base), &applied, &target, &owner, *force)?;
                    settle(&schema, &mut scale).map_err(ApiError::unexplained)?;
                    Ok((scale, warnings.clone()))
                })
                .await
            }
        }
    }

    /// Changes the Scale of an object, which must have this uid unless it is empty. `next` is
    /// called again after a conflict with another write.
    async fn change(
        &self,
        uid: &str,
        (writer, owning): (&Writer, Owning),
        next: impl Fn(&Value) -> Result<(Value, Vec<String>), ApiError> + Send + Sync,
    ) -> Result<WriteOutcome, ApiError> {
        let (cluster, place, kind) = (self.cluster, self.place, self.place.kind);
        let paths = paths(kind);
        let key = place.key()?;
        for _ in 0..ATTEMPTS {
            let current = cluster.get(kind, &key).ok_or_else(|| kind.not_found(place.name))?;
            check_stored(kind, &key, (uid, ""), Some(&current))?;
            let old = cluster.conversion().show(kind, &current).await?;
            let mut base = finished(kind, &old, scale::patch_base(&old, &paths)?);
            ownership::to_scale(&old, &mut base, &replicas_of(kind));
            let (mut scale, mut warnings) = next(&base)?;
            if owning == Owning::Track {
                ownership::update(Some(&base), &mut scale, &target(&schema()), &self.owner(writer));
            }
            warnings.extend(self.mutate(&base, &mut scale, writer).await?);
            let new = scaled(place, &current, &old, &scale, &paths)?;
            let before = finished(kind, &old, scale::scale_of(&old, &paths)?);
            let after = finished(kind, &new, scale::scale_of(&new, &paths)?);
            let asked = AdmissionAttributes::update(place, &before, writer);
            warnings.extend(cluster.webhooks().approve(&asked, Some(&after)).await?);
            let write = Write::change(cluster, place, (&current, &old), new, writer).owning(Owning::Settled);
            match write.attempt().await? {
                Attempt::Again => {}
                Attempt::Done(written) => {
                    warnings.extend(written.warnings);
                    let object = match written.object {
                        ResponseObject::Stored(stored) => cluster.conversion().show(kind, &stored).await?,
                        ResponseObject::Value(object) => object,
                    };
                    let scale = finished(kind, &object, scale::scale_of(&object, &paths)?);
                    return Ok(WriteOutcome {
                        object: ResponseObject::Value(scale),
                        created: false,
                        warnings,
                    });
                }
            }
        }
        Err(kind.modified(place.name))
    }

    /// Calls the mutating webhooks with a Scale. Returns their warnings.
    async fn mutate(
        &self,
        before: &Value,
        scale: &mut Value,
        writer: &Writer,
    ) -> Result<Vec<String>, ApiError> {
        let asked = AdmissionAttributes::update(self.place, before, writer);
        let mut mutated = Some(scale.clone());
        let warnings = self.cluster.webhooks().mutate(&asked, &mut mutated).await?;
        let mut mutated = mutated.unwrap_or_default();
        if mutated != *scale {
            settle(&schema(), &mut mutated).map_err(|why| review::broken(&why))?;
            *scale = mutated;
        }
        Ok(warnings)
    }

    /// Returns the owner of the fields that a writer changes.
    fn owner<'w>(&self, writer: &'w Writer) -> ownership::Writer<'w> {
        let now = self.cluster.source.now();
        ownership::Writer { manager: &writer.manager, subresource: "scale", now }
    }
}

/// Returns an object with another Scale.
fn scaled(
    place: &ObjectRef<'_>,
    current: &Encoded,
    old: &Value,
    scale: &Value,
    paths: &ScalePaths,
) -> Result<Value, ApiError> {
    let kind = place.kind;
    check_version(place, text(scale, "/metadata/resourceVersion"), current, false)?;
    // The validation of custom objects reports a negative number at the field that holds it.
    if kind.custom_version().is_none() {
        if let Some(replicas) = number(scale, "/spec/replicas").filter(|it| *it < 0) {
            let why = "must be greater than or equal to 0";
            let problem = FieldError::with_value("spec.replicas", FieldErrorKind::Invalid, replicas, why);
            return Err(ApiError::invalid("autoscaling", "Scale", place.name, &[problem]));
        }
        let uid = text(scale, "/metadata/uid");
        if !uid.is_empty() && uid != current.uid() {
            let resource = format!("{}/scale", kind.def.plural);
            let why = format!(
                "Precondition failed: UID in precondition: {uid}, UID in object meta: {}",
                current.uid()
            );
            return Err(ApiError::conflict(&kind.def.group, &resource, place.name, &why));
        }
    }
    let mut new = old.clone();
    scale::apply_scale(&mut new, scale, paths)?;
    ownership::from_scale(&mut new, scale, &kind.def.api_version(), &replicas_of(kind));
    metadata_mut(&mut new).remove("resourceVersion");
    Ok(new)
}

fn schema() -> Schema {
    BuiltinDefinitions.of_kind("autoscaling", "v1", "Scale").unwrap_or(Schema::Any)
}

fn target(schema: &Schema) -> Target<'_> {
    static REPLICAS: std::sync::LazyLock<Reset> =
        std::sync::LazyLock::new(|| Reset::all_but(["spec.replicas"]));
    static EMPTY: std::sync::LazyLock<Value> =
        std::sync::LazyLock::new(|| kinds::blank("autoscaling", "v1", "Scale"));
    Target {
        api_version: API_VERSION,
        kind: "Scale",
        schema,
        definitions: &BuiltinDefinitions,
        empty: &EMPTY,
        versions: &OneVersion,
        reset: &REPLICAS,
    }
}

/// Completes a Scale that a patch produced.
fn settle(schema: &Schema, scale: &mut Value) -> Result<Vec<String>, String> {
    let bytes = scale.to_string();
    let findings =
        builtin::inspect(bytes.as_bytes(), schema, &BuiltinDefinitions).map_err(|it| it.to_string())?;
    if let Some(mismatch) = findings.mismatch {
        return Err(mismatch);
    }
    builtin::keep_known(scale, schema, &BuiltinDefinitions);
    defaults::apply("autoscaling", "v1", "Scale", scale);
    Ok(findings.strict)
}

/// Returns the paths of the fields that a Scale shows.
fn paths(kind: &Kind) -> ScalePaths {
    kind.custom_version().and_then(|it| it.scale.clone()).unwrap_or_else(|| ScalePaths {
        spec_replicas: ".spec.replicas".to_owned(),
        status_replicas: ".status.replicas".to_owned(),
        selector: None,
    })
}

/// Returns the path of the number of replicas in each version of a kind.
fn replicas_of(kind: &Kind) -> Replicas {
    let Family::Custom { kind: custom, .. } = &kind.family else {
        return Replicas::new([(&*kind.def.api_version(), Some("spec.replicas"))]);
    };
    let versions: Vec<(String, Option<String>)> = (custom.versions.iter())
        .map(|it| {
            let path = it.scale.as_ref().map(|it| it.spec_replicas.trim_start_matches('.').to_owned());
            (format!("{}/{}", custom.group, it.name), path)
        })
        .collect();
    Replicas::new(versions.iter().map(|(version, path)| (version.as_str(), path.as_deref())))
}

/// Completes a Scale for a response: adds the selector of built-in kinds and leaves out empty
/// fields.
fn finished(kind: &Kind, object: &Value, mut scale: Value) -> Value {
    if kind.custom_version().is_none() {
        let selector = selector_text(object);
        if !selector.is_empty() {
            object_mut(&mut scale, "status").insert("selector".to_owned(), selector.into());
        }
        defaults::apply("autoscaling", "v1", "Scale", &mut scale);
    }
    scale
}

/// Returns the selector of a workload as text.
fn selector_text(object: &Value) -> String {
    let plain = at(object, "/spec/selector")
        .is_some_and(|it| it.get("matchLabels").is_none() && it.get("matchExpressions").is_none());
    let labels = if plain { "/spec/selector" } else { "/spec/selector/matchLabels" };
    let equal =
        entries(object, labels).map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()));
    let expressed = items(object, "/spec/selector/matchExpressions").iter().map(|it| {
        let mut values: Vec<&str> = items(it, "/values").iter().filter_map(Value::as_str).collect();
        values.sort_unstable();
        let (key, values) = (text(it, "/key"), values.join(","));
        match text(it, "/operator") {
            "In" => format!("{key} in ({values})"),
            "NotIn" => format!("{key} notin ({values})"),
            "Exists" => key.to_owned(),
            _ => format!("!{key}"),
        }
    });
    let mut terms: Vec<String> = equal.chain(expressed).collect();
    terms.sort();
    terms.join(",")
}
