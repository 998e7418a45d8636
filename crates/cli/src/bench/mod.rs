//! `dogwatch bench`: what following a server costs, as one line of JSON for scripts that compare.

mod cost;
mod payload;
mod sync;

use std::process::ExitCode;

use crate::connection::Connection;

/// Measures what following a server costs.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// One informer of all objects of a resource, without a filter.
    Sync(Sync),
}

/// Reads a whole collection into one informer and prints what that took, as one line of JSON.
///
/// objects: how many there are. sync_s, cpu_s: seconds until all were in the store, by the clock and of processor time.
/// rss_peak_mb, rss_mb: memory of the process in megabytes, at most and now; null where the system does not tell. With --updates,
/// cpu_us_per_event: microseconds of processor time for each change that came after.
#[derive(Debug, clap::Args)]
struct Sync {
    /// What to read, by any of its names, in all namespaces.
    #[arg(value_name = "RESOURCE")]
    resource: String,
    /// What the informer holds of each object.
    #[arg(long, value_enum, default_value = "full")]
    payload: Payload,
    /// What the server sends.
    #[arg(long, value_enum, default_value = "json")]
    encoding: Encoding,
    /// Wait for so many changes after the sync, and tell what each of them cost.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    updates: Option<u64>,
    #[command(flatten)]
    connection: Connection,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Payload {
    /// All of it: typed where the command knows the kind, dynamic otherwise.
    Full,
    /// A few fields; of pods those that a scheduler reads.
    View,
    /// The encoded bytes, decoded when they are read.
    Packed,
    /// The metadata, which is all the server sends then.
    Meta,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Encoding {
    /// JSON.
    Json,
    /// Kubernetes' protobuf.
    Protobuf,
}

/// Measures, and prints what it found.
pub(crate) async fn run(options: Options) -> anyhow::Result<ExitCode> {
    match options.what {
        What::Sync(options) => sync::run(&options).await,
    }
}
