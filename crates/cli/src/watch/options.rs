//! The command line of `dogwatch watch`.

use dogwatch::api::{FieldSelector, LabelSelector};

use super::sort::SortBy;
use crate::connection::Connection;

const EXAMPLES: &str = "\
On a terminal, the table is updated in place. Keys: q quits; the arrows,
PageUp, PageDown, Home and End scroll (also j, k, b, Space, g, G). The first
line says NOT SYNCED while the server cannot be reached: the rows are then the
last ones that it sent.

With several resources, their tables are stacked, and Tab selects the one that
scrolls.

On a pipe or a file, and with -o json, yaml or name, every change is printed,
and none are merged; with --once, only the existing objects:
  -o table  the server's columns, after ADDED, MODIFIED or DELETED
  -o wide   the same with all columns
  -o json   {\"type\":\"ADDED\",\"object\":{...}}
  -o name   pod/web-1
  -o yaml   a document, after --- and a comment with the change
With several resources, names in tables are written as with -o name, and each
resource has headings of its own. Existing objects come first, as ADDED.
Problems and progress go to stderr; on Ctrl-C and SIGTERM it exits with 0.

--sort-by sorts the table on a terminal and, elsewhere, the existing objects;
changes are printed as they happen. Numbers, also those within text, are
compared by their value, and objects without the field come first.

Examples:
  dogwatch watch pods -A
  dogwatch watch pods web-1 web-2 -o wide
  dogwatch watch pods,deploy -n web
  dogwatch watch deploy -n web -l app=front
  dogwatch watch pods -A --sort-by .metadata.creationTimestamp
  dogwatch watch Certificate.v1.cert-manager.io -o json | jq .object.status
  dogwatch watch nodes --once -o name";

/// Show resources of a server in a table, as they change.
///
/// Custom resources are included. It keeps a cache of each resource with an informer: a broken
/// watch is resumed, and the resource is listed again if the server has compacted its history.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Options {
    /// The resource to watch, by any of its names: pods, po, Pod, deployments.apps,
    /// Deployment.v1.apps. Separate several with commas. A category such as `all` stands for its
    /// resources.
    #[arg(value_name = "RESOURCE", value_parser = resources)]
    pub(super) resources: String,
    /// Only the objects with these names. They need not exist yet, except with --once.
    #[arg(value_name = "NAME", value_parser = name, conflicts_with_all = ["labels", "fields"])]
    pub(super) names: Vec<String>,
    /// The namespace, instead of the one of the context.
    #[arg(short, long, value_name = "NS", conflicts_with = "all_namespaces")]
    pub(super) namespace: Option<String>,
    /// All namespaces.
    #[arg(short = 'A', long)]
    pub(super) all_namespaces: bool,
    /// Only objects with these labels, for example app=web,tier!=cache.
    #[arg(short = 'l', long = "selector", value_name = "SEL")]
    pub(super) labels: Option<LabelSelector>,
    /// Only objects with these fields, for example spec.nodeName=node-1.
    #[arg(long = "field-selector", value_name = "F")]
    pub(super) fields: Option<FieldSelector>,
    /// Sort by this field, for example .metadata.name or .status.startTime.
    #[arg(long, value_name = "JSONPATH")]
    pub(super) sort_by: Option<SortBy>,
    /// Print the current objects and exit.
    #[arg(long)]
    pub(super) once: bool,
    /// The output format.
    #[arg(short, long, value_enum, default_value = "table")]
    pub(super) output: Output,
    #[command(flatten)]
    pub(super) connection: Connection,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Output {
    /// The columns that the server prints.
    Table,
    /// The same, with the columns that usually do not fit.
    Wide,
    /// One change per line, with the whole object.
    Json,
    /// One change per document, with the whole object.
    Yaml,
    /// Names, in the syntax of kubectl.
    Name,
}

/// Parses the names of resources: `pods`, or `pods,services`.
pub(crate) fn resources(text: &str) -> Result<String, &'static str> {
    match text {
        _ if text.split(',').any(|it| it.trim().is_empty()) => {
            Err("expected resources as in `pods,services`")
        }
        _ if text.contains('/') => Err("expected a resource and then names, as in `pods web-1 web-2`"),
        _ => Ok(text.to_owned()),
    }
}

/// Parses the name of an object.
fn name(text: &str) -> Result<String, &'static str> {
    match text {
        "" => Err("the name is empty"),
        _ if text.contains('/') => Err("expected a name; the resource comes first, as in `pods web-1 web-2`"),
        _ => Ok(text.to_owned()),
    }
}
