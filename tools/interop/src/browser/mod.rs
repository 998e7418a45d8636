//! A real browser against `dogwatch serve` with its defaults: `cargo xtask browser`.
//!
//! ```text
//! Chromium ──► page (127.0.0.2) ──► its attempts ──► dogwatch serve -v (127.0.0.1, same port)
//!                └── report                               └── log of requests, and what is stored
//! ```
//!
//! A server without credentials trusts every connection of this machine, and a browser on this machine opens connections for every
//! page it shows. A page of another site must neither write to the server nor read from it. What the server checks is in
//! `crates/apiserver/src/http/web_guard.rs`; only a browser shows that it is what browsers send.
//!
//! The `mod` lines below are in layer order.

mod scene;
mod request_log;
mod page_server;

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use dogwatch::config::{Environment, Overrides};
use dogwatch::k8s_openapi::api::core::v1::ConfigMap;
use dogwatch::{Api, Client, Config, DeleteParams, ListParams, PatchParams};
use serde_json::json;
use tempfile::TempDir;
use tokio::time::Instant;

use page_server::{Attempt, PageServer};
use processes::process::Process;
use request_log::{Logged, requests};
use scene::{FOREIGN_NAME, Scene};
use testbed::server::Ours;

/// Programs that are a Chromium, by name.
const NAMES: [&str; 5] =
    ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome-headless-shell"];
/// Where the page comes from: this machine, and another address than the server's.
const PAGE_ADDRESS: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);
/// What no page may read.
const SECRET: &str = "for nobody but the owner";
/// The object that has it.
const KEPT: &str = "kept";
/// How long a browser may take to start and to try everything, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(180);
/// How often the server's log is looked at.
const POLL: Duration = Duration::from_millis(20);

#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    #[command(flatten)]
    ours: Ours,
    /// The Chromium to use; without it, one is looked for in PATH.
    #[arg(long, value_name = "FILE")]
    chromium: Option<PathBuf>,
}

/// Lets pages of other sites try to use our server; fails if one can. Where there is no Chromium it says so, and shows nothing.
pub(crate) async fn run(options: &Options) -> Result<()> {
    let Some(chromium) = options.chromium.clone().or_else(find_chromium) else {
        println!("no Chromium in PATH ({}): nothing was tried", NAMES.join(", "));
        println!("install one, or name it with --chromium FILE");
        return Ok(());
    };
    let mut target = Target::start(&options.ours).await?;
    let page = SocketAddr::from((PAGE_ADDRESS, target.address.port()));
    let mut site = PageServer::start(page, target.address).await?;
    let mut failures = Vec::new();
    for scene in Scene::ALL {
        let before = target.mark(scene).await?;
        let report = visit(&chromium, scene, page, &mut site, target.folder.path()).await;
        let report = report.with_context(|| format!("the page of the scene {}", scene.name()))?;
        let asked = target.requests()?.split_off(before);
        let created = target.created_by(scene).await?;
        println!("{}: {} attempts, {} requests", scene.name(), report.len(), asked.len());
        for attempt in &report {
            println!("  {:12} {}", attempt.name, shortened(&attempt.outcome));
        }
        failures.extend(breaches(scene, &report, &asked, &created));
        target.restore().await?;
    }
    failures.iter().for_each(|it| println!("FAILED: {it}"));
    ensure!(failures.is_empty(), "a page of another site is not kept out, or the control shows nothing");
    println!("pages of other sites created nothing and read nothing; the control did both");
    Ok(())
}

/// The Chromium of this machine, if it has one.
fn find_chromium() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let files = std::env::split_paths(&path).flat_map(|folder| NAMES.map(|name| folder.join(name)));
    files.into_iter().find(|it| it.is_file())
}

/// Shows a page in a browser of its own, and returns what the page reports.
async fn visit(
    chromium: &Path,
    scene: Scene,
    page: SocketAddr,
    site: &mut PageServer,
    folder: &Path,
) -> Result<Vec<Attempt>> {
    let profile = tempfile::tempdir_in(folder)?;
    let url = format!("http://{}:{}/page/{}", scene.host(&page.ip().to_string()), page.port(), scene.name());
    let mut command = Command::new(chromium);
    command.args(["--headless", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"]);
    // It shows one page, which this task wrote; the sandbox cannot be had as root or in most containers.
    command.arg("--no-sandbox");
    // Newer versions ask a person before a page may use the loopback. Others do not: the server has to defend itself.
    command.arg("--disable-features=LocalNetworkAccessChecks,BlockInsecurePrivateNetworkRequests");
    command.arg(format!("--host-resolver-rules=MAP {FOREIGN_NAME} {}", page.ip()));
    command.arg(format!("--user-data-dir={}", profile.path().display())).arg(url);
    let mut browser = Process::start("chromium", &mut command, folder)?;
    let report = tokio::time::timeout(PATIENCE, site.report()).await;
    match report {
        Ok(report) => report,
        Err(_) => {
            browser.ensure_alive()?;
            anyhow::bail!("no report within {PATIENCE:?}; the browser said:\n{}", browser.said()?)
        }
    }
}

/// What is not as it should be, as sentences.
fn breaches(scene: Scene, report: &[Attempt], asked: &[Logged], created: &[String]) -> Vec<String> {
    let (name, has_read) = (scene.name(), report.iter().find(|it| it.outcome.contains(SECRET)));
    let mut breaches = Vec::new();
    if scene == Scene::Control {
        if created.is_empty() || has_read.is_none() {
            breaches.push(format!("{name}: the page created {created:?} and read {has_read:?}"));
        }
        return breaches;
    }
    if !created.is_empty() {
        breaches.push(format!("{name}: the page created {created:?}"));
    }
    if let Some(attempt) = has_read {
        breaches.push(format!("{name}: the page could read by {:?}", attempt.name));
    }
    breaches.extend(
        asked.iter().filter(|it| it.status != 403).map(|it| format!("{name}: this was not refused: {it:?}")),
    );
    for method in ["GET", "POST"] {
        if !asked.iter().any(|it| it.method == method && it.path.contains("/configmaps")) {
            breaches.push(format!("{name}: no {method} of the page came to the server, so nothing is shown"));
        }
    }
    breaches
}

fn shortened(text: &str) -> String {
    text.replace('\n', " ").chars().take(100).collect()
}

/// The server under attack, and an object on it that no page may read or change.
struct Target {
    address: SocketAddr,
    maps: Api<ConfigMap>,
    process: Process,
    folder: TempDir,
}

impl Target {
    async fn start(ours: &Ours) -> Result<Self> {
        let folder = tempfile::tempdir().context("cannot make a folder for the server")?;
        let mut command = Command::new(ours.binary()?);
        command.args(["serve", "-v"]).env_remove("DOGWATCH_TOKEN");
        let mut process = Process::start("dogwatch", &mut command, folder.path())?;
        let start = Instant::now();
        let url = loop {
            process.ensure_alive()?;
            if let Some(url) = process.said()?.lines().find_map(|it| it.strip_prefix("ready ")) {
                break url.trim().to_owned();
            }
            ensure!(start.elapsed() < PATIENCE, "our server did not say that it is ready");
            tokio::time::sleep(POLL).await;
        };
        let address = url.strip_prefix("http://").context("it does not serve HTTP")?.parse()?;
        let mut overrides = Overrides::default();
        overrides.cluster_info.server = Some(url);
        let client = Client::new(Config::infer(&Environment::empty(), &overrides)?)?;
        let mut target = Self { address, maps: Api::namespaced(client, "default"), process, folder };
        target.restore().await?;
        Ok(target)
    }

    /// Makes the server as it was before a page tried anything.
    async fn restore(&mut self) -> Result<()> {
        for map in self.maps.list_all(&ListParams::default()).await?.items {
            let name = map.metadata.name.unwrap_or_default();
            if Scene::ALL.iter().any(|it| name.starts_with(it.name())) {
                self.maps.delete(&name, &DeleteParams::default()).await?;
            }
        }
        let kept = json!({ "data": { "secret": SECRET } });
        self.maps.apply(KEPT, &PatchParams::apply("xtask").force(), &kept).await?;
        Ok(())
    }

    /// What a page created, changed or deleted.
    async fn created_by(&self, scene: Scene) -> Result<Vec<String>> {
        let list = self.maps.list_all(&ListParams::default()).await?.items;
        let name = |map: &ConfigMap| map.metadata.name.clone().unwrap_or_default();
        let mut touched: Vec<_> = list.iter().map(name).filter(|it| it.starts_with(scene.name())).collect();
        let is_intact = |map: &ConfigMap| map.data.as_ref().is_some_and(|it| it["secret"] == SECRET);
        if !list.iter().any(|it| name(it) == KEPT && is_intact(it)) {
            touched.push(format!("(a change of {KEPT})"));
        }
        Ok(touched)
    }

    /// Waits until all of our own requests are in the log, and returns how many requests it has then.
    async fn mark(&mut self, scene: Scene) -> Result<usize> {
        let name = format!("before-{}", scene.name());
        let missing = self.maps.get(&name).await;
        ensure!(missing.is_err_and(|it| it.is_not_found()), "there is a {name}");
        let start = Instant::now();
        loop {
            let requests = self.requests()?;
            if requests.iter().any(|it| it.path.ends_with(&name)) {
                return Ok(requests.len());
            }
            self.process.ensure_alive()?;
            ensure!(start.elapsed() < PATIENCE, "the server does not log its requests");
            tokio::time::sleep(POLL).await;
        }
    }

    fn requests(&self) -> Result<Vec<Logged>> {
        Ok(requests(&self.process.said()?))
    }
}
