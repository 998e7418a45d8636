//! The kind of a resource of another server, and the parts of its objects that are needed to store
//! them.
//!
//! That server has decided about the objects already: they are stored as it shows them, without
//! defaults, validation or conversion.

use std::sync::Arc;

use serde_json::{Value, json};

use super::kind::Kind;
use crate::builtin::{self, ResourceDef};
use crate::custom::CustomKind;
use crate::kinds::rules::Conversion;
use crate::protobuf::{Envelope, has_protobuf};
use crate::store::{Encoded, EventType, FieldName, NotStored, Paths, Received, SelectableField};

/// The metadata that every stored object has in memory.
const METADATA: [&str; 7] = [
    "/kind",
    "/apiVersion",
    "/metadata/name",
    "/metadata/namespace",
    "/metadata/uid",
    "/metadata/resourceVersion",
    "/metadata/labels",
];

/// The kind of a resource of another server.
#[derive(Debug)]
pub(crate) struct CopiedKind {
    kind: Arc<Kind>,
    api_version: String,
    paths: Paths,
    /// The conversion to the form that has the selectable fields, if the objects have another.
    conversion: Option<&'static Conversion>,
}

/// An object in one of the encodings in which servers send it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ReceivedBytes<'a> {
    /// JSON, or protobuf in its envelope.
    Object(&'a [u8]),
    /// The protobuf message alone, as in a list.
    Message(&'a [u8]),
}

impl CopiedKind {
    /// Creates the kind of a resource. One that is built in here has the rules of the built-in
    /// kind; another one has these columns and selectable fields, as in a version of a
    /// CustomResourceDefinition.
    pub(crate) fn new(resource: ResourceDef, columns: &[Value], selectable: &[String]) -> Self {
        let known = builtin::resource(&resource.group, &resource.version, &resource.plural);
        let known = known.filter(|it| it.kind == resource.kind && it.namespaced == resource.namespaced);
        let (kind, conversion) = match known {
            Some(def) => Kind::builtin_as_served(def),
            None => (custom(resource, columns, selectable), None),
        };
        let mut paths = Paths::default();
        METADATA.iter().for_each(|it| paths.add(it));
        match (conversion, kind.custom_version()) {
            // The conversion may read any part.
            (Some(_), _) => paths.add(""),
            (None, None) => kind.rules.fields.reads().for_each(|it| paths.add(it)),
            (None, Some(version)) => {
                version.selectable.iter().for_each(|it| paths.add(&format!("/{}", it.replace('.', "/"))));
            }
        }
        let api_version = kind.def.api_version().into_owned();
        Self { kind: Arc::new(kind), api_version, paths, conversion }
    }

    /// Returns the kind.
    pub(crate) fn kind(&self) -> &Arc<Kind> {
        &self.kind
    }

    /// Returns true if the objects have a protobuf encoding that is known here.
    pub(crate) fn has_protobuf(&self) -> bool {
        !self.kind.def.custom && has_protobuf(&self.api_version, &self.kind.def.kind)
    }

    /// Stores an object as that of an event.
    ///
    /// # Errors
    ///
    /// Returns an error if the object cannot be read, or is not one of this kind.
    pub(crate) fn store(
        &self,
        event_type: EventType,
        bytes: ReceivedBytes<'_>,
    ) -> Result<Encoded, NotStored> {
        let (kind, api_version) = (self.kind.def.kind.as_str(), self.api_version.as_str());
        let store = |bytes: &[u8]| {
            Received { bytes, kind, api_version }.store(event_type, &self.paths, |it| self.fields(it))
        };
        match bytes {
            ReceivedBytes::Object(bytes) => store(bytes),
            ReceivedBytes::Message(message) => {
                let head = Envelope::head(api_version, kind, message.len());
                store(&[&head[..], message, Envelope::TAIL].concat())
            }
        }
    }

    fn fields(&self, picked: &Value) -> Vec<SelectableField> {
        match (&self.conversion, self.kind.custom_kind()) {
            (_, Some(custom)) => {
                let values = custom.field_values(picked).into_iter();
                values.map(|(name, value)| (FieldName::Shared(name), value)).collect()
            }
            (Some(conversion), None) => self.builtin_fields(&(conversion.to_stored)(picked)),
            (None, None) => self.builtin_fields(picked),
        }
    }

    fn builtin_fields(&self, object: &Value) -> Vec<SelectableField> {
        self.kind.rules.fields.values(object).map(|(name, value)| (FieldName::Static(name), value)).collect()
    }
}

/// Returns the kind of a resource that is not built in, compiled from a definition with what is
/// known of it.
fn custom(resource: ResourceDef, columns: &[Value], selectable: &[String]) -> Kind {
    let fields: Vec<_> = selectable.iter().map(|it| json!({ "jsonPath": it })).collect();
    let definition = json!({ "spec": {
        "group": resource.group,
        "scope": if resource.namespaced { "Namespaced" } else { "Cluster" },
        "names": { "plural": resource.plural, "singular": resource.singular, "kind": resource.kind,
            "listKind": resource.list_kind },
        "versions": [{ "name": resource.version, "served": true, "storage": true,
            "additionalPrinterColumns": columns, "selectableFields": fields }],
    } });
    let kind = Arc::new(CustomKind::read(&definition));
    Kind::custom(Arc::new(resource), &kind, 0, false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::FieldName;

    fn resource(group: &str, version: &str, plural: &str, kind: &str) -> ResourceDef {
        let verbs = ["get", "list", "watch"].map(str::to_owned).to_vec();
        ResourceDef {
            group: group.to_owned(),
            version: version.to_owned(),
            kind: kind.to_owned(),
            list_kind: format!("{kind}List"),
            plural: plural.to_owned(),
            singular: kind.to_lowercase(),
            short_names: Vec::new(),
            categories: Vec::new(),
            namespaced: true,
            verbs,
            subresources: Vec::new(),
            preferred: false,
            custom: true,
        }
    }

    fn stored(kind: &CopiedKind, object: &Value) -> Encoded {
        let bytes = object.to_string();
        kind.store(EventType::Added, ReceivedBytes::Object(bytes.as_bytes())).expect("it is stored")
    }

    #[test]
    fn a_built_in_kind_has_its_selectable_fields_in_either_encoding() {
        let kind = CopiedKind::new(resource("", "v1", "pods", "Pod"), &[], &[]);
        assert!(kind.has_protobuf());
        let pod = json!({ "kind": "Pod", "apiVersion": "v1",
            "metadata": { "name": "a", "namespace": "b", "uid": "u", "resourceVersion": "7", "labels": { "k": "v" } },
            "spec": { "nodeName": "n", "containers": [] }, "status": { "podIPs": [{ "ip": "1.2.3.4" }] } });
        let protobuf = crate::protobuf::encode(&pod).expect("a built-in kind");
        let message = Envelope::read(&protobuf).expect("an envelope").message;
        let all = [
            ReceivedBytes::Object(pod.to_string().as_bytes()),
            ReceivedBytes::Object(&protobuf),
            ReceivedBytes::Message(message),
        ]
        .map(|it| kind.store(EventType::Added, it).expect("it is stored"));
        for object in all {
            assert_eq!((object.key().as_str(), object.uid(), object.version()), ("b/a", "u", 7));
            assert_eq!(object.labels().get("k"), Some("v"));
            let fields = ["spec.nodeName", "status.podIP", "spec.hostNetwork"].map(|it| object.field(it));
            assert_eq!(fields, [Some("n"), Some("1.2.3.4"), Some("false")]);
            assert_eq!(object.to_value()["spec"]["nodeName"], "n");
        }
    }

    #[test]
    fn events_of_both_groups_are_selected_by_the_fields_of_the_core_group() {
        let kind = CopiedKind::new(resource("events.k8s.io", "v1", "events", "Event"), &[], &[]);
        let event = json!({ "kind": "Event", "apiVersion": "events.k8s.io/v1",
            "metadata": { "name": "a", "namespace": "b", "resourceVersion": "7" }, "regarding": { "kind": "Pod" } });
        let object = stored(&kind, &event);
        assert_eq!(object.field("involvedObject.kind"), Some("Pod"));
        assert_eq!(kind.kind().try_show(&object).expect("it is as it is served"), event);
    }

    #[test]
    fn a_custom_kind_has_the_columns_and_the_fields_that_are_given() {
        let columns = [json!({ "name": "Colour", "type": "string", "jsonPath": ".spec.colour" })];
        let widgets = resource("example.com", "v1", "widgets", "Widget");
        let kind = CopiedKind::new(widgets, &columns, &[".spec.colour".to_owned()]);
        assert!(!kind.has_protobuf());
        let object = stored(
            &kind,
            &json!({ "apiVersion": "example.com/v1", "kind": "Widget", "spec": { "colour": "red" },
                "metadata": { "name": "a", "resourceVersion": "7" } }),
        );
        assert_eq!(object.field("spec.colour"), Some("red"));
        assert_eq!(kind.kind().custom_version().expect("a custom kind").columns[0].name, "Colour");
        assert!(matches!(FieldName::from("x"), FieldName::Static("x")));
    }

    #[test]
    fn an_object_that_cannot_be_stored_is_named_in_the_error() {
        let kind = CopiedKind::new(resource("", "v1", "pods", "Pod"), &[], &[]);
        let refused = |object: &str| {
            let error = kind.store(EventType::Added, ReceivedBytes::Object(object.as_bytes()));
            error.expect_err(object).to_string()
        };
        let metadata = r#""metadata":{"name":"a","namespace":"b","resourceVersion":"7"}"#;
        for (object, expected) in [
            (
                format!(r#"{{"kind":"Node",{metadata}}}"#),
                r#"b/a cannot be stored: its kind is "Node" and not "Pod""#,
            ),
            (
                r#"{"metadata":{"name":"a","resourceVersion":"x"}}"#.to_owned(),
                "a cannot be stored: its resourceVersion is not a number",
            ),
            (
                r#"{"metadata":{"resourceVersion":"7"}}"#.to_owned(),
                "an object without a readable name cannot be stored: it has no name to store it under",
            ),
        ] {
            assert_eq!(refused(&object), expected);
        }
    }

    /// A newer server may add fields. Go clients that do not know them skip them, but a copy that
    /// did the same would lose them for everyone.
    #[test]
    fn a_message_with_an_unknown_field_is_refused() {
        let kind = CopiedKind::new(resource("", "v1", "pods", "Pod"), &[], &[]);
        // metadata { name: "a", resourceVersion: "7" }, spec { field 63: 1 }
        let message = [&[0x0a, 6, 0x0a, 1, b'a', 0x32, 1, b'7'][..], &[0x12, 3, 0xf8, 0x03, 1]].concat();
        let error =
            kind.store(EventType::Added, ReceivedBytes::Message(&message)).expect_err("an unknown field");
        assert!(error.is_unknown_field && error.name == "a", "{error}");
        assert!(error.to_string().contains("spec"), "{error}");
    }
}
