//! Requests of the view: for the text of an object and its events, the log of a pod, and the kinds
//! of the server.

use std::time::Duration;

use dogwatch::api::{DynamicObject, FieldSelector, Gvk, ListParams, LogParams, ResourceType};
use dogwatch::discovery::CachedDiscovery;
use dogwatch::k8s_openapi::api::core::v1::Pod;
use dogwatch::{Api, Client, ObjectKey};
use futures_util::StreamExt;
use jiff::Timestamp;
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::time::MissedTickBehavior;

use super::document::{self, Form};
use super::page::LogStep;
use super::update::Event;
use crate::failure;
use crate::watch::format::Objects;

/// The number of events that are requested; their order is not that of their times.
const MAX_EVENTS: u32 = 500;
/// The number of older lines of a log that are requested.
const TAIL: u64 = 1_000;
/// The interval at which the kinds of the server are requested: a definition that was just
/// installed should appear soon.
const DISCOVERY_INTERVAL: Duration = Duration::from_secs(10);
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

/// Sends the resources of the server whenever they have changed, until the receiver is gone. A
/// server that does not answer has not changed: the informers report that.
pub(super) async fn rediscover(discovery: CachedDiscovery, events: mpsc::Sender<Event>) {
    let mut ticks = tokio::time::interval(DISCOVERY_INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    // The first one is now, and the view has just begun with what was discovered.
    ticks.tick().await;
    let mut known = Vec::new();
    loop {
        ticks.tick().await;
        // Kept for a revalidation, so that an unchanged answer has no body.
        discovery.invalidate();
        let Ok(found) = discovery.get().await else { continue };
        let groups = found.groups.clone();
        if groups != known && events.send(Event::Discovered(found)).await.is_err() {
            return;
        }
        known = groups;
    }
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

#[cfg(test)]
mod tests {
    use dogwatch::api::PatchParams;
    use dogwatch_apiserver::ApiServer;
    use serde_json::json;
    use tokio::time::timeout;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_definition_that_is_installed_later_is_discovered() {
        let server = ApiServer::builder().in_process().start().await.expect("started");
        let url = "http://in-process.test".parse().expect("an address");
        let client = Client::from_service(url, "default", server.service());
        let discovery = CachedDiscovery::new(client.clone());
        let before = discovery.get().await.expect("discovered");
        assert!(before.group("example.com").is_none());
        let (sender, mut events) = mpsc::channel(1);
        let looking = tokio::spawn(rediscover(discovery, sender));

        let definition = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": { "name": "widgets.example.com" },
            "spec": {
                "group": "example.com", "scope": "Namespaced",
                "names": { "kind": "Widget", "plural": "widgets" },
                "versions": [{ "name": "v1", "served": true, "storage": true,
                    "schema": { "openAPIV3Schema": { "type": "object" } } }],
            },
        });
        let gvk = Gvk::new("apiextensions.k8s.io", "v1", "CustomResourceDefinition");
        let api = Api::<Value>::dynamic(client, ResourceType::cluster(gvk, "customresourcedefinitions"));
        api.apply("widgets.example.com", &PatchParams::apply("test"), &definition).await.expect("applied");
        let found = async {
            loop {
                let Some(Event::Discovered(found)) = events.recv().await else { panic!("it has ended") };
                if found.group("example.com").is_some() {
                    return found;
                }
            }
        };
        let found = timeout(DISCOVERY_INTERVAL * 3, found).await.expect("discovered within 30 s");
        assert!(found.serves("example.com", "v1"));
        drop(events);
        // A view that has ended is noticed with the next change, or its task is aborted before.
        looking.abort();
        assert!(looking.await.is_err_and(|it| it.is_cancelled()));
    }
}
