//! The flow schemas and priority levels that every server has from the start. They are stored and
//! do not delay requests: this server has no queues for them.

use dogwatch_core::ObjectKey;
use serde_json::{Value, json};

use super::{Cluster, ObjectRef, Writer};
use crate::ApiError;
use crate::kinds::json_access::{items, text};

const GROUP: &str = "flowcontrol.apiserver.k8s.io";

/// The priority levels and flow schemas of kube-apiserver 1.36.4, without what all of them have.
const OBJECTS: &str = include_str!("../../data/bootstrap-flow-control.jsonl");

/// The managers of the objects, and of their status.
const PRODUCER: &str = "api-priority-and-fairness-config-producer-v1";
const CONSUMER: &str = "api-priority-and-fairness-config-consumer-v1";

impl Cluster {
    /// Creates the objects that do not exist.
    ///
    /// # Errors
    /// The error of the first that cannot be created.
    pub(super) async fn create_flow_control(&self) -> Result<(), ApiError> {
        let writer = Writer::server(PRODUCER);
        for object in objects() {
            let key = ObjectKey::cluster(text(&object, "/metadata/name"));
            let is_schema = object["kind"] == "FlowSchema";
            match self.add(object, &writer).await {
                Err(refusal) if refusal.0.is_already_exists() => {}
                added => drop(added?),
            }
            if is_schema {
                self.settle_flow_schema(&key).await?;
            }
        }
        Ok(())
    }

    /// Sets the condition of a flow schema that says whether its priority level exists.
    ///
    /// # Errors
    /// The error of the write.
    pub(crate) async fn settle_flow_schema(&self, key: &ObjectKey) -> Result<(), ApiError> {
        let catalog = self.catalog();
        let (Some(schemas), Some(levels)) = (
            catalog.kind(GROUP, "v1", "flowschemas"),
            catalog.kind(GROUP, "v1", "prioritylevelconfigurations"),
        ) else {
            return Ok(());
        };
        let now = self.source().stamp();
        let settle = |schema: &mut Value| {
            let level = text(schema, "/spec/priorityLevelConfiguration/name").to_owned();
            let exists = ObjectKey::from_parts(None, &level).is_ok_and(|it| self.get(&levels, &it).is_some());
            set_dangling(schema, &level, !exists, &now)
        };
        self.change(&ObjectRef::of(&schemas, key).part("status"), &Writer::server(CONSUMER), settle).await?;
        Ok(())
    }
}

/// Sets the condition `Dangling` of a flow schema. Returns true if that changed it.
fn set_dangling(schema: &mut Value, level: &str, is_dangling: bool, now: &str) -> bool {
    let (status, reason, words) = match is_dangling {
        true => ("True", "NotFound", "but there is no such object"),
        false => ("False", "Found", "and it exists"),
    };
    let message =
        format!("This FlowSchema references the PriorityLevelConfiguration object named {level:?} {words}");
    let mut conditions = items(schema, "/status/conditions").to_vec();
    let old = conditions.iter().position(|it| text(it, "/type") == "Dangling");
    let condition = json!({ "type": "Dangling", "status": status, "reason": reason, "message": message,
        "lastTransitionTime": now });
    match old {
        Some(at)
            if text(&conditions[at], "/status") == status && text(&conditions[at], "/message") == message =>
        {
            return false;
        }
        Some(at) => conditions[at] = condition,
        None => conditions.push(condition),
    }
    schema["status"]["conditions"] = conditions.into();
    true
}

fn objects() -> impl Iterator<Item = Value> {
    OBJECTS.lines().map(|line| {
        let mut object: Value = serde_json::from_str(line).expect("a test reads every line");
        object["apiVersion"] = "flowcontrol.apiserver.k8s.io/v1".into();
        object["metadata"]["annotations"] = json!({ "apf.kubernetes.io/autoupdate-spec": "true" });
        object
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_an_object_and_every_schema_has_a_level() {
        let all: Vec<Value> = objects().collect();
        let names = |kind: &str| -> Vec<&str> {
            all.iter().filter(|it| it["kind"] == kind).map(|it| text(it, "/metadata/name")).collect()
        };
        let levels = names("PriorityLevelConfiguration");
        assert_eq!((levels.len(), names("FlowSchema").len()), (8, 11));
        for schema in all.iter().filter(|it| it["kind"] == "FlowSchema") {
            assert!(levels.contains(&text(schema, "/spec/priorityLevelConfiguration/name")), "{schema}");
        }
    }

    #[test]
    fn a_condition_changes_only_with_the_level() {
        let mut schema = json!({});
        assert!(set_dangling(&mut schema, "a", true, "1"));
        assert!(!set_dangling(&mut schema, "a", true, "2"));
        assert!(set_dangling(&mut schema, "a", false, "3"));
        let condition = &schema["status"]["conditions"][0];
        assert_eq!((&condition["status"], &condition["lastTransitionTime"]), (&json!("False"), &json!("3")));
        assert_eq!(schema["status"]["conditions"].as_array().unwrap().len(), 1);
    }
}
