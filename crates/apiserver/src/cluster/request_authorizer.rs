//! The authorizer that the expressions of policies and match conditions ask: about the user of the
//! request, or about a service account.

use std::collections::BTreeMap;

use super::Cluster;
use crate::authorization::{AccessRequest, AccessTarget, AuthorizationMode};
use crate::cel::{AccessDecision, AccessQuestion, AccessSubject, Authorize};
use crate::user::User;

/// Answers the questions of expressions for one request.
#[derive(Clone, Copy, Debug)]
pub(super) struct RequestAuthorizer<'a> {
    cluster: &'a Cluster,
    user: &'a User,
}

impl<'a> RequestAuthorizer<'a> {
    /// Returns the authorizer for the requests of a user.
    pub(super) fn new(cluster: &'a Cluster, user: &'a User) -> Self {
        Self { cluster, user }
    }
}

impl Authorize for RequestAuthorizer<'_> {
    fn decide(&self, subject: &AccessSubject, question: &AccessQuestion, verb: &str) -> AccessDecision {
        let account;
        let user = match subject {
            AccessSubject::ServiceAccount { namespace, name } => {
                account = service_account(namespace, name);
                &account
            }
            _ => self.user,
        };
        let target = match question {
            AccessQuestion::Path(path) => AccessTarget::Path(path),
            AccessQuestion::Resource(it) => AccessTarget::Resource {
                group: &it.group,
                resource: &it.resource,
                subresource: &it.subresource,
                namespace: &it.namespace,
                name: &it.name,
            },
            _ => return AccessDecision::default(),
        };
        let decision = self.cluster.authorize(user, &AccessRequest { verb: verb.into(), target });
        // The authorizer that allows everything gives no reason in kube-apiserver.
        let reason = match self.cluster.authorization() {
            AuthorizationMode::AlwaysAllow => String::new(),
            _ => decision.reason.into_owned(),
        };
        AccessDecision { allowed: decision.allowed, reason, error: None }
    }
}

fn service_account(namespace: &str, name: &str) -> User {
    User {
        name: format!("system:serviceaccount:{namespace}:{name}"),
        uid: String::new(),
        groups: vec!["system:serviceaccounts".to_owned(), format!("system:serviceaccounts:{namespace}")],
        extra: BTreeMap::new(),
    }
}
