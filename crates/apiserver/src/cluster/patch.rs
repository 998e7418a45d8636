//! Patch.
use super::{Cluster, Place, Writer, Written};
use crate::patch::PatchKind;
use crate::refusal::Refusal;
use bytes::Bytes;
/// What a patch carries.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum PatchBody {
    /// A patch.
    Patch(PatchKind, Bytes),
    /// An object to apply, in JSON or YAML.
    Apply {
        /// The object.
        body: Bytes,
        /// Take over what others own.
        force: bool,
    },
}
impl Cluster {
    /// Changes parts of an object.
    pub async fn patch(
        &self,
        place: &Place<'_>,
        patch: &PatchBody,
        writer: &Writer,
    ) -> Result<Written, Refusal> {
        let _ = (place, patch, writer);
        todo!()
    }
}
