//! The cost of syncing one informer, and of each change after that.

use std::error::Error;
use std::pin::Pin;

use dogwatch::api::{DynamicObject, Packed, PartialObjectMeta, ResourceType};
use dogwatch::client::Encoding;
use dogwatch::k8s_openapi::api::core::v1::Pod;
use dogwatch::{Api, Client, Object, SharedInformer};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::time::Instant;

use crate::change_counter::ChangeCounter;
use crate::pod_view::PodView;
use crate::process::{Memory, Stopwatch};

/// The part of each object that the informer holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::exhaustive_enums, reason = "only this repository constructs it")]
pub enum Payload {
    /// Whole objects: pods typed, other kinds dynamic.
    Full,
    /// A few fields: of pods those that a scheduler reads, of other kinds the metadata.
    View,
    /// Whole objects in the encoding of the server, decoded when they are read.
    Packed,
    /// Only the metadata, which is then all that the server sends.
    Meta,
}

/// The cost of one sync.
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct SyncCost {
    /// The number of objects.
    pub objects: usize,
    /// The seconds until all were in the store.
    pub sync_s: f64,
    /// The seconds of processor time until then.
    pub cpu_s: f64,
    /// The peak memory of the process, in megabytes.
    pub rss_peak_mb: Option<f64>,
    /// Its memory when all were in the store.
    pub rss_mb: Option<f64>,
    /// The microseconds of processor time for each change, if any were awaited.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_us_per_event: Option<f64>,
}

/// The collection to read, and how.
#[derive(Debug)]
#[allow(clippy::exhaustive_structs, reason = "only this repository constructs it")]
pub struct Source {
    /// The client for the server.
    pub client: Client,
    /// The resource, in all namespaces.
    pub resource: ResourceType,
    /// The encoding that the server sends.
    pub encoding: Encoding,
    /// The number of changes to wait for after the sync.
    pub updates: Option<u64>,
}

/// A measurement. It is in a box, so that it is compiled here and not where it is awaited.
type Measurement = Pin<Box<dyn Future<Output = Result<SyncCost, Box<dyn Error + Send + Sync>>> + Send>>;

impl Source {
    /// Syncs an informer that holds this part of each object, and stops it again.
    ///
    /// # Errors
    ///
    /// Returns an error if the informer stops before it is synced.
    #[must_use]
    pub fn measure(self, payload: Payload) -> Measurement {
        let gvk = &self.resource.gvk;
        let is_pod = (gvk.group.as_str(), gvk.version.as_str(), gvk.kind.as_str()) == ("", "v1", "Pod");
        match payload {
            // Only the kind that makes caches large is typed, since the informer is compiled again
            // for each type.
            Payload::Full if is_pod => self.of::<Pod>(),
            Payload::Full => self.of::<DynamicObject>(),
            Payload::View if is_pod => self.of::<PodView>(),
            Payload::View => self.of::<PartialObjectMeta>(),
            Payload::Packed => self.of::<Packed<DynamicObject>>(),
            Payload::Meta => {
                let metadata = Api::<PartialObjectMeta>::dynamic_metadata(self.client, self.resource);
                Box::pin(measure(metadata.with_encoding(self.encoding), self.updates))
            }
        }
    }

    fn of<T: Object + DeserializeOwned>(self) -> Measurement {
        let api = Api::<T>::dynamic(self.client, self.resource).with_encoding(self.encoding);
        Box::pin(measure(api, self.updates))
    }
}

async fn measure<T: Object + DeserializeOwned>(
    api: Api<T>,
    updates: Option<u64>,
) -> Result<SyncCost, Box<dyn Error + Send + Sync>> {
    let (began, stopwatch) = (Instant::now(), Stopwatch::start());
    let informer = SharedInformer::new(api);
    let changes = updates.map(|count| ChangeCounter::start(&informer, count)).transpose()?;
    informer.start();
    informer.synced().await?;
    let (sync_s, cpu_s) = (began.elapsed().as_secs_f64(), stopwatch.seconds());
    let Memory { peak: rss_peak_mb, now: rss_mb } = Memory::read();
    let objects = informer.store().len();
    let mut cost = SyncCost { objects, sync_s, cpu_s, rss_peak_mb, rss_mb, cpu_us_per_event: None };
    if let Some(changes) = changes {
        let stopwatch = Stopwatch::start();
        let events = changes.reached().await;
        cost.cpu_us_per_event = Some(stopwatch.seconds() * 1e6 / events as f64);
    }
    informer.stop().await;
    Ok(cost)
}
