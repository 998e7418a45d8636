//! Update: an object is replaced, if it still is what the writer has seen.

use std::sync::Arc;

use serde_json::Value;

use super::claim::Claim;
use super::hooks::Asked;
use super::pipeline::{Owning, metadata_mut};
use super::place::MODIFIED;
use super::{Cluster, Place, Shown, Writer, Written};
use crate::kinds::look::{at, items, number, text};
use crate::refusal::{Problem, ProblemKind, Refusal};
use crate::registry::Kind;
use crate::store::{Encoded, Expect};
use crate::strconv;

/// How often a write that names no version is tried when others are faster.
pub(super) const ATTEMPTS: usize = 64;

/// What came of an attempt to store a change.
pub(super) enum Attempt {
    /// It is stored, or there was nothing to store.
    Done(Written),
    /// Somebody else was faster.
    Again,
}

impl Cluster {
    /// Replaces an object, or a part of it such as `status`. Kinds that allow it come into being this way too.
    ///
    /// # Errors
    /// 404 when there is none, 409 when it is not what the writer has seen, 422 when it is not valid.
    pub async fn update(
        &self,
        place: &Place<'_>,
        mut object: Value,
        writer: &Writer,
    ) -> Result<Written, Refusal> {
        check_name(place, &object)?;
        Self::settle_namespace(place, &mut object)?;
        if place.part == "scale" {
            return self.update_scale(place, &object, writer).await;
        }
        let wanted = text(&object, "/metadata/resourceVersion").to_owned();
        for _ in 0..ATTEMPTS {
            let Some(current) = self.get(place.kind, &place.key()?) else {
                if !place.kind.traits.allow_create_on_update || !place.part.is_empty() {
                    return Err(place.kind.not_found(place.name));
                }
                metadata_mut(&mut object).remove("resourceVersion");
                return self.make(place, object, writer, Owning::Track).await;
            };
            check_version(place, &wanted, &current, true)?;
            check_uid(place, text(&object, "/metadata/uid"), &current)?;
            self.ready_to_show(place.kind, std::slice::from_ref(&current)).await?;
            let old = place.kind.show(&current);
            match self.attempt(place, &current, &old, object.clone(), writer, Owning::Track).await? {
                Attempt::Done(written) => return Ok(written),
                Attempt::Again => {}
            }
        }
        Err(place.kind.conflict(place.name, MODIFIED))
    }

    /// Changes an object as it is now, again when somebody else was faster. `change` says whether there is anything to
    /// write. Gives the object after it, or `None` where there is none. For parts of the server itself.
    ///
    /// # Errors
    /// 422 when the changed object is not valid.
    pub async fn change(
        &self,
        place: &Place<'_>,
        writer: &Writer,
        mut change: impl FnMut(&mut Value) -> bool + Send,
    ) -> Result<Option<Shown>, Refusal> {
        for _ in 0..ATTEMPTS {
            let Some(current) = self.get(place.kind, &place.key()?) else { return Ok(None) };
            self.ready_to_show(place.kind, std::slice::from_ref(&current)).await?;
            let old = place.kind.show(&current);
            let mut new = old.clone();
            if !change(&mut new) {
                return Ok(Some(Shown::Stored(current)));
            }
            match self.attempt(place, &current, &old, new, writer, Owning::Track).await? {
                Attempt::Done(written) => return Ok(Some(written.object)),
                Attempt::Again => {}
            }
        }
        Err(place.kind.conflict(place.name, MODIFIED))
    }

    /// One attempt to turn an object into another: readies it, and stores it if it still is what it was.
    pub(super) async fn attempt(
        &self,
        place: &Place<'_>,
        current: &Arc<Encoded>,
        old: &Value,
        mut new: Value,
        writer: &Writer,
        owning: Owning,
    ) -> Result<Attempt, Refusal> {
        let kind = place.kind;
        self.begin_change(place, old, &mut new, writer, owning);
        let asked = Asked::update(place, old, writer);
        // Of what else is written as a change of the whole object, they were asked before.
        let by_hooks = !matches!(place.part, "binding" | "scale");
        let mut warned = Vec::new();
        if by_hooks {
            let mut mutated = Some(new);
            warned = self.mutate(&asked, &mut mutated).await?;
            new = mutated.unwrap_or_default();
        }
        let _claim = Claim::of(self, kind, current.uid(), Some(current.key().clone()));
        self.ready_change(place, old, &mut new)?;
        if by_hooks {
            warned.extend(self.approve(&asked, Some(&new)).await?);
        }
        let _charge = self.admit(place, Some(old), &new, writer).await?;
        warned.extend(self.warnings(kind, &new, Some(old)));
        let warnings = warned;
        let done = |written: Written| Ok(Attempt::Done(Written { warnings: warnings.clone(), ..written }));
        self.ready_to_store(kind, &new).await?;
        self.check_defined(kind)?;
        let draft = kind.draft(&new)?;
        if draft.says_what(current) && !goes(kind, &new) {
            return done(Written::stored(Arc::clone(current), false));
        }
        if writer.dry_run {
            return done(Written::value(new, false));
        }
        let (expect, key) = (Expect::At(current.version()), current.key());
        if goes(kind, &new) {
            // The last thing that held it is gone.
            return match self.storage.commit(&kind.collection, key, expect, None).await {
                Ok(_) => {
                    self.definitions_changed(kind).await;
                    done(Written::value(new, false))
                }
                Err(_) => Ok(Attempt::Again),
            };
        }
        match self.storage.commit(&kind.collection, key, expect, Some(draft)).await {
            Ok(stored) => {
                Self::remember_shown(kind, &stored, &new);
                self.definitions_changed(kind).await;
                done(Written::stored(stored, false))
            }
            Err(_) => Ok(Attempt::Again),
        }
    }
}

/// Whether a state of an object means that it is gone: it is being deleted and nothing holds it any more.
pub(super) fn goes(kind: &Kind, object: &Value) -> bool {
    at(object, "/metadata/deletionTimestamp").is_some()
        && items(object, "/metadata/finalizers").is_empty()
        && number(object, "/metadata/deletionGracePeriodSeconds").unwrap_or(0) == 0
        && (!kind.is("", "namespaces") || items(object, "/spec/finalizers").is_empty())
}

/// The name of an object must be that of the request.
pub(super) fn check_name(place: &Place<'_>, object: &Value) -> Result<(), Refusal> {
    match text(object, "/metadata/name") {
        "" => Err(Refusal::bad_request(format!(
            "the name of the object ({} based on URL) was undeterminable: name must be provided",
            place.name
        ))),
        name if name == place.name => Ok(()),
        name => Err(Refusal::bad_request(format!(
            "the name of the object ({name}) does not match the name on the URL ({})",
            place.name
        ))),
    }
}

/// The version a writer has seen must be that of the object, where it says one.
pub(super) fn check_version(
    place: &Place<'_>,
    wanted: &str,
    current: &Encoded,
    needed: bool,
) -> Result<(), Refusal> {
    if wanted.is_empty() || wanted == "0" {
        if !needed || !place.kind.traits.requires_version_on_update {
            return Ok(());
        }
        let problem = Problem::with_value(
            "metadata.resourceVersion",
            ProblemKind::Invalid,
            0,
            "must be specified for an update",
        );
        return Err(Refusal::invalid(&place.kind.def.group, &place.kind.def.plural, place.name, &[problem]));
    }
    let version: u64 =
        wanted.parse().map_err(|it| Refusal::unexplained(strconv::error("ParseUint", wanted, &it)))?;
    if version == current.version() { Ok(()) } else { Err(place.kind.conflict(place.name, MODIFIED)) }
}

/// The uid a writer has seen must be that of the object, where it says one.
fn check_uid(place: &Place<'_>, wanted: &str, current: &Encoded) -> Result<(), Refusal> {
    if wanted.is_empty() || wanted == current.uid() {
        return Ok(());
    }
    let why = format!(
        "StorageError: invalid object, Code: 4, Key: /registry/{}/{}, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: {wanted}, UID in object meta: {}",
        registry_path(place.kind),
        current.key(),
        current.uid()
    );
    Err(place.kind.conflict(place.name, &why))
}

/// Where the original stores a kind.
fn registry_path(kind: &Kind) -> String {
    match (kind.def.group.as_str(), kind.def.plural.as_str()) {
        ("", "services") => "services/specs".to_owned(),
        ("", "endpoints") => "services/endpoints".to_owned(),
        ("", "nodes") => "minions".to_owned(),
        (group, plural) if kind.def.custom => format!("{group}/{plural}"),
        (_, plural) => plural.to_owned(),
    }
}
