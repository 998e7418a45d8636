//! Tells what happens, one line for each thing, and at the end how much of it there was.

use std::collections::{BTreeMap, HashMap};
use std::io::{self, Write};

use dogwatch::k8s_openapi::api::apps::v1::Deployment;
use dogwatch::k8s_openapi::api::core::v1::Pod;
use dogwatch::k8s_openapi::api::discovery::v1::EndpointSlice;
use dogwatch::{Api, Client, Error, ListParams, WatchEvent, WatchParams};
use futures_util::stream::{BoxStream, StreamExt, select_all};
use serde::de::DeserializeOwned;
use tokio::time::Instant;

use super::workload::NAMESPACE;

/// Tells what happens.
pub(super) struct Narrator<W> {
    out: W,
    began: Instant,
    /// What was last said of each object.
    said: HashMap<String, String>,
    /// How often each kind of thing happened.
    counted: BTreeMap<&'static str, u64>,
}

/// What a watch says of one object: its kind, its name, and how it is now. `None` when it is gone.
struct News {
    kind: &'static str,
    name: String,
    state: Option<String>,
}

impl<W: Write> Narrator<W> {
    pub(super) fn new(out: W, began: Instant) -> Self {
        Self { out, began, said: HashMap::new(), counted: BTreeMap::new() }
    }

    /// Says a line with the time since the beginning.
    pub(super) fn say(&mut self, words: &str) -> io::Result<()> {
        writeln!(self.out, "{:7.2}s  {words}", self.began.elapsed().as_secs_f64())
    }

    /// Follows what happens; gives back only what went wrong.
    pub(super) async fn follow(&mut self, client: &Client) -> anyhow::Result<()> {
        let deployments =
            news(Api::namespaced(client.clone(), NAMESPACE), "deployment", state_of_deployment).await?;
        let pods = news(Api::namespaced(client.clone(), NAMESPACE), "pod", state_of_pod).await?;
        let slices = news(Api::namespaced(client.clone(), NAMESPACE), "endpoints", state_of_slice).await?;
        let mut all = select_all([deployments, pods, slices]);
        while let Some(news) = all.next().await {
            let news = news?;
            if let Some(line) = self.line(&news) {
                self.say(&line)?;
            }
        }
        anyhow::bail!("all watches ended")
    }

    /// What to say about it, if it is anything new.
    fn line(&mut self, news: &News) -> Option<String> {
        *self.counted.entry("events").or_default() += 1;
        let name = format!("{} {}", news.kind, news.name);
        match &news.state {
            None => {
                self.said.remove(&name)?;
                *self
                    .counted
                    .entry(if news.kind == "pod" { "pods gone" } else { "other objects gone" })
                    .or_default() += 1;
                Some(format!("{name} is gone"))
            }
            Some(state) => {
                let before = self.said.insert(name.clone(), state.clone());
                if before.is_none() && news.kind == "pod" {
                    *self.counted.entry("pods made").or_default() += 1;
                }
                (before.as_deref() != Some(state)).then(|| format!("{name} {state}"))
            }
        }
    }

    /// Says how much there was.
    pub(super) fn summary(&mut self, revision: u64) -> io::Result<()> {
        let count = |name: &str| self.counted.get(name).copied().unwrap_or_default();
        let (events, made, gone) = (count("events"), count("pods made"), count("pods gone"));
        writeln!(self.out, "\nsummary")?;
        writeln!(self.out, "  ran for          {:.1} s", self.began.elapsed().as_secs_f64())?;
        writeln!(self.out, "  revision         {revision}")?;
        writeln!(self.out, "  events followed  {events}, over 3 watches")?;
        writeln!(
            self.out,
            "  pods             {made} made, {gone} gone, {} there now",
            made - gone.min(made)
        )?;
        self.out.flush()
    }
}

/// The news of one kind: what is there, then what changes.
async fn news<K>(
    api: Api<K>,
    kind: &'static str,
    state: fn(&K) -> String,
) -> Result<BoxStream<'static, Result<News, Error>>, Error>
where
    K: DeserializeOwned + dogwatch::Object + Send + Sync + 'static,
{
    let name = |object: &K| object.key().map(|it| it.name().to_owned()).unwrap_or_default();
    let there = api.list_all(&ListParams::default()).await?;
    let version = there.metadata.version.clone();
    let first =
        there.items.into_iter().map(move |it| Ok(News { kind, name: name(&it), state: Some(state(&it)) }));
    let first: Vec<_> = first.collect();
    let changes = api.watch_from(WatchParams::from(version))?.filter_map(move |event| async move {
        match event {
            Ok(WatchEvent::Added(it) | WatchEvent::Modified(it)) => {
                Some(Ok(News { kind, name: name(&it), state: Some(state(&it)) }))
            }
            Ok(WatchEvent::Deleted(it)) => Some(Ok(News { kind, name: name(&it), state: None })),
            Ok(_) => None,
            Err(error) => Some(Err(error)),
        }
    });
    Ok(futures_util::stream::iter(first).chain(changes).boxed())
}

fn state_of_deployment(deployment: &Deployment) -> String {
    let template = deployment.spec.template.spec.as_ref();
    let image = template.and_then(|it| it.containers.first()?.image.as_deref()).unwrap_or("nothing");
    let wanted = deployment.spec.replicas.unwrap_or_default();
    let status = deployment.status.as_ref();
    let ready = status.and_then(|it| it.ready_replicas).unwrap_or_default();
    let updated = status.and_then(|it| it.updated_replicas).unwrap_or_default();
    format!("runs {image}: {ready} of {wanted} ready, {updated} up to date")
}

fn state_of_pod(pod: &Pod) -> String {
    let status = pod.status.as_ref();
    let conditions = status.and_then(|it| it.conditions.as_deref()).unwrap_or_default();
    let ready = conditions.iter().any(|it| it.type_ == "Ready" && it.status == "True");
    let phase = status.and_then(|it| it.phase.as_deref()).unwrap_or("Pending");
    let node = pod.spec.as_ref().and_then(|it| it.node_name.as_deref());
    match (pod.metadata.deletion_timestamp.is_some(), node) {
        (true, _) => "is ending".to_owned(),
        (false, None) => "waits for a node".to_owned(),
        (false, Some(node)) if ready => format!("is ready on {node}"),
        (false, Some(node)) => format!("is {} on {node}", phase.to_lowercase()),
    }
}

fn state_of_slice(slice: &EndpointSlice) -> String {
    let ready = |it: &&dogwatch::k8s_openapi::api::discovery::v1::Endpoint| {
        it.conditions.as_ref().and_then(|it| it.ready).unwrap_or(true)
    };
    let endpoints = slice.endpoints.as_deref().unwrap_or_default();
    format!("have {} addresses, {} ready", endpoints.len(), endpoints.iter().filter(ready).count())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn object<K: DeserializeOwned>(value: Value) -> K {
        serde_json::from_value(value).expect("an object of its kind")
    }

    #[test]
    fn pods_are_told_by_what_a_person_wants_to_know() {
        let ready = json!([{ "type": "Ready", "status": "True" }]);
        for (pod, expected) in [
            (json!({ "spec": { "containers": [] } }), "waits for a node"),
            (
                json!({ "spec": { "nodeName": "n", "containers": [] }, "status": { "phase": "Pending" } }),
                "is pending on n",
            ),
            (
                json!({ "spec": { "nodeName": "n", "containers": [] }, "status": { "phase": "Running", "conditions": ready } }),
                "is ready on n",
            ),
            (
                json!({ "metadata": { "deletionTimestamp": "2026-01-01T00:00:00Z" }, "spec": { "nodeName": "n", "containers": [] } }),
                "is ending",
            ),
        ] {
            assert_eq!(state_of_pod(&object(pod)), expected);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn only_news_is_told_and_everything_is_counted() {
        let mut out = Vec::new();
        let mut narrator = Narrator::new(&mut out, Instant::now());
        let news =
            |state: Option<&str>| News { kind: "pod", name: "a".to_owned(), state: state.map(str::to_owned) };
        let lines: Vec<_> = [Some("waits"), Some("waits"), Some("runs"), None, None]
            .map(|it| narrator.line(&news(it)))
            .into_iter()
            .flatten()
            .collect();
        assert_eq!(lines, ["pod a waits", "pod a runs", "pod a is gone"]);
        narrator.summary(7).expect("a string takes everything");
        let text = String::from_utf8(out).expect("text");
        assert!(text.contains("5, over 3 watches") && text.contains("1 made, 1 gone, 0 there now"), "{text}");
    }
}
