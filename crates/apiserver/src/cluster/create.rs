//! Create.
use super::{Cluster, Place, Writer, Written};
use crate::refusal::Refusal;
use serde_json::Value;
impl Cluster {
    /// Makes an object.
    pub async fn create(
        &self,
        place: &Place<'_>,
        object: Value,
        writer: &Writer,
    ) -> Result<Written, Refusal> {
        let _ = (place, object, writer);
        todo!()
    }
}
