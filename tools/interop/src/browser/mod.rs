//! A real browser against `dogwatch serve` with its defaults: `cargo xtask browser`.
//!
//! ```text
//! Chromium ──► page (127.0.0.2) ──► its attempts ──► dogwatch serve -v (127.0.0.1, same port)
//!                └── report                               └── request log, and stored objects
//! ```
//!
//! A server without credentials trusts every connection from this machine, and a browser on this
//! machine opens connections for every page it shows. A page of another site must neither write to
//! the server nor read from it. The server's checks are in
//! `crates/apiserver/src/http/web_guard.rs`; only a real browser proves that they match what
//! browsers send.
//!
//! The `mod` lines below are in layer order.

mod scenario;
mod request_log;
mod page_server;

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use dogwatch::api::{DeleteParams, ListParams, PatchParams};
use dogwatch::config::{Environment, Overrides};
use dogwatch::k8s_openapi::api::core::v1::ConfigMap;
use dogwatch::{Api, Client, Config};
use serde_json::json;
use tempfile::TempDir;
use tokio::time::Instant;

use page_server::{Attempt, PageServer};
use processes::process::Process;
use request_log::{LoggedRequest, requests};
use scenario::{FOREIGN_NAME, Scenario};
use testbed::server::OwnServer;

use crate::chromium;

/// The address of the page's server: on this machine, and different from the API server's.
const PAGE_ADDRESS: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);
/// The content that no page may read.
const SECRET: &str = "for the owner only";
/// The object with that content.
const PROTECTED: &str = "kept";
/// The time within which a browser has to start and make all attempts, on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(180);
/// The interval at which the server's log is read.
const POLL: Duration = Duration::from_millis(20);

#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    #[command(flatten)]
    ours: OwnServer,
    #[command(flatten)]
    browser: chromium::ChromiumChoice,
}

/// Lets pages of other sites try to use our server, and fails if one succeeds. Without a Chromium
/// it prints so and does nothing.
pub(crate) async fn run(options: &Options) -> Result<()> {
    let Some(chromium) = options.browser.choose()? else { return Ok(()) };
    let mut target = Target::start(&options.ours).await?;
    let page = SocketAddr::from((PAGE_ADDRESS, target.address.port()));
    let mut site = PageServer::start(page, target.address).await?;
    let mut failures = Vec::new();
    for scenario in Scenario::ALL {
        let before = target.mark(scenario).await?;
        let report = visit(&chromium, scenario, page, &mut site, target.folder.path()).await;
        let report = report.with_context(|| format!("scenario {}", scenario.name()))?;
        let logged = target.requests()?.split_off(before);
        let created = target.created_by(scenario).await?;
        println!("{}: {} attempts, {} requests", scenario.name(), report.len(), logged.len());
        for attempt in &report {
            println!("  {:12} {}", attempt.name, shortened(&attempt.outcome));
        }
        failures.extend(violations(scenario, &report, &logged, &created));
        target.restore().await?;
    }
    failures.iter().for_each(|it| println!("FAILED: {it}"));
    ensure!(failures.is_empty(), "a page of another site reached the server, or the control failed");
    println!("pages of other sites could neither write nor read; the control could do both");
    Ok(())
}

/// Opens a page in a new browser, and returns the page's report.
async fn visit(
    chromium: &Path,
    scenario: Scenario,
    page: SocketAddr,
    site: &mut PageServer,
    folder: &Path,
) -> Result<Vec<Attempt>> {
    let profile = tempfile::tempdir_in(folder)?;
    let url =
        format!("http://{}:{}/page/{}", scenario.host(&page.ip().to_string()), page.port(), scenario.name());
    let mut command = Command::new(chromium);
    command.args(["--headless", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"]);
    // The browser shows one page, which is part of this program; the sandbox does not work as root
    // or in most containers.
    command.arg("--no-sandbox");
    // Newer versions ask the user before a page may use loopback. Others do not, so the server has
    // to protect itself.
    command.arg("--disable-features=LocalNetworkAccessChecks,BlockInsecurePrivateNetworkRequests");
    command.arg(format!("--host-resolver-rules=MAP {FOREIGN_NAME} {}", page.ip()));
    command.arg(format!("--user-data-dir={}", profile.path().display())).arg(url);
    let mut browser = Process::start("chromium", &mut command, folder)?;
    let report = tokio::time::timeout(TIMEOUT, site.report()).await;
    match report {
        Ok(report) => report,
        Err(_) => {
            browser.ensure_alive()?;
            anyhow::bail!("no report within {TIMEOUT:?}; output of the browser:\n{}", browser.output()?)
        }
    }
}

/// Returns the violations in a scenario, as sentences.
fn violations(
    scenario: Scenario,
    report: &[Attempt],
    logged: &[LoggedRequest],
    created: &[String],
) -> Vec<String> {
    let (name, has_read) = (scenario.name(), report.iter().find(|it| it.outcome.contains(SECRET)));
    let mut violations = Vec::new();
    if scenario == Scenario::Control {
        if created.is_empty() || has_read.is_none() {
            violations.push(format!(
                "{name}: the control failed: the page created {created:?} and read {has_read:?}"
            ));
        }
        return violations;
    }
    if !created.is_empty() {
        violations.push(format!("{name}: the page created {created:?}"));
    }
    if let Some(attempt) = has_read {
        violations.push(format!("{name}: the page could read with {:?}", attempt.name));
    }
    violations.extend(
        logged
            .iter()
            .filter(|it| it.status != 403)
            .map(|it| format!("{name}: the server did not reject {it:?}")),
    );
    for method in ["GET", "POST"] {
        if !logged.iter().any(|it| it.method == method && it.path.contains("/configmaps")) {
            violations.push(format!(
                "{name}: no {method} of the page reached the server, so the scenario proves nothing"
            ));
        }
    }
    violations
}

fn shortened(text: &str) -> String {
    text.replace('\n', " ").chars().take(100).collect()
}

/// The attacked server, with an object that no page may read or change.
struct Target {
    address: SocketAddr,
    maps: Api<ConfigMap>,
    process: Process,
    folder: TempDir,
}

impl Target {
    async fn start(ours: &OwnServer) -> Result<Self> {
        let folder = tempfile::tempdir().context("cannot create a directory for the server")?;
        let mut command = Command::new(ours.binary()?);
        command.args(["serve", "-v"]).env_remove("DOGWATCH_TOKEN");
        let mut process = Process::start("dogwatch", &mut command, folder.path())?;
        let start = Instant::now();
        let url = loop {
            process.ensure_alive()?;
            if let Some(url) = process.output()?.lines().find_map(|it| it.strip_prefix("ready ")) {
                break url.trim().to_owned();
            }
            ensure!(start.elapsed() < TIMEOUT, "our server is not ready within {TIMEOUT:?}");
            tokio::time::sleep(POLL).await;
        };
        let address = url.strip_prefix("http://").context("the server does not serve plain HTTP")?.parse()?;
        let mut overrides = Overrides::default();
        overrides.cluster_info.server = Some(url);
        let client = Client::new(Config::infer(&Environment::empty(), &overrides)?)?;
        let mut target = Self { address, maps: Api::namespaced(client, "default"), process, folder };
        target.restore().await?;
        Ok(target)
    }

    /// Restores the objects to their state before a page made its attempts.
    async fn restore(&mut self) -> Result<()> {
        for map in self.maps.list_all(&ListParams::default()).await?.items {
            let name = map.metadata.name.unwrap_or_default();
            if Scenario::ALL.iter().any(|it| name.starts_with(it.name())) {
                self.maps.delete(&name, &DeleteParams::default()).await?;
            }
        }
        let kept = json!({ "data": { "secret": SECRET } });
        self.maps.apply(PROTECTED, &PatchParams::apply("xtask").force(), &kept).await?;
        Ok(())
    }

    /// Returns the objects that a page created, changed or deleted.
    async fn created_by(&self, scenario: Scenario) -> Result<Vec<String>> {
        let list = self.maps.list_all(&ListParams::default()).await?.items;
        let name = |map: &ConfigMap| map.metadata.name.clone().unwrap_or_default();
        let mut touched: Vec<_> =
            list.iter().map(name).filter(|it| it.starts_with(scenario.name())).collect();
        let is_intact = |map: &ConfigMap| map.data.as_ref().is_some_and(|it| it["secret"] == SECRET);
        if !list.iter().any(|it| name(it) == PROTECTED && is_intact(it)) {
            touched.push(format!("(a change of {PROTECTED})"));
        }
        Ok(touched)
    }

    /// Waits until all of our own requests are in the log. Returns the number of requests in it.
    async fn mark(&mut self, scenario: Scenario) -> Result<usize> {
        let name = format!("before-{}", scenario.name());
        let missing = self.maps.get(&name).await;
        ensure!(missing.is_err_and(|it| it.is_not_found()), "unexpected object {name}");
        let start = Instant::now();
        loop {
            let requests = self.requests()?;
            if requests.iter().any(|it| it.path.ends_with(&name)) {
                return Ok(requests.len());
            }
            self.process.ensure_alive()?;
            ensure!(start.elapsed() < TIMEOUT, "the server did not log our request within {TIMEOUT:?}");
            tokio::time::sleep(POLL).await;
        }
    }

    fn requests(&self) -> Result<Vec<LoggedRequest>> {
        Ok(requests(&self.process.output()?))
    }
}
