//! `dogwatch watch`: collections, watched by informers and shown as they change.
//!
//! ```text
//! RESOURCE,… ─► view: resolve, check access ─► informer ─┬─► lines ─► stdout    (a pipe, json, yaml, name, --once)
//!                                                │       └─► screen             (tables on a terminal)
//!                                                └─► status ─► stderr
//! ```
//!
//! The object type of an informer depends on the output: whole objects for JSON and YAML, metadata
//! for names, and for tables the rows that the server prints, so that the columns are those of
//! `kubectl get` for every kind.

pub(crate) mod sort;
mod name_filter;
pub(crate) mod options;
pub(crate) mod rows;
pub(crate) mod row_order;
pub(crate) mod layout;
pub(crate) mod format;
mod keys;
pub(crate) mod live_table;
pub(crate) mod status;
mod stack;
mod screen;
pub(crate) mod view;
mod lines;

use std::io::{self, IsTerminal};
use std::process::ExitCode;

use anyhow::Context;

use crate::signals;
use options::Output;
use screen::{Pane, Subject};
use view::View;

pub(crate) use options::Options;

/// Watches until a shutdown signal arrives or the reader closes stdout.
pub(crate) async fn run(options: Options) -> anyhow::Result<ExitCode> {
    let mut end = std::pin::pin!(signals::shutdown().context("cannot listen for signals")?);
    tokio::select! {
        biased;
        () = &mut end => {}
        views = View::find_all(options) => show(&views?, end).await?,
    }
    Ok(ExitCode::SUCCESS)
}

async fn show(views: &[View], end: impl Future) -> anyhow::Result<()> {
    let is_screen = |it: &View| matches!(it.options.output, Output::Table | Output::Wide) && !it.options.once;
    if !views.iter().all(is_screen) || !screen::is_possible() {
        return lines::print(views, end).await;
    }
    let panes: Vec<_> = views.iter().map(pane).collect();
    let informers: Vec<_> = panes.iter().map(|it| it.informer.clone()).collect();
    let done = tokio::select! {
        biased;
        _ = end => Ok(()),
        done = screen::show(panes) => done,
    };
    for informer in informers {
        informer.stop().await;
    }
    done
}

fn pane(view: &View) -> Pane {
    let (informer, columns) = view.row_informer();
    let (title, nothing_found) = (view.title(), view.nothing_found());
    let names = view.names.clone();
    let subject = Subject { title, nothing_found, columns, shape: view.shape(), names };
    let elsewhere = (!io::stderr().is_terminal()).then(|| view.status_printer());
    Pane::new(informer, subject, elsewhere)
}
