//! Delete: an object goes at once, or when its finalizers are gone and its time is up.

use std::sync::Arc;

use serde_json::{Value, json};

use super::hooks::Asked;
use super::pipeline::{is_definition, metadata_mut, object_mut};
use super::place::MODIFIED;
use super::update::{ATTEMPTS, goes};
use super::{Cluster, Place, Shown, Writer};
use crate::custom::{definition, names};
use crate::kinds::look::{at, items, number, text};
use crate::refusal::Refusal;
use crate::registry::Kind;
use crate::store::{Encoded, Expect};
use crate::time;

const FOREGROUND: &str = "foregroundDeletion";
const ORPHAN: &str = "orphan";
const JOB_WARNING: &str = "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to \
     remove them or set propagationPolicy=Orphan to suppress this warning";

/// How an object is deleted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeleteOptions {
    /// How many seconds it has to end; for kinds that take time.
    pub grace: Option<i64>,
    /// What becomes of its dependents.
    pub propagation: Option<Propagation>,
    /// The old way to say so.
    pub orphan_dependents: Option<bool>,
    /// Only the object with this uid.
    pub uid: Option<String>,
    /// Only at this version.
    pub version: Option<String>,
}

/// What becomes of the dependents of a deleted object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Propagation {
    /// They are deleted first.
    Foreground,
    /// They are deleted afterwards.
    Background,
    /// They stay.
    Orphan,
}

impl DeleteOptions {
    /// As a review tells it.
    fn to_value(&self) -> Value {
        let propagation = self.propagation.map(|it| match it {
            Propagation::Foreground => "Foreground",
            Propagation::Background => "Background",
            Propagation::Orphan => "Orphan",
        });
        let mut preconditions = json!({ "uid": self.uid, "resourceVersion": self.version });
        let mut said = json!({ "gracePeriodSeconds": self.grace, "propagationPolicy": propagation,
            "orphanDependents": self.orphan_dependents });
        for value in [&mut preconditions, &mut said] {
            if let Some(fields) = value.as_object_mut() {
                fields.retain(|_, it| !it.is_null());
            }
        }
        if preconditions != json!({}) {
            said["preconditions"] = preconditions;
        }
        said
    }
}

/// What came of a deletion.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Deleted {
    /// It is gone; this was its last state.
    Gone {
        /// The last state.
        object: Shown,
        /// Its uid.
        uid: String,
        /// Whether the answer is the object rather than a status.
        shows_object: bool,
        /// What the writer should know.
        warnings: Vec<String>,
    },
    /// It will be gone when its finalizers are, or its time is up.
    Going {
        /// As it is now.
        object: Shown,
        /// Whether the answer is 202.
        accepted: bool,
        /// What the writer should know.
        warnings: Vec<String>,
    },
}

/// What a deletion turns an object into.
enum Step {
    /// Nothing: it is gone.
    Remove,
    /// Another state; `then_remove` when it is gone right after.
    Mark { object: Value, then_remove: bool },
    /// It is being deleted already, and nothing changes.
    Wait,
}

/// What whoever deletes objects of a kind this way should know.
pub fn warning_of_deleting(kind: &Kind, options: &DeleteOptions) -> Option<&'static str> {
    let unsaid = options.propagation.is_none() && options.orphan_dependents.is_none();
    (unsaid && kind.is("batch", "jobs")).then_some(JOB_WARNING)
}

impl Cluster {
    /// Deletes an object, or begins to.
    ///
    /// # Errors
    /// 404 when there is none, 409 when it is not the one that was meant, 403 when it may not go.
    pub async fn delete(
        &self,
        place: &Place<'_>,
        options: &DeleteOptions,
        writer: &Writer,
    ) -> Result<Deleted, Refusal> {
        Self::refuse_immortal(place)?;
        let kind = place.kind;
        let warnings: Vec<String> =
            warning_of_deleting(kind, options).map(str::to_owned).into_iter().collect();
        for _ in 0..ATTEMPTS {
            let current = self.get(kind, &place.key()?).ok_or_else(|| kind.not_found(place.name))?;
            check_preconditions(place, options, &current)?;
            let mut warnings = warnings.clone();
            if self.has_webhooks() {
                self.ready_to_show(kind, std::slice::from_ref(&current)).await?;
                let old = kind.show(&current);
                let asked = Asked::delete(place, &old, writer, options.to_value());
                warnings.extend(self.mutate(&asked, &mut None).await?);
                warnings.extend(self.approve(&asked, None).await?);
            }
            let going = |object: Shown| Deleted::Going {
                object,
                accepted: options.orphan_dependents == Some(false),
                warnings: warnings.clone(),
            };
            let step = self.next_step(kind, &current.to_value(), options);
            let (current, removed) = match step {
                Step::Wait => return Ok(going(Shown::Stored(current))),
                Step::Remove => (current, true),
                Step::Mark { object, then_remove } if writer.dry_run => {
                    if then_remove {
                        return Ok(self.gone(kind, &current, Shown::Value(kind.shown(object)), &warnings));
                    }
                    return Ok(going(Shown::Value(kind.shown(object))));
                }
                Step::Mark { object, then_remove } => {
                    let Some(marked) = self.mark(kind, &current, object).await? else { continue };
                    (marked, then_remove)
                }
            };
            if !removed {
                return Ok(going(Shown::Stored(current)));
            }
            if writer.dry_run {
                let shown = Shown::Stored(Arc::clone(&current));
                return Ok(self.gone(kind, &current, shown, &warnings));
            }
            let expect = Expect::At(current.version());
            if let Ok(last) = self.storage.commit(&kind.collection, current.key(), expect, None).await {
                if kind.is("", "services") {
                    self.settle_addresses(current.uid(), Some(current.key()));
                }
                self.definitions_changed(kind).await;
                return Ok(self.gone(kind, &current, Shown::Stored(last), &warnings));
            }
        }
        Err(kind.conflict(place.name, MODIFIED))
    }

    /// Deletes objects that were listed, one after the other. One that is gone already is none to worry about.
    ///
    /// # Errors
    /// What keeps the first of them from being deleted; those after it stay.
    pub async fn delete_listed(
        &self,
        kind: &Kind,
        listed: &[Arc<Encoded>],
        options: &DeleteOptions,
        writer: &Writer,
    ) -> Result<(), Refusal> {
        for object in listed {
            match self.delete(&Place::of(kind, object.key()), options, writer).await {
                Err(refusal) if !refusal.0.is_not_found() => return Err(refusal),
                _ => {}
            }
        }
        Ok(())
    }

    /// Stores a state that says the object is being deleted; `None` when somebody else was faster.
    async fn mark(
        &self,
        kind: &Kind,
        current: &Arc<Encoded>,
        object: Value,
    ) -> Result<Option<Arc<Encoded>>, Refusal> {
        let draft = self.stored_draft(kind, object)?;
        if draft.says_what(current) {
            return Ok(Some(Arc::clone(current)));
        }
        let expect = Expect::At(current.version());
        let marked = self.storage.commit(&kind.collection, current.key(), expect, Some(draft)).await.ok();
        if marked.is_some() {
            self.definitions_changed(kind).await;
        }
        Ok(marked)
    }

    /// A draft of a value that is in its stored form.
    fn stored_draft(&self, kind: &Kind, object: Value) -> Result<crate::store::Draft, Refusal> {
        match kind.converted_by_webhook() {
            Some(_) => kind.stored_draft(&object),
            None => kind.draft(&kind.shown(object)),
        }
    }

    fn gone(&self, kind: &Kind, current: &Encoded, object: Shown, warnings: &[String]) -> Deleted {
        Deleted::Gone {
            object,
            uid: current.uid().to_owned(),
            shows_object: kind.traits.returns_deleted_object,
            warnings: warnings.to_vec(),
        }
    }

    /// What a deletion turns an object into. Works on the stored form.
    fn next_step(&self, kind: &Kind, stored: &Value, options: &DeleteOptions) -> Step {
        if kind.is("", "namespaces") {
            return self.next_step_of_namespace(stored);
        }
        if is_definition(kind) && at(stored, "/metadata/deletionTimestamp").is_none() {
            let mut object = stored.clone();
            self.mark_going(&mut object, 0);
            add_finalizer(&mut object, definition::CLEANUP);
            names::mark_terminating(&mut object, &self.source.stamp());
            return Step::Mark { object, then_remove: false };
        }
        let mut object = stored.clone();
        let finalizers = finalizers_after(kind, stored, options);
        let refinalized = finalizers != items(stored, "/metadata/finalizers");
        set_finalizers(&mut object, &finalizers);
        let held = !finalizers.is_empty();
        match (at(stored, "/metadata/deletionTimestamp").is_some(), grace_of(kind, stored, options)) {
            (false, Some(grace)) => {
                self.mark_going(&mut object, grace);
                Step::Mark { object, then_remove: grace == 0 && !held }
            }
            (false, None) if held => {
                self.mark_going(&mut object, 0);
                Step::Mark { object, then_remove: false }
            }
            (false, None) => Step::Remove,
            (true, grace) => {
                let before = number(stored, "/metadata/deletionGracePeriodSeconds").unwrap_or(0);
                let shorter = grace.filter(|it| options.grace.is_some() && *it < before);
                if let Some(grace) = shorter {
                    self.shorten(&mut object, before, grace);
                    return Step::Mark { object, then_remove: grace == 0 && !held };
                }
                match (refinalized, held) {
                    (true, true) => Step::Mark { object, then_remove: false },
                    (_, false) if goes(kind, &object) => Step::Remove,
                    _ => Step::Wait,
                }
            }
        }
    }

    fn next_step_of_namespace(&self, stored: &Value) -> Step {
        if at(stored, "/metadata/deletionTimestamp").is_some() {
            let done = items(stored, "/spec/finalizers").is_empty()
                && items(stored, "/metadata/finalizers").is_empty();
            return if done { Step::Remove } else { Step::Wait };
        }
        let mut object = stored.clone();
        metadata_mut(&mut object).insert("deletionTimestamp".to_owned(), self.source.stamp().into());
        object_mut(&mut object, "status").insert("phase".to_owned(), "Terminating".into());
        Step::Mark { object, then_remove: false }
    }

    /// Says that an object will be gone after that many seconds.
    fn mark_going(&self, object: &mut Value, grace: i64) {
        let end = time::seconds_after(self.source.now(), grace);
        let generation = number(object, "/metadata/generation").unwrap_or(0);
        let metadata = metadata_mut(object);
        metadata.insert("deletionTimestamp".to_owned(), time::stamp(end).into());
        metadata.insert("deletionGracePeriodSeconds".to_owned(), grace.into());
        if generation > 0 {
            metadata.insert("generation".to_owned(), generation.saturating_add(1).into());
        }
    }

    /// Brings the end of an object nearer, counted from when its deletion began.
    fn shorten(&self, object: &mut Value, before: i64, grace: i64) {
        let end = text(object, "/metadata/deletionTimestamp").parse::<jiff::Timestamp>();
        let earlier = grace.saturating_sub(before);
        let end = end.map_or_else(|_| self.source.now(), |it| time::seconds_after(it, earlier));
        let metadata = metadata_mut(object);
        metadata.insert("deletionTimestamp".to_owned(), time::stamp(end).into());
        metadata.insert("deletionGracePeriodSeconds".to_owned(), grace.into());
    }
}

/// How long an object of a kind that takes time has to end; `None` for all other kinds.
fn grace_of(kind: &Kind, object: &Value, options: &DeleteOptions) -> Option<i64> {
    if !kind.traits.graceful_deletion {
        return None;
    }
    let wanted = options.grace.or_else(|| number(object, "/spec/terminationGracePeriodSeconds")).unwrap_or(0);
    // Less than nothing is the shortest time there is.
    let wanted = if wanted < 0 { 1 } else { wanted };
    let ended = matches!(text(object, "/status/phase"), "Succeeded" | "Failed");
    Some(if ended || text(object, "/spec/nodeName").is_empty() { 0 } else { wanted })
}

/// The finalizers of an object once it is deleted this way.
fn finalizers_after(kind: &Kind, object: &Value, options: &DeleteOptions) -> Vec<Value> {
    let before = items(object, "/metadata/finalizers");
    let has = |name: &str| before.iter().any(|it| it == name);
    let collected = kind.def.plural != "events";
    let orphan = collected
        && match (options.orphan_dependents, options.propagation) {
            (Some(orphan), _) => orphan,
            (None, Some(policy)) => policy == Propagation::Orphan,
            (None, None) => has(ORPHAN) || (!has(FOREGROUND) && kind.traits.orphans_by_default),
        };
    let foreground = collected
        && match (options.orphan_dependents, options.propagation) {
            (Some(_), _) => false,
            (None, Some(policy)) => policy == Propagation::Foreground,
            (None, None) => has(FOREGROUND),
        };
    let others = before.iter().filter(|it| *it != FOREGROUND && *it != ORPHAN).cloned();
    let added = [(orphan, ORPHAN), (foreground, FOREGROUND)].into_iter().filter(|(wanted, _)| *wanted);
    let after: Vec<Value> = others.chain(added.map(|(_, name)| Value::from(name))).collect();
    // The same ones in another order are no change.
    if after.len() == before.len() && after.iter().all(|it| before.contains(it)) {
        before.to_vec()
    } else {
        after
    }
}

fn set_finalizers(object: &mut Value, finalizers: &[Value]) {
    let metadata = metadata_mut(object);
    if finalizers.is_empty() {
        metadata.remove("finalizers");
    } else {
        metadata.insert("finalizers".to_owned(), json!(finalizers));
    }
}

fn add_finalizer(object: &mut Value, name: &str) {
    let mut finalizers = items(object, "/metadata/finalizers").to_vec();
    if !finalizers.iter().any(|it| it == name) {
        finalizers.push(name.into());
    }
    set_finalizers(object, &finalizers);
}

/// The object must be the one that was meant.
fn check_preconditions(place: &Place<'_>, options: &DeleteOptions, current: &Encoded) -> Result<(), Refusal> {
    let refused =
        |why: String| Refusal::conflict(&place.kind.def.group, &place.kind.def.kind, place.name, &why);
    if let Some(uid) = options.uid.as_deref().filter(|it| *it != current.uid()) {
        // Namespaces are looked at before they are deleted, in other words.
        if place.kind.is("", "namespaces") {
            let why = format!(
                "Precondition failed: UID in precondition: {uid}, UID in object meta: {}",
                current.uid()
            );
            return Err(place.kind.conflict(place.name, &why));
        }
        return Err(refused(format!(
            "the UID in the precondition ({uid}) does not match the UID in record ({}). The object might have been deleted and then recreated",
            current.uid()
        )));
    }
    if let Some(version) = options.version.as_deref().filter(|it| *it != current.version().to_string()) {
        return Err(refused(format!(
            "the ResourceVersion in the precondition ({version}) does not match the ResourceVersion in record ({}). The object might have been modified",
            current.version()
        )));
    }
    Ok(())
}
