//! Events that controllers record about objects.

use serde_json::{Value, json};

use crate::cluster::{Cluster, Writer};
use crate::kinds::json_access::text;

/// The content of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Event {
    /// True for type `Warning`, false for `Normal`.
    pub(crate) warning: bool,
    /// The reason, in one word.
    pub(crate) reason: &'static str,
    /// The message.
    pub(crate) message: String,
}

impl Event {
    /// Creates an event of type `Warning`.
    pub(crate) fn warning(reason: &'static str, message: String) -> Self {
        Self { warning: true, reason, message }
    }
}

/// Records an event about an object. An event that cannot be stored is dropped, as by client-go.
pub(crate) async fn record(cluster: &Cluster, writer: &Writer, about: &Value, event: &Event) {
    let namespace = match text(about, "/metadata/namespace") {
        "" => "default",
        namespace => namespace,
    };
    let source = cluster.source();
    // client-go uses only the time; here the clock may be paused.
    let unique = source.now().as_nanosecond() as u64 ^ source.below(1 << 32);
    let name = format!("{}.{unique:x}", text(about, "/metadata/name"));
    let object = event_json(about, event, namespace, &name, &writer.manager, &source.stamp());
    if let Err(refusal) = cluster.add(object, writer).await {
        tracing::debug!(reason = event.reason, %refusal, "an event is dropped");
    }
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
