//! Collections as lines on stdout: the existing objects and, without `--once`, every change.
//!
//! Each collection has an informer and a format; their lines go through one bounded channel to the
//! printer. The existing objects of a collection come after those of the collections before it, so
//! that the output has the order of the command line; changes are printed as they happen.

use std::fmt;
use std::io::{self, Write};
use std::sync::Arc;

use anyhow::Context;
use dogwatch::api::EventKind;
use dogwatch::informer::{Change, HandlerOptions, Overflow, Snapshot};
use dogwatch::{Api, Object, SharedInformer};
use futures_util::StreamExt;
use futures_util::future::{FusedFuture, FutureExt, try_join_all};
use tokio::sync::{mpsc, oneshot, watch};

use super::format::{self, Format, Json, Names, SortedNames, TableLines, Yaml};
use super::options::Output;
use super::view::View;
use crate::printer::Printer;

/// The number of changes of each collection that may wait for stdout; then the server waits with
/// us, and no change is lost.
const MAX_PENDING: usize = 1024;
/// The number of texts that may wait between the collections and the printer.
const QUEUE_LENGTH: usize = 16;

/// An error for objects that do not exist.
#[derive(Debug, thiserror::Error)]
struct NamesNotFound(Vec<Missing>);

/// The objects of one resource that do not exist.
#[derive(Debug)]
struct Missing {
    resource: String,
    /// The place where they were searched, after a space; empty for resources without namespaces.
    place: String,
    names: String,
}

impl fmt::Display for NamesNotFound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [Missing { resource, place, names }] = self.0.as_slice() {
            return write!(f, "{resource} not found{place}: {names}");
        }
        // A list, which is printed as the cause of its headline.
        f.write_str("some objects do not exist:")?;
        self.0
            .iter()
            .try_for_each(|Missing { resource, place, names }| write!(f, "\n  {resource}{place}: {names}"))
    }
}

/// The way of the lines of one collection to the printer.
struct Outlet {
    lines: mpsc::Sender<String>,
    /// Resolves when the collections before this one have sent their objects; true if there were
    /// any.
    turn: oneshot::Receiver<bool>,
    /// Lets the next collection send its objects.
    next: oneshot::Sender<bool>,
    /// True when the command ends.
    ended: watch::Receiver<bool>,
}

/// The output of one collection with `--once`.
struct Printed {
    any: bool,
    /// The names of which there is no object.
    missing: Vec<String>,
}

/// Prints the collections until a shutdown signal arrives or the reader closes stdout.
pub(super) async fn print(views: &[View], end: impl Future) -> anyhow::Result<()> {
    let mut printer = Printer::start().context("cannot start a thread to print")?;
    let (stop, ended) = watch::channel(false);
    let (lines, mut texts) = mpsc::channel(QUEUE_LENGTH);
    let (first, mut turn) = oneshot::channel();
    let _ = first.send(false);
    let mut all = Vec::new();
    for view in views {
        let (next, after) = oneshot::channel();
        let outlet = Outlet { lines: lines.clone(), turn, next, ended: ended.clone() };
        all.push(show(view, outlet).boxed_local());
        turn = after;
    }
    drop((lines, turn));
    let mut work = std::pin::pin!(try_join_all(all).fuse());
    let mut printed = Vec::new();
    let done = tokio::select! {
        biased;
        _ = end => Ok(()),
        written = write(&mut printer, &mut texts) => written,
        failed = async {
            match (&mut work).await {
                Ok(all) => printed = all,
                Err(error) => return Err(error),
            }
            // The lines that are still in the channel are written.
            std::future::pending().await
        } => failed,
    };
    stop.send_replace(true);
    if !work.is_terminated() {
        return work.await.and(done);
    }
    done?;
    printer.finish().await?;
    report(views, &printed)
}

/// Writes texts until there are no more, or until the reader closes stdout.
async fn write(printer: &mut Printer, texts: &mut mpsc::Receiver<String>) -> anyhow::Result<()> {
    loop {
        tokio::select! {
            biased;
            closed = printer.closed() => return closed,
            text = texts.recv() => match text {
                Some(text) => printer.print(text).await?,
                None => return Ok(()),
            },
        }
    }
}

/// Reports an empty output with the message of kubectl, and names without an object as an error.
fn report(views: &[View], printed: &[Printed]) -> anyhow::Result<()> {
    let missing = views.iter().zip(printed).filter(|(_, it)| !it.missing.is_empty());
    let missing = missing.map(|(view, it)| {
        let (resource, names) = (view.found.group_resource(), it.missing.join(", "));
        let place = match view.namespace() {
            Some(namespace) => format!(" in namespace {namespace}"),
            None if view.found.is_namespaced() => " in any namespace".to_owned(),
            None => String::new(),
        };
        Missing { resource, place, names }
    });
    let missing: Vec<_> = missing.collect();
    if !missing.is_empty() {
        return Err(NamesNotFound(missing).into());
    }
    let is_table = |it: &View| matches!(it.options.output, Output::Table | Output::Wide);
    if views.iter().all(is_table) && !printed.iter().any(|it| it.any) {
        // Of several, one in a namespace, which is what the user may have wrong.
        let view = views.iter().find(|it| it.namespace().is_some()).or(views.first());
        let _ = view.map(|it| writeln!(io::stderr(), "{}", it.nothing_found()));
    }
    Ok(())
}

/// Prints one collection in the format of the options.
async fn show(view: &View, outlet: Outlet) -> anyhow::Result<Printed> {
    let (client, resource) = (view.client.clone(), view.found.resource.clone());
    match view.options.output {
        Output::Json => {
            let informer = view.informer(view.within(Api::dynamic(client, resource)));
            print_one(view, &informer, Json(view.objects()), outlet).await
        }
        Output::Yaml => {
            let yaml = Yaml { objects: view.objects(), events: !view.options.once };
            let informer = view.informer(view.within(Api::dynamic(client, resource)));
            print_one(view, &informer, yaml, outlet).await
        }
        Output::Name if view.options.sort_by.is_some() => {
            let names = SortedNames { names: Names::new(&resource), objects: view.objects() };
            let informer = view.informer(view.within(Api::dynamic(client, resource)));
            print_one(view, &informer, names, outlet).await
        }
        Output::Name => {
            let names = Names::new(&resource);
            let informer = view.informer(view.within(Api::dynamic_metadata(client, resource)));
            print_one(view, &informer, names, outlet).await
        }
        Output::Table | Output::Wide => {
            let (informer, columns) = view.row_informer();
            let lines = TableLines::new(columns, view.shape_among_others(), !view.options.once);
            print_one(view, &informer, lines, outlet).await
        }
    }
}

/// Prints one collection until the command ends, and then stops its informer.
async fn print_one<T: Object>(
    view: &View,
    informer: &SharedInformer<T>,
    format: impl Format<T>,
    outlet: Outlet,
) -> anyhow::Result<Printed> {
    let Outlet { lines, turn, next, mut ended } = outlet;
    let done = tokio::select! {
        biased;
        _ = ended.wait_for(|it| *it) => Ok(Printed { any: true, missing: Vec::new() }),
        done = async {
            match view.options.once {
                true => print_once(view, informer, format, &lines, (turn, next)).await,
                false => print_changes(view, informer, format, &lines, (turn, next)).await,
            }
        } => done,
    };
    informer.stop().await;
    done
}

async fn print_once<T: Object>(
    view: &View,
    informer: &SharedInformer<T>,
    mut format: impl Format<T>,
    lines: &mpsc::Sender<String>,
    (turn, next): (oneshot::Receiver<bool>, oneshot::Sender<bool>),
) -> anyhow::Result<Printed> {
    let mut status_printer = view.status_printer();
    informer.start();
    loop {
        tokio::select! {
            biased;
            synced = informer.synced() => break synced?,
            () = status_printer.next(informer) => {}
        }
    }
    status_printer.print_new(&informer.health());
    let all = informer.store().snapshot();
    format.prepare(&all);
    let mut objects: Vec<_> = all.iter().filter(|it| view.names.wants(it.as_ref())).collect();
    objects.sort_by_cached_key(|it| format.sort_key(it));
    let before = turn.await.unwrap_or(false);
    // As in kubectl, an empty line separates the tables.
    if before && !objects.is_empty() && matches!(view.options.output, Output::Table | Output::Wide) {
        let _ = lines.send("\n".to_owned()).await;
    }
    for object in &objects {
        if lines.send(format.lines(EventKind::Added, object)).await.is_err() {
            break;
        }
    }
    let any = !objects.is_empty();
    let _ = next.send(before || any);
    Ok(Printed { any, missing: missing(view, &all).into_iter().map(str::to_owned).collect() })
}

/// Returns the names of which there is no object.
fn missing<'a, T: Object>(view: &'a View, all: &Snapshot<T>) -> Vec<&'a str> {
    view.names.missing(|name| all.iter().any(|it| it.header().name == name))
}

/// Sends one line for each change, however slow the reader is: the informer waits, and pending
/// changes are not merged.
async fn print_changes<T: Object>(
    view: &View,
    informer: &SharedInformer<T>,
    mut format: impl Format<T>,
    lines: &mpsc::Sender<String>,
    (turn, next): (oneshot::Receiver<bool>, oneshot::Sender<bool>),
) -> anyhow::Result<Printed> {
    let mut status_printer = view.status_printer();
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
            () = status_printer.next(informer) => {}
            // Taken as they come, since the informer waits while the buffer is full.
            Some(change) = changes.next() => first.push(change),
            // All initial objects were taken, so that they can be sorted.
            synced = registration.synced() => break synced?,
        }
    }
    status_printer.print_new(&informer.health());
    let all = informer.store().snapshot();
    format.prepare(&all);
    for name in missing(view, &all) {
        let resource = view.found.group_resource();
        let _ = writeln!(io::stderr(), "{resource} {name:?} does not exist; waiting for it");
    }
    if first.is_empty() && view.names.is_empty() {
        let _ = writeln!(io::stderr(), "{}: no objects yet; waiting for changes", view.title());
    }
    drop(all);
    // Changes since the list stay after it, and in order.
    let initial = first.iter().take_while(|it| matches!(it, Change::Added { initial: true, .. })).count();
    first[..initial].sort_by_cached_key(|it| format.sort_key(it.object()));
    let before = turn.await.unwrap_or(false);
    for change in &first {
        send(view, &mut format, lines, change).await;
    }
    let _ = next.send(before || !first.is_empty());
    drop(first);
    loop {
        tokio::select! {
            biased;
            () = status_printer.next(informer) => {}
            change = changes.next() => match change {
                Some(change) => send(view, &mut format, lines, &change).await,
                None => return Err(anyhow::anyhow!("{}", informer.health()).context("the informer has ended")),
            },
        }
    }
}

/// Sends the line of a change. If nothing is written any more, the command ends.
async fn send<T: Object>(
    view: &View,
    format: &mut impl Format<T>,
    lines: &mpsc::Sender<String>,
    change: &Change<T>,
) {
    let object: &Arc<T> = change.object();
    if view.names.wants(object.as_ref()) {
        let _ = lines.send(format.lines(format::event(change), object)).await;
    }
}
