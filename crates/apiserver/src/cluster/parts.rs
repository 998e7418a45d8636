//! Parts of objects.
use super::{Cluster, Place, Shown};
use crate::refusal::Refusal;
impl Cluster {
    /// An object, or a part of it such as its Scale.
    pub fn read_part(&self, place: &Place<'_>) -> Result<Shown, Refusal> {
        let _ = place;
        todo!()
    }
}
