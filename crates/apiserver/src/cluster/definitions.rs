//! Definitions of custom kinds.
use super::Cluster;
impl Cluster {
    pub(super) fn refresh_definitions(&self) {
        todo!()
    }
}
