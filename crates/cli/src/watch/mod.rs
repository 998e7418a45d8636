//! `dogwatch watch`: a collection, watched by an informer and shown as it changes.
//!
//! ```text
//! RESOURCE ─► target: resolve, check access ─► informer ─┬─► lines ─► stdout    (a pipe, json, yaml, name, --once)
//!                                                │       └─► screen             (a table on a terminal)
//!                                                └─► status ─► stderr
//! ```
//!
//! The object type of the informer depends on the output: whole objects for JSON and YAML, metadata
//! for names, and for tables the rows that the server prints, so that the columns are those of
//! `kubectl get` for every kind.

mod sort;
mod name_filter;
mod rows;
mod layout;
mod format;
mod keys;
mod live_table;
mod status;
mod screen;

use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use dogwatch::api::{EventKind, FieldSelector, LabelSelector, ListParams};
use dogwatch::discovery::ServedResource;
use dogwatch::informer::{Change, HandlerOptions, ListWatch, NotFound, OnGone, Overflow, Snapshot};
use dogwatch::{Api, Client, Object, SharedInformer};
use futures_util::StreamExt;

use crate::connection::Connection;
use crate::printer::Printer;
use crate::{signals, target};
use format::{Format, Json, Names, Objects, SortedNames, TableLines, Yaml};
use layout::Shape;
use name_filter::NameFilter;
use rows::{Columns, PlainObject, Row, RowObject, Rows, WholeObject};
use screen::Subject;
use sort::SortBy;
use status::{StatusMessages, StatusPrinter};

/// The interval at which a collection whose definition was removed is requested again.
const RETRY_INTERVAL: Duration = Duration::from_secs(5);
/// The number of changes that may wait for stdout; then the server waits with us, and no change is
/// lost.
const MAX_PENDING: usize = 1024;

const EXAMPLES: &str = "\
On a terminal, the table is updated in place. Keys: q quits; the arrows, PageUp, PageDown, Home and End scroll (also j, k, b,
Space, g, G). The first line says NOT SYNCED while the server cannot be reached: the rows are then those of before.

Otherwise each change is one line, and none are merged:
  -o table  the server's columns, after ADDED, MODIFIED or DELETED
  -o wide   the same with all columns
  -o json   {\"type\":\"ADDED\",\"object\":{...}}
  -o name   pod/web-1
  -o yaml   a document after a line with --- and one with the change as a comment
Existing objects come first, as ADDED. Problems and progress go to stderr; on Ctrl-C and SIGTERM it exits with 0.

--sort-by sorts the table on a terminal and, elsewhere, the existing objects; changes are printed as they happen. Numbers,
also those within text, are compared by their value, and objects without the field come first.

Examples:
  dogwatch watch pods -A
  dogwatch watch pods web-1 web-2 -o wide
  dogwatch watch deploy -n web -l app=front
  dogwatch watch pods -A --sort-by .metadata.creationTimestamp
  dogwatch watch Certificate.v1.cert-manager.io -o json | jq .object.status
  dogwatch watch nodes --once -o name";

/// Watch any resource of a server, including custom ones, and show it as it changes.
///
/// It keeps a cache of the resource with an informer: a broken watch is resumed, and the resource
/// is listed again if the server has compacted its history.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Options {
    /// The resource to watch, by any of its names: pods, po, Pod, deployments.apps,
    /// Deployment.v1.apps.
    #[arg(value_name = "RESOURCE", value_parser = resource)]
    resource: String,
    /// Only the objects of these names. They need not exist yet, except with --once.
    #[arg(value_name = "NAME", value_parser = name, conflicts_with_all = ["labels", "fields"])]
    names: Vec<String>,
    /// The namespace, instead of the one of the context.
    #[arg(short, long, value_name = "NS", conflicts_with = "all_namespaces")]
    namespace: Option<String>,
    /// All namespaces.
    #[arg(short = 'A', long)]
    all_namespaces: bool,
    /// Only objects with these labels, for example app=web,tier!=cache.
    #[arg(short = 'l', long = "selector", value_name = "SEL")]
    labels: Option<LabelSelector>,
    /// Only objects with these fields, for example spec.nodeName=node-1.
    #[arg(long = "field-selector", value_name = "F")]
    fields: Option<FieldSelector>,
    /// Sort by this field, for example .metadata.name or .status.startTime.
    #[arg(long, value_name = "JSONPATH")]
    sort_by: Option<SortBy>,
    /// Print the current objects and exit.
    #[arg(long)]
    once: bool,
    /// The output format.
    #[arg(short, long, value_enum, default_value = "table")]
    output: Output,
    #[command(flatten)]
    connection: Connection,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Output {
    /// The columns that the server prints.
    Table,
    /// The same, with the columns that usually do not fit.
    Wide,
    /// Whole objects, one per line.
    Json,
    /// Whole objects, as documents of several lines.
    Yaml,
    /// Names, in the syntax of kubectl.
    Name,
}

/// Watches until a shutdown signal arrives or the reader closes stdout.
pub(crate) async fn run(options: Options) -> anyhow::Result<ExitCode> {
    let mut end = std::pin::pin!(signals::shutdown().context("cannot listen for signals")?);
    tokio::select! {
        view = View::find(options) => view?.show(end).await?,
        () = &mut end => {}
    }
    Ok(ExitCode::SUCCESS)
}

/// Parses the name of a resource.
fn resource(text: &str) -> Result<String, &'static str> {
    match text {
        _ if text.contains(',') => Err("expected one resource; start another `dogwatch watch` for the next"),
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

/// An error for objects that do not exist.
#[derive(Debug, thiserror::Error)]
#[error("{resource} not found: {}", .names.join(", "))]
struct NamesNotFound {
    resource: String,
    names: Vec<String>,
}

/// The resource to watch, and the options.
struct View {
    options: Options,
    names: NameFilter,
    client: Client,
    found: ServedResource,
}

impl View {
    /// Resolves the resource, and checks the permission to read it.
    async fn find(options: Options) -> anyhow::Result<Self> {
        let client = options.connection.client()?;
        let found = target::find(&client, &options.resource).await?;
        let names = NameFilter::new(options.names.iter().cloned());
        let view = Self { options, names, client, found };
        let params = ListParams::default().labels(view.labels()).fields(view.fields());
        let metadata = Api::dynamic_metadata(view.client.clone(), view.found.resource.clone());
        target::check(&view.within(metadata), params).await?;
        Ok(view)
    }

    async fn show(&self, end: impl Future) -> anyhow::Result<()> {
        let (client, resource) = (self.client.clone(), self.found.resource.clone());
        match self.options.output {
            Output::Json => {
                let json = Json(self.objects());
                let informer = self.informer(self.within(Api::dynamic(client, resource)));
                until(&informer, self.print(&informer, json), end).await
            }
            Output::Yaml => {
                let yaml = Yaml { objects: self.objects(), events: !self.options.once };
                let informer = self.informer(self.within(Api::dynamic(client, resource)));
                until(&informer, self.print(&informer, yaml), end).await
            }
            Output::Name if self.options.sort_by.is_some() => {
                let names = SortedNames { names: Names::new(&resource), objects: self.objects() };
                let informer = self.informer(self.within(Api::dynamic(client, resource)));
                until(&informer, self.print(&informer, names), end).await
            }
            Output::Name => {
                let names = Names::new(&resource);
                let informer = self.informer(self.within(Api::dynamic_metadata(client, resource)));
                until(&informer, self.print(&informer, names), end).await
            }
            Output::Table | Output::Wide => match &self.options.sort_by {
                None => self.show_rows(self.rows::<PlainObject>(), end).await,
                Some(field) => self.show_rows(self.rows::<WholeObject>().sort_by(field.clone()), end).await,
            },
        }
    }

    fn rows<O: RowObject>(&self) -> Rows<O> {
        let (client, resource) = (self.client.clone(), self.found.resource.clone());
        Rows::new(client, resource, self.namespace().map(str::to_owned))
    }

    fn objects(&self) -> Objects {
        Objects::new(&self.found.resource, self.options.sort_by.clone())
    }

    async fn show_rows<O: RowObject>(&self, rows: Rows<O>, end: impl Future) -> anyhow::Result<()> {
        let columns = rows.columns();
        let informer = self.informer(rows);
        self.show_table(&informer, columns, end).await
    }

    async fn show_table(
        &self,
        informer: &SharedInformer<Row>,
        columns: Columns,
        end: impl Future,
    ) -> anyhow::Result<()> {
        let wide = self.options.output == Output::Wide;
        let shape = Shape { namespaces: self.spans_namespaces(), wide };
        if self.options.once || !screen::is_possible() {
            let lines = TableLines::new(columns, shape, !self.options.once);
            return until(informer, self.print(informer, lines), end).await;
        }
        let subject = Subject { title: self.title(), columns, shape, names: self.names.clone() };
        let elsewhere = (!io::stderr().is_terminal()).then(|| self.status_printer());
        until(informer, screen::show(informer, &subject, elsewhere), end).await
    }

    fn labels(&self) -> LabelSelector {
        self.options.labels.clone().unwrap_or_else(LabelSelector::everything)
    }

    fn fields(&self) -> FieldSelector {
        let given = self.options.fields.clone().or_else(|| self.names.selector());
        given.unwrap_or_else(FieldSelector::everything)
    }

    /// Returns the namespace that is watched; `None` for all of them, and for a cluster-scoped
    /// resource.
    fn namespace(&self) -> Option<&str> {
        let one = self.found.is_namespaced() && !self.options.all_namespaces;
        // An empty one, as from a variable that is not set, counts as none, as in kubectl.
        let given = self.options.namespace.as_deref().filter(|it| !it.is_empty());
        one.then(|| given.unwrap_or_else(|| self.client.default_namespace()))
    }

    fn spans_namespaces(&self) -> bool {
        self.found.is_namespaced() && self.namespace().is_none()
    }

    fn within<T>(&self, api: Api<T>) -> Api<T> {
        match self.namespace() {
            Some(namespace) => api.in_namespace(namespace),
            None => api,
        }
    }

    fn informer<T: Object>(&self, source: impl ListWatch<T>) -> SharedInformer<T> {
        SharedInformer::builder(source)
            .name(self.found.group_resource())
            .labels(self.labels())
            .fields(self.fields())
            // This is only a view of the server: no clean-up depends on an object that only seems
            // to be gone.
            .on_gone(OnGone::Clear)
            .reflector(|it| it.not_found(NotFound::GoneAfter(RETRY_INTERVAL)))
            .retry_not_served_after(Some(RETRY_INTERVAL))
            .build()
    }

    /// Returns a title such as `pods in default`.
    fn title(&self) -> String {
        let name = self.found.group_resource();
        match self.namespace() {
            Some(namespace) => format!("{name} in {namespace}"),
            None if self.found.is_namespaced() => format!("{name} in all namespaces"),
            None => name,
        }
    }

    fn status_printer(&self) -> StatusPrinter {
        StatusPrinter::new(StatusMessages::new(&self.found.group_resource(), RETRY_INTERVAL))
    }

    /// Prints the current objects and, without `--once`, every change.
    async fn print<T: Object>(
        &self,
        informer: &SharedInformer<T>,
        format: impl Format<T>,
    ) -> anyhow::Result<()> {
        let printer = Printer::start().context("cannot start a thread to print")?;
        match self.options.once {
            true => self.print_once(informer, format, printer).await,
            false => self.print_changes(informer, format, printer).await,
        }
    }

    async fn print_once<T: Object>(
        &self,
        informer: &SharedInformer<T>,
        mut format: impl Format<T>,
        mut printer: Printer,
    ) -> anyhow::Result<()> {
        let mut status_printer = self.status_printer();
        informer.start();
        loop {
            tokio::select! {
                synced = informer.synced() => break synced?,
                () = status_printer.next(informer) => {}
                closed = printer.closed() => return closed,
            }
        }
        status_printer.print_new(&informer.health());
        let all = informer.store().snapshot();
        format.prepare(&all);
        let mut objects: Vec<_> = all.iter().filter(|it| self.names.wants(it.as_ref())).collect();
        objects.sort_by_cached_key(|it| format.sort_key(it));
        for object in &objects {
            printer.print(format.lines(EventKind::Added, object)).await?;
        }
        let missing = self.missing(&all);
        if objects.is_empty() && missing.is_empty() {
            self.print_no_resources();
        }
        printer.finish().await?;
        match missing.is_empty() {
            true => Ok(()),
            false => {
                let names = missing.into_iter().map(str::to_owned).collect();
                Err(NamesNotFound { resource: self.found.group_resource(), names }.into())
            }
        }
    }

    /// Returns the names of which there is no object.
    fn missing<T: Object>(&self, all: &Snapshot<T>) -> Vec<&str> {
        self.names.missing(|name| all.iter().any(|it| it.header().name == name))
    }

    /// Prints one line for each change, however slow the reader is: the informer waits, and pending
    /// changes are not merged.
    async fn print_changes<T: Object>(
        &self,
        informer: &SharedInformer<T>,
        mut format: impl Format<T>,
        mut printer: Printer,
    ) -> anyhow::Result<()> {
        let mut status_printer = self.status_printer();
        let every = HandlerOptions::default().name("watch").overflow(Overflow::Block(MAX_PENDING));
        // Subscribe before the informer starts: of an object that changes between the first list
        // and a later subscription, only the last state would be seen.
        let mut changes = informer.changes_with(every)?;
        informer.start();
        let registration = changes.registration();
        let mut first = Vec::new();
        loop {
            tokio::select! {
                biased;
                // Taken as they come, since the informer waits while the buffer is full.
                Some(change) = changes.next() => first.push(change),
                // All initial objects were taken, so that they can be sorted.
                synced = registration.synced() => break synced?,
                closed = printer.closed() => return closed,
                () = status_printer.next(informer) => {}
            }
        }
        status_printer.print_new(&informer.health());
        let all = informer.store().snapshot();
        format.prepare(&all);
        for name in self.missing(&all) {
            let resource = self.found.group_resource();
            let _ = writeln!(io::stderr(), "{resource} {name:?} does not exist; waiting for it");
        }
        drop(all);
        // Changes since the list stay after it, and in order.
        let initial = first.iter().take_while(|it| matches!(it, Change::Added { initial: true, .. })).count();
        first[..initial].sort_by_cached_key(|it| format.sort_key(it.object()));
        for change in first.iter().filter(|it| self.names.wants(it.object().as_ref())) {
            printer.print(format.lines(format::event(change), change.object())).await?;
        }
        drop(first);
        loop {
            tokio::select! {
                change = changes.next() => match change {
                    Some(change) if !self.names.wants(change.object().as_ref()) => {}
                    Some(change) => {
                        let lines = format.lines(format::event(&change), change.object());
                        printer.print(lines).await?;
                    }
                    None => anyhow::bail!("the informer has ended: {}", informer.health()),
                },
                () = status_printer.next(informer) => {}
                closed = printer.closed() => return closed,
            }
        }
    }

    /// Prints kubectl's message for an empty list, only for a table.
    fn print_no_resources(&self) {
        if matches!(self.options.output, Output::Table | Output::Wide) {
            let place = self.namespace().map(|it| format!(" in {it} namespace.")).unwrap_or_default();
            let _ = writeln!(io::stderr(), "No resources found{place}");
        }
    }
}

/// Runs the output until it is done or a shutdown signal arrives, and then stops the informer.
async fn until<T: Object>(
    informer: &SharedInformer<T>,
    shown: impl Future<Output = anyhow::Result<()>>,
    end: impl Future,
) -> anyhow::Result<()> {
    let done = tokio::select! {
        done = shown => done,
        _ = end => Ok(()),
    };
    informer.stop().await;
    done
}
