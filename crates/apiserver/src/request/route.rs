//! From method and path to what is meant.

use std::borrow::Cow;
use std::fmt;

/// What a request means to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Verb {
    /// Read one object.
    Get,
    /// Read a collection.
    List,
    /// Follow a collection or one object.
    Watch,
    /// Make an object.
    Create,
    /// Replace an object.
    Update,
    /// Change parts of an object.
    Patch,
    /// Delete one object.
    Delete,
    /// Delete a collection.
    DeleteCollection,
}

/// What a path is about.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Route {
    /// `/api`
    CoreVersions,
    /// `/apis`
    Groups,
    /// `/apis/{group}`
    Group(String),
    /// `/api/{version}` or `/apis/{group}/{version}`
    GroupVersion {
        /// Empty for the core group.
        group: String,
        /// The version.
        version: String,
    },
    /// A collection, an object or a part of one.
    Resource(Target),
    /// Anything else, by its path.
    Other(String),
}

/// A collection, an object or a part of one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Target {
    /// Empty for the core group.
    pub group: String,
    /// The version of the group.
    pub version: String,
    /// The namespace, where the path names one.
    pub namespace: Option<String>,
    /// The plural of the resource.
    pub resource: String,
    /// The object, where the path names one.
    pub name: Option<String>,
    /// The part of the object, where the path names one; may have several segments.
    pub subresource: Option<String>,
    /// The path came with the legacy `watch` prefix.
    pub watch_prefix: bool,
}

impl Route {
    /// Reads a path that has no query any more. Segments are percent-decoded; empty ones at the end are ignored.
    pub fn parse(path: &str) -> Self {
        let segments: Vec<Cow<'_, str>> = path.split('/').skip(1).map(decode).collect();
        let segments: Vec<&str> = segments.iter().map(AsRef::as_ref).collect();
        let trimmed = match segments.as_slice() {
            [all @ .., ""] => all,
            all => all,
        };
        match trimmed {
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
            rest => (false, rest),
        };
        let mut target = Target {
            group: group.to_owned(),
            version: version.to_owned(),
            watch_prefix,
            ..Target::default()
        };
        let rest = match rest {
            // Of a namespace itself only these two are parts; everything else under it is a resource inside it.
            ["namespaces", _, "status" | "finalize"] => rest,
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
    /// What a method means here; `watches` says whether the query asks for a watch. `None` for methods nobody serves.
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

    /// The resource as errors name it: `pods`, `deployments.apps`.
    pub fn qualified(&self) -> String {
        if self.group.is_empty() {
            self.resource.clone()
        } else {
            format!("{}.{}", self.resource, self.group)
        }
    }
}

impl fmt::Display for Verb {
    /// The word of the API, as in discovery and rules.
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

fn decode(segment: &str) -> Cow<'_, str> {
    percent_encoding::percent_decode_str(segment).decode_utf8_lossy()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `group version namespace resource name subresource`, with `-` for what is not there.
    fn told(path: &str) -> String {
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
    fn paths_say_what_they_are_about() {
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
        ] {
            assert_eq!(told(path), expected, "{path}");
        }
    }

    #[test]
    fn the_verb_follows_from_method_and_shape() {
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
