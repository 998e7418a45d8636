//! A request for a permission: an action of a user, in the terms that roles use.

use std::borrow::Cow;

use crate::ApiError;
use crate::strconv::quote;

/// A request for a permission: an action of a user, in the terms that roles use.
#[derive(Clone, Debug)]
pub(crate) struct AccessRequest<'a> {
    /// The verb of the API; the method in lower case for a path.
    pub(crate) verb: Cow<'a, str>,
    pub(crate) target: AccessTarget<'a>,
}

/// The target of an [`AccessRequest`]. Texts that do not apply are empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AccessTarget<'a> {
    /// A collection, an object or a subresource.
    Resource { group: &'a str, resource: &'a str, subresource: &'a str, namespace: &'a str, name: &'a str },
    /// Any other path.
    Path(&'a str),
}

impl<'a> AccessRequest<'a> {
    /// Returns a request to use a verb on an object of the cluster scope.
    pub(crate) fn cluster(verb: &'a str, group: &'a str, resource: &'a str, name: &'a str) -> Self {
        let target = AccessTarget::Resource { group, resource, subresource: "", namespace: "", name };
        Self { verb: verb.into(), target }
    }

    /// Returns the same request for another verb.
    pub(crate) fn with_verb(&self, verb: impl Into<Cow<'a, str>>) -> Self {
        Self { verb: verb.into(), target: self.target }
    }

    /// Returns the namespace; empty for the cluster scope.
    pub(super) fn namespace(&self) -> &'a str {
        match self.target {
            AccessTarget::Resource { namespace, .. } => namespace,
            AccessTarget::Path(_) => "",
        }
    }

    /// Returns the 403 of a user who may not do this.
    ///
    /// The text is that of k8s.io/apiserver v0.36.4
    /// pkg/endpoints/handlers/responsewriters/errors.go.
    pub(crate) fn forbidden(&self, user: &str, reason: &str) -> ApiError {
        // Such a message should not look like HTML to a browser.
        let cannot = self.describe(user).replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
        let why = if reason.is_empty() { cannot } else { format!("{cannot}: {reason}") };
        match self.target {
            AccessTarget::Resource { group, resource, name, .. } => {
                ApiError::forbidden(group, resource, name, &why)
            }
            AccessTarget::Path(_) => ApiError::forbidden("", "", "", &why),
        }
    }

    fn describe(&self, user: &str) -> String {
        let (user, verb) = (quote(user), &self.verb);
        match self.target {
            AccessTarget::Path(path) => format!("User {user} cannot {verb} path {}", quote(path)),
            AccessTarget::Resource { group, resource, subresource, namespace, .. } => {
                let resource = match subresource {
                    "" => quote(resource),
                    part => quote(&format!("{resource}/{part}")),
                };
                let place = match namespace {
                    "" => "at the cluster scope".to_owned(),
                    namespace => format!("in the namespace {}", quote(namespace)),
                };
                let group = quote(group);
                format!("User {user} cannot {verb} resource {resource} in API group {group} {place}")
            }
        }
    }
}
