//! A running command: its lines as they are printed, and its exit.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use dogwatch::api::{DynamicObject, PatchParams, ResourceType};
use dogwatch::config::Overrides;
use dogwatch::{Api, Client, Config};
use dogwatch_apiserver::ApiServer;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStderr, ChildStdout, Command};
use tokio::time::timeout;

use crate::dogwatch;

/// Longer than anything takes on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A running command, which is killed when this is dropped.
pub(crate) struct RunningCommand {
    pub(crate) child: Child,
    out: Option<Lines<BufReader<ChildStdout>>>,
    err: Lines<BufReader<ChildStderr>>,
    _home: tempfile::TempDir,
}

impl RunningCommand {
    /// Starts a command against this server.
    pub(crate) fn start(server: &ApiServer, arguments: &[&str]) -> Self {
        let home = tempfile::tempdir().expect("a temporary directory");
        let arguments = [arguments, &["--server", server.url()]].concat();
        let mut command = Command::from(dogwatch(Path::new(home.path()), &arguments));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn().expect("the command starts");
        let out = child.stdout.take().map(|it| BufReader::new(it).lines());
        let err = BufReader::new(child.stderr.take().expect("the stream is piped")).lines();
        Self { child, out, err, _home: home }
    }

    /// Returns the next line on stdout.
    pub(crate) async fn line(&mut self) -> String {
        let out = self.out.as_mut().expect("stdout is not closed");
        let line = timeout(TIMEOUT, out.next_line()).await.expect("a line on stdout within a minute");
        match line.expect("the output is UTF-8") {
            Some(line) => line,
            None => panic!("no more lines, but {:?}", self.err.next_line().await),
        }
    }

    /// Returns the next line on stdout, as JSON.
    pub(crate) async fn json(&mut self) -> Value {
        let line = self.line().await;
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"))
    }

    /// Returns the next line on stderr that contains `part`.
    pub(crate) async fn stderr_line(&mut self, part: &str) -> String {
        let mut others = Vec::new();
        loop {
            let Ok(line) = timeout(TIMEOUT, self.err.next_line()).await else {
                panic!("no {part:?} within a minute, but {others:?}")
            };
            match line.expect("the output is UTF-8") {
                Some(line) if line.contains(part) => return line,
                Some(line) => others.push(line),
                None => panic!("no {part:?} in {others:?}"),
            }
        }
    }

    /// Closes our end of its stdout.
    pub(crate) fn close(&mut self) {
        self.out = None;
    }

    /// Interrupts it like Ctrl-C.
    #[cfg(unix)]
    pub(crate) async fn interrupt(&mut self) {
        let pid = self.child.id().expect("the command runs").to_string();
        let sent = Command::new("kill").args(["-s", "INT", &pid]).status().await.expect("`kill` exists");
        assert!(sent.success());
    }

    /// Waits for the exit. Returns the exit code and the remaining lines of stdout and stderr.
    pub(crate) async fn end(self) -> (Option<i32>, Vec<String>, Vec<String>) {
        timeout(TIMEOUT, self.ended()).await.expect("it exits within a minute")
    }

    async fn ended(mut self) -> (Option<i32>, Vec<String>, Vec<String>) {
        let (mut out, mut err) = (Vec::new(), Vec::new());
        if let Some(lines) = &mut self.out {
            while let Some(line) = lines.next_line().await.expect("the output is UTF-8") {
                out.push(line);
            }
        }
        while let Some(line) = self.err.next_line().await.expect("the output is UTF-8") {
            err.push(line);
        }
        (self.child.wait().await.expect("it exits").code(), out, err)
    }
}

/// Returns a client of the test's server.
pub(crate) fn client(server: &ApiServer) -> Client {
    let config =
        Config::from_kubeconfig_str(&server.kubeconfig(), &Overrides::default()).expect("a kubeconfig");
    Client::new(config).expect("valid settings")
}

/// Applies an object.
pub(crate) async fn apply(client: &Client, resource: &ResourceType, namespace: &str, object: &Value) {
    let api = Api::<DynamicObject>::dynamic(client.clone(), resource.clone()).in_namespace(namespace);
    let name = object["metadata"]["name"].as_str().expect("a name");
    api.apply(name, &PatchParams::apply("test").force(), object).await.expect("applied");
}
