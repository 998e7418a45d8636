//! All served resources, in the order of the discovery documents.

use std::sync::Arc;

use super::version::by_stability;
use crate::builtin::{self, ResourceDef};

/// The resources of a server: the built-in ones, then custom ones by group name, with their
/// versions by stability.
#[derive(Clone, Debug)]
pub struct Served {
    resources: Vec<Arc<ResourceDef>>,
}

/// One group with its versions, most stable first.
pub(super) struct Group<'a> {
    pub(super) name: &'a str,
    pub(super) versions: Vec<Version<'a>>,
}

/// One version of a group with its resources.
pub(super) struct Version<'a> {
    pub(super) name: &'a str,
    pub(super) resources: Vec<&'a ResourceDef>,
}

impl Served {
    /// Creates the list of the built-in resources and these custom ones, which may come in any
    /// order.
    pub fn new(custom: impl IntoIterator<Item = Arc<ResourceDef>>) -> Self {
        let mut custom: Vec<_> = custom.into_iter().collect();
        custom.sort_by(|a, b| {
            a.group
                .cmp(&b.group)
                .then_with(|| by_stability(&a.version, &b.version))
                .then_with(|| a.plural.cmp(&b.plural))
        });
        Self { resources: builtin::resources().iter().cloned().chain(custom).collect() }
    }

    /// Returns every resource, in order.
    pub fn resources(&self) -> &[Arc<ResourceDef>] {
        &self.resources
    }

    /// Returns the groups in order, including the core group, whose name is empty.
    pub(super) fn groups(&self) -> Vec<Group<'_>> {
        let mut groups: Vec<Group<'_>> = Vec::new();
        for resource in &self.resources {
            let group = match groups.iter().position(|it| it.name == resource.group) {
                Some(at) => &mut groups[at],
                None => {
                    groups.push(Group { name: &resource.group, versions: Vec::new() });
                    groups.last_mut().expect("a group was just pushed")
                }
            };
            match group.versions.iter_mut().find(|it| it.name == resource.version) {
                Some(version) => version.resources.push(resource),
                None => group.versions.push(Version { name: &resource.version, resources: vec![resource] }),
            }
        }
        groups
    }
}
