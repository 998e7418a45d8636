//! Routing: the target of a path and the verb of a method.

use std::borrow::Cow;
use std::fmt;

/// The verb of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verb {
    /// Reads one object.
    Get,
    /// Reads a collection.
    List,
    /// Follows a collection or one object.
    Watch,
    /// Creates an object.
    Create,
    /// Replaces an object.
    Update,
    /// Changes parts of an object.
    Patch,
    /// Deletes one object.
    Delete,
    /// Deletes a collection.
    DeleteCollection,
}

/// The target of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Route {
    /// `/api`.
    CoreVersions,
    /// `/apis`.
    Groups,
    /// `/apis/{group}`.
    Group(String),
    /// `/api/{version}` or `/apis/{group}/{version}`.
    GroupVersion {
        /// The group; empty for the core group.
        group: String,
        /// The version of the group.
        version: String,
    },
    /// A collection, an object or a subresource.
    Resource(Target),
    /// Any other path.
    Other(String),
}

/// A collection, an object or a subresource.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Target {
    /// The group; empty for the core group.
    pub group: String,
    /// The version of the group.
    pub version: String,
    /// The namespace, if the path names one.
    pub namespace: Option<String>,
    /// The plural name of the resource.
    pub resource: String,
    /// The name of the object, if the path names one.
    pub name: Option<String>,
    /// The subresource, if the path names one; may have several segments.
    pub subresource: Option<String>,
    /// True if the path has the deprecated `/watch/` prefix.
    pub watch_prefix: bool,
}

impl Route {
    /// Parses a path without a query. It is percent-decoded first, as in Go, so that an encoded
    /// slash is one; a trailing slash is ignored.
    pub fn parse(path: &str) -> Self {
        let path = &*decode_path(path);
        let segments: Vec<&str> = path.split('/').skip(1).collect();
        let trimmed = match segments.as_slice() {
            [all @ .., ""] => all,
            all => all,
        };
        match trimmed {
            ["apis", "", ..] => Self::Other(path.to_owned()),
            ["api"] => Self::CoreVersions,
            ["apis"] => Self::Groups,
            ["apis", group] => Self::Group((*group).to_owned()),
            ["api", version] => Self::GroupVersion { group: String::new(), version: (*version).to_owned() },
            ["apis", group, version] => {
                Self::GroupVersion { group: (*group).to_owned(), version: (*version).to_owned() }
            }
            ["api", version, rest @ ..] => Self::resource("", version, rest, path),
            ["apis", group, version, rest @ ..] => Self::resource(group, version, rest, path),
            _ => Self::Other(path.to_owned()),
        }
    }

    fn resource(group: &str, version: &str, rest: &[&str], path: &str) -> Self {
        let (watch_prefix, rest) = match rest {
            ["watch", rest @ ..] if !rest.is_empty() => (true, rest),
            // A verb of early versions, and not the name of a resource.
            ["proxy", ..] => return Self::Other(path.to_owned()),
            rest => (false, rest),
        };
        let mut target = Target {
            group: group.to_owned(),
            version: version.to_owned(),
            watch_prefix,
            ..Target::default()
        };
        let rest = match rest {
            // A namespace has only these two subresources; everything else below it is a resource
            // inside it.
            ["namespaces", _, "status" | "finalize", ..] => rest,
            ["namespaces", namespace, rest @ ..] if !rest.is_empty() => {
                target.namespace = Some((*namespace).to_owned());
                rest
            }
            rest => rest,
        };
        match rest {
            [resource, rest @ ..] if rest.iter().chain([resource]).all(|it| !it.is_empty()) => {
                target.resource = (*resource).to_owned();
                if let [name, parts @ ..] = rest {
                    target.name = Some((*name).to_owned());
                    target.subresource = (!parts.is_empty()).then(|| parts.join("/"));
                }
                Self::Resource(target)
            }
            _ => Self::Other(path.to_owned()),
        }
    }
}

impl Target {
    /// Returns the verb of a method on this target; `watches` is true if the query asks for a
    /// watch. Returns `None` for unknown methods.
    pub fn verb(&self, method: &str, watches: bool) -> Option<Verb> {
        Some(match (method, self.name.is_some()) {
            ("GET" | "HEAD", _) if watches || self.watch_prefix => Verb::Watch,
            ("GET" | "HEAD", true) => Verb::Get,
            ("GET" | "HEAD", false) => Verb::List,
            ("POST", _) => Verb::Create,
            ("PUT", _) => Verb::Update,
            ("PATCH", _) => Verb::Patch,
            ("DELETE", true) => Verb::Delete,
            ("DELETE", false) => Verb::DeleteCollection,
            _ => return None,
        })
    }

    /// Returns the resource as error messages name it: `pods`, `deployments.apps`.
    pub fn qualified(&self) -> String {
        if self.group.is_empty() {
            self.resource.clone()
        } else {
            format!("{}.{}", self.resource, self.group)
        }
    }
}

impl fmt::Display for Verb {
    /// Writes the verb as in discovery and RBAC rules.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Get => "get",
            Self::List => "list",
            Self::Watch => "watch",
            Self::Create => "create",
            Self::Update => "update",
            Self::Patch => "patch",
            Self::Delete => "delete",
            Self::DeleteCollection => "deletecollection",
        })
    }
}

/// Decodes the percent-encoding of a path.
pub fn decode_path(path: &str) -> Cow<'_, str> {
    percent_encoding::percent_decode_str(path).decode_utf8_lossy()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Describes a path as `group version namespace resource name subresource`, with `-` for absent
    /// parts.
    fn described(path: &str) -> String {
        match Route::parse(path) {
            Route::Resource(it) => {
                let or_dash = |it: Option<String>| it.unwrap_or_else(|| "-".to_owned());
                let group = if it.group.is_empty() { "-" } else { &it.group };
                let prefix = if it.watch_prefix { "watch " } else { "" };
                format!(
                    "{prefix}{group} {} {} {} {} {}",
                    it.version,
                    or_dash(it.namespace),
                    it.resource,
                    or_dash(it.name),
                    or_dash(it.subresource)
                )
            }
            other => format!("{other:?}"),
        }
    }

    #[test]
    fn paths_are_parsed_into_targets() {
        for (path, expected) in [
            ("/api", "CoreVersions"),
            ("/apis/", "Groups"),
            ("/apis/apps", "Group(\"apps\")"),
            ("/api/v1", "GroupVersion { group: \"\", version: \"v1\" }"),
            ("/api/v1/pods", "- v1 - pods - -"),
            ("/api/v1/namespaces/a/pods", "- v1 a pods - -"),
            ("/api/v1/namespaces/a/pods/x", "- v1 a pods x -"),
            ("/api/v1/namespaces/a/pods/x/log", "- v1 a pods x log"),
            ("/api/v1/namespaces/a/pods/x/proxy/a/b", "- v1 a pods x proxy/a/b"),
            ("/api/v1/namespaces", "- v1 - namespaces - -"),
            ("/api/v1/namespaces/a", "- v1 - namespaces a -"),
            ("/api/v1/namespaces/a/status", "- v1 - namespaces a status"),
            ("/api/v1/namespaces/a/finalize", "- v1 - namespaces a finalize"),
            ("/apis/apps/v1/namespaces/a/deployments/x/scale", "apps v1 a deployments x scale"),
            ("/api/v1/watch/pods", "watch - v1 - pods - -"),
            ("/api/v1/watch/namespaces/a/pods/x", "watch - v1 a pods x -"),
            (
                "/apis/rbac.authorization.k8s.io/v1/clusterroles/system%3Anode",
                "rbac.authorization.k8s.io v1 - clusterroles system:node -",
            ),
            ("/version", "Other(\"/version\")"),
            ("/", "Other(\"/\")"),
            ("/api/v1/pods//x", "Other(\"/api/v1/pods//x\")"),
            ("/api/v1/namespaces/a/pods/x%2Flog", "- v1 a pods x log"),
            ("/api/v1/proxy/nodes/x", "Other(\"/api/v1/proxy/nodes/x\")"),
            ("/%76ersion", "Other(\"/version\")"),
            ("/apis//v1/pods", "Other(\"/apis//v1/pods\")"),
            ("/apis//v1", "Other(\"/apis//v1\")"),
        ] {
            assert_eq!(described(path), expected, "{path}");
        }
    }

    #[test]
    fn the_verb_follows_from_the_method_and_the_target() {
        let target = |name: Option<&str>, watch_prefix| Target {
            name: name.map(str::to_owned),
            watch_prefix,
            ..Target::default()
        };
        for (method, name, prefix, watches, verb) in [
            ("GET", None, false, false, Some(Verb::List)),
            ("GET", None, false, true, Some(Verb::Watch)),
            ("GET", Some("x"), false, false, Some(Verb::Get)),
            ("GET", Some("x"), false, true, Some(Verb::Watch)),
            ("GET", Some("x"), true, false, Some(Verb::Watch)),
            ("POST", None, false, false, Some(Verb::Create)),
            ("DELETE", None, false, false, Some(Verb::DeleteCollection)),
            ("DELETE", Some("x"), false, false, Some(Verb::Delete)),
            ("TRACE", None, false, false, None),
        ] {
            assert_eq!(target(name, prefix).verb(method, watches), verb, "{method} {name:?}");
        }
    }
}
