//! The command line of `dogwatch ui`.

use crate::connection::Connection;
use crate::watch::options::resources;

const KEYS: &str = "\
Keys: arrows, j, k, PageUp, PageDown, Home and End move; Tab shows the next
watched kind; Left goes to the kinds.
  /  filter            s S  sort, reverse         w  all columns
  y  YAML              d    describe, with events t  owners and dependents
  l  log of a pod      h    health of the caches  x  stop watching a kind
  ?  help              q    back, quit            Esc  back

Each kind that is opened has an informer, which keeps running while others are
shown. Its cache holds the rows that the server prints. An object is read when
it is opened. While the server cannot be reached, the title says NOT SYNCED and
why.

Examples:
  dogwatch ui
  dogwatch ui pods,deploy,svc -n web
  dogwatch ui nodes --context staging";

/// Browse the resources of a server on a terminal, as they change.
///
/// It shows the kinds of the server, tables of those that are watched, and single objects: their
/// YAML, description, events, owners, dependents and logs. It changes nothing.
#[derive(Debug, clap::Args)]
#[command(after_long_help = KEYS)]
pub(crate) struct Options {
    /// The resources to begin with, separated by commas: pods,deploy. Without it: pods.
    #[arg(value_name = "RESOURCE", value_parser = resources)]
    pub(super) resources: Option<String>,
    /// The namespace, instead of the one of the context.
    #[arg(short, long, value_name = "NS", conflicts_with = "all_namespaces")]
    pub(super) namespace: Option<String>,
    /// All namespaces.
    #[arg(short = 'A', long)]
    pub(super) all_namespaces: bool,
    #[command(flatten)]
    pub(super) connection: Connection,
}
