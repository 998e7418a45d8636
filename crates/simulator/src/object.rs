//! Objects as the caches hold them: JSON, with the few facts that are read often decoded once.

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use dogwatch_core::{Gvk, Header, Meta, Object};
use jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use crate::condition;
use crate::json_access::text;
use crate::owner::{controller, is_deleting};

/// A form of objects that caches hold and requests carry.
pub(crate) trait Payload:
    Object + Serialize + DeserializeOwned + Deref<Target = Value> + From<Value>
{
    /// Returns the JSON, shared with this object.
    fn json(&self) -> &Arc<Value>;

    /// Fills in the type, which the items of a list leave out.
    fn typed(self, kind: &Gvk) -> Self {
        if self.get("kind").is_some() {
            return self;
        }
        let mut value = Value::clone(&self);
        value["apiVersion"] = kind.api_version().into();
        value["kind"] = kind.kind.as_str().into();
        Self::from(value)
    }
}

/// An object of any kind.
#[derive(Clone, Debug)]
pub(crate) struct JsonObject {
    value: Arc<Value>,
    meta: Meta,
}

impl Payload for JsonObject {
    fn json(&self) -> &Arc<Value> {
        &self.value
    }
}

impl From<Value> for JsonObject {
    fn from(value: Value) -> Self {
        let meta = value.get("metadata").and_then(|it| Meta::deserialize(it).ok()).unwrap_or_default();
        Self { value: Arc::new(value), meta }
    }
}

impl Object for JsonObject {
    fn header(&self) -> Header<'_> {
        self.meta.header()
    }
}

impl Deref for JsonObject {
    type Target = Value;

    fn deref(&self) -> &Value {
        &self.value
    }
}

impl Serialize for JsonObject {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.value.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for JsonObject {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Value::deserialize(deserializer).map(Self::from)
    }
}

/// A pod, with the facts by which it is counted. A set of 10,000 pods is counted whenever some of
/// them have changed, so the facts of a version are read only once.
#[derive(Clone, Debug)]
pub(crate) struct Pod {
    object: JsonObject,
    /// The uid of its controller, of any kind.
    pub(crate) controller: Option<String>,
    pub(crate) is_deleting: bool,
    pub(crate) has_ended: bool,
    /// The time since when it is ready, as far as it is known; `None` if it is not ready.
    pub(crate) ready: Option<Option<Timestamp>>,
}

impl Pod {
    pub(crate) fn is_active(&self) -> bool {
        !self.has_ended && !self.is_deleting
    }

    /// Returns the time until it has been ready for this many seconds: zero if it has been, `None`
    /// if it is not ready.
    pub(crate) fn available_after(&self, seconds: i64, now: Timestamp) -> Option<Duration> {
        let since = self.ready?;
        let rest =
            since.map_or(0, |it| it.as_second().saturating_add(seconds).saturating_sub(now.as_second()));
        let is_over = seconds == 0 || rest <= 0;
        Some(if is_over { Duration::ZERO } else { Duration::from_secs(rest.unsigned_abs()) })
    }

    /// Returns the name of its node; empty if it has none.
    pub(crate) fn node(&self) -> &str {
        text(self, "/spec/nodeName")
    }
}

/// Returns true if all containers of a pod have ended.
pub(crate) fn has_ended(pod: &Value) -> bool {
    matches!(text(pod, "/status/phase"), "Succeeded" | "Failed")
}

impl Payload for Pod {
    fn json(&self) -> &Arc<Value> {
        self.object.json()
    }
}

impl From<JsonObject> for Pod {
    fn from(object: JsonObject) -> Self {
        let ready = condition::find(&object, "Ready").filter(|it| text(it, "/status") == "True");
        Self {
            controller: controller(&object).map(|it| text(it, "/uid").to_owned()),
            is_deleting: is_deleting(&object),
            has_ended: has_ended(&object),
            ready: ready.map(|it| text(it, "/lastTransitionTime").parse().ok()),
            object,
        }
    }
}

impl From<Value> for Pod {
    fn from(value: Value) -> Self {
        JsonObject::from(value).into()
    }
}

impl Object for Pod {
    fn header(&self) -> Header<'_> {
        self.object.header()
    }
}

impl Deref for Pod {
    type Target = Value;

    fn deref(&self) -> &Value {
        &self.object
    }
}

impl Serialize for Pod {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.object.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Pod {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        JsonObject::deserialize(deserializer).map(Self::from)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_item_of_a_list_gets_the_type_of_its_list() {
        let kind = Gvk::new("apps", "v1", "ReplicaSet");
        let item = json!({ "metadata": { "name": "a", "namespace": "n", "labels": { "app": "web" } } });
        let object = JsonObject::from(item).typed(&kind);
        assert_eq!((&object["apiVersion"], &object["kind"]), (&json!("apps/v1"), &json!("ReplicaSet")));
        assert_eq!(object.header().labels.get("app"), Some("web"));
        assert_eq!(object.key().map(String::from).as_deref(), Some("n/a"));
    }

    #[test]
    fn the_facts_of_a_pod_follow_from_its_state() {
        let pod = Pod::from(json!({
            "metadata": { "name": "a", "ownerReferences": [{ "uid": "u", "controller": true }] },
            "status": { "phase": "Running", "conditions": [
                { "type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:10Z" }] },
        }));
        assert!(pod.is_active() && pod.ready.flatten().is_some());
        assert_eq!((pod.controller.as_deref(), pod.node()), (Some("u"), ""));
    }
}
