//! Events: what controllers tell people about an object.

use serde_json::{Value, json};

use crate::cluster::{Cluster, Writer};
use crate::kinds::look::text;

/// Something worth telling.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Note {
    /// Whether it is something to look into.
    pub(crate) warning: bool,
    /// One word for it.
    pub(crate) reason: &'static str,
    /// A sentence about it.
    pub(crate) message: String,
}

impl Note {
    /// All is well.
    pub(crate) fn normal(reason: &'static str, message: String) -> Self {
        Self { warning: false, reason, message }
    }

    /// Something to look into.
    pub(crate) fn warning(reason: &'static str, message: String) -> Self {
        Self { warning: true, reason, message }
    }
}

/// Tells something about an object. An event that cannot be stored is lost, as it is in the original.
pub(crate) async fn record(cluster: &Cluster, writer: &Writer, about: &Value, note: &Note) {
    let namespace = match text(about, "/metadata/namespace") {
        "" => "default",
        namespace => namespace,
    };
    let source = cluster.source();
    // The original takes the time alone; here it may stand still.
    let unique = source.now().as_nanosecond() as u64 ^ source.below(1 << 32);
    let name = format!("{}.{unique:x}", text(about, "/metadata/name"));
    let event = event(about, note, namespace, &name, &writer.manager, &source.stamp());
    if let Err(refusal) = cluster.add(event, writer).await {
        tracing::debug!(reason = note.reason, %refusal, "an event is lost");
    }
}

fn event(about: &Value, note: &Note, namespace: &str, name: &str, component: &str, now: &str) -> Value {
    let mut involved = json!({
        "kind": about["kind"], "apiVersion": about["apiVersion"], "name": about["metadata"]["name"],
        "uid": about["metadata"]["uid"], "resourceVersion": about["metadata"]["resourceVersion"],
    });
    if let Some(namespace) = about["metadata"]["namespace"].as_str() {
        involved["namespace"] = namespace.into();
    }
    json!({
        "apiVersion": "v1", "kind": "Event", "metadata": { "name": name, "namespace": namespace },
        "involvedObject": involved, "reason": note.reason, "message": note.message,
        "type": if note.warning { "Warning" } else { "Normal" },
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
        let note = Note::warning("Bad", "it is bad".to_owned());
        let event = event(&pod, &note, "b", "a.1", "tester", "2026-01-01T00:00:00Z");
        assert_eq!(
            event["involvedObject"],
            json!({ "kind": "Pod", "apiVersion": "v1", "name": "a", "namespace": "b", "uid": "u", "resourceVersion": "7" })
        );
        assert_eq!((&event["type"], &event["reason"]), (&json!("Warning"), &json!("Bad")));
        assert_eq!(event["source"]["component"], "tester");
    }
}
