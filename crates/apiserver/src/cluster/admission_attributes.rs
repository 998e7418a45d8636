//! The attributes of a write that admission webhooks review: the operation, the object and its
//! former state, the user and the options of the request.

use std::borrow::Cow;

use dogwatch_core::Gvk;
use serde_json::{Value, json};

use super::write::Write;
use super::{ObjectRef, Writer};
use crate::kinds::NAMESPACE;
use crate::kinds::json_access::text;
use crate::registry::Kind;
use crate::webhook::review::ReviewRequest;
use crate::webhook::rules::Subject;

/// The attributes of a write that webhooks review.
#[derive(Debug)]
pub(super) struct AdmissionAttributes<'a> {
    pub(super) place: &'a ObjectRef<'a>,
    pub(super) operation: &'static str,
    /// The object before the write.
    pub(super) old: Option<&'a Value>,
    pub(super) writer: &'a Writer,
    /// The kind of the request's options, and their fields.
    options: (&'static str, Value),
}

/// The objects of a write in the version of a webhook. They are those of the write unless they had
/// to be converted.
#[derive(Debug)]
pub(super) struct SeenObjects<'a> {
    pub(super) object: Option<Cow<'a, Value>>,
    pub(super) old: Option<Cow<'a, Value>>,
}

impl<'a> AdmissionAttributes<'a> {
    /// Describes a creation or an update.
    pub(super) fn of(write: &Write<'a>) -> Self {
        match write.base {
            None => Self::create(write.place, write.writer),
            Some(base) => Self::update(write.place, base.object, write.writer),
        }
    }

    /// Describes a creation.
    pub(super) fn create(place: &'a ObjectRef<'a>, writer: &'a Writer) -> Self {
        Self { place, operation: "CREATE", old: None, writer, options: ("CreateOptions", Value::Null) }
    }

    /// Describes an update.
    pub(super) fn update(place: &'a ObjectRef<'a>, old: &'a Value, writer: &'a Writer) -> Self {
        let options = ("UpdateOptions", Value::Null);
        Self { place, operation: "UPDATE", old: Some(old), writer, options }
    }

    /// Describes a deletion; `how` has the delete options.
    pub(super) fn delete(place: &'a ObjectRef<'a>, old: &'a Value, writer: &'a Writer, how: Value) -> Self {
        Self { place, operation: "DELETE", old: Some(old), writer, options: ("DeleteOptions", how) }
    }

    /// Returns the name of the object; empty if it has none yet.
    pub(super) fn name(&self, object: Option<&Value>) -> String {
        match self.place.name {
            "" => text(object.or(self.old).unwrap_or(&Value::Null), "/metadata/name").to_owned(),
            name => name.to_owned(),
        }
    }

    /// Returns the namespace of the request. That of a namespace is its own name.
    pub(super) fn namespace(&self) -> Option<&'a str> {
        match self.place.kind.is(&NAMESPACE) {
            true => Some(self.place.name).filter(|it| !it.is_empty()).or(self.place.namespace),
            false => self.place.namespace,
        }
    }

    /// Returns the group, version and kind of the written object, in the version of `kind`.
    pub(super) fn gvk(&self, kind: &Kind) -> Gvk {
        match kind.def.subresource(self.place.part) {
            Some(part) => kind.def.subresource_gvk(part),
            None => kind.def.gvk(),
        }
    }

    /// Returns what the rules of a webhook are matched against, in the version of `kind`.
    pub(super) fn subject<'s>(&'s self, kind: &'s Kind) -> Subject<'s> {
        Subject {
            operation: self.operation,
            group: &kind.def.group,
            version: &kind.def.version,
            resource: &kind.def.plural,
            part: self.place.part,
            namespaced: self.place.namespace.is_some() && !kind.is(&NAMESPACE),
        }
    }

    /// Returns the options of the request as a review carries them.
    fn options(&self) -> Value {
        let (kind, how) = &self.options;
        let mut options = json!({ "kind": kind, "apiVersion": "meta.k8s.io/v1" });
        if self.writer.dry_run {
            options["dryRun"] = json!(["All"]);
        }
        if let (Some(all), Value::Object(how)) = (options.as_object_mut(), how) {
            all.extend(how.clone());
        }
        options
    }

    /// Returns the `request` of a review, for a webhook that sees the objects as `kind`.
    pub(super) fn request<'s>(&self, uid: &str, kind: &Kind, seen: &'s SeenObjects<'_>) -> ReviewRequest<'s> {
        let (object, old_object) = (seen.object.as_deref(), seen.old.as_deref());
        ReviewRequest { attributes: self.attributes(uid, kind, object), object, old_object }
    }

    /// Returns the fields of a request other than its objects.
    pub(super) fn attributes(&self, uid: &str, kind: &Kind, object: Option<&Value>) -> Value {
        let (gvk, plain) = (self.gvk(kind), self.gvk(self.place.kind));
        let mut attributes = json!({
            "uid": uid,
            "kind": { "group": gvk.group, "version": gvk.version, "kind": gvk.kind },
            "resource": resource(kind),
            "requestKind": { "group": plain.group, "version": plain.version, "kind": plain.kind },
            "requestResource": resource(self.place.kind),
            "operation": self.operation,
            "userInfo": self.writer.user.info(),
            "dryRun": self.writer.dry_run,
            "options": self.options(),
        });
        let (name, namespace) = (self.name(object), self.place.namespace.unwrap_or_default().to_owned());
        let part = self.place.part.to_owned();
        for (field, value) in [
            ("name", name),
            ("namespace", namespace),
            ("subResource", part.clone()),
            ("requestSubResource", part),
        ] {
            if !value.is_empty() {
                attributes[field] = value.into();
            }
        }
        attributes
    }

    /// Returns true if the written object has another form in the version of `kind`. The objects of
    /// subresources such as `scale` have a version of their own.
    pub(super) fn differs_in(&self, kind: &Kind) -> bool {
        self.gvk(kind) != self.gvk(self.place.kind)
    }
}

fn resource(kind: &Kind) -> Value {
    json!({ "group": kind.def.group, "version": kind.def.version, "resource": kind.def.plural })
}
