//! The roles that bindings of a user refer to and that do not exist, as errors report them.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::strconv::quote;

/// The maximum number of missing roles that are reported.
const MAX_REPORTED: usize = 1_000;

/// The maximum number of bytes of the names of missing roles that are reported. The name of a role
/// that does not exist can be as long as a request.
const MAX_REPORTED_BYTES: usize = 1024 * 1024;

/// A reference to a role.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct RoleReference {
    pub(super) kind: Box<str>,
    pub(super) name: Box<str>,
}

/// The roles that do not exist, each once, up to a limit.
#[derive(Debug, Default)]
pub(crate) struct MissingRoles {
    roles: BTreeSet<Arc<RoleReference>>,
    /// The bytes of all names.
    bytes: usize,
    /// True if there are more, which are not reported.
    has_more: bool,
}

impl MissingRoles {
    /// Adds a role.
    pub(super) fn add(&mut self, role: &Arc<RoleReference>) {
        let bytes = self.bytes.saturating_add(role.name.len());
        if self.has_more || bytes > MAX_REPORTED_BYTES || self.roles.len() >= MAX_REPORTED {
            // Not compared with the others: long names take time.
            self.has_more = true;
        } else if self.roles.insert(Arc::clone(role)) {
            self.bytes = bytes;
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.roles.is_empty() && !self.has_more
    }

    /// Returns the error about the roles of client-go's listers; empty if there are none.
    pub(super) fn found_by_lister(&self) -> String {
        self.describe(|kind, name| {
            format!("{}.rbac.authorization.k8s.io {} not found", kind.to_ascii_lowercase(), quote(name))
        })
    }

    /// Describes each role by its kind and name, joined as by `NewAggregate` in k8s.io/apimachinery
    /// v0.36.4 pkg/util/errors/errors.go; empty if there are none.
    pub(crate) fn describe(&self, one: impl Fn(&str, &str) -> String) -> String {
        let mut errors: Vec<String> = self.roles.iter().map(|it| one(&it.kind, &it.name)).collect();
        if self.has_more {
            errors.push("... and more".to_owned());
        }
        match errors.as_mut_slice() {
            [] => String::new(),
            [one] => std::mem::take(one),
            all => format!("[{}]", all.join(", ")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn missing(roles: &[(&str, &str)]) -> MissingRoles {
        let mut missing = MissingRoles::default();
        for &(kind, name) in roles {
            missing.add(&Arc::new(RoleReference { kind: kind.into(), name: name.into() }));
        }
        missing
    }

    #[test]
    fn several_errors_are_joined_in_brackets() {
        let (role, cluster_role) = (
            r#"role.rbac.authorization.k8s.io "x" not found"#,
            r#"clusterrole.rbac.authorization.k8s.io "x" not found"#,
        );
        assert_eq!(missing(&[]).found_by_lister(), "");
        assert_eq!(missing(&[("Role", "x"), ("Role", "x")]).found_by_lister(), role);
        let both = missing(&[("Role", "x"), ("ClusterRole", "x")]);
        assert_eq!(both.found_by_lister(), format!("[{cluster_role}, {role}]"));
    }

    /// Regression test: a thousand bindings to roles with names of a megabyte made every denial of
    /// their subjects a gigabyte long.
    #[test]
    fn not_every_missing_role_is_reported() {
        let names: Vec<String> = (0..2_000).map(|it| it.to_string()).collect();
        let many = missing(&names.iter().map(|it| ("Role", it.as_str())).collect::<Vec<_>>());
        assert_eq!((many.roles.len(), many.has_more), (MAX_REPORTED, true));
        assert!(many.found_by_lister().ends_with(", ... and more]"));
        let names: Vec<String> = (0..5).map(|it| it.to_string().repeat(400_000)).collect();
        let long = missing(&names.iter().map(|it| ("Role", it.as_str())).collect::<Vec<_>>());
        assert!(long.found_by_lister().len() < 2 * MAX_REPORTED_BYTES);
        let one = missing(&[("Role", &"x".repeat(2 * MAX_REPORTED_BYTES))]);
        assert!(!one.is_empty());
        assert_eq!(one.found_by_lister(), "... and more");
    }
}
