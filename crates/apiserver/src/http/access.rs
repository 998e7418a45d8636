//! What a request asks for, in the terms of authorization.
//!
//! Derived from the same route that the request is dispatched by, so that what is authorized is what
//! is done. It does not depend on the kinds that are served: a user who may not read a resource does
//! not learn whether it exists. The attributes are those of k8s.io/apiserver v0.36.4
//! pkg/endpoints/request/requestinfo.go.

use dogwatch_apimachinery::names;
use dogwatch_core::FieldSelector;
use http::Method;

use super::query::Query;
use crate::authorization::{AccessRequest, AccessTarget};
use crate::request::{Route, Target};

/// The attributes of a request that roles name.
#[derive(Debug)]
pub(super) struct Access {
    verb: String,
    /// The name of the object, also if the selector of a list names it.
    name: String,
}

impl Access {
    /// Derives the attributes of a request.
    pub(super) fn of(route: &Route, method: &Method, query: &Query) -> Self {
        let Route::Resource(target) = route else {
            return Self { verb: method.as_str().to_ascii_lowercase(), name: String::new() };
        };
        let verb = verb(target, method, query).to_owned();
        let selected = || match &*verb {
            "list" | "watch" if !target.watch_prefix => selected_name(query),
            _ => None,
        };
        let name = target.name.clone().or_else(selected).unwrap_or_default();
        Self { verb, name }
    }

    /// Returns the request for a permission. `path` is the path of the request, without the query.
    pub(super) fn request<'a>(&'a self, route: &'a Route, path: &'a str) -> AccessRequest<'a> {
        let target = match route {
            Route::Resource(target) => AccessTarget::Resource {
                group: &target.group,
                resource: &target.resource,
                // The path after `proxy/` is for the proxied server.
                subresource: target
                    .subresource
                    .as_deref()
                    .and_then(|it| it.split('/').next())
                    .unwrap_or_default(),
                namespace: namespace(target),
                name: &self.name,
            },
            _ => AccessTarget::Path(path),
        };
        AccessRequest { verb: self.verb.as_str().into(), target }
    }
}

fn verb(target: &Target, method: &Method, query: &Query) -> &'static str {
    let watches = query.flag("watch") == Some(true);
    match (method, target.name.is_some()) {
        _ if target.watch_prefix => "watch",
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

/// Returns the namespace of a request; a namespace itself is in the one of its name.
fn namespace(target: &Target) -> &str {
    let own = target.name.as_deref().filter(|_| target.resource == "namespaces");
    target.namespace.as_deref().or(own).unwrap_or_default()
}

/// Returns the only name that a field selector selects.
fn selected_name(query: &Query) -> Option<String> {
    let selector: FieldSelector = query.get("fieldSelector")?.parse().ok()?;
    let name = selector.required("metadata.name")?;
    names::path_segment(name).is_empty().then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn described(method: &str, path: &str) -> String {
        let (path, query) = path.split_once('?').map_or((path, None), |(path, query)| (path, Some(query)));
        let route = Route::parse(path);
        let access = Access::of(&route, &method.parse().expect("a method"), &Query::parse(query));
        let AccessRequest { verb, target } = access.request(&route, path);
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
                "DELETE",
                "/api/v1/namespaces/a/pods?fieldSelector=metadata.name%3Dx",
                "deletecollection [] [a] pods/ []",
            ),
            ("DELETE", "/apis/apps/v1/namespaces/a/deployments/x", "delete [apps] [a] deployments/ [x]"),
            ("PATCH", "/apis/nope.io/v1/things/x/status", "patch [nope.io] [] things/status [x]"),
            ("GET", "/api/v1/namespaces/a/services/x/proxy/a/b", "get [] [a] services/proxy [x]"),
            ("OPTIONS", "/api/v1/pods", " [] [] pods/ []"),
            ("GET", "/api/v1", "get /api/v1"),
            ("POST", "/healthz", "post /healthz"),
            ("GET", "/apis/apps/v1/", "get /apis/apps/v1/"),
        ] {
            assert_eq!(described(method, path), expected, "{method} {path}");
        }
    }
}
