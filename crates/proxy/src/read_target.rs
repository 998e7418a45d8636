//! The object or collection that a request is about, from its path and query.
//!
//! Only requests in the plain form that every client sends are recognized. Any other is passed on:
//! what is authorized here must be exactly what is served, so nothing is interpreted twice.

use dogwatch_core::FieldSelector;
use http::{Method, Uri};

/// The verbs of authorization.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Verb {
    Get,
    List,
    Watch,
    Create,
    Update,
    Patch,
    Delete,
    DeleteCollection,
}

impl Verb {
    /// Returns the name that authorization uses.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::List => "list",
            Self::Watch => "watch",
            Self::Create => "create",
            Self::Update => "update",
            Self::Patch => "patch",
            Self::Delete => "delete",
            Self::DeleteCollection => "deletecollection",
        }
    }
}

/// An object or a collection, and what is done to it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ReadTarget {
    pub(crate) verb: Verb,
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) resource: String,
    pub(crate) namespace: Option<String>,
    pub(crate) name: Option<String>,
    /// Empty for the object itself.
    pub(crate) subresource: String,
    /// The only name that the field selector of a list selects.
    pub(crate) selected_name: Option<String>,
}

impl ReadTarget {
    /// Returns the target of a read; `None` if the request is no read, or is in another form.
    pub(crate) fn parse(method: &Method, uri: &Uri) -> Option<Self> {
        if method != Method::GET {
            return None;
        }
        let verb = watch_parameter(uri.query().unwrap_or_default())?;
        let target = Self::of_path(uri.path())?;
        let verb = match (verb, &target.name) {
            (Verb::List, Some(_)) => Verb::Get,
            (Verb::Watch, Some(_)) => return None,
            (verb, _) => verb,
        };
        let selected_name = selected_name(uri.query().unwrap_or_default());
        Some(Self { verb, selected_name, ..target })
    }

    /// Returns the name for authorization: that of the object, or the only one that a list selects.
    /// As `RequestInfoFactory.NewRequestInfo` in k8s.io/apiserver v0.36.4
    /// pkg/endpoints/request/requestinfo.go.
    pub(crate) fn reviewed_name(&self) -> Option<&str> {
        self.name.as_deref().or(self.selected_name.as_deref())
    }

    /// Returns the namespace for authorization: a namespace is in itself.
    pub(crate) fn reviewed_namespace(&self) -> Option<&str> {
        let is_namespace = self.group.is_empty() && self.resource == "namespaces";
        if is_namespace { self.name.as_deref() } else { self.namespace.as_deref() }
    }

    /// Returns the path of the object or collection.
    pub(crate) fn path(&self) -> String {
        let Self { group, version, resource, .. } = self;
        let root = if group.is_empty() { "/api".to_owned() } else { format!("/apis/{group}") };
        let namespace = self.namespace.as_ref().map(|it| format!("/namespaces/{it}")).unwrap_or_default();
        let name = self.name.as_ref().map(|it| format!("/{it}")).unwrap_or_default();
        format!("{root}/{version}{namespace}/{resource}{name}")
    }

    /// Returns the path of the object: the name before `/proxy` may have a scheme and a port, as
    /// `SplitSchemeNamePort` in k8s.io/apimachinery v0.36.4 pkg/util/net/port_split.go splits it.
    pub(crate) fn object_path(&self) -> String {
        let parts: Vec<&str> = self.name.iter().flat_map(|it| it.split(':')).collect();
        let name = match (self.subresource.as_str(), parts.as_slice()) {
            ("proxy", [name, _] | [_, name, _]) => Some((*name).to_owned()),
            _ => self.name.clone(),
        };
        Self { name, ..self.clone() }.path()
    }

    /// Returns the object or collection of a path, with the verb `list`.
    pub(crate) fn of_path(path: &str) -> Option<Self> {
        let is_plain = |it: &str| {
            let known = |it: u8| it.is_ascii_alphanumeric() || b"-._:~".contains(&it);
            !it.is_empty() && !matches!(it, "." | "..") && it.bytes().all(known)
        };
        let segments: Vec<&str> = path.strip_prefix('/')?.split('/').collect();
        if !segments.iter().all(|it| is_plain(it)) {
            return None;
        }
        let (group, version, rest) = match segments.as_slice() {
            ["api", version, rest @ ..] => ("", *version, rest),
            ["apis", group, version, rest @ ..] => (*group, *version, rest),
            _ => return None,
        };
        let (namespace, resource, name) = match *rest {
            // `namespaces/shop` is an object, and `namespaces/shop/status` its status.
            [resource @ "namespaces", name] => (None, resource, Some(name)),
            ["namespaces", _, "status" | "finalize"] => return None,
            ["namespaces", namespace, resource] => (Some(namespace), resource, None),
            ["namespaces", namespace, resource, name] => (Some(namespace), resource, Some(name)),
            // The old paths of watches and of proxied requests.
            ["watch" | "proxy", ..] => return None,
            [resource] => (None, resource, None),
            [resource, name] => (None, resource, Some(name)),
            _ => return None,
        };
        Some(Self {
            verb: Verb::List,
            group: group.to_owned(),
            version: version.to_owned(),
            resource: resource.to_owned(),
            namespace: namespace.map(str::to_owned),
            name: name.map(str::to_owned),
            subresource: String::new(),
            selected_name: None,
        })
    }
}

/// Returns `Watch` or `List` by the parameter `watch`; `None` if it is in an unusual form.
fn watch_parameter(query: &str) -> Option<Verb> {
    let mut found =
        form_urlencoded::parse(query.as_bytes()).filter(|(key, _)| key.eq_ignore_ascii_case("watch"));
    let verb = match found.next() {
        None => Verb::List,
        Some((key, value)) => match (&*key, &*value) {
            ("watch", "true" | "1") => Verb::Watch,
            ("watch", "false" | "0") => Verb::List,
            _ => return None,
        },
    };
    found.next().is_none().then_some(verb)
}

/// Returns the name that a field selector requires, if it can be one in a path: see
/// [`ReadTarget::reviewed_name`].
fn selected_name(query: &str) -> Option<String> {
    let selector: FieldSelector = parameter(query, "fieldSelector")?.parse().ok()?;
    let name = selector.required("metadata.name")?;
    let is_segment = !matches!(name, "" | "." | "..") && !name.contains(['/', '%']);
    is_segment.then(|| name.to_owned())
}

/// Returns the value of a parameter that occurs once.
pub(crate) fn parameter(query: &str, name: &str) -> Option<String> {
    let mut found = form_urlencoded::parse(query.as_bytes()).filter(|(key, _)| key == name);
    let value = found.next()?.1.into_owned();
    found.next().is_none().then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(uri: &str) -> Option<String> {
        let it = ReadTarget::parse(&Method::GET, &uri.parse().unwrap())?;
        let or_dash = |it: Option<String>| it.unwrap_or_else(|| "-".to_owned());
        let (namespace, name) = (or_dash(it.namespace), or_dash(it.name));
        Some(format!("{} {}/{} {} {namespace} {name}", it.verb.as_str(), it.group, it.version, it.resource))
    }

    #[test]
    fn reads_are_recognized_by_their_path_and_the_watch_parameter() {
        for (uri, expected) in [
            ("/api/v1/pods", "list /v1 pods - -"),
            ("/api/v1/pods?limit=500&watch=false", "list /v1 pods - -"),
            ("/api/v1/namespaces/shop/pods?watch=true", "watch /v1 pods shop -"),
            ("/api/v1/namespaces/shop/pods/web-0", "get /v1 pods shop web-0"),
            ("/api/v1/namespaces/shop", "get /v1 namespaces - shop"),
            ("/api/v1/namespaces?watch=1", "watch /v1 namespaces - -"),
            ("/api/v1/nodes/a.b", "get /v1 nodes - a.b"),
            ("/apis/apps/v1/namespaces/shop/deployments", "list apps/v1 deployments shop -"),
            (
                "/apis/rbac.authorization.k8s.io/v1/clusterroles/system:node",
                "get rbac.authorization.k8s.io/v1 clusterroles - system:node",
            ),
        ] {
            assert_eq!(parse(uri).as_deref(), Some(expected), "{uri}");
            let path = uri.split('?').next().unwrap();
            assert_eq!(ReadTarget::of_path(path).map(|it| it.path()).as_deref(), Some(path));
        }
    }

    #[test]
    fn a_list_of_one_name_is_reviewed_by_it() {
        let reviewed = |uri: &str| {
            let target = ReadTarget::parse(&Method::GET, &uri.parse().unwrap())?;
            Some((target.reviewed_name()?.to_owned(), target.reviewed_namespace().map(str::to_owned)))
        };
        let selected =
            |selector: &str| reviewed(&format!("/api/v1/namespaces/a/pods?fieldSelector={selector}"));
        for selector in
            ["metadata.name=b", "metadata.name%3Db", "metadata.name==b", "spec.nodeName=n,metadata.name=b"]
        {
            assert_eq!(selected(selector), Some(("b".to_owned(), Some("a".to_owned()))), "{selector}");
        }
        // As kube-apiserver, by the first of two, and with escaped commas.
        let first = selected("metadata.name=b,metadata.name=c");
        assert_eq!(first.map(|it| it.0).as_deref(), Some("b"));
        assert_eq!(selected("metadata.name=b%5C%2Cc").map(|it| it.0).as_deref(), Some("b,c"));
        for selector in
            ["", "metadata.name!=b", "metadata.name=", "metadata.name=..", "metadata.name=a%2Fb", "x%3Da%5C"]
        {
            assert_eq!(selected(selector), None, "{selector}");
        }
        let namespace = reviewed("/api/v1/namespaces/a");
        assert_eq!(namespace, Some(("a".to_owned(), Some("a".to_owned()))));
    }

    #[test]
    fn the_object_behind_a_proxied_name_is_found() {
        for (name, subresource, expected) in [
            ("web", "proxy", "web"),
            ("web:8080", "proxy", "web"),
            ("http:web:80", "proxy", "web"),
            ("https:web:", "proxy", "web"),
            ("system:node", "", "system:node"),
            ("a:b:c:d", "proxy", "a:b:c:d"),
        ] {
            let target = ReadTarget::of_path(&format!("/api/v1/namespaces/a/services/{name}")).unwrap();
            let target = ReadTarget { subresource: subresource.to_owned(), ..target };
            assert_eq!(target.object_path(), format!("/api/v1/namespaces/a/services/{expected}"));
        }
    }

    #[test]
    fn every_other_form_is_passed_on() {
        for uri in [
            "/",
            "/version",
            "/api",
            "/api/v1",
            "/api/v1/",
            "/api/v1/pods/",
            "/api/v1//pods",
            "/api/v1/../v1/pods",
            "/api/v1/namespaces/shop/pods/web-0/log",
            "/api/v1/namespaces/shop/status",
            "/api/v1/watch/pods",
            "/api/v1/namespaces/%2e%2e/pods",
            "/api/v1/namespaces/shop/p%6fds",
            "/api/v1/namespaces/a%2Fb/pods",
            "/api/v1/pods?watch",
            "/api/v1/pods?watch=yes",
            "/api/v1/pods?watch=true&watch=false",
            "/api/v1/pods?Watch=true",
            "/api/v1/pods?w%61tch=maybe",
            "/api/v1/namespaces/shop/pods/web-0?watch=true",
        ] {
            assert_eq!(parse(uri), None, "{uri}");
        }
        let uri = "/api/v1/pods".parse().unwrap();
        for method in [Method::HEAD, Method::POST, Method::DELETE] {
            assert_eq!(ReadTarget::parse(&method, &uri), None, "{method}");
        }
    }
}
