//! Reviews: requests that ask who a user is and what the user may do. None of them is stored.

use serde_json::{Value, json};

use super::access_reviews::{access_status, rules_status};
use super::tokens::Tokens;
use super::{Cluster, ObjectRef, WriteOutcome, Writer};
use crate::ApiError;
use crate::kinds::json_access::{items, text};
use crate::kinds::rules::Review;

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
            object["metadata"] = json!({ "creationTimestamp": cluster.source.stamp() });
            json!({ "userInfo": writer.user.info() })
        }
        Some(Review::Token) => token_status(cluster.tokens(), &object)?,
        Some(Review::Rules) => {
            let status = rules_status(cluster, &object, &writer.user)?;
            // The answer does not repeat the question.
            (object["metadata"], object["spec"]) = (json!({}), json!({}));
            status
        }
        Some(Review::Access) => access_status(cluster, place, &object, None)?,
        Some(Review::OwnAccess) => access_status(cluster, place, &object, Some(&writer.user))?,
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
        wanted.extend(tokens.own_audiences());
    }
    Ok(match tokens.review(token, &wanted) {
        Ok((user, audiences)) => {
            json!({ "authenticated": true, "user": user.info(), "audiences": audiences })
        }
        Err(why) => json!({ "user": {}, "error": why }),
    })
}
