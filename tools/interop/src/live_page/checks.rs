//! The checks of the page in a browser. Each waits for what it checks, with a limit, and records a
//! sentence if it does not come.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use tokio::time::Instant;

use super::demo;
use super::devtools::DevTools;
use super::program::{CUT, EXPIRE};

/// The time for anything that needs no exact time, on a busy machine.
const LIMIT: Duration = Duration::from_secs(60);
/// The time within which an interrupted watch has to be shown.
const SOON: Duration = Duration::from_secs(1);
/// The interval at which the page is read.
const POLL: Duration = Duration::from_millis(25);
/// The highest picture of a whole page.
const TALLEST: u64 = 6000;

/// The parts of the page that have to be drawn, each with an expression that is true then.
const PARTS: [(&str, &str); 13] = [
    ("the page is live", "document.querySelector('#link').dataset.state === 'live'"),
    ("the totals have numbers", "document.querySelectorAll('#totals li').length >= 6"),
    ("all informers are synced", "/^3 of 3$/.test(document.querySelector('#totals .big').textContent)"),
    ("the server is drawn", "document.querySelector('.node.server').offsetHeight > 0"),
    ("each informer has a lane", "document.querySelectorAll('.lane:not(.grpc) .reflector').length === 3"),
    ("handlers are drawn", "document.querySelectorAll('.node.handler').length === 3"),
    ("work queues are drawn", "document.querySelectorAll('.node.work').length === 3"),
    ("reconcilers are drawn", "document.querySelectorAll('.node.reconciler:not([hidden])').length === 2"),
    ("endpoints are drawn", "document.querySelectorAll('.node.endpoint').length === 4"),
    (
        "lists are shown with their reasons",
        "[...document.querySelectorAll('#informers td[data-title=Reason]')].some(it => it.textContent === 'start')",
    ),
    ("keys are shown", "document.querySelectorAll('#queues tbody tr').length > 0"),
    ("endpoints have shares", "/\\d+ %/.test(document.querySelector('#channels td.share').textContent)"),
    (
        "it is said that latencies are not measured",
        "/^Latencies are not measured/.test(document.querySelector('#channels .latency').textContent)",
    ),
];

/// True while the page shows that a watch was cut.
const WATCH_WAS_CUT: &str = "[...document.querySelectorAll('.reflector .value')]\
                             .some(it => it.textContent === 'watch was cut')";

/// The parts of the demo's page after its last act.
const DEMO_PARTS: [(&str, &str); 5] = [
    ("the page is live", "document.querySelector('#link').dataset.state === 'live'"),
    ("the pods are cached", "/3 objects/.test(document.querySelector('.node.cache').textContent)"),
    ("both managers are drawn", "document.querySelectorAll('.node.reconciler:not([hidden])').length === 2"),
    ("each pod is an endpoint", "document.querySelectorAll('.node.endpoint').length === 3"),
    (
        "calls are made",
        "[...document.querySelectorAll('.node.endpoint')].every(it => /[1-9]\\d*\\/s/.test(it.textContent))",
    ),
];

/// The number of times that something may be shown late, on a busy machine.
const ATTEMPTS: usize = 3;

/// A visit to the page.
pub(super) struct Visit<'a> {
    browser: &'a mut DevTools,
    url: String,
    name: String,
    pub(super) failures: Vec<String>,
}

impl<'a> Visit<'a> {
    pub(super) async fn begin(browser: &'a mut DevTools, url: &str, name: &str) -> Result<Self> {
        browser.navigate(url).await?;
        println!("{name}");
        Ok(Self { browser, url: url.to_owned(), name: name.to_owned(), failures: Vec::new() })
    }

    /// Checks that every part of the page is drawn.
    pub(super) async fn check_parts(&mut self) -> Result<()> {
        for (what, expression) in PARTS {
            self.expect(what, expression, LIMIT).await?;
        }
        Ok(())
    }

    /// Checks that numbers and sparklines change.
    pub(super) async fn check_movement(&mut self) -> Result<()> {
        for (what, expression) in [
            ("the version of a cache changes", "document.querySelector('.node.cache').textContent"),
            (
                "the sparkline of events changes",
                "document.querySelector('#informers .spark .line').outerHTML",
            ),
            (
                "the number of calls changes",
                "document.querySelector('#channels dd:nth-of-type(1)').parentElement.parentElement.textContent",
            ),
        ] {
            let before = self.browser.evaluate(expression).await?;
            let changed = format!("{expression} !== {before}");
            self.expect(what, &changed, LIMIT).await?;
        }
        let moving = "document.querySelectorAll('#edges .moving').length > 0 || matchMedia('(max-width: 1020px)').matches";
        self.expect("edges move", moving, LIMIT).await
    }

    /// Checks that nothing is wider than the screen, and that no box is empty.
    pub(super) async fn check_layout(&mut self) -> Result<()> {
        let fits = "document.documentElement.scrollWidth <= innerWidth";
        self.expect("the page is not wider than the screen", fits, LIMIT).await?;
        let empty = "[...document.querySelectorAll('.node, .card, #totals li, .pill')]\
                     .every(it => it.hidden || !it.offsetParent || it.textContent.trim())";
        self.expect("no box is empty", empty, LIMIT).await
    }

    /// Saves the screen, and the whole page.
    pub(super) async fn screenshot(&mut self, folder: &Path) -> Result<()> {
        let size =
            self.browser.evaluate("[innerWidth, innerHeight, document.documentElement.scrollHeight]").await?;
        let [width, height, whole] = [0, 1, 2].map(|it| size[it].as_u64().unwrap_or_default());
        for (height, suffix) in [(height, ""), (whole.min(TALLEST), "-whole")] {
            let picture = self.browser.screenshot(width, height).await?;
            let file = folder.join(format!("{}{suffix}.png", self.name));
            std::fs::write(&file, STANDARD.decode(picture)?)
                .with_context(|| format!("cannot write {}", file.display()))?;
        }
        Ok(())
    }

    /// Checks that cards open and close by the keyboard, with a visible focus.
    pub(super) async fn check_keyboard(&mut self) -> Result<()> {
        let second = "document.querySelectorAll('#informers details')[1]";
        self.expect("there is a closed card", &format!("{second} && !{second}.open"), LIMIT).await?;
        // A key before the focus: browsers show the focus of users who use the keyboard.
        self.browser.press("Tab", 9, "").await?;
        self.browser.evaluate(&format!("{second}.querySelector('summary').focus()")).await?;
        let outline = format!("getComputedStyle({second}.querySelector('summary')).outlineStyle === 'solid'");
        self.expect("the focus is visible", &outline, LIMIT).await?;
        self.browser.press("Enter", 13, "\r").await?;
        self.expect("Enter opens a card", &format!("{second}.open"), LIMIT).await?;
        let body = format!("{second}.querySelector('.body').offsetHeight > 40");
        self.expect("an open card has contents", &body, LIMIT).await
    }

    /// Checks that the button changes the theme.
    pub(super) async fn check_theme(&mut self) -> Result<()> {
        let ground = "getComputedStyle(document.body).backgroundColor";
        let light = self.browser.evaluate(ground).await?;
        for _ in 0..2 {
            self.browser.evaluate("document.querySelector('#theme').click()").await?;
        }
        self.expect("the dark theme is dark", &format!("{ground} !== {light}"), LIMIT).await?;
        self.browser.evaluate("document.querySelector('#theme').click()").await?;
        self.expect("the third click leads back", &format!("{ground} === {light}"), LIMIT).await
    }

    /// Checks that watches that are cut with the button are shown soon.
    pub(super) async fn check_cut_watch(&mut self) -> Result<()> {
        self.expect_after(CUT, "a cut watch", WATCH_WAS_CUT).await?;
        let done = "/done at/.test(document.querySelector('#outcome').textContent)";
        self.expect("the outcome of the action is shown", done, LIMIT).await
    }

    /// Checks that the parts of the demo are drawn.
    pub(super) async fn check_demo_parts(&mut self) -> Result<()> {
        for (what, expression) in DEMO_PARTS {
            self.expect(what, expression, LIMIT).await?;
        }
        Ok(())
    }

    /// Checks that a cut watch and a killed server of the demo are shown soon.
    pub(super) async fn check_demo_faults(&mut self) -> Result<()> {
        self.check_demo_parts().await?;
        self.expect_after(demo::CUT, "a cut watch", WATCH_WAS_CUT).await?;
        let is_down = "[...document.querySelectorAll('.node.endpoint')]\
                       .some(it => /connecting|backoff/.test(it.textContent))";
        self.expect_after(demo::KILL, "a killed server", is_down).await
    }

    /// Checks that a list after an expired history is shown with its reason.
    pub(super) async fn check_relist(&mut self) -> Result<()> {
        self.press_button(EXPIRE).await?;
        let shown = "[...document.querySelectorAll('#informers td[data-title=Reason]')]\
                     .some(it => it.textContent === 'history expired (410)')";
        self.expect("the list is shown with its reason", shown, LIMIT).await
    }

    /// Checks that the page says that its numbers are old.
    pub(super) async fn check_disconnection(&mut self) -> Result<()> {
        self.browser.expect_failures_of(format!("{}events", self.url));
        let text = "/^disconnected since \\d\\d:\\d\\d:\\d\\d/.test(document.querySelector('#link-text').textContent)";
        self.expect("the page shows since when it is disconnected", text, LIMIT).await?;
        self.expect("old numbers are dimmed", "'stale' in document.body.dataset", LIMIT).await
    }

    /// Checks that the page connects again by itself.
    pub(super) async fn check_reconnection(&mut self) -> Result<()> {
        let live = "document.querySelector('#link-text').textContent === 'live'";
        self.expect("the page connects again", live, LIMIT).await?;
        self.expect("its numbers are not dimmed any more", "!('stale' in document.body.dataset)", LIMIT).await
    }

    /// Presses a button, and checks that its effect is shown within [`SOON`], at least once.
    async fn expect_after(&mut self, button: &str, what: &str, expression: &str) -> Result<()> {
        for _ in 0..ATTEMPTS {
            self.expect(&format!("{what} is not shown yet"), &format!("!({expression})"), LIMIT).await?;
            self.press_button(button).await?;
            let begun = Instant::now();
            if self.is_true_within(expression, LIMIT).await? && begun.elapsed() <= SOON {
                println!("  {what} is shown after {:?}", begun.elapsed());
                return Ok(());
            }
        }
        self.failures.push(format!("{}: {what} is not shown within {SOON:?}", self.name));
        Ok(())
    }

    async fn press_button(&mut self, name: &str) -> Result<()> {
        let button = format!(
            "[...document.querySelectorAll('#actions button')].find(it => it.textContent === '{name}')"
        );
        self.expect("the button is there", &format!("!!{button}"), LIMIT).await?;
        self.browser.evaluate(&format!("{button}.click()")).await?;
        Ok(())
    }

    /// Waits until an expression is true. After the limit, records a failure.
    async fn expect(&mut self, what: &str, expression: &str, limit: Duration) -> Result<()> {
        if !self.is_true_within(expression, limit).await? {
            self.failures.push(format!("{}: not within {limit:?}: {what}", self.name));
        }
        Ok(())
    }

    /// Waits until an expression is true. Returns false after the limit.
    async fn is_true_within(&mut self, expression: &str, limit: Duration) -> Result<bool> {
        let begun = Instant::now();
        loop {
            // While a page loads, its elements are missing.
            let guarded =
                format!("(() => {{ try {{ return !!({expression}) }} catch {{ return false }} }})()");
            if self.browser.evaluate(&guarded).await? == Value::Bool(true) {
                return Ok(true);
            }
            if begun.elapsed() >= limit {
                return Ok(false);
            }
            tokio::time::sleep(POLL).await;
        }
    }
}
