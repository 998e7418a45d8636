//! DefaultStorageClass and DefaultIngressClass: the class of a claim or an ingress that names none.
//!
//! Mirrors k8s.io/kubernetes v1.36.4 plugin/pkg/admission/storage/storageclass/setdefault and
//! plugin/pkg/admission/network/defaultingressclass.

use std::cmp::Reverse;

use serde_json::Value;

use crate::kinds::json_access::{at, object, text};

/// A kind of objects that have a class.
#[derive(Clone, Copy, Debug)]
pub struct Classified {
    /// The field of the spec that names the class.
    field: &'static str,
    /// The annotation that named it earlier.
    annotation: &'static str,
    /// The annotations that mark a class as the default.
    marks: &'static [&'static str],
}

/// Claims and their storage classes.
pub const CLAIM: Classified = Classified {
    field: "storageClassName",
    annotation: "volume.beta.kubernetes.io/storage-class",
    marks: &[
        "storageclass.kubernetes.io/is-default-class",
        "storageclass.beta.kubernetes.io/is-default-class",
    ],
};

/// Ingresses and their ingress classes.
pub const INGRESS: Classified = Classified {
    field: "ingressClassName",
    annotation: "kubernetes.io/ingress.class",
    marks: &["ingressclass.kubernetes.io/is-default-class"],
};

impl Classified {
    /// Returns true if an object names no class. An empty name is one: that of no class at all.
    pub fn lacks_class(self, value: &Value) -> bool {
        let is_annotated =
            at(value, "/metadata/annotations").is_some_and(|it| it.get(self.annotation).is_some());
        !is_annotated && at(value, "/spec").and_then(|it| it.get(self.field)).is_none_or(Value::is_null)
    }

    /// Gives an object without a class the newest of the default classes.
    pub fn fill(self, value: &mut Value, classes: impl Iterator<Item = Value>) {
        let is_default = |class: &Value| {
            let annotations = at(class, "/metadata/annotations");
            annotations
                .is_some_and(|it| self.marks.iter().any(|mark| it.get(mark).is_some_and(|it| it == "true")))
        };
        let rank = |class: &Value| {
            let created = text(class, "/metadata/creationTimestamp").parse::<jiff::Timestamp>().ok();
            (Reverse(created), text(class, "/metadata/name").to_owned())
        };
        let Some(class) = classes.filter(is_default).min_by_key(rank) else { return };
        if let Some(map) = value.as_object_mut() {
            object(map, "spec").insert(self.field.to_owned(), text(&class, "/metadata/name").into());
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn class(name: &str, created: &str, mark: &str, value: &str) -> Value {
        json!({ "metadata": { "name": name, "creationTimestamp": created, "annotations": { mark: value } } })
    }

    #[test]
    fn the_newest_default_class_is_chosen_and_by_name_among_those_of_one_second() {
        let (old, new) = ("2026-01-01T00:00:00Z", "2026-01-01T00:00:01Z");
        let mark = INGRESS.marks[0];
        let classes = [
            class("a", old, mark, "true"),
            class("c", new, mark, "true"),
            class("b", new, mark, "true"),
            class("d", new, mark, "yes"),
        ];
        let mut ingress = json!({});
        INGRESS.fill(&mut ingress, classes.into_iter());
        assert_eq!(ingress["spec"]["ingressClassName"], "b");
        let mut claim = json!({});
        CLAIM.fill(
            &mut claim,
            [class("e", old, CLAIM.marks[1], "true"), class("f", new, mark, "true")].into_iter(),
        );
        assert_eq!(claim["spec"]["storageClassName"], "e");
        CLAIM.fill(&mut claim, std::iter::empty());
        assert_eq!(claim["spec"]["storageClassName"], "e");
    }

    #[test]
    fn an_empty_name_and_the_old_annotation_are_choices() {
        assert!(
            CLAIM.lacks_class(&json!({ "spec": { "storageClassName": null } }))
                && CLAIM.lacks_class(&json!({}))
        );
        assert!(!CLAIM.lacks_class(&json!({ "spec": { "storageClassName": "" } })));
        let annotated = json!({ "metadata": { "annotations": { "kubernetes.io/ingress.class": "" } } });
        assert!(!INGRESS.lacks_class(&annotated) && CLAIM.lacks_class(&annotated));
    }
}
