//! URL paths: from names to a path that is unambiguous (rules RQ-1 and RQ-2).

use std::fmt;

use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};

use crate::kind::ResourceType;

/// Builds the path of a collection, an object or a subresource.
///
/// Calls can be chained: after the first error, later calls have no effect and
/// [`ResourcePath::build`] returns the error. The result contains no segment that is empty, `.` or
/// `..`, or that contains `/` or `%`.
///
/// ```
/// # use dogwatch_core::{Gvk, ResourcePath, ResourceType};
/// let pods = ResourceType::namespaced(Gvk::new("", "v1", "Pod"), "pods");
/// let path = ResourcePath::of(&pods).namespace("default").name("web").subresource("log").build();
/// assert_eq!(path.as_deref(), Ok("/api/v1/namespaces/default/pods/web/log"));
/// ```
#[derive(Clone, Debug)]
pub struct ResourcePath {
    group: String,
    version: String,
    resource: String,
    /// `Some("")` was set explicitly: all namespaces, and an error if an object is named.
    namespace: Option<String>,
    name: Option<String>,
    subresource: Option<String>,
    /// The first error.
    error: Option<InvalidPath>,
}

/// An error of building a path.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidPath {
    /// A segment would change the meaning of the path.
    #[error("invalid {segment} {value:?}: {problem}")]
    Segment {
        /// The segment.
        segment: Segment,
        /// The given value.
        value: String,
        /// A description of the problem.
        problem: &'static str,
    },
    /// A segment was set a second time.
    #[error("{segment} is already set to {present:?}, cannot change it to {value:?}")]
    SetTwice {
        /// The segment.
        segment: Segment,
        /// The current value.
        present: String,
        /// The given value.
        value: String,
    },
    /// The namespace was set to the empty string where an object is created or named.
    #[error("an empty namespace may not be set {0}")]
    EmptyNamespace(&'static str),
    /// A subresource was set without the object it belongs to.
    #[error("subresource {0:?} needs the name of its object")]
    SubresourceWithoutName(String),
}

/// A part of a resource path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Segment {
    /// The API group.
    Group,
    /// The version of the group.
    Version,
    /// The plural name of the resource.
    Resource,
    /// The namespace.
    Namespace,
    /// The name of the object.
    Name,
    /// The subresource. It may have several parts, each of which is checked.
    Subresource,
}

impl ResourcePath {
    /// Starts at a collection, across all namespaces.
    pub fn of(resource: &ResourceType) -> Self {
        Self::new(&resource.gvk.group, &resource.gvk.version, &resource.plural)
    }

    /// Starts at a collection by its names; `group` is empty for the core group.
    pub fn new(group: &str, version: &str, resource: &str) -> Self {
        let mut path = Self {
            group: group.to_owned(),
            version: version.to_owned(),
            resource: resource.to_lowercase(),
            namespace: None,
            name: None,
            subresource: None,
            error: None,
        };
        if !group.is_empty() {
            path.check(Segment::Group, group);
        }
        path.check(Segment::Version, version);
        path.check(Segment::Resource, resource);
        path
    }

    /// Sets the namespace. The empty string means all namespaces, and is rejected if an object is
    /// named or created.
    #[must_use]
    pub fn namespace(mut self, namespace: &str) -> Self {
        if !namespace.is_empty() {
            self.check(Segment::Namespace, namespace);
        }
        self.set(Segment::Namespace, namespace);
        self
    }

    /// Sets the name of an object.
    #[must_use]
    pub fn name(mut self, name: &str) -> Self {
        self.check(Segment::Name, name);
        self.set(Segment::Name, name);
        self
    }

    /// Sets a subresource, for example `status`; several parts are separated by `/`, as in
    /// `proxy/metrics`.
    #[must_use]
    pub fn subresource(mut self, subresource: &str) -> Self {
        subresource.split('/').for_each(|it| self.check(Segment::Subresource, it));
        self.set(Segment::Subresource, subresource);
        self
    }

    /// Returns the path, starting with `/api` or `/apis`.
    ///
    /// # Errors
    /// Returns the first error that occurred while the path was put together.
    pub fn build(&self) -> Result<String, InvalidPath> {
        if let Some(error) = &self.error {
            return Err(error.clone());
        }
        let namespace = self.namespace.as_deref().filter(|it| !it.is_empty());
        if self.namespace.is_some() && namespace.is_none() && self.name.is_some() {
            return Err(InvalidPath::EmptyNamespace("when a resource name is provided"));
        }
        if let (Some(subresource), None) = (&self.subresource, &self.name) {
            return Err(InvalidPath::SubresourceWithoutName(subresource.clone()));
        }
        let mut path =
            if self.group.is_empty() { "/api".to_owned() } else { format!("/apis/{}", encode(&self.group)) };
        let mut push = |segment: &str| {
            path.push('/');
            path.extend(utf8_percent_encode(segment, ENCODED));
        };
        push(&self.version);
        if let Some(namespace) = namespace {
            push("namespaces");
            push(namespace);
        }
        push(&self.resource);
        self.name.iter().for_each(|it| push(it));
        self.subresource.iter().flat_map(|it| it.split('/')).for_each(push);
        Ok(path)
    }

    /// Returns the path for creating an object. Unlike [`Self::build`], it rejects an empty
    /// namespace.
    ///
    /// # Errors
    /// Returns the first error that occurred while the path was put together.
    pub fn build_for_create(&self) -> Result<String, InvalidPath> {
        if self.error.is_none() && self.namespace.as_deref() == Some("") {
            return Err(InvalidPath::EmptyNamespace("during creation"));
        }
        self.build()
    }

    fn check(&mut self, segment: Segment, value: &str) {
        let problem = match value {
            "" => "may not be empty",
            "." | ".." => "may not be '.' or '..'",
            _ if value.contains('/') => "may not contain '/'",
            _ if value.contains('%') => "may not contain '%'",
            _ => return,
        };
        let value = value.to_owned();
        self.error.get_or_insert(InvalidPath::Segment { segment, value, problem });
    }

    fn set(&mut self, segment: Segment, value: &str) {
        if self.error.is_some() {
            return;
        }
        let slot = match segment {
            Segment::Namespace => &mut self.namespace,
            Segment::Name => &mut self.name,
            _ => &mut self.subresource,
        };
        match slot {
            None => *slot = Some(value.to_owned()),
            Some(present) => {
                let present = present.clone();
                self.error = Some(InvalidPath::SetTwice { segment, present, value: value.to_owned() });
            }
        }
    }
}

impl fmt::Display for Segment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Group => "API group",
            Self::Version => "API version",
            Self::Resource => "resource",
            Self::Namespace => "namespace",
            Self::Name => "resource name",
            Self::Subresource => "subresource",
        })
    }
}

fn encode(segment: &str) -> impl fmt::Display {
    utf8_percent_encode(segment, ENCODED)
}

/// The characters that must be encoded in a path segment (RFC 3986: everything but unreserved,
/// sub-delims, `:` and `@`).
const ENCODED: &AsciiSet = &CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'#')
    .add(b'%')
    .add(b'/')
    .add(b'<')
    .add(b'>')
    .add(b'?')
    .add(b'[')
    .add(b'\\')
    .add(b']')
    .add(b'^')
    .add(b'`')
    .add(b'{')
    .add(b'|')
    .add(b'}');

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn pods() -> ResourcePath {
        ResourcePath::new("", "v1", "pods")
    }

    #[test]
    fn rq_1_paths_are_ordered_and_lower_cased() {
        let deployments = || ResourcePath::new("apps", "v1", "Deployments");
        for (path, expected) in [
            (pods(), "/api/v1/pods"),
            (pods().namespace(""), "/api/v1/pods"),
            (pods().name("a").namespace("b"), "/api/v1/namespaces/b/pods/a"),
            (
                deployments().namespace("b").name("a").subresource("status"),
                "/apis/apps/v1/namespaces/b/deployments/a/status",
            ),
            (
                pods().namespace("b").name("a").subresource("proxy/metrics"),
                "/api/v1/namespaces/b/pods/a/proxy/metrics",
            ),
            (
                ResourcePath::new("rbac.authorization.k8s.io", "v1", "clusterroles").name("system:node"),
                "/apis/rbac.authorization.k8s.io/v1/clusterroles/system:node",
            ),
            (pods().namespace("b").name("a b?c#d"), "/api/v1/namespaces/b/pods/a%20b%3Fc%23d"),
        ] {
            assert_eq!(path.build().as_deref(), Ok(expected));
        }
    }

    #[test]
    fn rq_2_no_segment_can_change_the_meaning_of_the_path() {
        for value in [".", "..", "a/b", "a%2fb", "%"] {
            for path in [
                pods().namespace(value),
                pods().name(value),
                ResourcePath::new("", "v1", value),
                ResourcePath::new(value, "v1", "x"),
                ResourcePath::new("", value, "x"),
            ] {
                assert!(matches!(path.build(), Err(InvalidPath::Segment { .. })), "{value:?} {path:?}");
            }
        }
        for value in [".", "..", "a%2fb", "a//b", "a/../b", "/a", ""] {
            assert!(pods().name("a").subresource(value).build().is_err(), "{value:?}");
        }
        assert!(pods().name("").build().is_err());
        assert!(ResourcePath::new("", "v1", "").build().is_err());
    }

    #[test]
    fn rq_1_setting_a_segment_twice_is_an_error_and_the_first_error_sticks() {
        let path = pods().namespace("a").namespace("b").name("..");
        let error = path.build().expect_err("set twice");
        assert_eq!(error.to_string(), "namespace is already set to \"a\", cannot change it to \"b\"");
        assert!(matches!(pods().name("a").name("b").build(), Err(InvalidPath::SetTwice { .. })));
        assert!(matches!(
            pods().name("a").subresource("b").subresource("c").build(),
            Err(InvalidPath::SetTwice { .. })
        ));
    }

    #[test]
    fn rq_2_an_empty_namespace_is_rejected_for_a_single_object() {
        assert!(pods().namespace("").build().is_ok());
        assert!(pods().namespace("").name("a").build().is_err());
        assert!(pods().namespace("").build_for_create().is_err());
        assert!(pods().build_for_create().is_ok());
        assert!(pods().namespace("b").build_for_create().is_ok());
        assert!(pods().subresource("status").build().is_err());
    }

    proptest! {
        #[test]
        fn rq_2_no_input_changes_the_shape_of_the_path(namespace in ".{0,12}", name in ".{0,12}") {
            if let Ok(path) = pods().namespace(&namespace).name(&name).build() {
                let segments: Vec<_> = path.split('/').collect();
                prop_assert_eq!(segments.len(), 7);
                prop_assert!(segments[1..].iter().all(|it| !it.is_empty() && *it != "." && *it != ".."));
                prop_assert!(!path.contains(['?', '#', ' ']));
                let decoded = percent_encoding::percent_decode_str(segments[6]).decode_utf8().expect("utf-8");
                prop_assert_eq!(decoded, name);
            }
        }
    }
}
