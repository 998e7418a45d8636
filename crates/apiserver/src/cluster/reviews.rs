//! Reviews: questions about who may do what. Nothing of them is stored.
//!
//! Everyone who is let in may do everything here, and that is what the answers say.

use serde_json::{Value, json};

use super::{Cluster, Place, User, Writer, Written};
use crate::kinds::look::{items, text};
use crate::refusal::Refusal;

impl Cluster {
    /// Answers an object of a kind that is only ever created.
    pub(super) fn review(
        &self,
        place: &Place<'_>,
        mut object: Value,
        writer: &Writer,
    ) -> Result<Written, Refusal> {
        let kind = place.kind;
        let status = match kind.def.plural.as_str() {
            "selfsubjectreviews" => {
                object["metadata"]["creationTimestamp"] = self.source.stamp().into();
                json!({ "userInfo": user_info(&writer.user) })
            }
            "tokenreviews" => match self.token_user(text(&object, "/spec/token")) {
                Some(user) => {
                    let audiences = items(&object, "/spec/audiences").to_vec();
                    let audiences = if audiences.is_empty() {
                        vec!["https://kubernetes.default.svc".into()]
                    } else {
                        audiences
                    };
                    json!({ "authenticated": true, "user": user_info(&user), "audiences": audiences })
                }
                None => json!({ "user": {}, "error": "[invalid bearer token, token lookup failed]" }),
            },
            "selfsubjectrulesreviews" => json!({
                "resourceRules": [{ "verbs": ["*"], "apiGroups": ["*"], "resources": ["*"] }],
                "nonResourceRules": [{ "verbs": ["*"], "nonResourceURLs": ["*"] }],
                "incomplete": false,
            }),
            "subjectaccessreviews" | "selfsubjectaccessreviews" | "localsubjectaccessreviews" => {
                json!({ "allowed": true })
            }
            _ => return Err(Refusal::internal(format!("nobody answers {}", kind.def.plural))),
        };
        object["status"] = status;
        Ok(Written::value(object, true))
    }
}

fn user_info(user: &User) -> Value {
    let mut info = json!({ "username": user.name, "groups": user.groups });
    if !user.uid.is_empty() {
        info["uid"] = user.uid.as_str().into();
    }
    if !user.extra.is_empty() {
        info["extra"] = json!(user.extra);
    }
    info
}
