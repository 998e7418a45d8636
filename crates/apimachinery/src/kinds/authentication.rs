//! The kinds of the group `authentication.k8s.io`: reviews of users and tokens.

use crate::kinds::rules::{COMMON, KindRules, Review};

/// The rules of the kind SelfSubjectReview.
pub(crate) static SELF_SUBJECT_REVIEW: KindRules = KindRules {
    group: "authentication.k8s.io",
    kind: "SelfSubjectReview",
    plural: "selfsubjectreviews",
    review: Some(Review::User),
    ..COMMON
};

/// The rules of the kind TokenReview.
pub(crate) static TOKEN_REVIEW: KindRules = KindRules {
    group: "authentication.k8s.io",
    kind: "TokenReview",
    plural: "tokenreviews",
    review: Some(Review::Token),
    ..COMMON
};
