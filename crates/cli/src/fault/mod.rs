//! `dogwatch fault`: drives the fault-injection API of a running `dogwatch serve --admin`.
//!
//! ```text
//! flags ─► rule ─► admin ══ HTTP ══► /_dogwatch/faults ─► description ─► stdout
//! ```
//!
//! The faults themselves are in `dogwatch_apiserver::faults`; nothing here injects one.

mod description;
mod rule;
mod admin;

use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::Context;
use clap::CommandFactory;
use comfy_table::{Table, presets};
use serde_json::{Value, json};

use crate::connection::Connection;
use crate::number;
use admin::FaultApi;
use rule::{RuleFlags, ScopeFlags};

const EXAMPLES: &str = "\
Start a server that accepts faults:
  dogwatch serve --admin --kubeconfig-out dogwatch.kubeconfig
and point your program and these commands at it, in other terminals:
  export KUBECONFIG=$PWD/dogwatch.kubeconfig
With --simulate, rules apply to the simulated nodes and controllers too, and
--times counts their requests. Their user is admin, like yours unless your
program has one of its own (dogwatch serve --tls --token-auth-file FILE). Then
--user NAME limits a rule to it; otherwise use --namespace or --name.

Does my controller back off when the server is busy?
  dogwatch fault add --verb list --resource pods --times 3 \\
      --refuse 429 --retry-after 2
Does it retry a write after a conflict, and survive one whose answer is lost?
  dogwatch fault add --verb update --verb patch --probability 0.3 --refuse 409
  dogwatch fault add --verb create --times 1 --reset after
Does it list again when its history is gone, and reconnect when its watch is
cut?
  dogwatch fault expire
  dogwatch fault drop-watches --resource pods --cut
Does it cope with a cache that is old?
  dogwatch fault add --verb watch --resource pods --lag 2s..5s
  dogwatch fault pause
What was injected, and how to stop it:
  dogwatch fault list
  dogwatch fault remove 1
  dogwatch fault remove --all

Faults never corrupt data: a refused request was not carried out, and no event
of an open watch is lost or repeated.";

const ADD_EXAMPLES: &str = "\
A rule has faults of requests or faults of watches, not both; without any, it
only counts what it matches.

Examples:
  dogwatch fault add --verb list --resource pods --times 3 \\
      --refuse 429 --retry-after 2
  dogwatch fault add --verb create,update --probability 0.2 --delay 100ms..2s
  dogwatch fault add --verb create --times 1 --reset after
  dogwatch fault add --verb watch --resource pods --cut-after 10";

/// Make a running `dogwatch serve --admin` fail on purpose.
///
/// It injects faults: errors, delays and cut connections. A rule selects requests or watches, and
/// the fault that they meet; it stays until it is removed. drop-watches, bookmark, compact and
/// expire act once; pause lasts until resume.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Options {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Add a rule: the requests that it matches, how often it fires, and the fault.
    #[command(after_help = ADD_EXAMPLES)]
    Add(Box<AddOptions>),
    /// List the rules, how often they fired, and the faults that were injected.
    List(ListOptions),
    /// Remove rules.
    Remove(RemoveOptions),
    /// End open watches, as if they had timed out, or by cutting their connections.
    DropWatches(DropOptions),
    /// Send a bookmark on open watches that asked for bookmarks.
    Bookmark(BookmarkOptions),
    /// Stop the delivery of events on all watches, until `resume`.
    Pause(Connected),
    /// Continue the delivery of events.
    Resume(Connected),
    /// Drop the history, so that a watch that resumes from an old version gets 410 Gone.
    Compact(CompactOptions),
    /// End all watches, and drop the history with all versions that clients know: they have to list
    /// again.
    Expire(Connected),
}

#[derive(Debug, clap::Args)]
struct AddOptions {
    #[command(flatten)]
    rule: RuleFlags,
    #[command(flatten)]
    connection: Connection,
}

#[derive(Debug, clap::Args)]
struct ListOptions {
    /// The output format.
    #[arg(short, long, value_enum, default_value = "table")]
    output: Output,
    #[command(flatten)]
    connection: Connection,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Output {
    /// A line for each rule.
    Table,
    /// The response of the server, as one line.
    Json,
}

#[derive(Debug, clap::Args)]
struct RemoveOptions {
    /// The numbers of the rules, as `list` shows them.
    #[arg(value_name = "ID", value_parser = number::any(), required_unless_present = "all", conflicts_with = "all")]
    ids: Vec<u64>,
    /// Remove all rules, and resume the delivery of watches.
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    connection: Connection,
}

#[derive(Debug, clap::Args)]
struct DropOptions {
    #[command(flatten)]
    scope: ScopeFlags,
    /// Cut the connections, instead of ending the watches in order.
    #[arg(long)]
    cut: bool,
    #[command(flatten)]
    connection: Connection,
}

#[derive(Debug, clap::Args)]
struct BookmarkOptions {
    #[command(flatten)]
    scope: ScopeFlags,
    #[command(flatten)]
    connection: Connection,
}

#[derive(Debug, clap::Args)]
struct CompactOptions {
    /// Keep the history from this version on. Without it, all of it is dropped.
    #[arg(long, value_name = "VERSION", value_parser = number::any())]
    to: Option<u64>,
    #[command(flatten)]
    connection: Connection,
}

#[derive(Debug, clap::Args)]
struct Connected {
    #[command(flatten)]
    connection: Connection,
}

/// Carries out the action, and prints what was done.
pub(crate) async fn run(options: Options) -> anyhow::Result<ExitCode> {
    let done = match options.action {
        Action::Add(options) => add(&options).await?,
        Action::List(options) => list(&options).await?,
        Action::Remove(options) => remove(&options).await?,
        Action::DropWatches(DropOptions { scope, cut, connection }) => {
            let order = json!({ "on": scope.scope(), "cut": cut });
            FaultApi::new(&connection)?.switch("drop-watches", &order).await?;
            let how = if cut { "cut" } else { "ended" };
            format!("{how} {}\n", description::watches(&order["on"]))
        }
        Action::Bookmark(BookmarkOptions { scope, connection }) => {
            let order = json!({ "on": scope.scope() });
            FaultApi::new(&connection)?.switch("bookmark", &order).await?;
            format!("sent bookmarks on {}\n", description::watches(&order["on"]))
        }
        Action::Pause(Connected { connection }) => {
            FaultApi::new(&connection)?.switch("pause", &json!({})).await?;
            "paused all watches; `dogwatch fault resume` continues\n".to_owned()
        }
        Action::Resume(Connected { connection }) => {
            FaultApi::new(&connection)?.switch("resume", &json!({})).await?;
            "resumed all watches\n".to_owned()
        }
        Action::Compact(CompactOptions { to, connection }) => {
            let done = FaultApi::new(&connection)?.switch("compact", &json!({ "version": to })).await?;
            format!("dropped the history before version {}\n", done["oldest"])
        }
        Action::Expire(Connected { connection }) => {
            let done = FaultApi::new(&connection)?.switch("expire", &json!({})).await?;
            format!("expired the history before version {}, and ended all watches\n", done["oldest"])
        }
    };
    let mut out = io::stdout().lock();
    out.write_all(done.as_bytes()).and_then(|()| out.flush()).context("cannot write to stdout")?;
    Ok(ExitCode::SUCCESS)
}

async fn add(options: &AddOptions) -> anyhow::Result<String> {
    let rule = match options.rule.rule() {
        Ok(rule) => rule,
        Err(error) => bad_usage(&in_flags(&error.to_string())),
    };
    let added = FaultApi::new(&options.connection)?.add(&rule).await?;
    Ok(format!("added rule {}: {}\n", added["id"], description::rule(&added["rule"])))
}

/// Replaces the field of a rule that an error begins with by the flag.
fn in_flags(problem: &str) -> String {
    match problem.strip_prefix("on.verbs: ") {
        Some(problem) => format!("--verb: {problem}"),
        None => problem.to_owned(),
    }
}

/// Reports flags that do not go together, and exits with 2.
fn bad_usage(problem: &str) -> ! {
    #[derive(Debug, clap::Parser)]
    #[command(name = "dogwatch fault add", bin_name = "dogwatch fault add")]
    struct Usage {
        #[command(flatten)]
        options: AddOptions,
    }
    Usage::command().error(clap::error::ErrorKind::ArgumentConflict, problem).exit()
}

async fn list(options: &ListOptions) -> anyhow::Result<String> {
    let all = FaultApi::new(&options.connection)?.list().await?;
    if options.output == Output::Json {
        return Ok(format!("{all}\n"));
    }
    let rules = all["rules"].as_array().map(Vec::as_slice).unwrap_or_default();
    let mut text = if rules.is_empty() {
        "no rules; `dogwatch fault add --help` shows how to add one\n".to_owned()
    } else {
        table(rules)
    };
    if all["paused"] == true {
        text.push_str("all watches are paused; `dogwatch fault resume` continues\n");
    }
    text.push_str(&format!("injected so far: {}\n", description::counts(&all["tally"])));
    Ok(text)
}

fn table(rules: &[Value]) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(["ID", "ON", "FAULT", "WHEN", "MATCHED", "FIRED"]);
    for report in rules {
        let rule = &report["rule"];
        table.add_row([
            report["id"].to_string(),
            description::scope(&rule["on"]),
            description::effect(rule),
            description::frequency(rule),
            report["matched"].to_string(),
            report["fired"].to_string(),
        ]);
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    table.trim_fmt() + "\n"
}

async fn remove(options: &RemoveOptions) -> anyhow::Result<String> {
    let api = FaultApi::new(&options.connection)?;
    if options.all {
        api.clear().await?;
        return Ok("removed all rules, and resumed all watches\n".to_owned());
    }
    let mut done = String::new();
    for id in &options.ids {
        let removed = api.remove(*id).await?;
        let times = match removed["fired"].as_u64() {
            Some(0) => "never fired".to_owned(),
            Some(1) => "fired once".to_owned(),
            times => format!("fired {} times", times.unwrap_or_default()),
        };
        done.push_str(&format!("removed rule {id}, which {times}\n"));
    }
    Ok(done)
}
