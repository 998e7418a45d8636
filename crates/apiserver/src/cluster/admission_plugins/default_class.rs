//! DefaultStorageClass and DefaultIngressClass: the class of a new claim or ingress.

use super::cluster_objects;
use crate::ApiError;
use crate::admission::default_class::{CLAIM, Classified, INGRESS};
use crate::cluster::write::Write;

/// Gives a new claim the default storage class.
pub(super) fn fill_claim(write: &mut Write<'_>) -> Result<(), ApiError> {
    fill(write, ("", "persistentvolumeclaims"), CLAIM, ("storage.k8s.io", "storageclasses"))
}

/// Gives a new ingress the default ingress class.
pub(super) fn fill_ingress(write: &mut Write<'_>) -> Result<(), ApiError> {
    let group = "networking.k8s.io";
    fill(write, (group, "ingresses"), INGRESS, (group, "ingressclasses"))
}

fn fill(
    write: &mut Write<'_>,
    (group, plural): (&str, &str),
    classified: Classified,
    classes: (&str, &str),
) -> Result<(), ApiError> {
    let def = &write.place.kind.def;
    let concerns = write.is_creation() && def.group == group && def.plural == plural;
    if concerns && classified.lacks_class(&write.new) {
        let classes = cluster_objects::all(write.cluster, classes.0, classes.1);
        classified.fill(&mut write.new, classes.into_iter());
    }
    Ok(())
}
