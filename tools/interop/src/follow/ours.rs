//! Our own client as a follower: list, watch from there, and list again on 410 Gone.

use std::time::Duration;

use anyhow::Result;
use dogwatch::api::{ListParams, WatchEvent, WatchParams};
use dogwatch::{Api, Client};
use futures_util::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use tokio::sync::oneshot;

use super::cache::{Cache, Outcome};
use super::objects::END;

/// The pause before a list is repeated that failed in spite of the client's own retries.
const PAUSE: Duration = Duration::from_millis(500);

/// Follows the objects until the last one appears. Signals `synced` after the first list.
pub(super) async fn follow(
    client: Client,
    namespace: String,
    synced: oneshot::Sender<()>,
) -> Result<Outcome> {
    let api = Api::<ConfigMap>::namespaced(client, &namespace);
    let mut synced = Some(synced);
    let (mut events, mut lists) = (0, 0);
    let cache = loop {
        let list = match api.list_all(&ListParams::default()).await {
            Ok(list) => list,
            Err(error) => {
                eprintln!("dogwatch: {error:#}");
                tokio::time::sleep(PAUSE).await;
                continue;
            }
        };
        lists += 1;
        let mut cache: Cache = list.items.iter().map(entry).collect();
        if let Some(synced) = synced.take() {
            // Fails only if the receiver has stopped waiting.
            let _ = synced.send(());
        }
        let mut watch = api.watch_from(WatchParams::after(list.metadata.version))?;
        // The end marker is the last change: a cache that has it has everything.
        while !cache.0.contains_key(END) {
            match watch.next().await.transpose()? {
                Some(WatchEvent::Added(it) | WatchEvent::Modified(it)) => cache.0.extend([entry(&it)]),
                Some(WatchEvent::Deleted(it)) => drop(cache.0.remove(&entry(&it).0)),
                Some(WatchEvent::Error(_)) | None => break,
                Some(_) => continue,
            }
            events += 1;
        }
        if cache.0.contains_key(END) {
            break cache;
        }
    };
    let peer = "dogwatch".to_owned();
    Ok(Outcome { peer, objects: cache.len(), digest: cache.digest(), events, lists })
}

fn entry(map: &ConfigMap) -> (String, String) {
    let metadata = &map.metadata;
    (metadata.name.clone().unwrap_or_default(), metadata.resource_version.clone().unwrap_or_default())
}
