//! Reviews: requests that ask who a user is and what the user may do. None of them is stored.
//!
//! This server has no authorizer: every authenticated user may do everything, and the reviews
//! answer so, with that reason.

use serde_json::{Value, json};

use super::tokens::Tokens;
use super::{Cluster, ObjectRef, WriteOutcome, Writer};
use crate::kinds::json_access::{at, items, text};
use crate::kinds::rules::Review;
use crate::{ApiError, FieldError, FieldErrorKind};

/// The reason of every access review. `kubectl auth can-i` does not print it next to a yes;
/// programs can read it.
const NOT_AUTHORIZED_HERE: &str =
    "this server does not authorize requests: every authenticated user may do everything";

/// Answers a review, an object of a kind that can only be created.
pub(super) fn answer(
    cluster: &Cluster,
    place: &ObjectRef<'_>,
    mut object: Value,
    writer: &Writer,
) -> Result<WriteOutcome, ApiError> {
    let kind = place.kind;
    let status = match kind.rules.review {
        Some(Review::User) => {
            object["metadata"]["creationTimestamp"] = cluster.source.stamp().into();
            json!({ "userInfo": writer.user.info() })
        }
        Some(Review::Token) => token_status(cluster.tokens(), &object)?,
        Some(Review::Rules) => json!({
            "resourceRules": [{ "verbs": ["*"], "apiGroups": ["*"], "resources": ["*"] }],
            "nonResourceRules": [{ "verbs": ["*"], "nonResourceURLs": ["*"] }],
            "incomplete": false,
        }),
        Some(review @ (Review::Access | Review::OwnAccess)) => {
            let problems = access_problems(&object, review == Review::OwnAccess);
            if !problems.is_empty() {
                // kube-apiserver names no kind in this error.
                return Err(ApiError::invalid(&kind.def.group, "", "", &problems));
            }
            json!({ "allowed": true, "reason": NOT_AUTHORIZED_HERE })
        }
        None => return Err(ApiError::internal(format!("no handler for {}", kind.def.plural))),
    };
    object["status"] = status;
    Ok(WriteOutcome::value(object, true))
}

/// Returns the status of a TokenReview: the user of the token, and the reviewed audiences that
/// it is valid for.
fn token_status(tokens: Tokens<'_>, review: &Value) -> Result<Value, ApiError> {
    let token = text(review, "/spec/token");
    if token.is_empty() {
        return Err(ApiError::bad_request("token is required for TokenReview in authentication"));
    }
    let mut wanted: Vec<_> = items(review, "/spec/audiences").iter().filter_map(Value::as_str).collect();
    if wanted.is_empty() {
        wanted.push(tokens.issuer().0);
    }
    Ok(match tokens.review(token, &wanted) {
        Ok((user, audiences)) => {
            json!({ "authenticated": true, "user": user.info(), "audiences": audiences })
        }
        Err(why) => json!({ "user": {}, "error": why }),
    })
}

/// Validates an access review: it must be about exactly one kind of attributes, and about a user or
/// a group.
fn access_problems(review: &Value, about_self: bool) -> Vec<FieldError> {
    let mut problems = Vec::new();
    let invalid = |field: &str, value: &str, detail: &str| {
        FieldError::with_value(field, FieldErrorKind::Invalid, value, detail)
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
