//! The initial objects of a cluster, as the caller gave them.

use serde::Serialize;
use serde_json::Value;

use super::error::StartError;
use crate::ApiError;
use crate::cluster::{Cluster, ObjectRef, ResponseObject, Writer};
use crate::kinds::json_access::text;
use crate::serving::BoxError;

/// The field manager of initial objects.
const MANAGER: &str = "dogwatch";

/// The initial objects of a cluster. An object that cannot be read is reported by [`Self::create`],
/// with its position.
#[derive(Debug, Default)]
pub(super) struct InitialObjects {
    given: Vec<Result<Value, BoxError>>,
}

impl InitialObjects {
    /// Adds the documents of a YAML text, and the items of lists among them.
    pub(super) fn yaml(&mut self, text: &str) {
        match serde_saphyr::from_multiple::<Value>(text) {
            Ok(documents) => documents.into_iter().for_each(|it| self.value(it)),
            Err(error) => self.given.push(Err(error.into())),
        }
    }

    /// Adds one object, or the items of a list.
    pub(super) fn object(&mut self, object: &impl Serialize) {
        match serde_json::to_value(object) {
            Ok(value) => self.value(value),
            Err(error) => self.given.push(Err(error.into())),
        }
    }

    fn value(&mut self, mut value: Value) {
        let is_list = text(&value, "/kind").ends_with("List") && text(&value, "/metadata/name").is_empty();
        match value.get_mut("items").map(Value::take) {
            Some(Value::Array(items)) if is_list => items.into_iter().for_each(|it| self.value(it)),
            Some(items) => {
                value["items"] = items;
                self.given.push(Ok(value));
            }
            // An empty document.
            None if value.is_null() => {}
            None => self.given.push(Ok(value)),
        }
    }

    /// Creates the objects in order, each as a request would, and then writes their status, which a
    /// create request drops.
    pub(super) async fn create(self, cluster: &Cluster) -> Result<(), StartError> {
        let writer = Writer { manager: MANAGER.to_owned(), ..Writer::server("apiserver") };
        for (at, object) in self.given.into_iter().enumerate() {
            let object = object.map_err(|source| StartError::Unreadable { position: at + 1, source })?;
            let called = format!("{} {:?}", text(&object, "/kind"), text(&object, "/metadata/name"));
            let refused = |source| StartError::Refused { object: called, source };
            create(cluster, object, &writer).await.map_err(refused)?;
        }
        Ok(())
    }
}

async fn create(cluster: &Cluster, object: Value, writer: &Writer) -> Result<(), ApiError> {
    let status = object.get("status").filter(|it| !it.is_null()).cloned();
    let kind = cluster.catalog().kind_of(text(&object, "/apiVersion"), text(&object, "/kind"));
    let made = cluster.add(object, writer).await?.object;
    let (Some(status), Some(kind)) = (status, kind) else { return Ok(()) };
    if !kind.def.subresources.iter().any(|it| it.name == "status") {
        return Ok(());
    }
    let ResponseObject::Stored(made) = made else { return Ok(()) };
    let place = ObjectRef::of(&kind, made.key()).part("status");
    let set_status = |object: &mut Value| {
        let differs = object.get("status") != Some(&status);
        object["status"] = status.clone();
        differs
    };
    cluster.change(&place, writer, set_status).await.map(|_| ())
}
