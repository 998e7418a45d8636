//! The live diagnostics page in a real browser: `cargo xtask live-page`.
//!
//! ```text
//! program (server, informers, controllers, gRPC) ─► page ─► Chromium ◄─ DevTools ─ checks, screenshots
//! dogwatch demo ─────────────────────────────────► page ──────┘
//! ```
//!
//! Only a real browser proves that the page is drawn, that its numbers move, that nothing is
//! blocked by its content policy, and that it fits a phone. The checks fail the task; the
//! screenshots are for people: those of the demo are in `docs/images`. They are taken once the
//! plots have something to show.
//!
//! The `mod` lines below are in layer order.

mod devtools;
mod program;
mod demo;
mod expected_page;
mod checks;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use checks::Visit;
use demo::Demo;
use devtools::DevTools;
use expected_page::{DEMO_EDGES, DEMO_MOVEMENT, DEMO_PARTS, MOVEMENT, PARTS};
use program::Program;
use testbed::server::OwnServer;

use crate::chromium;

#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    #[command(flatten)]
    browser: chromium::ChromiumChoice,
    /// The folder for screenshots, which is created.
    #[arg(long, value_name = "DIR", default_value = "target/live-page")]
    screenshots: PathBuf,
    #[command(flatten)]
    ours: OwnServer,
}

/// The sizes of the screens: name, width, height, and whether it is a phone.
const SCREENS: [(&str, u32, u32, bool); 2] = [("desktop", 1280, 960, false), ("phone", 375, 812, true)];

/// Opens the page on each screen and with each colour scheme, and fails if a check does. Without a
/// Chromium it prints so and does nothing, unless one is required.
pub(crate) async fn run(options: &Options) -> Result<()> {
    let Some(chromium) = options.browser.choose()? else { return Ok(()) };
    let folder = &options.screenshots;
    std::fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let mut program = Program::start().await?;
    let profile = tempfile::tempdir()?;
    let mut browser = DevTools::start(&chromium, profile.path()).await?;
    let mut failures = Vec::new();
    for (screen, width, height, is_phone) in SCREENS {
        for scheme in ["light", "dark"] {
            browser.set_screen(width, height, is_phone, scheme).await?;
            let name = format!("{screen}-{scheme}");
            let mut visit = Visit::begin(&mut browser, &program.url(), &name).await?;
            visit.check_parts(&PARTS).await?;
            visit.check_movement(&MOVEMENT).await?;
            visit.check_layout().await?;
            failures.append(&mut visit.failures);
        }
    }
    browser.set_screen(1280, 960, false, "light").await?;
    let mut visit = Visit::begin(&mut browser, &program.url(), "program").await?;
    photograph(&mut visit, folder).await?;
    failures.append(&mut visit.failures);
    let mut visit = Visit::begin(&mut browser, &program.url(), "behaviour").await?;
    visit.check_keyboard().await?;
    visit.check_theme().await?;
    visit.check_cut_watch().await?;
    visit.check_relist().await?;
    program.stop_page();
    visit.check_disconnection().await?;
    program.serve_again().await?;
    visit.check_reconnection().await?;
    failures.append(&mut visit.failures);
    drop(program);
    failures.append(&mut visit_demo(options, &mut browser).await?);
    failures.extend(browser.unexpected_messages().map(|it| format!("the browser reports: {it}")));
    failures.extend(browser.foreign_requests().map(|it| format!("a request leaves this machine: {it}")));
    failures.iter().for_each(|it| println!("FAILED: {it}"));
    ensure!(failures.is_empty(), "the page does not work as it should");
    println!("the page works; screenshots are in {}", folder.display());
    Ok(())
}

/// Takes a picture of each screen once the plots show enough of the past. The page is not loaded
/// again in between, since it would begin with empty plots.
async fn photograph(visit: &mut Visit<'_>, folder: &Path) -> Result<()> {
    visit.wait_for_plots().await?;
    for (screen, width, height, is_phone) in SCREENS {
        for scheme in ["light", "dark"] {
            visit.set_screen(width, height, is_phone, scheme).await?;
            visit.check_layout().await?;
            visit.screenshot(folder, &format!("{screen}-{scheme}")).await?;
        }
    }
    visit.set_screen(1280, 960, false, "light").await
}

/// Looks at the page of the demo after its last act. Returns the failures.
async fn visit_demo(options: &Options, browser: &mut DevTools) -> Result<Vec<String>> {
    let mut demo = Demo::start(&options.ours)?;
    let url = demo.played().await?;
    let mut failures = Vec::new();
    for (screen, width, height, is_phone) in SCREENS {
        browser.set_screen(width, height, is_phone, "light").await?;
        let mut visit = Visit::begin(browser, &url, &format!("demo-{screen}")).await?;
        visit.check_parts(&DEMO_PARTS).await?;
        visit.check_movement(&DEMO_MOVEMENT).await?;
        failures.append(&mut visit.failures);
    }
    browser.set_screen(1280, 960, false, "light").await?;
    let mut visit = Visit::begin(browser, &url, "demo").await?;
    visit.check_parts(&DEMO_PARTS).await?;
    visit.check_parts(&DEMO_EDGES).await?;
    visit.check_demo_faults().await?;
    // The server that was killed is started again.
    visit.check_parts(&DEMO_PARTS).await?;
    photograph(&mut visit, &options.screenshots).await?;
    failures.append(&mut visit.failures);
    Ok(failures)
}
