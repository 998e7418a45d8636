//! The permission that a request takes.
//!
//! The attributes are those of k8s.io/apiserver v0.36.4 pkg/endpoints/request/requestinfo.go. They
//! do not depend on the kinds that are served: a user who may not read a resource does not learn
//! whether it exists.

use dogwatch_apimachinery::names;
use dogwatch_core::{FieldSelector, LabelSelector};
use http::Method;

use super::query::Query;
use crate::authorization::{AccessRequest, AccessTarget};
use crate::request::{Route, decode_path};

/// The attributes of a request that roles name.
#[derive(Debug)]
pub(super) struct Access {
    verb: String,
    target: Target,
}

#[derive(Debug)]
enum Target {
    Resource { group: String, resource: String, subresource: String, namespace: String, name: String },
    Path(String),
}

impl Access {
    /// Derives the attributes of a request for a path.
    pub(super) fn of(path: &str, method: &Method, query: &Query) -> Self {
        let path = decode_path(path);
        let trimmed = path.trim_matches('/');
        let parts: Vec<&str> = trimmed.split('/').collect();
        let (group, rest) = match parts.as_slice() {
            ["api", _, rest @ ..] if !rest.is_empty() => ("", rest),
            ["apis", group, _, rest @ ..] if !rest.is_empty() => (*group, rest),
            _ => {
                let verb = method.as_str().to_ascii_lowercase();
                return Self { verb, target: Target::Path(path.into_owned()) };
            }
        };
        let (prefix, rest) = match rest {
            [prefix @ ("watch" | "proxy"), rest @ ..] if !rest.is_empty() => (Some(*prefix), rest),
            rest => (None, rest),
        };
        let (namespace, rest) = match rest {
            // A namespace is in the one of its name.
            ["namespaces", name] | ["namespaces", name, "status" | "finalize", ..] => (*name, rest),
            ["namespaces", name, rest @ ..] if !rest.is_empty() => (*name, rest),
            rest => ("", rest),
        };
        let (resource, name, subresource) = match rest {
            [resource, name, subresource, ..] if prefix != Some("proxy") => (*resource, *name, *subresource),
            [resource, name, ..] => (*resource, *name, ""),
            rest => (rest.first().copied().unwrap_or_default(), "", ""),
        };
        let verb = prefix.unwrap_or_else(|| verb(method, !name.is_empty(), query));
        let selected = match verb {
            "list" | "watch" if prefix.is_none() => selected_name(query),
            _ => None,
        };
        let target = Target::Resource {
            group: group.to_owned(),
            resource: resource.to_owned(),
            subresource: subresource.to_owned(),
            namespace: namespace.to_owned(),
            name: selected.unwrap_or_else(|| name.to_owned()),
        };
        Self { verb: verb.to_owned(), target }
    }

    /// Returns the request for a permission.
    pub(super) fn request(&self) -> AccessRequest<'_> {
        let target = match &self.target {
            Target::Path(path) => AccessTarget::Path(path),
            Target::Resource { group, resource, subresource, namespace, name } => {
                AccessTarget::Resource { group, resource, subresource, namespace, name }
            }
        };
        AccessRequest { verb: self.verb.as_str().into(), target }
    }

    /// Returns true if these are the attributes of a route: what is authorized must be what is
    /// done.
    pub(super) fn is_of(&self, route: &Route) -> bool {
        let (Route::Resource(route), Target::Resource { group, resource, subresource, namespace, name }) =
            (route, &self.target)
        else {
            return !matches!(route, Route::Resource(_));
        };
        let first_part = route.subresource.as_deref().and_then(|it| it.split('/').next());
        let of_namespace = route.name.as_deref().filter(|_| route.resource == "namespaces");
        *group == route.group
            && *resource == route.resource
            && *subresource == first_part.unwrap_or_default()
            && *namespace == route.namespace.as_deref().or(of_namespace).unwrap_or_default()
            && match &route.name {
                Some(it) => it == name,
                // A selector may name it.
                None => name.is_empty() || matches!(&*self.verb, "list" | "watch"),
            }
    }
}

fn verb(method: &Method, is_named: bool, query: &Query) -> &'static str {
    let watches = query.flag("watch") == Some(true);
    match (method, is_named) {
        (&Method::GET | &Method::HEAD, true) => "get",
        (&Method::GET | &Method::HEAD, false) if watches => "watch",
        (&Method::GET | &Method::HEAD, false) => "list",
        (&Method::POST, _) => "create",
        (&Method::PUT, _) => "update",
        (&Method::PATCH, _) => "patch",
        (&Method::DELETE, true) => "delete",
        (&Method::DELETE, false) => "deletecollection",
        _ => "",
    }
}

/// Returns the only name that the selector of a list selects, unless the query cannot be decoded.
fn selected_name(query: &Query) -> Option<String> {
    let selector: FieldSelector = query.get("fieldSelector")?.parse().ok()?;
    let labels = query.get("labelSelector").unwrap_or_default().parse::<LabelSelector>();
    let numbers = ["limit", "timeoutSeconds"].map(|it| query.integer(it));
    if labels.is_err() || numbers.iter().any(Result::is_err) {
        return None;
    }
    let name = selector.required("metadata.name")?;
    names::path_segment(name).is_empty().then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(method: &str, path: &str) -> Access {
        let (path, query) = path.split_once('?').map_or((path, None), |(path, query)| (path, Some(query)));
        Access::of(path, &method.parse().expect("a method"), &Query::parse(query))
    }

    fn described(method: &str, path: &str) -> String {
        let access = of(method, path);
        let AccessRequest { verb, target } = access.request();
        match target {
            AccessTarget::Path(path) => format!("{verb} {path}"),
            AccessTarget::Resource { group, resource, subresource, namespace, name } => {
                format!("{verb} [{group}] [{namespace}] {resource}/{subresource} [{name}]")
            }
        }
    }

    #[test]
    fn the_attributes_are_those_of_kube_apiserver() {
        for (method, path, expected) in [
            ("GET", "/api/v1/pods", "list [] [] pods/ []"),
            ("GET", "/api/v1/pods?watch=1", "watch [] [] pods/ []"),
            ("GET", "/api/v1/namespaces/a/pods/x?watch=1", "get [] [a] pods/ [x]"),
            ("GET", "/api/v1/watch/namespaces/a/pods/x", "watch [] [a] pods/ [x]"),
            ("POST", "/api/v1/watch/pods", "watch [] [] pods/ []"),
            ("GET", "/api/v1/proxy/nodes/x/y", "proxy [] [] nodes/ [x]"),
            ("GET", "/api/v1/namespaces/a", "get [] [a] namespaces/ [a]"),
            ("PUT", "/api/v1/namespaces/a/finalize", "update [] [a] namespaces/finalize [a]"),
            ("GET", "/api/v1/namespaces", "list [] [] namespaces/ []"),
            ("GET", "/api/v1/namespaces/a/pods?fieldSelector=metadata.name%3Dx", "list [] [a] pods/ [x]"),
            (
                "GET",
                "/api/v1/namespaces/a/pods?watch&fieldSelector=metadata.name%3Dx",
                "watch [] [a] pods/ [x]",
            ),
            ("GET", "/api/v1/namespaces/a/pods?fieldSelector=metadata.name!%3Dx", "list [] [a] pods/ []"),
            ("GET", "/api/v1/namespaces/a/pods?fieldSelector=metadata.name%3Da%2Fb", "list [] [a] pods/ []"),
            (
                "GET",
                "/api/v1/namespaces/a/pods?limit=x&fieldSelector=metadata.name%3Dx",
                "list [] [a] pods/ []",
            ),
            (
                "DELETE",
                "/api/v1/namespaces/a/pods?fieldSelector=metadata.name%3Dx",
                "deletecollection [] [a] pods/ []",
            ),
            ("DELETE", "/apis/apps/v1/namespaces/a/deployments/x", "delete [apps] [a] deployments/ [x]"),
            ("PATCH", "/apis/nope.io/v1/things/x/status", "patch [nope.io] [] things/status [x]"),
            ("GET", "/api/v1/namespaces/a/services/x/proxy/a/b", "get [] [a] services/proxy [x]"),
            ("GET", "/api/v1/namespaces/a/pods//log", "list [] [a] pods/log []"),
            ("GET", "/api/v1/namespaces/a/pods/x%2Flog", "get [] [a] pods/log [x]"),
            ("OPTIONS", "/api/v1/pods", " [] [] pods/ []"),
            ("GET", "/api/v1", "get /api/v1"),
            ("POST", "/healthz", "post /healthz"),
            ("GET", "/%68ealthz", "get /healthz"),
            ("GET", "/apis/apps/v1/", "get /apis/apps/v1/"),
        ] {
            assert_eq!(described(method, path), expected, "{method} {path}");
        }
    }

    proptest! {
        #[test]
        fn what_is_authorized_is_what_is_dispatched(
            parts in proptest::collection::vec(
                proptest::sample::select(vec![
                    "api", "apis", "v1", "apps", "namespaces", "watch", "proxy", "pods", "x", "status", "", "%2F",
                ]),
                0..9,
            ),
            prefix in proptest::sample::select(vec!["/", "/api/v1/", "/apis/apps/v1/"]),
            method in proptest::sample::select(vec!["GET", "POST", "DELETE"]),
        ) {
            let path = format!("{prefix}{}", parts.join("/"));
            let route = Route::parse(&path);
            prop_assert!(of(method, &path).is_of(&route), "{path} {route:?}");
        }
    }
}
