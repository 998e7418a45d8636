//! The selectable fields of built-in kinds: their names and their values.
//!
//! Used by lists and watches; values are read from the stored object. The fields of custom kinds
//! are declared by their definitions and not known here.
//!
//! The names and messages are those of the field label conversions in k8s.io/kubernetes v1.36.4
//! pkg/apis/*/v1/conversion.go.

use serde_json::Value;

use crate::ApiError;
use crate::kinds::json_access::{flag, number, text};

/// A selectable field, by its stored name.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Field {
    /// The stored name.
    pub(crate) name: &'static str,
    value: FieldValue,
}

/// The source of the value of a field: a JSON pointer, or a function.
#[derive(Clone, Copy, Debug)]
enum FieldValue {
    Text(&'static str),
    Flag(&'static str),
    Number(&'static str),
    /// Computed from the values at these JSON pointers.
    Computed(&'static [&'static str], fn(&Value) -> String),
}

impl Field {
    /// Creates the field for the string at a JSON pointer.
    pub(crate) const fn text(name: &'static str, pointer: &'static str) -> Self {
        Self { name, value: FieldValue::Text(pointer) }
    }

    /// Creates the field for the boolean at a JSON pointer.
    pub(crate) const fn flag(name: &'static str, pointer: &'static str) -> Self {
        Self { name, value: FieldValue::Flag(pointer) }
    }

    /// Creates the field for the integer at a JSON pointer.
    pub(crate) const fn number(name: &'static str, pointer: &'static str) -> Self {
        Self { name, value: FieldValue::Number(pointer) }
    }

    /// Creates a field whose value is computed from the values at these JSON pointers.
    pub(crate) const fn computed(
        name: &'static str,
        reads: &'static [&'static str],
        value: fn(&Value) -> String,
    ) -> Self {
        Self { name, value: FieldValue::Computed(reads, value) }
    }

    /// Returns the value of the field in a stored object, as selectors compare it: absent fields
    /// are empty, booleans `false`, numbers `0`.
    pub(crate) fn value(&self, object: &Value) -> String {
        match self.value {
            FieldValue::Text(pointer) => text(object, pointer).to_owned(),
            FieldValue::Flag(pointer) => flag(object, pointer).to_string(),
            FieldValue::Number(pointer) => number(object, pointer).unwrap_or(0).to_string(),
            FieldValue::Computed(_, value) => value(object),
        }
    }

    /// Returns the JSON pointers of the values that the value of the field depends on.
    fn reads(&self) -> &[&'static str] {
        match &self.value {
            FieldValue::Text(pointer) | FieldValue::Flag(pointer) | FieldValue::Number(pointer) => {
                std::slice::from_ref(pointer)
            }
            FieldValue::Computed(reads, _) => reads,
        }
    }
}

/// The fields by which objects of a kind can be selected.
#[derive(Clone, Copy, Debug)]
pub struct SelectableFields {
    /// The fields beyond name and namespace.
    pub(crate) fields: &'static [Field],
    /// The names in selectors that differ from the stored ones, each with the stored name.
    pub(crate) aliases: &'static [(&'static str, &'static str)],
    /// The stored names that selectors cannot use.
    pub(crate) hidden: &'static [&'static str],
    /// True if `metadata.namespace` can be selected.
    pub(crate) namespace: bool,
    /// The message for an unknown field.
    pub(crate) unknown: fn(&str) -> String,
}

impl SelectableFields {
    /// The fields of most kinds: name and namespace.
    pub(crate) const COMMON: Self = Self {
        fields: &[],
        aliases: &[],
        hidden: &[],
        namespace: true,
        unknown: |label| {
            format!("{label:?} is not a known field selector: only \"metadata.name\", \"metadata.namespace\"")
        },
    };

    /// Returns name, namespace and these fields.
    pub(crate) const fn of(fields: &'static [Field]) -> Self {
        Self { fields, unknown: |label| format!("field label not supported: {label}"), ..Self::COMMON }
    }

    /// Returns the fields beyond name and namespace by their stored names, with their values in a
    /// stored object.
    pub fn values(&self, object: &Value) -> impl Iterator<Item = (&'static str, String)> {
        self.fields.iter().map(|it| (it.name, it.value(object)))
    }

    /// Returns the JSON pointers of the values that the fields depend on: [`Self::values`] returns
    /// the same for an object that has only these.
    pub fn reads(&self) -> impl Iterator<Item = &'static str> {
        self.fields.iter().flat_map(|it| it.reads()).copied()
    }

    /// Returns the stored name of a field in a selector.
    ///
    /// # Errors
    /// 400 for an unknown field. The message depends on the kind, as in kube-apiserver.
    pub fn resolve(&self, label: &str) -> Result<&'static str, ApiError> {
        match label {
            "metadata.name" => return Ok("metadata.name"),
            "metadata.namespace" if self.namespace => return Ok("metadata.namespace"),
            _ => {}
        }
        let alias = self.aliases.iter().find(|(alias, _)| *alias == label).map(|(_, stored)| *stored);
        let own = || {
            let visible = self.fields.iter().filter(|it| !self.hidden.contains(&it.name));
            visible.map(|it| it.name).find(|name| *name == label)
        };
        alias.or_else(own).ok_or_else(|| ApiError::bad_request((self.unknown)(label)))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::kinds::index::of_kind;
    use serde_json::Value;

    fn value(group: &str, kind: &str, label: &str, object: &Value) -> String {
        let selectable = of_kind(group, kind).fields;
        let stored = selectable.resolve(label).expect("a field of the kind");
        let field = selectable.fields.iter().find(|it| it.name == stored);
        field.expect("a field beyond name and namespace").value(object)
    }

    #[test]
    fn absent_fields_have_a_zero_value() {
        let pod = json!({"metadata": {"name": "p", "namespace": "n"}, "spec": {"nodeName": "w"},
            "status": {"phase": "Running", "podIPs": [{"ip": "1.2.3.4"}, {"ip": "::1"}]}});
        for (label, expected) in [
            ("spec.host", "w"),
            ("spec.hostNetwork", "false"),
            ("spec.schedulerName", ""),
            ("status.podIP", "1.2.3.4"),
            ("status.podIPs", "1.2.3.4,::1"),
        ] {
            assert_eq!(value("", "Pod", label, &pod), expected, "{label}");
        }
        let job = json!({"status": {"succeeded": 2}});
        assert_eq!(value("batch", "Job", "status.successful", &job), "2");
    }

    #[test]
    fn the_message_for_an_unknown_field_depends_on_the_kind() {
        for (group, kind, label, message) in [
            ("", "Pod", "spec.foo", "field label not supported: spec.foo"),
            ("", "Node", "metadata.namespace", "field label not supported: metadata.namespace"),
            ("batch", "Job", "spec.foo", "field label \"spec.foo\" not supported for Job"),
            (
                "",
                "ConfigMap",
                "data.k",
                "\"data.k\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\"",
            ),
            (
                "events.k8s.io",
                "Event",
                "involvedObject.kind",
                "field label not supported: involvedObject.kind",
            ),
            ("events.k8s.io", "Event", "source", "field label not supported: source"),
            ("", "Event", "regarding.kind", "field label not supported: regarding.kind"),
        ] {
            let refusal = of_kind(group, kind).fields.resolve(label).expect_err("the field is unknown");
            assert_eq!((refusal.0.code, refusal.0.message.as_str()), (400, message));
        }
    }

    #[test]
    fn both_groups_of_events_select_from_one_store() {
        let event = json!({"involvedObject": {"kind": "Pod"}, "reportingComponent": "c", "type": "Normal"});
        for (group, label, expected) in [
            ("", "involvedObject.kind", "Pod"),
            ("events.k8s.io", "regarding.kind", "Pod"),
            ("events.k8s.io", "reportingController", "c"),
            ("", "source", "c"),
        ] {
            assert_eq!(value(group, "Event", label, &event), expected, "{group} {label}");
        }
    }
}
