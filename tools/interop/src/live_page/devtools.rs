//! A Chromium that is driven through its DevTools protocol, over a pipe.
//!
//! With `--remote-debugging-pipe`, Chromium reads commands from file descriptor 3 and writes to 4,
//! as JSON with a zero byte after each message; a shell connects them to the pipes of the child
//! process.

use std::collections::HashSet;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;

/// The time within which the browser has to start or to answer, on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(120);

/// A browser with one page. Dropping it ends the browser.
#[derive(Debug)]
pub(super) struct DevTools {
    _browser: Child,
    commands: ChildStdin,
    messages: BufReader<ChildStdout>,
    session: Option<String>,
    last_id: u64,
    /// Console messages, exceptions and log entries, as they arrived.
    reports: Vec<String>,
    /// The URLs that pages requested.
    requests: Vec<String>,
    /// The URLs whose failures are expected.
    expected: HashSet<String>,
}

impl DevTools {
    /// Starts a browser with an empty page.
    pub(super) async fn start(chromium: &Path, profile: &Path) -> Result<Self> {
        let mut command = Command::new("sh");
        command.args(["-c", r#"exec "$@" 3<&0 4>&1 </dev/null >/dev/null 2>/dev/null"#, "sh"]).arg(chromium);
        command.args(["--headless", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"]);
        // The browser shows one page, which is part of this program; the sandbox does not work as
        // root or in most containers.
        command.args(["--no-sandbox", "--remote-debugging-pipe", "--hide-scrollbars"]);
        command.arg(format!("--user-data-dir={}", profile.display())).arg("about:blank");
        let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true).spawn();
        let mut browser = child.context("cannot start Chromium")?;
        let commands = browser.stdin.take().context("the browser has no input")?;
        let messages = BufReader::new(browser.stdout.take().context("the browser has no output")?);
        let mut devtools = Self {
            _browser: browser,
            commands,
            messages,
            session: None,
            last_id: 0,
            reports: Vec::new(),
            requests: Vec::new(),
            expected: HashSet::new(),
        };
        let target = devtools.call("Target.createTarget", json!({ "url": "about:blank" })).await?;
        let attach = json!({ "targetId": target["targetId"], "flatten": true });
        let attached = devtools.call("Target.attachToTarget", attach).await?;
        devtools.session = attached["sessionId"].as_str().map(str::to_owned);
        for domain in ["Page", "Runtime", "Log", "Network"] {
            devtools.call(&format!("{domain}.enable"), json!({})).await?;
        }
        Ok(devtools)
    }

    /// Sets the size of the screen, and the preferred colour scheme.
    pub(super) async fn set_screen(
        &mut self,
        width: u32,
        height: u32,
        mobile: bool,
        scheme: &str,
    ) -> Result<()> {
        let metrics = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": mobile });
        self.call("Emulation.setDeviceMetricsOverride", metrics).await?;
        let features = json!({ "features": [{ "name": "prefers-color-scheme", "value": scheme }] });
        self.call("Emulation.setEmulatedMedia", features).await?;
        Ok(())
    }

    pub(super) async fn navigate(&mut self, url: &str) -> Result<()> {
        let outcome = self.call("Page.navigate", json!({ "url": url })).await?;
        ensure!(outcome["errorText"].is_null(), "cannot open {url}: {}", outcome["errorText"]);
        Ok(())
    }

    /// Returns the value of an expression in the page.
    pub(super) async fn evaluate(&mut self, expression: &str) -> Result<Value> {
        let arguments = json!({ "expression": expression, "returnByValue": true, "awaitPromise": true });
        let mut answer = self.call("Runtime.evaluate", arguments).await?;
        let details = &answer["exceptionDetails"];
        ensure!(details.is_null(), "{expression} failed: {details}");
        Ok(answer["result"]["value"].take())
    }

    /// Presses and releases a key, as a user does.
    pub(super) async fn press(&mut self, key: &str, code: u32, text: &str) -> Result<()> {
        for (kind, text) in [("keyDown", text), ("keyUp", "")] {
            let event = json!({
                "type": kind, "key": key, "code": key, "windowsVirtualKeyCode": code, "text": text,
            });
            self.call("Input.dispatchKeyEvent", event).await?;
        }
        Ok(())
    }

    /// Returns a picture of this many rows from the top of the page, as PNG in base64.
    pub(super) async fn screenshot(&mut self, width: u64, height: u64) -> Result<String> {
        let clip = json!({ "x": 0, "y": 0, "width": width, "height": height, "scale": 1 });
        let arguments = json!({ "format": "png", "captureBeyondViewport": true, "clip": clip });
        let answer = self.call("Page.captureScreenshot", arguments).await?;
        answer["data"].as_str().map(str::to_owned).context("the browser took no picture")
    }

    /// Expects that this URL cannot be loaded for a while.
    pub(super) fn expect_failures_of(&mut self, url: String) {
        self.expected.insert(url);
    }

    /// Returns everything that the browser reported, except expected failures.
    pub(super) fn unexpected_messages(&self) -> impl Iterator<Item = &String> {
        self.reports.iter().filter(|it| !self.expected.iter().any(|url| it.contains(url.as_str())))
    }

    /// Returns the requests of pages that left this machine.
    pub(super) fn foreign_requests(&self) -> impl Iterator<Item = &String> {
        let local = ["http://127.0.0.1:", "data:", "about:"];
        self.requests.iter().filter(move |url| !local.iter().any(|it| url.starts_with(it)))
    }

    /// Sends a command, and returns its result.
    async fn call(&mut self, method: &str, params: Value) -> Result<Value> {
        self.last_id += 1;
        let mut message = json!({ "id": self.last_id, "method": method, "params": params });
        if let Some(session) = &self.session {
            message["sessionId"] = json!(session);
        }
        let mut bytes = serde_json::to_vec(&message)?;
        bytes.push(0);
        self.commands.write_all(&bytes).await?;
        let answer = timeout(TIMEOUT, self.answer(self.last_id)).await;
        let mut answer = answer.with_context(|| format!("no answer to {method} within {TIMEOUT:?}"))??;
        ensure!(answer["error"].is_null(), "{method} failed: {}", answer["error"]);
        Ok(answer["result"].take())
    }

    /// Reads messages up to the answer with this id, and records reports.
    async fn answer(&mut self, id: u64) -> Result<Value> {
        loop {
            let mut bytes = Vec::new();
            if self.messages.read_until(0, &mut bytes).await? == 0 {
                bail!("the browser has ended");
            }
            let message: Value = serde_json::from_slice(bytes.strip_suffix(&[0]).unwrap_or(&bytes))?;
            if message["id"] == json!(id) {
                return Ok(message);
            }
            if message["method"] == "Network.requestWillBeSent" {
                let url = message["params"]["request"]["url"].as_str().unwrap_or_default();
                self.requests.push(url.to_owned());
            }
            let reports = ["Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded"];
            if message["method"].as_str().is_some_and(|it| reports.contains(&it)) {
                self.reports.push(message["params"].to_string());
            }
        }
    }
}
