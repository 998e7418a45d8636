//! The live page of a program in a real browser: `cargo xtask live-page`.
//!
//! ```text
//! program (server, informers, controllers, gRPC) ─► page ─► Chromium ◄─ DevTools ─ checks, screenshots
//! dogwatch demo ─────────────────────────────────► page ──────┘
//! ```
//!
//! Only a real browser proves that the page is drawn, that its numbers move, that nothing is
//! blocked by its content policy, and that it fits a phone. The checks fail the task. They wait for
//! conditions, so that a busy machine makes them slow and not wrong. Screenshots are for people,
//! and taken on request, once the plots have something to show: those of the demo are in
//! `docs/images`.
//!
//! The `mod` lines below are in layer order.

mod devtools;
mod program;
mod demo;
mod expected_page;
mod page_wait;
mod checks;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use checks::{Failures, Visit};
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
    /// Save screenshots in this folder, which is created.
    #[arg(long, value_name = "DIR")]
    screenshots: Option<PathBuf>,
    #[command(flatten)]
    ours: OwnServer,
}

/// The sizes of the screens: name, width, height, and whether it is a phone.
const SCREENS: [(&str, u32, u32, bool); 2] = [("desktop", 1280, 960, false), ("phone", 375, 812, true)];

/// Opens the page on each screen and with each colour scheme, and fails if a check does. Without a
/// Chromium it prints so and does nothing, unless one is required.
pub(crate) async fn run(options: &Options) -> Result<()> {
    let Some(chromium) = options.browser.choose()? else { return Ok(()) };
    let folder = options.screenshots.as_deref();
    if let Some(folder) = folder {
        std::fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    }
    let profile = tempfile::tempdir()?;
    let mut browser = DevTools::start(&chromium, profile.path()).await?;
    let mut failures = Failures::default();
    visit_program(&mut browser, &mut failures, folder).await?;
    visit_demo(options, &mut browser, &mut failures).await?;
    let mut failures = failures.texts;
    failures.extend(browser.unexpected_messages().map(|it| format!("the browser reports: {it}")));
    failures.extend(browser.foreign_requests().map(|it| format!("a request leaves this machine: {it}")));
    failures.iter().for_each(|it| println!("FAILED: {it}"));
    ensure!(failures.is_empty(), "the page does not work as it should");
    println!("the page works");
    folder.inspect(|it| println!("screenshots are in {}", it.display()));
    Ok(())
}

/// Looks at the page of a program of its own, which is stopped and started again meanwhile.
async fn visit_program(browser: &mut DevTools, failures: &mut Failures, folder: Option<&Path>) -> Result<()> {
    let mut program = Program::start().await?;
    for (screen, width, height, is_phone) in SCREENS {
        for scheme in ["light", "dark"] {
            browser.set_screen(width, height, is_phone, scheme).await?;
            let name = format!("{screen}-{scheme}");
            let mut visit = Visit::begin(browser, failures, &program.url(), &name).await?;
            visit.check_parts(&PARTS).await?;
            visit.check_movement(&MOVEMENT).await?;
            visit.check_layout().await?;
        }
    }
    browser.set_screen(1280, 960, false, "light").await?;
    let mut visit = Visit::begin(browser, failures, &program.url(), "program").await?;
    photograph(&mut visit, folder).await?;
    let mut visit = Visit::begin(browser, failures, &program.url(), "behaviour").await?;
    visit.check_keyboard().await?;
    visit.check_theme().await?;
    visit.check_cut_watch().await?;
    visit.check_relist().await?;
    program.stop_page();
    visit.check_disconnection().await?;
    program.serve_again().await?;
    visit.check_reconnection().await
}

/// Takes a picture of each screen once the plots show enough of the past. The page is not loaded
/// again in between, since it would begin with empty plots.
async fn photograph(visit: &mut Visit<'_>, folder: Option<&Path>) -> Result<()> {
    if folder.is_some() {
        visit.wait_for_plots().await?;
    }
    for (screen, width, height, is_phone) in SCREENS {
        for scheme in ["light", "dark"] {
            visit.set_screen(width, height, is_phone, scheme).await?;
            visit.check_layout().await?;
            if let Some(folder) = folder {
                visit.screenshot(folder, &format!("{screen}-{scheme}")).await?;
            }
        }
    }
    visit.set_screen(1280, 960, false, "light").await
}

/// Looks at the page of the demo after its last act.
async fn visit_demo(options: &Options, browser: &mut DevTools, failures: &mut Failures) -> Result<()> {
    println!("demo: all acts");
    let mut demo = Demo::start(&options.ours)?;
    let url = demo.played().await?;
    for (screen, width, height, is_phone) in SCREENS {
        browser.set_screen(width, height, is_phone, "light").await?;
        let mut visit = Visit::begin(browser, failures, &url, &format!("demo-{screen}")).await?;
        visit.check_parts(&DEMO_PARTS).await?;
        visit.check_movement(&DEMO_MOVEMENT).await?;
    }
    browser.set_screen(1280, 960, false, "light").await?;
    let mut visit = Visit::begin(browser, failures, &url, "demo").await?;
    visit.check_parts(&DEMO_PARTS).await?;
    visit.check_parts(&DEMO_EDGES).await?;
    photograph(&mut visit, options.screenshots.as_deref()).await?;
    visit.check_demo_faults().await?;
    // The server that was killed is started again.
    visit.check_parts(&DEMO_PARTS).await
}
