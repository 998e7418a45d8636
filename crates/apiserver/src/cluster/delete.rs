//! Delete.
use super::{Cluster, Place, Shown, Writer};
use crate::reading::Selection;
use crate::refusal::Refusal;
use crate::registry::Kind;
use crate::store::Encoded;
use std::sync::Arc;
/// How an object is deleted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeleteOptions {
    /// How long it has to end.
    pub grace: Option<i64>,
    /// What becomes of its dependents.
    pub propagation: Option<Propagation>,
    /// The old way to say so.
    pub orphan_dependents: Option<bool>,
    /// Only this one of its name.
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
impl Cluster {
    /// Deletes an object, or begins to.
    pub async fn delete(
        &self,
        place: &Place<'_>,
        options: &DeleteOptions,
        writer: &Writer,
    ) -> Result<Deleted, Refusal> {
        let _ = (place, options, writer);
        todo!()
    }
    /// Deletes what a selection holds; gives the objects as they were.
    pub async fn delete_collection(
        &self,
        kind: &Kind,
        selection: &Selection,
        limit: Option<usize>,
        options: &DeleteOptions,
        writer: &Writer,
    ) -> Result<Vec<Arc<Encoded>>, Refusal> {
        let _ = (kind, selection, limit, options, writer);
        todo!()
    }
}
