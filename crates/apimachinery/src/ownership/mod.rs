//! Field ownership: `managedFields`, and server-side apply.
//!
//! Pure functions over JSON values. The verbs call [`update`] on every ordinary write and [`apply`]
//! for apply patches, between defaulting and the kind's own rules, and [`keep_times_if_unchanged`]
//! last. They know nothing of requests, storage or clocks: the time comes with the [`Writer`].
//!
//! ```text
//! value + Schema --shape--> content --> FieldSet (stated), Comparison (compare), dropped fields (pruning)
//!                                          \--> owners (managed), in all versions (views, changes)
//!                                                  \--> update, apply
//! ```
//!
//! A manager that writes a field owns it alone. A manager that applies a field shares it with all
//! managers that apply the same value; to set another value while another manager owns the field
//! takes `force`. A field that an applier drops is removed if no other manager owns it.
//!
//! The `mod` lines below are in layer order.

mod element;
mod merge_join;
mod field_set;
mod shape;
mod content;
mod check;
mod stated;
mod compare;
mod merge;
mod configuration;
mod pruning;
mod managed;
mod scale;
mod views;
mod changes;
mod update;
mod client_side_apply;
mod apply;

use jiff::Timestamp;
use serde_json::Value;

use crate::schema::{Definitions, Schema};

pub use apply::apply;
pub use compare::{Comparison, compare};
pub use configuration::merge_configuration;
pub use element::{BadElement, Datum, Element};
pub use field_set::{BadFields, FieldSet, Path};
pub use managed::keep_times_if_unchanged;
pub use merge::merge;
pub use scale::{Replicas, from_scale, to_scale};
pub use stated::{blank, fields_of};
pub use update::update;

/// The target of a write: a kind in one of its versions, through one of its endpoints.
#[derive(Clone, Copy)]
pub struct Target<'a> {
    /// The version of the endpoint, such as `apps/v1`.
    pub api_version: &'a str,
    /// The kind, such as `Deployment`.
    pub kind: &'a str,
    /// The schema of this version.
    pub schema: &'a Schema,
    /// The definitions that the schema refers to by name.
    pub definitions: &'a dyn Definitions,
    /// An object of the kind without any content: [`blank`] for built-in kinds, `{}` for custom
    /// ones.
    pub empty: &'a Value,
    /// The other versions of the kind.
    pub versions: &'a dyn Versions,
    /// The fields that this endpoint does not write, and so does not own.
    pub reset: &'a Reset,
}

/// The manager that writes, the subresource, and the time.
#[derive(Clone, Copy, Debug)]
pub struct Writer<'a> {
    /// The field manager; an empty one is recorded as `unknown`.
    pub manager: &'a str,
    /// The subresource; empty for the object itself.
    pub subresource: &'a str,
    /// The time of the write; entries hold whole seconds.
    pub now: Timestamp,
}

/// The other versions of a kind.
pub trait Versions: Send + Sync {
    /// Converts the object to a version, and returns it with the schema of that version; `None` if
    /// the version does not exist any more, which drops the entries that were written in it. The
    /// object may be of any of the versions, and any of them may be requested. If the schema of a
    /// version does not have all fields of the object, an apply is rejected and an update stops
    /// tracking (k8s.io/apimachinery v0.36.4 pkg/util/managedfields/internal/structuredmerge.go).
    fn convert(&self, object: &Value, api_version: &str) -> Option<(Value, Schema)>;
}

/// The versions of a kind that has only one.
#[derive(Clone, Copy, Debug, Default)]
pub struct OneVersion;

impl Versions for OneVersion {
    fn convert(&self, _: &Value, _: &str) -> Option<(Value, Schema)> {
        None
    }
}

/// The fields that an endpoint resets to their stored value, so that a write there does not own
/// them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Reset {
    /// None: the endpoint writes all fields.
    #[default]
    Nothing,
    /// These fields and all below them: `status` for a main endpoint, `spec` for `/status`.
    Trees(FieldSet),
    /// All fields except these and those below them: `spec.replicas` for `/scale`.
    AllBut(FieldSet),
}

impl Reset {
    /// Resets these fields, each written with dots, and all below them.
    pub fn trees<'a>(paths: impl IntoIterator<Item = &'a str>) -> Self {
        Self::Trees(FieldSet::of_fields(paths))
    }

    /// Resets everything except these fields, each written with dots, and those below them.
    pub fn all_but<'a>(paths: impl IntoIterator<Item = &'a str>) -> Self {
        Self::AllBut(FieldSet::of_fields(paths))
    }

    fn filter(&self, set: FieldSet) -> FieldSet {
        match self {
            _ if set.is_empty() => set,
            Self::Nothing => set,
            Self::Trees(trees) => set.without_trees(trees),
            Self::AllBut(trees) => set.within_trees(trees),
        }
    }
}

impl std::fmt::Debug for Target<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { api_version, kind, reset, .. } = self;
        f.debug_struct("Target")
            .field("api_version", api_version)
            .field("kind", kind)
            .field("reset", reset)
            .finish_non_exhaustive()
    }
}
