//! The pods on a server: creates those that are missing, and changes them while others watch.
//!
//! A pod is written as in a cluster, by three managers: a controller creates it, a kubelet sets its
//! status, and a third one sets an annotation. So it has the managed fields of all three.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, ensure};
use dogwatch::api::{DeleteParams, ListParams, PartialObjectMeta, Patch, PatchParams, WriteParams};
use dogwatch::{Api, Client};
use futures_util::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::core::v1::{Namespace, Pod};
use serde::de::IgnoredAny;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::pods::Pods;

/// The namespace of the pods.
pub(crate) const NAMESPACE: &str = "bench-peers";
/// The number of concurrent writes.
const IN_FLIGHT: usize = 16;
/// The annotation that is changed. Its value is the time of the change, in nanoseconds since 1970.
/// A pod that has it is complete.
pub(crate) const TOUCHED: &str = "touched";
/// The number of pods between two lines about the progress.
const PROGRESS: usize = 1_000;

/// The pods on a server.
pub(crate) struct ServerPods {
    api: Api<Pod>,
    names: Vec<String>,
    /// The index of the pod that is changed next.
    next: usize,
}

impl ServerPods {
    /// Makes sure that the namespace has `count` pods. Those of an earlier run are reused.
    ///
    /// # Errors
    /// If a request fails, or if something else on the server deletes or creates pods.
    pub(crate) async fn prepare(client: &Client, count: usize) -> Result<Self> {
        ensure_namespace(client).await?;
        let api = Api::<Pod>::namespaced(client.clone(), NAMESPACE);
        let pods = Pods::new()?;
        let mut wanted = BTreeMap::new();
        for number in 0..count {
            wanted.insert(name_of(&parse(&pods, number)?)?, number);
        }
        let names: Vec<String> = wanted.keys().cloned().collect();

        let mut useless = Vec::new();
        for (name, complete) in existing(client).await? {
            if !complete || wanted.remove(&name).is_none() {
                useless.push(name);
            }
        }
        if wanted.len() < count {
            eprintln!("reusing {} pods of an earlier run", count - wanted.len());
        }
        stream::iter(&useless).map(Ok).try_for_each_concurrent(IN_FLIGHT, |it| delete(&api, it)).await?;
        create(&api, &pods, wanted.into_values()).await?;

        let actual = existing(client).await?.len();
        ensure!(
            actual == count,
            "the namespace {NAMESPACE} has {actual} pods instead of {count}: the server must not have controllers that \
             delete pods of nodes and owners that do not exist"
        );
        Ok(Self { api, names, next: 0 })
    }

    /// Returns the current version of the collection.
    ///
    /// # Errors
    /// If the request fails.
    pub(crate) async fn version(&self) -> Result<String> {
        let list = self.api.reading::<IgnoredAny>().list(&ListParams::default().limit(1)).await?;
        Ok(list.metadata.version.to_string())
    }

    /// Changes an annotation of `count` pods, one after the other, with this time between two
    /// changes. Returns the sum of its values, which overflows.
    ///
    /// # Errors
    /// If a request fails.
    pub(crate) async fn touch(&mut self, count: u64, pace: Duration) -> Result<u64> {
        let began = Instant::now();
        let (api, names, first) = (&self.api, &self.names, self.next);
        let numbers = (0..count).zip((first..).map(|it| it % names.len()));
        let changes = stream::iter(numbers).map(|(number, at)| async move {
            let due = pace.saturating_mul(u32::try_from(number).unwrap_or(u32::MAX));
            tokio::time::sleep(due.saturating_sub(began.elapsed())).await;
            touch(api, &names[at]).await
        });
        let touched: Vec<u64> = changes.buffer_unordered(IN_FLIGHT).try_collect().await?;
        self.next = (first + touched.len()) % names.len();
        Ok(touched.into_iter().fold(0, u64::wrapping_add))
    }
}

/// Returns the nanoseconds since 1970.
pub(crate) fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

async fn ensure_namespace(client: &Client) -> Result<()> {
    let namespaces = Api::<Namespace>::all(client.clone());
    let namespace = serde_json::from_value(json!({ "metadata": { "name": NAMESPACE } }))?;
    match namespaces.create(&WriteParams::default(), &namespace).await {
        Err(error) if !error.is_already_exists() => Err(error).context("cannot create the namespace"),
        _ => Ok(()),
    }
}

/// Returns the names of the pods in the namespace, and whether each is complete.
async fn existing(client: &Client) -> Result<Vec<(String, bool)>> {
    let api = Api::<PartialObjectMeta<Pod>>::namespaced(client.clone(), NAMESPACE);
    let list = api.list_all(&ListParams::default()).await?;
    let pods = list.items.into_iter().map(|it| it.metadata).map(|it| {
        let complete = it.annotations.is_some_and(|it| it.contains_key(TOUCHED));
        (it.name.unwrap_or_default(), complete && it.deletion_timestamp.is_none())
    });
    Ok(pods.collect())
}

async fn delete(api: &Api<Pod>, name: &str) -> Result<()> {
    api.delete(name, &DeleteParams::default().grace_period(Duration::ZERO)).await?;
    Ok(())
}

/// Creates the pods with these numbers, and prints the progress.
async fn create(api: &Api<Pod>, pods: &Pods, numbers: impl ExactSizeIterator<Item = usize>) -> Result<()> {
    let (began, count) = (Instant::now(), numbers.len());
    let created = stream::iter(numbers).map(|number| create_one(api, pods, number));
    let mut created = created.buffer_unordered(IN_FLIGHT).enumerate();
    while let Some((done, result)) = created.next().await {
        result?;
        let done = done + 1;
        if done % PROGRESS == 0 || done == count {
            eprintln!("created {done} of {count} pods in {:.0} s", began.elapsed().as_secs_f64());
        }
    }
    Ok(())
}

async fn create_one(api: &Api<Pod>, pods: &Pods, number: usize) -> Result<()> {
    let (pod, status) = in_parts(parse(pods, number)?);
    let name = name_of(&pod)?;
    let manager = WriteParams::default().manager("kube-controller-manager");
    api.create(&manager, &serde_json::from_value(pod)?).await.context("cannot create a pod")?;
    let (reads_nothing, kubelet) = (api.reading::<IgnoredAny>(), PatchParams::default().manager("kubelet"));
    let status = json!({ "status": status });
    let set =
        reads_nothing.patch_subresource::<IgnoredAny, _>(&name, "status", &kubelet, Patch::Merge(&status));
    set.await.context("cannot set the status of a pod")?;
    touch(api, &name).await?;
    Ok(())
}

/// Sets the annotation of a pod to the current time, and returns that.
async fn touch(api: &Api<Pod>, name: &str) -> Result<u64> {
    let now = now();
    let patch = json!({ "metadata": { "annotations": { TOUCHED: now.to_string() } } });
    let manager = PatchParams::default().manager("toucher");
    api.reading::<IgnoredAny>().patch(name, &manager, Patch::Merge(&patch)).await?;
    Ok(now)
}

fn parse(pods: &Pods, number: usize) -> Result<Value> {
    serde_json::from_str(&pods.pod(number)).context("a pod of the sample is not JSON")
}

fn name_of(pod: &Value) -> Result<String> {
    Ok(pod["metadata"]["name"].as_str().context("a pod of the sample has no name")?.to_owned())
}

/// Splits a pod of the sample into what its creator writes and its status.
fn in_parts(mut pod: Value) -> (Value, Value) {
    let status = pod["status"].take();
    if let Some(pod) = pod.as_object_mut() {
        pod.remove("status");
    }
    if let Some(metadata) = pod["metadata"].as_object_mut() {
        // The server sets these.
        for field in ["uid", "resourceVersion", "generation", "creationTimestamp", "managedFields"] {
            metadata.remove(field);
        }
        metadata.insert("namespace".to_owned(), NAMESPACE.into());
        if let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) {
            annotations.remove(TOUCHED);
        }
    }
    (pod, status)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_creator_writes_neither_the_status_nor_what_the_server_sets() {
        let (pod, status) = in_parts(parse(&Pods::new().unwrap(), 3).unwrap());
        assert_eq!(status["phase"], "Running");
        assert_eq!(pod["metadata"]["namespace"], NAMESPACE);
        assert!(pod["metadata"]["annotations"]["checksum/config"].is_string());
        for absent in ["/status", "/metadata/uid", "/metadata/managedFields", "/metadata/annotations/touched"]
        {
            assert_eq!(pod.pointer(absent), None, "{absent}");
        }
        assert!(serde_json::from_value::<Pod>(pod).is_ok());
    }
}
