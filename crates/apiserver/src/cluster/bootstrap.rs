//! What every cluster has.
use super::Cluster;
impl Cluster {
    /// Puts into an empty cluster what every cluster has.
    pub async fn bootstrap(&self) {
        todo!()
    }
}
