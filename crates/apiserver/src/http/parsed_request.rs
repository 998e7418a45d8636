//! Request parsing: the verb and the kind of a request, or the reason that it is not served.

use std::sync::Arc;

use dogwatch_core::Reason;
use http::Method;

use super::negotiated::Endpoint;
use super::query::Query;
use crate::ApiError;
use crate::cluster::ObjectRef;
use crate::registry::{Catalog, Kind};
use crate::request::{Target, Verb};

/// A verb on a resource.
#[derive(Clone, Debug)]
pub(super) struct ParsedRequest {
    /// The kind of the resource.
    pub(super) kind: Arc<Kind>,
    /// The verb.
    pub(super) verb: Verb,
    /// The namespace, name and subresource.
    pub(super) target: Target,
}

/// The reason that a path or a method is not served.
#[derive(Clone, Debug)]
pub(super) enum RoutingError {
    /// A plain-text 404.
    PlainNotFound,
    /// An API error.
    Refused(ApiError),
}

impl ParsedRequest {
    /// Resolves the meaning of a method on a target.
    pub(super) fn find(
        catalog: &Catalog,
        target: &Target,
        method: &Method,
        query: &Query,
    ) -> Result<Self, RoutingError> {
        let Some(kind) = catalog.kind(&target.group, &target.version, &target.resource) else {
            return Err(no_resource(catalog, &target.group));
        };
        Self::of_kind(&kind, target, method, query)
    }

    /// Resolves the meaning of a method on a target of a kind.
    pub(super) fn of_kind(
        kind: &Arc<Kind>,
        target: &Target,
        method: &Method,
        query: &Query,
    ) -> Result<Self, RoutingError> {
        let watches = target.watch_prefix || (target.name.is_none() && query.flag("watch") == Some(true));
        let parsed = |verb| Self { kind: Arc::clone(kind), verb, target: target.clone() };
        let verb = target.verb(method.as_str(), watches).map(|verb| match verb {
            // Without the deprecated `/watch/` prefix, a named object is read, whatever the query
            // says.
            Verb::Watch if !watches => Verb::Get,
            verb => verb,
        });
        if kind.def.custom {
            custom(kind, target, verb)?;
        } else {
            builtin(kind, target, method, verb)?;
        }
        verb.map(parsed).ok_or_else(|| RoutingError::Refused(method_not_allowed()))
    }

    /// Returns the subresource; empty for the object itself.
    pub(super) fn part(&self) -> &str {
        let part = self.target.subresource.as_deref().unwrap_or_default();
        // The path after `proxy/` is for the proxied server.
        part.split('/').next().unwrap_or_default()
    }

    /// Returns the object that is read or written.
    pub(super) fn place(&self) -> ObjectRef<'_> {
        ObjectRef {
            kind: &self.kind,
            namespace: self.target.namespace.as_deref(),
            name: self.target.name.as_deref().unwrap_or_default(),
            part: self.part(),
        }
    }

    /// Returns true if the request asks for a connection to what the object represents. Its body
    /// and method are for the other end and do not concern the object.
    pub(super) fn connects(&self) -> bool {
        !self.kind.def.custom && matches!(self.part(), "exec" | "attach" | "portforward" | "proxy")
    }

    /// Returns the class of endpoint for content negotiation.
    pub(super) fn endpoint(&self) -> Endpoint {
        match self.verb {
            _ if self.kind.def.custom => Endpoint::Custom,
            Verb::List | Verb::Watch => Endpoint::Collection,
            Verb::Create if !self.kind.def.has_verb("get") => Endpoint::Question,
            Verb::Create if matches!(self.part(), "binding" | "eviction" | "token") => Endpoint::Question,
            _ => Endpoint::Object,
        }
    }

    /// Returns the deprecation warning of the kind, if it is deprecated.
    pub(super) fn deprecation(&self) -> Option<&str> {
        match self.kind.custom_version() {
            Some(version) => version.deprecation.as_deref(),
            None => self.kind.rules.deprecation,
        }
    }
}

/// Returns the error for an unknown resource. A group that only CustomResourceDefinitions serve has
/// no API of its own, so its unknown paths get the plain-text 404.
pub(super) fn no_resource(catalog: &Catalog, group: &str) -> RoutingError {
    if catalog.is_builtin_group(group) {
        RoutingError::Refused(not_found())
    } else {
        RoutingError::PlainNotFound
    }
}

/// Returns 404: no such resource.
pub(super) fn not_found() -> ApiError {
    ApiError::new(Reason::NotFound, "the server could not find the requested resource")
}

/// Returns 405: the resource does not support the method.
pub(super) fn method_not_allowed() -> ApiError {
    ApiError::new(Reason::MethodNotAllowed, "the server does not allow this method on the requested resource")
}

fn builtin(kind: &Kind, target: &Target, method: &Method, verb: Option<Verb>) -> Result<(), RoutingError> {
    let def = &kind.def;
    let has = |verb: &str| def.has_verb(verb);
    let is_proxied = target.subresource.as_deref().is_some_and(|it| it.split('/').next() == Some("proxy"));
    let verb = verb.filter(|_| method != Method::HEAD || is_proxied).map(|it| it.to_string());
    let across = def.namespaced && target.namespace.is_none();
    let (path, allowed) = match (&target.name, target.subresource.as_deref()) {
        _ if target.namespace.is_some() && !def.namespaced => (false, false),
        (Some(_), _) if across => (false, false),
        _ if target.watch_prefix => (has("watch") && target.subresource.is_none(), method == Method::GET),
        (Some(_), Some(part)) => {
            let first = part.split('/').next().unwrap_or_default();
            let found = def.subresource(first).filter(|_| first == part || first == "proxy");
            let allowed =
                |it: &crate::builtin::SubresourceDef| it.verbs.iter().any(|it| Some(it) == verb.as_ref());
            (found.is_some(), found.is_some_and(allowed))
        }
        (Some(_), None) => {
            let path = ["get", "update", "patch", "delete"].iter().any(|it| has(it));
            (path, verb.is_some_and(|it| it != "create" && has(&it)))
        }
        (None, _) if across => {
            (has("list"), verb.is_some_and(|it| matches!(&*it, "list" | "watch") && has(&it)))
        }
        (None, _) => (true, verb.is_some_and(|it| !matches!(&*it, "update" | "patch") && has(&it))),
    };
    match (path, allowed) {
        (false, _) => Err(RoutingError::Refused(not_found())),
        (true, false) => Err(RoutingError::Refused(method_not_allowed())),
        (true, true) => Ok(()),
    }
}

/// Returns 405 with the resource in the details.
fn not_supported(kind: &Kind, message: &str) -> RoutingError {
    let mut refusal = ApiError::new(Reason::MethodNotAllowed, message);
    if let Some(details) = &mut refusal.0.details {
        (details.group, details.kind) = (kind.def.group.clone(), kind.def.plural.clone());
    }
    RoutingError::Refused(refusal)
}

/// Checks a request for a custom resource. kube-apiserver serves these with a handler of its own,
/// which has different rules and messages (k8s.io/apiextensions-apiserver v0.36.4
/// pkg/apiserver/customresource_handler.go).
fn custom(kind: &Kind, target: &Target, verb: Option<Verb>) -> Result<(), RoutingError> {
    let def = &kind.def;
    // The prefix is authorized as a watch, whatever the method.
    if target.watch_prefix && verb != Some(Verb::Watch) {
        return Err(RoutingError::Refused(method_not_allowed()));
    }
    let across = def.namespaced && target.namespace.is_none();
    if (across && !matches!(verb, Some(Verb::List | Verb::Watch)))
        || (!def.namespaced && target.namespace.is_some())
    {
        return Err(RoutingError::PlainNotFound);
    }
    let name = target.name.as_deref().unwrap_or_default();
    let allowed = match target.subresource.as_deref() {
        None => verb.is_some(),
        Some(part) if def.subresource(part).is_none() => {
            return Err(RoutingError::Refused(kind.not_found(name)));
        }
        Some(_) => matches!(verb, Some(Verb::Get | Verb::Update | Verb::Patch)),
    };
    if !allowed {
        let verb = verb.map(|it| it.to_string()).unwrap_or_default();
        let message = format!("{verb} is not supported on resources of kind {:?}", target.qualified());
        return Err(not_supported(kind, &message));
    }
    if matches!(verb, Some(Verb::Update | Verb::Patch)) && name.is_empty() {
        return Err(RoutingError::Refused(ApiError::bad_request("name must be provided")));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::Route;

    fn found(method: &str, path: &str) -> String {
        let (path, query) = path.split_once('?').map_or((path, None), |(path, query)| (path, Some(query)));
        let Route::Resource(target) = Route::parse(path) else { panic!("{path}") };
        let catalog = Catalog::default();
        let method = method.parse().expect("a method");
        match ParsedRequest::find(&catalog, &target, &method, &Query::parse(query)) {
            Ok(parsed) => parsed.verb.to_string(),
            Err(RoutingError::PlainNotFound) => "page".to_owned(),
            Err(RoutingError::Refused(refusal)) => refusal.0.code.to_string(),
        }
    }

    #[test]
    fn every_path_and_method_has_the_verb_or_error_of_kube_apiserver() {
        for (method, path, expected) in [
            ("GET", "/api/v1/pods", "list"),
            ("GET", "/api/v1/pods?watch", "watch"),
            ("GET", "/api/v1/pods?watch=false", "list"),
            ("GET", "/api/v1/namespaces/a/pods/x?watch=1", "get"),
            ("GET", "/api/v1/watch/namespaces/a/pods/x", "watch"),
            ("POST", "/api/v1/watch/namespaces/a/pods/x", "405"),
            ("GET", "/api/v1/watch/nothings", "404"),
            ("HEAD", "/api/v1/pods", "405"),
            ("OPTIONS", "/api/v1/pods", "405"),
            ("POST", "/api/v1/namespaces/a/pods", "create"),
            ("POST", "/api/v1/pods", "405"),
            ("DELETE", "/api/v1/pods", "405"),
            ("DELETE", "/api/v1/namespaces/a/pods", "deletecollection"),
            ("DELETE", "/api/v1/namespaces", "405"),
            ("DELETE", "/api/v1/namespaces/a", "delete"),
            ("PUT", "/api/v1/namespaces/a/pods", "405"),
            ("PATCH", "/api/v1/namespaces/a/pods", "405"),
            ("POST", "/api/v1/namespaces/a/pods/x", "405"),
            ("GET", "/api/v1/pods/x", "404"),
            ("GET", "/api/v1/namespaces/a/nodes", "404"),
            ("GET", "/api/v1/namespaces/a/nodes/x", "404"),
            ("GET", "/api/v1/nodes/x", "get"),
            ("GET", "/api/v1/bindings", "404"),
            ("GET", "/api/v1/namespaces/a/bindings", "405"),
            ("POST", "/api/v1/namespaces/a/bindings", "create"),
            ("POST", "/api/v1/componentstatuses", "405"),
            ("GET", "/apis/authentication.k8s.io/v1/tokenreviews", "405"),
            ("GET", "/apis/authentication.k8s.io/v1/tokenreviews/x", "404"),
            ("GET", "/apis/apps/v1/namespaces/a/deployments/x/scale", "get"),
            ("DELETE", "/apis/apps/v1/namespaces/a/deployments/x/scale", "405"),
            ("POST", "/apis/apps/v1/namespaces/a/deployments/x/scale", "405"),
            ("GET", "/api/v1/namespaces/a/pods/x/binding", "405"),
            ("POST", "/api/v1/namespaces/a/pods/x/binding", "create"),
            ("GET", "/api/v1/namespaces/a/pods/x/proxy/a/b", "get"),
            ("HEAD", "/api/v1/namespaces/a/pods/x/proxy/a", "get"),
            ("HEAD", "/api/v1/namespaces/a/pods/x/log", "405"),
            ("GET", "/api/v1/namespaces/a/pods/x/nosub", "404"),
            ("GET", "/apis/apps/v9/deployments", "404"),
            ("GET", "/apis/nope.example.com/v1/things", "page"),
        ] {
            assert_eq!(found(method, path), expected, "{method} {path}");
        }
    }
}
