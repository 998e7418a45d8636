//! Events that components record about objects.

use std::sync::Arc;

use dogwatch_client::{Api, Client};
use dogwatch_core::{Gvk, ResourceType, WriteParams};
use serde_json::{Value, json};

use crate::environment::Environment;
use crate::json_access::text;
use crate::object::JsonObject;

/// The number of characters that the name of an object may have.
const LONGEST_NAME: usize = 253;

/// Records events. Clones are equivalent.
#[derive(Clone, Debug)]
pub(crate) struct Recorder {
    events: Api<JsonObject>,
    environment: Arc<Environment>,
}

/// The content of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Event {
    /// True for type `Warning`, false for `Normal`.
    warning: bool,
    /// The reason, in one word.
    reason: &'static str,
    message: String,
}

impl Event {
    /// Creates an event of type `Normal`.
    pub(crate) fn normal(reason: &'static str, message: String) -> Self {
        Self { warning: false, reason, message }
    }

    /// Creates an event of type `Warning`.
    pub(crate) fn warning(reason: &'static str, message: String) -> Self {
        Self { warning: true, reason, message }
    }

    /// Returns true if the type is `Warning`.
    pub(crate) fn is_warning(&self) -> bool {
        self.warning
    }
}

impl Recorder {
    pub(crate) fn new(client: &Client, environment: &Arc<Environment>) -> Self {
        let resource = ResourceType::namespaced(Gvk::new("", "v1", "Event"), "events");
        Self { events: Api::dynamic(client.clone(), resource), environment: Arc::clone(environment) }
    }

    /// Records an event about an object. An event that cannot be stored is dropped, as by
    /// client-go v0.36.4 tools/record/event.go.
    pub(crate) async fn record(&self, component: &'static str, about: &Value, event: Event) {
        let namespace = match text(about, "/metadata/namespace") {
            "" => "default",
            namespace => namespace,
        };
        // client-go uses only the time; here the clock may be paused.
        let time = self.environment.now().as_nanosecond() as u64;
        let unique = time ^ u64::from(self.environment.number());
        let name = event_name(text(about, "/metadata/name"), unique);
        let object = event_json(about, &event, namespace, &name, component, &self.environment.stamp());
        let events = self.events.clone().in_namespace(namespace);
        let created = events.create(&WriteParams::default().manager(component), &object.into()).await;
        if let Err(error) = created {
            tracing::debug!(reason = event.reason, %error, "an event is dropped");
        }
    }
}

/// Returns the name of an event. The name of the object is shortened if the whole would be too
/// long.
fn event_name(object: &str, unique: u64) -> String {
    let end = format!(".{unique:x}");
    let kept = object.get(..LONGEST_NAME - end.len()).unwrap_or(object);
    // What precedes a dot has to end with a letter or a digit.
    format!("{}{end}", kept.trim_end_matches(['.', '-']))
}

fn event_json(
    about: &Value,
    event: &Event,
    namespace: &str,
    name: &str,
    component: &str,
    now: &str,
) -> Value {
    let mut involved = json!({
        "kind": about["kind"], "apiVersion": about["apiVersion"], "name": about["metadata"]["name"],
        "uid": about["metadata"]["uid"], "resourceVersion": about["metadata"]["resourceVersion"],
    });
    if let Some(namespace) = about["metadata"]["namespace"].as_str() {
        involved["namespace"] = namespace.into();
    }
    json!({
        "apiVersion": "v1", "kind": "Event", "metadata": { "name": name, "namespace": namespace },
        "involvedObject": involved, "reason": event.reason, "message": event.message,
        "type": if event.warning { "Warning" } else { "Normal" },
        "source": { "component": component }, "reportingComponent": component, "reportingInstance": "",
        "firstTimestamp": now, "lastTimestamp": now, "count": 1,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_names_the_object_it_is_about() {
        let pod = json!({ "kind": "Pod", "apiVersion": "v1",
            "metadata": { "name": "a", "namespace": "b", "uid": "u", "resourceVersion": "7" } });
        let event = Event::warning("Bad", "it is bad".to_owned());
        let event = event_json(&pod, &event, "b", "a.1", "tester", "2026-01-01T00:00:00Z");
        assert_eq!(
            event["involvedObject"],
            json!({ "kind": "Pod", "apiVersion": "v1", "name": "a", "namespace": "b", "uid": "u", "resourceVersion": "7" })
        );
        assert_eq!((&event["type"], &event["reason"]), (&json!("Warning"), &json!("Bad")));
        assert_eq!(event["source"]["component"], "tester");
    }
}
