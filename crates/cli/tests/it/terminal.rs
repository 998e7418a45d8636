//! The command on a terminal: a pseudo-terminal, with the test at its other end.

use std::fs::File;
use std::io::{Read, Write};
use std::process::{Child, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use dogwatch_apiserver::ApiServer;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, tcgetattr};
use tokio::time::{sleep, timeout};

use crate::dogwatch;
use crate::running_command::{apply, client};

/// Longer than anything takes on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(60);
/// The interval at which the screen is checked.
const LOOK: Duration = Duration::from_millis(10);

const NO_PANIC: &str = "not poisoned";

const MAP: &str = "{ apiVersion: v1, kind: ConfigMap, metadata: { name: first, namespace: default } }";

/// The command on a terminal of its own.
struct OnTerminal {
    child: Child,
    keyboard: File,
    /// The terminal as the command sees it.
    terminal: File,
    shown: Arc<Mutex<String>>,
    _home: tempfile::TempDir,
}

impl OnTerminal {
    fn start(server: &ApiServer, term: &str) -> Self {
        Self::start_with(&["watch", "cm", "--server", server.url()], &[("TERM", term)])
    }

    fn start_with(arguments: &[&str], variables: &[(&str, &str)]) -> Self {
        let controller = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a pseudo-terminal");
        grantpt(&controller).expect("the pseudo-terminal is ours");
        unlockpt(&controller).expect("the pseudo-terminal is ours");
        let path =
            ptsname(&controller, Vec::new()).expect("the terminal has a name").into_string().expect("text");
        let terminal = File::options().read(true).write(true).open(path).expect("the terminal opens");
        let end = || Stdio::from(terminal.try_clone().expect("the descriptor can be cloned"));
        let home = tempfile::tempdir().expect("a temporary directory");
        let mut command = dogwatch(home.path(), arguments);
        command.envs(variables.iter().copied());
        let child = command.stdin(end()).stdout(end()).stderr(end()).spawn();
        let keyboard = File::from(controller);
        let (mut screen, shown) = (keyboard.try_clone().expect("as above"), Arc::<Mutex<String>>::default());
        let drawn = Arc::clone(&shown);
        // Ends with the test's process at the latest: nothing is written after the command has
        // exited.
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(read @ 1..) = screen.read(&mut bytes) {
                drawn.lock().expect(NO_PANIC).push_str(&String::from_utf8_lossy(&bytes[..read]));
            }
        });
        Self { child: child.expect("the command starts"), keyboard, terminal, shown, _home: home }
    }

    fn shown(&self) -> String {
        self.shown.lock().expect(NO_PANIC).clone()
    }

    /// Waits until this text is on the screen.
    async fn until(&self, part: &str) {
        let waited = timeout(TIMEOUT, async {
            while !self.shown().contains(part) {
                sleep(LOOK).await;
            }
        });
        assert!(waited.await.is_ok(), "no {part:?} within a minute in {:?}", self.shown());
    }

    fn type_keys(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).expect("written to the terminal");
    }

    fn interrupt(&self) {
        let pid = self.child.id().to_string();
        let sent = std::process::Command::new("kill").args(["-s", "INT", &pid]).status();
        assert!(sent.expect("`kill` exists").success());
    }

    fn echoes(&self) -> bool {
        tcgetattr(&self.terminal).expect("a terminal").local_modes.contains(LocalModes::ECHO)
    }

    async fn ended(&mut self) -> Option<i32> {
        let waited = timeout(TIMEOUT, async {
            loop {
                match self.child.try_wait().expect("the process is our child") {
                    Some(status) => return status.code(),
                    None => sleep(LOOK).await,
                }
            }
        });
        waited.await.expect("it exits within a minute")
    }
}

impl Drop for OnTerminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[tokio::test]
async fn keys_are_not_echoed_and_q_quits() {
    let server = ApiServer::builder().yaml(MAP).start().await.expect("started");
    let mut watch = OnTerminal::start(&server, "xterm");
    assert!(watch.echoes());
    watch.until("first").await;
    assert!(!watch.echoes());
    watch.type_keys("zzz");
    watch.type_keys("q");
    assert_eq!(watch.ended().await, Some(0));
    assert!(!watch.shown().contains('z'), "{:?}", watch.shown());
    assert!(watch.echoes(), "the terminal is restored");
}

#[tokio::test]
async fn a_dumb_terminal_gets_lines_instead_of_a_screen() {
    let server = ApiServer::builder().yaml(MAP).start().await.expect("started");
    let watch = OnTerminal::start(&server, "dumb");
    watch.until("ADDED      first").await;
    assert!(!watch.shown().contains('\u{1b}'), "{:?}", watch.shown());
}

/// A pseudo-terminal without a size counts as one of 80 by 24.
#[tokio::test]
async fn rows_that_do_not_fit_are_scrolled_to() {
    let mut builder = ApiServer::builder();
    for at in 0..60 {
        let metadata = serde_json::json!({ "name": format!("map-{at:02}"), "namespace": "default" });
        builder = builder.object(&serde_json::json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata,
        }));
    }
    let server = builder.start().await.expect("started");
    let mut watch = OnTerminal::start(&server, "xterm");
    watch.until("rows 1-20 of 60; arrows, page keys, Home and End scroll").await;
    assert!(watch.shown().contains("map-19") && !watch.shown().contains("map-20"), "{:?}", watch.shown());
    watch.type_keys("\u{1b}[B");
    watch.until("rows 2-21 of 60").await;
    watch.type_keys("\u{1b}[6~");
    watch.until("rows 22-41 of 60").await;
    watch.type_keys("\u{1b}[F");
    watch.until("rows 41-60 of 60").await;
    watch.until("map-59").await;
    watch.type_keys("\u{1b}[H\u{1b}[A");
    watch.type_keys("q");
    assert_eq!(watch.ended().await, Some(0));
}

#[tokio::test]
async fn without_colour_no_change_is_coloured() {
    let server = ApiServer::builder().yaml(MAP).start().await.expect("started");
    let arguments = ["watch", "cm", "--server", server.url()];
    for (no_color, coloured) in [("1", false), ("", true)] {
        let watch = OnTerminal::start_with(&arguments, &[("TERM", "xterm"), ("NO_COLOR", no_color)]);
        watch.until("synced").await;
        let name = format!("new-{coloured}");
        let map =
            serde_json::json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name } });
        let resource = dogwatch::api::ResourceType {
            gvk: dogwatch::api::Gvk::new("", "v1", "ConfigMap"),
            plural: "configmaps".into(),
            scope: dogwatch::api::Scope::Namespaced,
        };
        apply(&client(&server), &resource, "default", &map).await;
        watch.until(&name).await;
        assert_eq!(watch.shown().contains("\u{1b}[38;5;10m"), coloured, "{:?}", watch.shown());
    }
}

#[tokio::test]
async fn a_lost_server_is_shown_as_not_synced() {
    let server = ApiServer::builder().yaml(MAP).start().await.expect("started");
    let watch = OnTerminal::start(&server, "xterm");
    watch.until("configmaps in default: 1 object, synced; q quits").await;
    server.stop().await;
    watch.until("NOT SYNCED for ").await;
    watch.until("1 object as of then (").await;
}

#[tokio::test]
async fn a_server_on_a_terminal_says_what_to_type_next() {
    let mut serve = OnTerminal::start_with(&["serve", "--simulate", "--admin"], &[("TERM", "dumb")]);
    serve.until("simulated: ").await;
    let shown = serve.shown();
    let lines: Vec<_> = shown.lines().collect();
    let url = lines[0].strip_prefix("ready ").expect("the ready line is first");
    assert!(
        lines[1].starts_with(&format!("try it:       kubectl --server {url} create deployment")),
        "{lines:?}"
    );
    let begins: Vec<_> = lines.iter().filter_map(|it| it.split_once(": ")).map(|it| it.0).collect();
    assert_eq!(begins, ["try it", "enforced", "not enforced", "simulated"]);
    assert!(!shown.contains('\u{1b}'), "{shown:?}");
    serve.interrupt();
    assert_eq!(serve.ended().await, Some(0));
}
