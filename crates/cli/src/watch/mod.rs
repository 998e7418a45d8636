//! `dogwatch watch`: a collection, followed by an informer and shown as it changes.
//!
//! ```text
//! RESOURCE ─► target: which resource, may we? ─► informer ─┬─► lines ─► stdout    (a pipe, json, name, --once)
//!                                                  │       └─► screen             (a table on a terminal)
//!                                                  └─► news ─► stderr
//! ```
//!
//! What the informer holds depends on what is shown: whole objects for JSON, metadata for names, and for tables the rows that the server
//! prints, so that the columns are those of `kubectl get` for every kind.

mod rows;
mod sheet;
mod format;
mod board;
mod news;
mod keys;
mod screen;

use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use dogwatch::discovery::ServedResource;
use dogwatch::informer::{NotFound, OnGone};
use dogwatch::{
    Api, Client, EventKind, FieldSelector, HandlerOptions, LabelSelector, ListParams, ListWatch, Object,
    Overflow, SharedInformer,
};
use futures_util::StreamExt;

use crate::connection::Connection;
use crate::printer::Printer;
use crate::{ending, target};
use format::{Format, Json, Names, TableLines};
use news::{Bulletin, News};
use rows::Rows;
use screen::Subject;

/// How often a collection that is gone, because its definition was removed, is asked for again.
const AGAIN: Duration = Duration::from_secs(5);
/// How many changes may wait for stdout; then the server waits with us, and nothing is left out.
const WAITING: usize = 1024;

const EXAMPLES: &str = "\
On a terminal a table is kept up to date in place; q ends it. Otherwise each change is one line, none merged:
  -o table  the columns the server prints, behind ADDED, MODIFIED or DELETED
  -o json   {\"type\":\"ADDED\",\"object\":{...}}
  -o name   pod/web-1
What is there already comes first, as ADDED. Problems and progress go to stderr; Ctrl-C and SIGTERM end it with code 0.

Examples:
  dogwatch watch pods -A
  dogwatch watch deploy -n web -l app=front
  dogwatch watch Certificate.v1.cert-manager.io -o json | jq .object.status
  dogwatch watch nodes --once -o name";

/// Follow any resource of a server, custom ones included, and show it as it changes.
///
/// It keeps a cache of the resource by an informer: a watch that breaks is resumed, and a history that the server has forgotten is
/// listed again.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Options {
    /// What to watch, by any of its names: pods, po, Pod, deployments.apps, Deployment.v1.apps.
    #[arg(value_name = "RESOURCE")]
    resource: String,
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
    /// Print what is there and exit.
    #[arg(long)]
    once: bool,
    /// How to show it.
    #[arg(short, long, value_enum, default_value = "table")]
    output: Output,
    #[command(flatten)]
    connection: Connection,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Output {
    /// The columns that the server prints.
    Table,
    /// Whole objects, one a line.
    Json,
    /// Names, as kubectl takes them.
    Name,
}

/// Watches until it is asked to end, or nobody reads what it prints.
pub(crate) async fn run(options: Options) -> anyhow::Result<ExitCode> {
    let mut end = std::pin::pin!(ending::end().context("cannot listen for signals")?);
    tokio::select! {
        view = View::find(options) => view?.show(end).await?,
        () = &mut end => {}
    }
    Ok(ExitCode::SUCCESS)
}

/// What is watched, and how.
struct View {
    options: Options,
    client: Client,
    found: ServedResource,
}

impl View {
    /// Finds out what is meant, and whether we may look at it.
    async fn find(options: Options) -> anyhow::Result<Self> {
        let client = options.connection.client()?;
        let found = target::find(&client, &options.resource).await?;
        let view = Self { options, client, found };
        let params = ListParams::default().labels(view.labels()).fields(view.fields());
        let metadata = Api::dynamic_metadata(view.client.clone(), view.found.resource.clone());
        target::check(&view.within(metadata), params).await?;
        Ok(view)
    }

    async fn show(&self, end: impl Future) -> anyhow::Result<()> {
        let (client, resource) = (self.client.clone(), self.found.resource.clone());
        match self.options.output {
            Output::Json => {
                let json = Json::new(&resource);
                let informer = self.informer(self.within(Api::dynamic(client, resource)));
                until(&informer, self.print(&informer, json), end).await
            }
            Output::Name => {
                let names = Names::new(&resource);
                let informer = self.informer(self.within(Api::dynamic_metadata(client, resource)));
                until(&informer, self.print(&informer, names), end).await
            }
            Output::Table => {
                let rows = Rows::new(client, resource, self.namespace().map(str::to_owned));
                let (columns, namespaces) = (rows.columns(), self.spans_namespaces());
                let informer = self.informer(rows);
                if self.options.once || !screen::is_possible() {
                    let lines = TableLines::new(columns, namespaces, !self.options.once);
                    return until(&informer, self.print(&informer, lines), end).await;
                }
                let subject = Subject { title: self.title(), columns, namespaces };
                let elsewhere = (!io::stderr().is_terminal()).then(|| self.bulletin());
                until(&informer, screen::show(&informer, &subject, elsewhere), end).await
            }
        }
    }

    fn labels(&self) -> LabelSelector {
        self.options.labels.clone().unwrap_or_else(LabelSelector::everything)
    }

    fn fields(&self) -> FieldSelector {
        self.options.fields.clone().unwrap_or_else(FieldSelector::everything)
    }

    /// The one namespace that is watched; none where it is all, or where the resource has none.
    fn namespace(&self) -> Option<&str> {
        let one = self.found.is_namespaced() && !self.options.all_namespaces;
        // An empty one, as of a variable that is not set, is none to kubectl either.
        let given = self.options.namespace.as_deref().filter(|it| !it.is_empty());
        one.then(|| given.unwrap_or_else(|| self.client.default_namespace()))
    }

    fn spans_namespaces(&self) -> bool {
        self.found.is_namespaced() && self.namespace().is_none()
    }

    fn within<T>(&self, api: Api<T>) -> Api<T> {
        match self.namespace() {
            Some(namespace) => api.within(namespace),
            None => api,
        }
    }

    fn informer<T: Object>(&self, source: impl ListWatch<T>) -> SharedInformer<T> {
        SharedInformer::builder(source)
            .name(self.found.group_resource())
            .labels(self.labels())
            .fields(self.fields())
            // A view of what is there: nothing is cleaned up after an object that only seems to be gone.
            .on_gone(OnGone::Clear)
            .reflector(|it| it.not_found(NotFound::GoneAfter(AGAIN)))
            .revive_after(Some(AGAIN))
            .build()
    }

    /// `pods in default`
    fn title(&self) -> String {
        let name = self.found.group_resource();
        match self.namespace() {
            Some(namespace) => format!("{name} in {namespace}"),
            None if self.found.is_namespaced() => format!("{name} in all namespaces"),
            None => name,
        }
    }

    fn bulletin(&self) -> Bulletin {
        Bulletin::new(News::new(&self.found.group_resource(), AGAIN))
    }

    /// Prints what is there, and unless it is for once, every change.
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
        let mut bulletin = self.bulletin();
        informer.start();
        loop {
            tokio::select! {
                synced = informer.synced() => break synced?,
                () = bulletin.next(informer) => {}
                closed = printer.closed() => return closed,
            }
        }
        bulletin.look(&informer.health());
        let all = informer.store().snapshot();
        format.prepare(&all);
        for object in all.iter() {
            printer.print(format.lines(EventKind::Added, object)).await?;
        }
        if all.is_empty() {
            self.tell_of_nothing();
        }
        printer.finish().await
    }

    /// Prints one line for each change, however slow the reader is: the informer waits, and what waits is not merged.
    async fn print_changes<T: Object>(
        &self,
        informer: &SharedInformer<T>,
        mut format: impl Format<T>,
        mut printer: Printer,
    ) -> anyhow::Result<()> {
        let mut bulletin = self.bulletin();
        let every = HandlerOptions::default().name("watch").overflow(Overflow::Block(WAITING));
        // Before the informer starts: of an object that changes between the first list and a later subscription, only the last state
        // would be seen.
        let mut changes = informer.changes_with(every)?;
        informer.start();
        let mut first = Vec::new();
        loop {
            tokio::select! {
                synced = informer.synced() => break synced?,
                // Taken as they come, since the informer waits while too many wait.
                Some(change) = changes.next() => first.push(change),
                () = bulletin.next(informer) => {}
                closed = printer.closed() => return closed,
            }
        }
        bulletin.look(&informer.health());
        format.prepare(&informer.store().snapshot());
        for change in first {
            printer.print(format.lines(format::event(&change), change.object())).await?;
        }
        loop {
            tokio::select! {
                change = changes.next() => match change {
                    Some(change) => {
                        let lines = format.lines(format::event(&change), change.object());
                        printer.print(lines).await?;
                    }
                    None => anyhow::bail!("the informer has ended: {}", informer.health()),
                },
                () = bulletin.next(informer) => {}
                closed = printer.closed() => return closed,
            }
        }
    }

    /// As kubectl says it, and only to a person who looks at a table.
    fn tell_of_nothing(&self) {
        if self.options.output == Output::Table {
            let place = self.namespace().map(|it| format!(" in {it} namespace.")).unwrap_or_default();
            let _ = writeln!(io::stderr(), "No resources found{place}");
        }
    }
}

/// Shows what an informer follows until that is done or somebody ends it, and stops the informer.
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
