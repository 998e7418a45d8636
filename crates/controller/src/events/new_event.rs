//! The content of an event, truncated to the limits of the server.

use dogwatch_core::names;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube_core::{ObjectMeta, Resource};

/// The maximum length of a note, in bytes (`NoteLengthLimit` in
/// `k8s.io/kubernetes v1.36.4 pkg/apis/core/validation/events.go`).
const MAX_NOTE: usize = 1024;
/// The maximum length of the reason, the action and the reporting instance, in bytes (same file).
const MAX_WORD: usize = 128;

/// The type of an event.
///
/// ```
/// use dogwatch_controller::events::EventType;
///
/// assert_eq!(EventType::Normal.as_str(), "Normal");
/// assert_eq!(EventType::Warning.as_str(), "Warning");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum EventType {
    /// An expected event.
    Normal,
    /// An event that needs attention.
    Warning,
}

/// One occurrence to record as an event.
///
/// ```
/// use dogwatch_controller::NewEvent;
/// use k8s_openapi::api::core::v1::Pod;
///
/// let pod = Pod::default();
/// let event = NewEvent::warning("Evicted", "Draining").message("the node is drained").related(&pod);
/// assert_ne!(event, NewEvent::normal("Evicted", "Draining"));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct NewEvent {
    kind: EventType,
    reason: String,
    action: String,
    text: String,
    related: Option<ObjectReference>,
}

/// An error for a name that is not valid for a reporting controller.
///
/// ```
/// use dogwatch_controller::Manager;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = dogwatch_apiserver::ApiServer::in_process().await?;
/// # let url = server.url().parse()?;
/// # let client = dogwatch_client::Client::from_service(url, "default", server.service());
/// let error = Manager::new(client).events("my controller").expect_err("a blank is not allowed");
/// assert_eq!(error.name, "my controller");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{name:?} is not a valid controller name: use letters, digits, `-`, `_` and `.`, with an optional domain and slash before them"
)]
#[non_exhaustive]
pub struct InvalidReporter {
    /// The rejected name.
    pub name: String,
}

/// The source of an event.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Reporter {
    pub(super) controller: String,
    pub(super) instance: String,
}

/// The identity of an event: two events with equal keys are the same (rule EV-2). The text and the
/// time are not part of it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct EventKey {
    pub(super) reporter: Reporter,
    pub(super) kind: EventType,
    pub(super) regarding: Subject,
    reason: String,
    action: String,
    related: Option<Subject>,
}

/// The identity of an object that an event is about.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Subject([Option<String>; 6]);

impl NewEvent {
    /// Creates a normal event with its reason, such as `ScaledUp`, and its action, such as
    /// `Scaling`.
    pub fn normal(reason: impl Into<String>, action: impl Into<String>) -> Self {
        Self::new(EventType::Normal, reason.into(), action.into())
    }

    /// Creates a warning with its reason and its action.
    pub fn warning(reason: impl Into<String>, action: impl Into<String>) -> Self {
        Self::new(EventType::Warning, reason.into(), action.into())
    }

    /// Sets the human-readable message, the field `note`. Truncated to 1024 bytes, the limit of the
    /// server.
    #[must_use]
    pub fn message(mut self, message: impl Into<String>) -> Self {
        self.text = cut(message.into(), MAX_NOTE);
        self
    }

    /// Sets a second object that the event is related to.
    #[must_use]
    pub fn related<K: Resource<DynamicType = ()>>(mut self, object: &K) -> Self {
        self.related = Some(object.object_ref(&()));
        self
    }

    fn new(kind: EventType, reason: String, action: String) -> Self {
        let (reason, action) = (cut(reason, MAX_WORD), cut(action, MAX_WORD));
        Self { kind, reason, action, text: String::new(), related: None }
    }

    /// Returns true if the event has the fields that a server requires.
    pub(super) fn is_complete(&self) -> bool {
        !self.reason.is_empty() && !self.action.is_empty()
    }

    pub(super) fn key(&self, reporter: &Reporter, regarding: &ObjectReference) -> EventKey {
        EventKey {
            reporter: reporter.clone(),
            kind: self.kind,
            regarding: Subject::of(regarding),
            reason: self.reason.clone(),
            action: self.action.clone(),
            related: self.related.as_ref().map(Subject::of),
        }
    }

    /// Returns the event as it is created on the server.
    pub(super) fn event(self, reporter: &Reporter, regarding: ObjectReference, now: Timestamp) -> Event {
        // An event about a cluster-scoped object is stored in the namespace `default`; any other in
        // the namespace of its object.
        let namespace = regarding.namespace.clone().filter(|it| !it.is_empty());
        Event {
            metadata: ObjectMeta {
                name: Some(event_name(regarding.name.as_deref().unwrap_or_default(), now)),
                namespace: Some(namespace.unwrap_or_else(|| "default".to_owned())),
                ..ObjectMeta::default()
            },
            event_time: Some(MicroTime(now)),
            reporting_controller: Some(reporter.controller.clone()),
            reporting_instance: Some(reporter.instance.clone()),
            action: Some(self.action),
            reason: Some(self.reason),
            note: Some(self.text),
            type_: Some(self.kind.as_str().to_owned()),
            regarding: Some(regarding),
            related: self.related,
            ..Event::default()
        }
    }
}

impl EventType {
    /// Returns the value of the API's `type` field.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Normal => "Normal",
            Self::Warning => "Warning",
        }
    }
}

impl Reporter {
    pub(super) fn new(controller: &str, instance: &str) -> Result<Self, InvalidReporter> {
        if !names::is_qualified_name(controller) {
            return Err(InvalidReporter { name: controller.to_owned() });
        }
        let instance = cut(instance.to_owned(), MAX_WORD);
        Ok(Self { controller: controller.to_owned(), instance })
    }
}

impl Subject {
    fn of(reference: &ObjectReference) -> Self {
        let it = reference.clone();
        Self([it.api_version, it.kind, it.namespace, it.name, it.uid, it.field_path])
    }
}

/// Returns a unique name: the name of the object and the time in nanoseconds. If the object's name
/// is not valid for an event, or too long, a UUID takes its place.
fn event_name(object: &str, now: Timestamp) -> String {
    let time = format!("{:x}", now.as_nanosecond());
    let room = names::MAX_SUBDOMAIN - time.len() - 1;
    if names::is_subdomain(object) && object.len() <= room {
        return format!("{object}.{time}");
    }
    let unique = uuid::Builder::from_random_bytes(rand::random()).into_uuid();
    format!("event-{unique}.{time}")
}

/// Truncates a text at a character boundary.
fn cut(mut text: String, most: usize) -> String {
    text.truncate(text.floor_char_boundary(most));
    text
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{Node, Pod};

    use super::*;

    fn pod(name: &str) -> ObjectReference {
        ObjectReference {
            name: Some(name.to_owned()),
            namespace: Some("here".to_owned()),
            ..Pod::default().object_ref(&())
        }
    }

    fn reporter() -> Reporter {
        Reporter::new("example.com/tests", "one").expect("a name")
    }

    #[test]
    fn an_event_has_all_fields_that_the_server_requires() {
        let now = Timestamp::from_second(1_700_000_000).expect("a time");
        let event = NewEvent::warning("Failed", "Pulling").message("no such image").event(
            &reporter(),
            pod("web"),
            now,
        );
        assert_eq!(event.metadata.name.as_deref(), Some("web.17979cfe362a0000"));
        assert_eq!(event.metadata.namespace.as_deref(), Some("here"));
        assert_eq!((event.type_.as_deref(), event.note.as_deref()), (Some("Warning"), Some("no such image")));
        let node = NewEvent::normal("a", "b").event(&reporter(), Node::default().object_ref(&()), now);
        assert_eq!(node.metadata.namespace.as_deref(), Some("default"));
    }

    #[test]
    fn long_texts_are_truncated_at_a_character_boundary() {
        let note = NewEvent::normal("r".repeat(200), "a".repeat(200)).message("é".repeat(1_000));
        assert_eq!((note.reason.len(), note.action.len(), note.text.len()), (128, 128, 1024));
        let odd = NewEvent::normal("r", "a").message(format!("x{}", "é".repeat(1_000)));
        assert_eq!(odd.text.len(), 1023);
        assert!(!NewEvent::normal("", "a").is_complete() && !NewEvent::normal("r", "").is_complete());
    }

    #[test]
    fn an_event_name_is_valid_for_any_object_name() {
        let now = Timestamp::from_second(1_700_000_000).expect("a time");
        for object in ["system:admin", &"a".repeat(253), "", "UPPER"] {
            let name = event_name(object, now);
            assert!(names::is_subdomain(&name), "{name}");
        }
    }

    #[test]
    fn a_reporter_name_is_a_qualified_name() {
        for (name, valid) in [
            ("example.com/tests", true),
            ("my-controller", true),
            ("My_Controller.v1", true),
            ("", false),
            ("-a", false),
            ("a b", false),
            ("Example.com/tests", false),
            ("example.com/", false),
        ] {
            assert_eq!(Reporter::new(name, "one").is_ok(), valid, "{name}");
        }
    }

    #[test]
    fn ev_2_events_are_the_same_by_source_object_reason_and_action() {
        let key = |note: &NewEvent, name: &str| note.key(&reporter(), &pod(name));
        let note = NewEvent::normal("r", "a");
        assert_eq!(key(&note, "web"), key(&note.clone().message("another text"), "web"));
        assert_ne!(key(&note, "web"), key(&note, "api"));
        assert_ne!(key(&note, "web"), key(&NewEvent::warning("r", "a"), "web"));
        assert_ne!(key(&note, "web"), key(&NewEvent::normal("r", "b"), "web"));
        assert_ne!(key(&note, "web"), key(&note.clone().related(&Node::default()), "web"));
    }
}
