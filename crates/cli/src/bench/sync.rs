//! `dogwatch bench sync`: the cost of syncing one informer, and of each change after that.

use std::io::{self, Write};
use std::process::ExitCode;

use dogwatch::Api;
use dogwatch::api::ListParams;
use dogwatch::client::Encoding;
use informer_cost::Source;

use crate::connection::Connection;
use crate::target;

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
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
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

impl From<Payload> for informer_cost::Payload {
    fn from(choice: Payload) -> Self {
        match choice {
            Payload::Full => Self::Full,
            Payload::View => Self::View,
            Payload::Packed => Self::Packed,
            Payload::Meta => Self::Meta,
        }
    }
}

impl From<EncodingChoice> for Encoding {
    fn from(choice: EncodingChoice) -> Self {
        match choice {
            EncodingChoice::Json => Self::Json,
            EncodingChoice::Protobuf => Self::Protobuf,
        }
    }
}

/// Runs the measurement, and prints one line.
pub(super) async fn run(options: &Options) -> anyhow::Result<ExitCode> {
    let client = options.connection.client()?;
    let resource = target::find(&client, &options.resource).await?.resource;
    let probe = Api::dynamic_metadata(client.clone(), resource.clone());
    target::check(&probe, ListParams::default()).await?;
    let encoding = options.encoding.into();
    let source = Source { client, resource, encoding, updates: options.updates };
    let cost = source.measure(options.payload.into()).await.map_err(|it| anyhow::anyhow!(it))?;
    writeln!(io::stdout(), "{}", serde_json::to_string(&cost)?)?;
    Ok(ExitCode::SUCCESS)
}
