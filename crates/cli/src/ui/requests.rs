//! Requests for single objects: their text, their events, and the log of a pod.

use dogwatch::api::{DynamicObject, FieldSelector, Gvk, ListParams, LogParams, ResourceType};
use dogwatch::k8s_openapi::api::core::v1::Pod;
use dogwatch::{Api, Client, ObjectKey};
use futures_util::StreamExt;
use jiff::Timestamp;
use serde_json::Value;
use tokio::sync::mpsc;

use super::document::{self, Form};
use super::page::LogStep;
use super::update::Event;
use crate::failure;
use crate::watch::format::Objects;

/// The number of events that are requested; their order is not that of their times.
const MAX_EVENTS: u32 = 500;
/// The number of older lines of a log that are requested.
const TAIL: u64 = 1_000;
/// The annotation with the container that kubectl shows by default.
const DEFAULT_CONTAINER: &str = "kubectl.kubernetes.io/default-container";

/// Reads an object as text.
///
/// # Errors
/// Returns a message if the object cannot be read.
pub(super) async fn read(
    client: &Client,
    resource: ResourceType,
    key: &ObjectKey,
    form: Form,
) -> Result<Vec<String>, String> {
    let api = Api::<DynamicObject>::dynamic(client.clone(), resource.clone()).at(key);
    let object = api.get(key.name()).await.map_err(message)?;
    let value = Objects::new(&resource, None).value(&object);
    Ok(match form {
        Form::Yaml => document::yaml(&value),
        Form::Description => {
            let events = events(client, key, object.metadata.uid.as_deref()).await;
            document::describe(&value, &events, Timestamp::now())
        }
    })
}

/// Reads the events about an object. Those of cluster-scoped objects may be in any namespace.
async fn events(client: &Client, key: &ObjectKey, uid: Option<&str>) -> Result<Vec<Value>, String> {
    let events = ResourceType::namespaced(Gvk::new("", "v1", "Event"), "events");
    let api = Api::<Value>::dynamic(client.clone(), events);
    let api = match key.namespace() {
        Some(namespace) => api.in_namespace(namespace),
        None => api,
    };
    let fields = FieldSelector::everything().equals("involvedObject.name", key.name());
    // An object of the same name may have existed before.
    let fields = match uid {
        Some(uid) => fields.equals("involvedObject.uid", uid),
        None => fields,
    };
    let page = api.list(&ListParams::default().fields(fields).limit(MAX_EVENTS)).await.map_err(message)?;
    Ok(page.items)
}

/// Follows the log of a container until it ends, or until the receiver is gone.
pub(super) async fn follow(
    client: Client,
    request: u64,
    key: ObjectKey,
    container: Option<String>,
    events: mpsc::Sender<Event>,
) {
    let step = |step| events.send(Event::Log(request, step));
    let api = Api::<Pod>::all(client).at(&key);
    let name = match container {
        Some(name) => name,
        None => match containers(&api, &key).await {
            Ok((all, at)) => {
                let name = all.get(at).cloned().unwrap_or_default();
                let _ = step(LogStep::Containers(all, at)).await;
                name
            }
            Err(message) => {
                let _ = step(LogStep::End(message)).await;
                return;
            }
        },
    };
    let params = LogParams::default().follow().tail(TAIL).container(name);
    let end = match api.log_lines(key.name(), &params).await {
        Err(error) => message(error),
        Ok(lines) => {
            let mut lines = std::pin::pin!(lines);
            loop {
                match lines.next().await {
                    Some(Ok(line)) => {
                        if step(LogStep::Line(line)).await.is_err() {
                            return;
                        }
                    }
                    Some(Err(error)) => break message(error),
                    None => break "the log has ended".to_owned(),
                }
            }
        }
    };
    let _ = step(LogStep::End(end)).await;
}

/// Returns the names of the containers of a pod, and the position of the one to show first.
async fn containers(api: &Api<Pod>, key: &ObjectKey) -> Result<(Vec<String>, usize), String> {
    let pod = api.get(key.name()).await.map_err(message)?;
    let spec = pod.spec.unwrap_or_default();
    let mut names: Vec<_> = spec.containers.into_iter().map(|it| it.name).collect();
    names.extend(spec.init_containers.into_iter().flatten().map(|it| it.name));
    names.extend(spec.ephemeral_containers.into_iter().flatten().map(|it| it.name));
    let annotations = pod.metadata.annotations.unwrap_or_default();
    let default = annotations.get(DEFAULT_CONTAINER);
    let at = names.iter().position(|it| Some(it) == default).unwrap_or(0);
    Ok((names, at))
}

/// Returns an error and its causes on one line.
fn message(error: dogwatch::Error) -> String {
    failure::line(&anyhow::Error::new(error))
}
