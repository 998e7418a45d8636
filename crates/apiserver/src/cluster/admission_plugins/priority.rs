//! Priority: the priority of pods, and the uniqueness of the default class.

use super::cluster_objects;
use crate::ApiError;
use crate::admission::priority;
use crate::cluster::policies::forbidden;
use crate::cluster::write::Write;
use crate::kinds::POD;
use crate::kinds::json_access::text;

const GROUP: &str = "scheduling.k8s.io";
const CLASSES: &str = "priorityclasses";

/// Sets the priority of a new pod, and keeps it in updates.
pub(super) fn fill(write: &mut Write<'_>) -> Result<(), ApiError> {
    if !write.place.kind.is(&POD) || !write.place.part.is_empty() {
        return Ok(());
    }
    if let Some(base) = write.base {
        priority::keep(&mut write.new, base.object);
        return Ok(());
    }
    let class = match text(&write.new, "/spec/priorityClassName") {
        "" => priority::default_class(cluster_objects::all(write.cluster, GROUP, CLASSES).into_iter()),
        name => {
            let missing = || {
                let why = format!("no PriorityClass with name {name} was found");
                forbidden(write.place, &write.new, &why)
            };
            Some(cluster_objects::one(write.cluster, GROUP, CLASSES, name).ok_or_else(missing)?)
        }
    };
    let filled = priority::fill(&mut write.new, class.as_ref());
    filled.map_err(|why| forbidden(write.place, &write.new, &why))
}

/// Rejects a second default class.
pub(super) fn check(write: &mut Write<'_>) -> Result<(), ApiError> {
    let def = &write.place.kind.def;
    if def.plural != CLASSES || def.group != GROUP || !write.place.part.is_empty() {
        return Ok(());
    }
    let other = priority::default_class(cluster_objects::all(write.cluster, GROUP, CLASSES).into_iter());
    match priority::refuse_second_default(&write.new, write.base.is_none(), other.as_ref()) {
        Some(why) => Err(forbidden(write.place, &write.new, &why)),
        None => Ok(()),
    }
}
