//! The user that a request is authenticated as.

use std::collections::BTreeMap;

use dogwatch_apimachinery::names;
use serde_json::{Value, json};

/// The extra field with the node of the pod that a service account token is bound to.
pub(crate) const NODE_NAME: &str = "authentication.kubernetes.io/node-name";

/// The user that a request is authenticated as.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct User {
    /// The name, such as `system:serviceaccount:default:builder`.
    pub name: String,
    /// The uid, which distinguishes users of one name over time; may be empty.
    pub uid: String,
    /// The groups.
    pub groups: Vec<String>,
    /// Additional attributes.
    pub extra: BTreeMap<String, Vec<String>>,
}

impl User {
    /// Returns a user of these groups, and of the group of all authenticated users.
    pub fn named(name: &str, groups: &[&str]) -> Self {
        let groups = groups.iter().copied().chain(["system:authenticated"]).map(str::to_owned).collect();
        Self { name: name.to_owned(), groups, ..Self::default() }
    }

    /// Returns the administrator of the cluster.
    pub fn admin() -> Self {
        Self::named("admin", &["system:masters"])
    }

    /// Returns the user of requests without credentials.
    pub fn anonymous() -> Self {
        Self {
            name: "system:anonymous".to_owned(),
            groups: vec!["system:unauthenticated".to_owned()],
            ..Self::default()
        }
    }

    /// Returns the `userInfo` of reviews.
    pub(super) fn info(&self) -> Value {
        let mut info = json!({ "username": self.name, "groups": self.groups });
        if !self.uid.is_empty() {
            info["uid"] = self.uid.as_str().into();
        }
        if !self.extra.is_empty() {
            info["extra"] = json!(self.extra);
        }
        info
    }

    /// Returns the user of a component of the server itself.
    pub fn server(part: &str) -> Self {
        Self::named(&format!("system:{part}"), &["system:masters"])
    }
}

/// Returns the namespace and name of the service account with this user name.
pub(crate) fn service_account(user: &str) -> Option<(&str, &str)> {
    let (namespace, name) = user.strip_prefix("system:serviceaccount:")?.split_once(':')?;
    // Any other name is that of an ordinary user, which takes other permissions.
    let is_valid = names::label(namespace).is_empty() && names::subdomain(name).is_empty();
    is_valid.then_some((namespace, name))
}
