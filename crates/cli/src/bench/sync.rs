//! `dogwatch bench sync`: the cost of syncing one informer, and of each change after that.

use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use dogwatch::api::{DynamicObject, ListParams, Packed, PartialObjectMeta, ResourceType};
use dogwatch::client::Encoding;
use dogwatch::informer::{Change, HandlerOptions, Overflow};
use dogwatch::k8s_openapi::api::core::v1::Pod;
use dogwatch::{Api, Client, Object, SharedInformer};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::cost::{Memory, Stopwatch};
use super::payload::PodView;
use crate::connection::Connection;
use crate::{number, target};

/// Sync one informer with a whole collection and print the cost as one line of JSON.
///
/// objects: the number of objects. sync_s, cpu_s: seconds until all were in the store, in
/// wall-clock and in processor time. rss_peak_mb, rss_mb: memory of the process in megabytes, peak
/// and current; null if the system does not report it. With --updates, cpu_us_per_event:
/// microseconds of processor time for each change after the sync.
#[derive(Debug, clap::Args)]
pub(super) struct Options {
    /// The resource to read, by any of its names, in all namespaces.
    #[arg(value_name = "RESOURCE")]
    resource: String,
    /// The part of each object that the informer holds.
    #[arg(long, value_enum, default_value = "full")]
    payload: Payload,
    /// The encoding that the server sends.
    #[arg(long, value_enum, default_value = "json")]
    encoding: EncodingChoice,
    /// Wait for this many changes after the sync, and report the cost of each.
    #[arg(long, value_name = "N", value_parser = number::whole::<u64>(1..=u64::MAX))]
    updates: Option<u64>,
    #[command(flatten)]
    connection: Connection,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Payload {
    /// Whole objects: pods typed, other kinds dynamic.
    Full,
    /// A few fields: of pods those that a scheduler reads, of other kinds the metadata.
    View,
    /// Whole objects in the encoding of the server, decoded when they are read.
    Packed,
    /// Only the metadata, which is then all that the server sends.
    Meta,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum EncodingChoice {
    /// JSON.
    Json,
    /// Protobuf, if the server sends it for this resource.
    Protobuf,
}

impl From<EncodingChoice> for Encoding {
    fn from(choice: EncodingChoice) -> Self {
        match choice {
            EncodingChoice::Json => Self::Json,
            EncodingChoice::Protobuf => Self::Protobuf,
        }
    }
}

/// The printed report.
#[derive(Debug, Serialize)]
struct Report {
    objects: usize,
    sync_s: f64,
    cpu_s: f64,
    rss_peak_mb: Option<f64>,
    rss_mb: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cpu_us_per_event: Option<f64>,
}

/// Runs the measurement, and prints one line.
pub(super) async fn run(options: &Options) -> anyhow::Result<ExitCode> {
    let client = options.connection.client()?;
    let resource = target::find(&client, &options.resource).await?.resource;
    let probe = Api::dynamic_metadata(client.clone(), resource.clone());
    target::check(&probe, ListParams::default()).await?;
    let encoding = options.encoding.into();
    let source = Source { client, resource, encoding, updates: options.updates };
    let report = match options.payload {
        Payload::Full => source.full().await?,
        Payload::View => source.view().await?,
        Payload::Packed => source.of::<Packed<DynamicObject>>().await?,
        Payload::Meta => {
            let Source { client, resource, encoding, updates } = source;
            let metadata = Api::<PartialObjectMeta>::dynamic_metadata(client, resource);
            measure(metadata.with_encoding(encoding), updates).await?
        }
    };
    writeln!(io::stdout(), "{}", serde_json::to_string(&report)?)?;
    Ok(ExitCode::SUCCESS)
}

/// The collection to read, and how.
struct Source {
    client: Client,
    resource: ResourceType,
    encoding: Encoding,
    updates: Option<u64>,
}

impl Source {
    /// Measures whole objects. Only the kind that makes caches large is typed, since the informer
    /// is compiled again for each type here.
    async fn full(self) -> anyhow::Result<Report> {
        let gvk = &self.resource.gvk;
        match (gvk.group.as_str(), gvk.version.as_str(), gvk.kind.as_str()) {
            ("", "v1", "Pod") => self.of::<Pod>().await,
            _ => self.of::<DynamicObject>().await,
        }
    }

    async fn view(self) -> anyhow::Result<Report> {
        match (self.resource.gvk.group.as_str(), self.resource.gvk.kind.as_str()) {
            ("", "Pod") => self.of::<PodView>().await,
            _ => self.of::<PartialObjectMeta>().await,
        }
    }

    async fn of<T: Object + DeserializeOwned>(self) -> anyhow::Result<Report> {
        let api = Api::<T>::dynamic(self.client, self.resource).with_encoding(self.encoding);
        measure(api, self.updates).await
    }
}

async fn measure<T: Object + DeserializeOwned>(api: Api<T>, updates: Option<u64>) -> anyhow::Result<Report> {
    let (began, stopwatch) = (Instant::now(), Stopwatch::start());
    let informer = SharedInformer::new(api);
    let counted = updates.map(|count| Counted::start(&informer, count)).transpose()?;
    informer.start();
    informer.synced().await?;
    let (sync_s, cpu_s) = (began.elapsed().as_secs_f64(), stopwatch.elapsed().as_secs_f64());
    let Memory { peak, now } = Memory::read();
    let objects = informer.store().len();
    let mut report =
        Report { objects, sync_s, cpu_s, rss_peak_mb: peak, rss_mb: now, cpu_us_per_event: None };
    if let Some(counted) = counted {
        let stopwatch = Stopwatch::start();
        let events = counted.reached().await;
        report.cpu_us_per_event = Some(stopwatch.elapsed().as_secs_f64() * 1e6 / events as f64);
    }
    informer.stop().await;
    Ok(report)
}

/// Counts the changes after the first list.
struct Counted {
    wanted: u64,
    seen: Arc<(AtomicU64, Notify)>,
}

impl Counted {
    fn start<T: Object>(informer: &SharedInformer<T>, wanted: u64) -> anyhow::Result<Self> {
        let seen = Arc::new((AtomicU64::new(0), Notify::new()));
        let every = HandlerOptions::default().name("bench").overflow(Overflow::Grow);
        let count = Count { wanted, seen: Arc::clone(&seen) };
        informer.add_handler_with(count, every)?;
        Ok(Self { wanted, seen })
    }

    /// Waits for the wanted number of changes, and returns the actual number.
    async fn reached(&self) -> u64 {
        loop {
            let rung = self.seen.1.notified();
            let seen = self.seen.0.load(Ordering::Acquire);
            if seen >= self.wanted {
                return seen;
            }
            rung.await;
        }
    }
}

struct Count {
    wanted: u64,
    seen: Arc<(AtomicU64, Notify)>,
}

impl<T> dogwatch::informer::EventHandler<T> for Count {
    fn on_change(&mut self, change: &Change<T>) {
        if matches!(change, Change::Added { initial: true, .. }) {
            return;
        }
        let seen = self.seen.0.fetch_add(1, Ordering::AcqRel) + 1;
        if seen == self.wanted {
            self.seen.1.notify_one();
        }
    }
}
