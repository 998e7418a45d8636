//! Reviews: questions about who may do what. Nothing of them is stored.
//!
//! Everyone who is let in may do everything here, and that is what the answers say.

use serde_json::{Value, json};

use super::{Cluster, Place, Writer, Written};
use crate::kinds::look::{at, items, text};
use crate::refusal::{Problem, ProblemKind, Refusal};

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
                json!({ "userInfo": writer.user.info() })
            }
            "tokenreviews" => match self.token_user(text(&object, "/spec/token")) {
                Some(user) => {
                    let audiences = items(&object, "/spec/audiences").to_vec();
                    let audiences = if audiences.is_empty() {
                        vec!["https://kubernetes.default.svc".into()]
                    } else {
                        audiences
                    };
                    json!({ "authenticated": true, "user": user.info(), "audiences": audiences })
                }
                None => json!({ "user": {}, "error": "[invalid bearer token, token lookup failed]" }),
            },
            "selfsubjectrulesreviews" => json!({
                "resourceRules": [{ "verbs": ["*"], "apiGroups": ["*"], "resources": ["*"] }],
                "nonResourceRules": [{ "verbs": ["*"], "nonResourceURLs": ["*"] }],
                "incomplete": false,
            }),
            "subjectaccessreviews" | "selfsubjectaccessreviews" | "localsubjectaccessreviews" => {
                let problems = access_problems(&object, kind.def.plural.starts_with("self"));
                if !problems.is_empty() {
                    // The original names no kind here.
                    return Err(Refusal::invalid(&kind.def.group, "", "", &problems));
                }
                json!({ "allowed": true })
            }
            _ => return Err(Refusal::internal(format!("nobody answers {}", kind.def.plural))),
        };
        object["status"] = status;
        Ok(Written::value(object, true))
    }
}

/// What is wrong with a question about access: it must be about one thing, and about somebody.
fn access_problems(review: &Value, about_self: bool) -> Vec<Problem> {
    let mut problems = Vec::new();
    let invalid = |field: &str, value: &str, detail: &str| {
        Problem::with_value(field, ProblemKind::Invalid, value, detail)
    };
    let given = |pointer: &str| at(review, pointer).is_some_and(|it| !it.is_null());
    match (given("/spec/resourceAttributes"), given("/spec/nonResourceAttributes")) {
        (true, true) => {
            let value = at(review, "/spec/nonResourceAttributes").map(Value::to_string).unwrap_or_default();
            let detail = "cannot be specified in combination with resourceAttributes";
            problems.push(invalid("spec.nonResourceAttributes", &value, detail));
        }
        (false, false) => {
            let detail = "exactly one of nonResourceAttributes or resourceAttributes must be specified";
            problems.push(invalid("spec.resourceAttributes", "null", detail));
        }
        _ => {}
    }
    if !about_self && text(review, "/spec/user").is_empty() && items(review, "/spec/groups").is_empty() {
        problems.push(invalid("spec.user", r#""""#, "at least one of user or group must be specified"));
    }
    problems
}
