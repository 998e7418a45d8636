//! Update.
use super::{Cluster, Place, Shown, Writer, Written};
use crate::refusal::Refusal;
use serde_json::Value;
impl Cluster {
    /// Replaces an object or a part of it.
    pub async fn update(
        &self,
        place: &Place<'_>,
        object: Value,
        writer: &Writer,
    ) -> Result<Written, Refusal> {
        let _ = (place, object, writer);
        todo!()
    }
    /// Changes an object as it is now, again when somebody else was faster. `change` says whether there is anything to write.
    /// Gives the object after it, or `None` where there is none.
    pub async fn change(
        &self,
        place: &Place<'_>,
        writer: &Writer,
        change: impl FnMut(&mut Value) -> bool + Send,
    ) -> Result<Option<Shown>, Refusal> {
        let _ = (place, writer, change);
        todo!()
    }
}
