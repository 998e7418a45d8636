//! The kinds of the group `authorization.k8s.io`: reviews of permissions.

use crate::kinds::rules::{COMMON, KindRules, Review};

/// The rules of the kind SubjectAccessReview.
pub(crate) static SUBJECT_ACCESS_REVIEW: KindRules = KindRules {
    group: "authorization.k8s.io",
    kind: "SubjectAccessReview",
    plural: "subjectaccessreviews",
    review: Some(Review::Access),
    ..COMMON
};

/// The rules of the kind LocalSubjectAccessReview.
pub(crate) static LOCAL_SUBJECT_ACCESS_REVIEW: KindRules = KindRules {
    group: "authorization.k8s.io",
    kind: "LocalSubjectAccessReview",
    plural: "localsubjectaccessreviews",
    review: Some(Review::Access),
    ..COMMON
};

/// The rules of the kind SelfSubjectAccessReview.
pub(crate) static SELF_SUBJECT_ACCESS_REVIEW: KindRules = KindRules {
    group: "authorization.k8s.io",
    kind: "SelfSubjectAccessReview",
    plural: "selfsubjectaccessreviews",
    review: Some(Review::OwnAccess),
    ..COMMON
};

/// The rules of the kind SelfSubjectRulesReview.
pub(crate) static SELF_SUBJECT_RULES_REVIEW: KindRules = KindRules {
    group: "authorization.k8s.io",
    kind: "SelfSubjectRulesReview",
    plural: "selfsubjectrulesreviews",
    review: Some(Review::Rules),
    ..COMMON
};
