//! Who asks.

use std::collections::BTreeMap;

use serde_json::{Value, json};

/// Who asks: what authentication found out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct User {
    /// The name, such as `system:serviceaccount:default:builder`.
    pub name: String,
    /// What tells users of one name apart, where anything does.
    pub uid: String,
    /// The groups.
    pub groups: Vec<String>,
    /// What else is known.
    pub extra: BTreeMap<String, Vec<String>>,
}

impl User {
    /// A user by name, with the groups of everyone who logged in.
    pub fn named(name: &str, groups: &[&str]) -> Self {
        let groups = groups.iter().copied().chain(["system:authenticated"]).map(str::to_owned).collect();
        Self { name: name.to_owned(), groups, ..Self::default() }
    }

    /// Who runs the cluster.
    pub fn admin() -> Self {
        Self::named("admin", &["system:masters"])
    }

    /// Who did not log in.
    pub fn anonymous() -> Self {
        Self {
            name: "system:anonymous".to_owned(),
            groups: vec!["system:unauthenticated".to_owned()],
            ..Self::default()
        }
    }

    /// As reviews tell it.
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

    /// A part of the server itself.
    pub fn server(part: &str) -> Self {
        Self::named(&format!("system:{part}"), &["system:masters"])
    }
}
