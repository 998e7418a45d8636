//! The checks of the page in a browser. Each waits for what it checks, with a limit, and records a
//! sentence if it does not come.

use std::collections::HashSet;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::demo;
use super::devtools::DevTools;
use super::page_wait::{self, Waited};
use super::program::{CUT, EXPIRE};

/// The time for anything that needs no exact time, on a busy machine.
const LIMIT: Duration = Duration::from_secs(60);
/// The time for a check that has failed before, on another screen for example: it usually fails for
/// the same reason, and the task should end soon.
const LIMIT_AFTER_FAILURE: Duration = Duration::from_secs(5);
/// The time of a wait that is reported although it was successful.
const REMARKABLE: Duration = Duration::from_secs(10);
/// The time within which a fault has to be shown.
const SOON: Duration = Duration::from_secs(1);
/// The same in snapshots, of which the page gets two a second. On a machine that is too busy for
/// that, a fault has to be shown as soon as this, however long it takes.
const SOON_IN_SNAPSHOTS: u64 = 2;
/// The time that the plots of a screenshot show.
const PLOTTED: Duration = Duration::from_secs(22);
/// The highest picture of a whole page.
const TALLEST: u64 = 6000;

/// The rules for all boxes of the page: each is a name, and an expression for the list of what
/// breaks the rule.
const LAYOUT: [(&str, &str); 4] = [
    (
        "the page is not wider than the screen",
        "[document.documentElement.scrollWidth].filter(it => it > innerWidth)",
    ),
    (
        "no box is empty",
        "[...document.querySelectorAll('.node, .card, #totals li, .pill')]\
         .filter(it => !it.hidden && it.offsetParent && !it.textContent.trim()).map(it => it.className)",
    ),
    (
        "no boxes overlap",
        "(() => { const boxes = [...document.querySelectorAll('.node, #totals li, button')]\
         .filter(it => it.offsetParent).map(it => [it.getBoundingClientRect(), it.textContent]);\
         return boxes.flatMap(([a, name], index) => boxes.slice(index + 1).filter(([b]) =>\
         !(a.right <= b.left || b.right <= a.left || a.bottom <= b.top || b.bottom <= a.top))\
         .map(([, other]) => name + ' and ' + other)); })()",
    ),
    (
        "no text is cut",
        "[...document.querySelectorAll('.node > span, #totals span, .facts dd, .now, .pill, button, h1 span')]\
         .filter(it => it.offsetParent && getComputedStyle(it).display !== 'inline')\
         .filter(it => it.scrollWidth > it.clientWidth + 1 || it.scrollHeight > it.clientHeight + 3)\
         .map(it => it.textContent)",
    ),
];

/// True while the page shows that a watch was cut.
const WATCH_WAS_CUT: &str = "[...document.querySelectorAll('.reflector .value')]\
                             .some(it => it.textContent === 'watch was cut')";

/// The number of times that something may be shown late, on a busy machine.
const ATTEMPTS: usize = 5;

/// The failures of all visits.
#[derive(Debug, Default)]
pub(super) struct Failures {
    /// One sentence for each.
    pub(super) texts: Vec<String>,
    /// The names of the checks that failed.
    checks: HashSet<String>,
}

/// A visit to the page.
pub(super) struct Visit<'a> {
    browser: &'a mut DevTools,
    failures: &'a mut Failures,
    url: String,
    name: String,
}

impl<'a> Visit<'a> {
    /// Opens the page. Failures are added to `failures`.
    pub(super) async fn begin(
        browser: &'a mut DevTools,
        failures: &'a mut Failures,
        url: &str,
        name: &str,
    ) -> Result<Self> {
        browser.navigate(url).await?;
        println!("{name}");
        Ok(Self { browser, failures, url: url.to_owned(), name: name.to_owned() })
    }

    /// Checks that these parts of the page are drawn: each is a name and an expression that is true
    /// then.
    pub(super) async fn check_parts(&mut self, parts: &[(&str, &str)]) -> Result<()> {
        for (what, expression) in parts {
            self.expect(what, expression).await?;
        }
        Ok(())
    }

    /// Checks that the values of these expressions change, and that edges move.
    pub(super) async fn check_movement(&mut self, values: &[(&str, &str)]) -> Result<()> {
        for (what, expression) in values {
            let before = self.browser.evaluate(expression).await?;
            let changed = format!("JSON.stringify({expression}) !== JSON.stringify({before})");
            self.expect(what, &changed).await?;
        }
        let moving = "document.querySelectorAll('#edges .moving').length > 0 || matchMedia('(max-width: 1150px)').matches";
        self.expect("edges move", moving).await?;
        Ok(())
    }

    /// Checks that nothing is wider than the screen, that no box is empty, and that boxes neither
    /// overlap nor cut their texts.
    pub(super) async fn check_layout(&mut self) -> Result<()> {
        for (what, breaking) in LAYOUT {
            if !self.expect(what, &format!("{breaking}.length === 0")).await? {
                let found = self.browser.evaluate(&format!("{breaking}.slice(0, 3).join('; ')")).await?;
                self.failures.texts.push(format!("{}: {what}: {found}", self.name));
            }
        }
        Ok(())
    }

    /// Waits until each plot at the top shows enough of the past.
    pub(super) async fn wait_for_plots(&mut self) -> Result<()> {
        // A plot is 120 wide, and shows a minute.
        let from = 120.0 * (1.0 - PLOTTED.as_secs_f64() / 60.0);
        let is_filled = format!(
            "document.querySelectorAll('#totals .spark .line').length > 0\
             && [...document.querySelectorAll('#totals .spark .line')]\
             .every(it => parseFloat(it.getAttribute('d').slice(1)) <= {from})"
        );
        self.expect("the plots show the last 20 s and more", &is_filled).await?;
        Ok(())
    }

    /// Changes the size of the screen and the colour scheme, without loading the page again.
    pub(super) async fn set_screen(
        &mut self,
        width: u32,
        height: u32,
        is_phone: bool,
        scheme: &str,
    ) -> Result<()> {
        self.browser.set_screen(width, height, is_phone, scheme).await?;
        self.expect("the page has the size of the screen", &format!("innerWidth === {width}")).await?;
        Ok(())
    }

    /// Saves the screen, and the whole page.
    pub(super) async fn screenshot(&mut self, folder: &Path, screen: &str) -> Result<()> {
        let size =
            self.browser.evaluate("[innerWidth, innerHeight, document.documentElement.scrollHeight]").await?;
        let [width, height, whole] = [0, 1, 2].map(|it| size[it].as_u64().unwrap_or_default());
        for (height, suffix) in [(height, ""), (whole.min(TALLEST), "-whole")] {
            let picture = self.browser.screenshot(width, height).await?;
            let file = folder.join(format!("{}-{screen}{suffix}.png", self.name));
            std::fs::write(&file, STANDARD.decode(picture)?)
                .with_context(|| format!("cannot write {}", file.display()))?;
        }
        Ok(())
    }

    /// Checks that cards open and close by the keyboard, with a visible focus.
    pub(super) async fn check_keyboard(&mut self) -> Result<()> {
        let second = "document.querySelectorAll('#informers details')[1]";
        self.expect("there is a closed card", &format!("{second} && !{second}.open")).await?;
        // A key before the focus: browsers show the focus of users who use the keyboard.
        self.browser.press("Tab", 9, "").await?;
        self.browser.evaluate(&format!("{second}.querySelector('summary').focus()")).await?;
        let outline = format!("getComputedStyle({second}.querySelector('summary')).outlineStyle === 'solid'");
        self.expect("the focus is visible", &outline).await?;
        self.browser.press("Enter", 13, "\r").await?;
        self.expect("Enter opens a card", &format!("{second}.open")).await?;
        let body = format!("{second}.querySelector('.body').offsetHeight > 40");
        self.expect("an open card has contents", &body).await?;
        Ok(())
    }

    /// Checks that the button changes the theme.
    pub(super) async fn check_theme(&mut self) -> Result<()> {
        let ground = "getComputedStyle(document.body).backgroundColor";
        let light = self.browser.evaluate(ground).await?;
        for _ in 0..2 {
            self.browser.evaluate("document.querySelector('#theme').click()").await?;
        }
        self.expect("the dark theme is dark", &format!("{ground} !== {light}")).await?;
        self.browser.evaluate("document.querySelector('#theme').click()").await?;
        self.expect("the third click leads back", &format!("{ground} === {light}")).await?;
        Ok(())
    }

    /// Checks that watches that are cut with the button are shown soon.
    pub(super) async fn check_cut_watch(&mut self) -> Result<()> {
        self.expect_after(CUT, "a cut watch", WATCH_WAS_CUT).await?;
        let done = "/: done$/.test(document.querySelector('#outcome').textContent)";
        self.expect("the outcome of the action is shown", done).await?;
        Ok(())
    }

    /// Checks that a cut watch and a killed server of the demo are shown soon.
    pub(super) async fn check_demo_faults(&mut self) -> Result<()> {
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
        self.expect("the list is shown with its reason", shown).await?;
        Ok(())
    }

    /// Checks that the page says that its numbers are old.
    pub(super) async fn check_disconnection(&mut self) -> Result<()> {
        self.browser.expect_failures_of(format!("{}events", self.url));
        let text = "/^disconnected since \\d\\d:\\d\\d:\\d\\d/.test(document.querySelector('#link-text').textContent)";
        self.expect("the page shows since when it is disconnected", text).await?;
        self.expect("old numbers are dimmed", "'stale' in document.body.dataset").await?;
        Ok(())
    }

    /// Checks that the page connects again by itself.
    pub(super) async fn check_reconnection(&mut self) -> Result<()> {
        let live = "document.querySelector('#link-text').textContent === 'live'";
        self.expect("the page connects again", live).await?;
        self.expect("its numbers are not dimmed any more", "!('stale' in document.body.dataset)").await?;
        Ok(())
    }

    /// Presses a button, and checks that its effect is shown within [`SOON`], at least once. The
    /// time is that in the page, from the click to the change of the document.
    async fn expect_after(&mut self, button: &str, what: &str, condition: &str) -> Result<()> {
        let mut late = Vec::new();
        for _ in 0..ATTEMPTS {
            self.expect(&format!("{what} is not shown yet"), &format!("!({condition})")).await?;
            let button = self.button(button).await?;
            let waited = self.wait(condition, &format!("{button}.click()"), LIMIT).await?;
            let text = format!("after {:?}, by snapshot {}", waited.time, waited.snapshots);
            if waited.holds && (waited.time <= SOON || waited.snapshots <= SOON_IN_SNAPSHOTS) {
                println!("  {what} is shown {text}");
                return Ok(());
            }
            late.push(if waited.holds { text } else { format!("not within {:?}", waited.time) });
            if !waited.holds {
                break;
            }
        }
        let late = late.join("; ");
        self.failures.texts.push(format!("{}: {what} is not shown within {SOON:?}: {late}", self.name));
        Ok(())
    }

    async fn press_button(&mut self, name: &str) -> Result<()> {
        let button = self.button(name).await?;
        self.browser.evaluate(&format!("{button}.click()")).await?;
        Ok(())
    }

    /// Waits for a button of this name. Returns the expression for it.
    async fn button(&mut self, name: &str) -> Result<String> {
        let button = format!(
            "[...document.querySelectorAll('#actions button')].find(it => it.textContent === '{name}')"
        );
        self.expect(&format!("the button \"{name}\" is there"), &format!("!!{button}")).await?;
        Ok(button)
    }

    /// Waits until a condition holds. After the limit, records a failure and returns false.
    async fn expect(&mut self, what: &str, condition: &str) -> Result<bool> {
        let has_failed = self.failures.checks.contains(what);
        let limit = if has_failed { LIMIT_AFTER_FAILURE } else { LIMIT };
        let waited = self.wait(condition, "", limit).await?;
        if !waited.holds {
            self.failures.texts.push(format!("{}: not within {limit:?}: {what}", self.name));
            self.failures.checks.insert(what.to_owned());
        } else if waited.time >= REMARKABLE {
            println!("  after {:?}: {what}", waited.time);
        }
        Ok(waited.holds)
    }

    async fn wait(&mut self, condition: &str, first: &str, limit: Duration) -> Result<Waited> {
        let expression = page_wait::until(condition, limit, first);
        page_wait::outcome(&self.browser.evaluate(&expression).await?)
    }
}
