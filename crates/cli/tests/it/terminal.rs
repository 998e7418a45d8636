//! `dogwatch watch` on a terminal: a pseudo-terminal, with the test at its other end.

use std::fs::File;
use std::io::{Read, Write};
use std::process::{Child, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use dogwatch_apiserver::ApiServer;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, tcgetattr};

use crate::dogwatch;

/// Longer than anything takes on a busy machine.
const LONG: Duration = Duration::from_secs(60);

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
        let controller = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("there are pseudo-terminals");
        grantpt(&controller).expect("it is ours");
        unlockpt(&controller).expect("it is ours");
        let path = ptsname(&controller, Vec::new()).expect("it has a name").into_string().expect("text");
        let terminal = File::options().read(true).write(true).open(path).expect("it can be opened");
        let end = || Stdio::from(terminal.try_clone().expect("there are file descriptors left"));
        let home = tempfile::tempdir().expect("a folder");
        let mut command = dogwatch(home.path(), &["watch", "cm", "--server", server.url()]);
        let child = command.env("TERM", term).stdin(end()).stdout(end()).stderr(end()).spawn();
        let keyboard = File::from(controller);
        let (mut screen, shown) = (keyboard.try_clone().expect("as above"), Arc::<Mutex<String>>::default());
        let drawn = Arc::clone(&shown);
        // Ends with the test's process at the latest: nothing is written when the command is gone.
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(read @ 1..) = screen.read(&mut bytes) {
                drawn.lock().unwrap().push_str(&String::from_utf8_lossy(&bytes[..read]));
            }
        });
        Self { child: child.expect("the command starts"), keyboard, terminal, shown, _home: home }
    }

    fn shown(&self) -> String {
        self.shown.lock().unwrap().clone()
    }

    /// Waits until this is on the screen.
    fn until(&self, part: &str) {
        let begun = Instant::now();
        while !self.shown().contains(part) {
            assert!(begun.elapsed() < LONG, "no {part:?} in {:?}", self.shown());
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn type_keys(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).expect("the terminal is there");
    }

    fn echoes(&self) -> bool {
        tcgetattr(&self.terminal).expect("a terminal").local_modes.contains(LocalModes::ECHO)
    }

    fn ended(&mut self) -> Option<i32> {
        let begun = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().expect("it is our child") {
                return status.code();
            }
            assert!(begun.elapsed() < LONG, "it does not end: {:?}", self.shown());
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for OnTerminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_are_not_echoed_and_q_quits() {
    let server = ApiServer::builder().yaml(MAP).start().await.expect("it starts");
    let mut watch = OnTerminal::start(&server, "xterm");
    assert!(watch.echoes());
    tokio::task::block_in_place(|| {
        watch.until("first");
        assert!(!watch.echoes());
        watch.type_keys("zzz");
        watch.type_keys("q");
        assert_eq!(watch.ended(), Some(0));
    });
    assert!(!watch.shown().contains('z'), "{:?}", watch.shown());
    assert!(watch.echoes(), "the terminal is as it was");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dumb_terminal_gets_lines_instead_of_a_screen() {
    let server = ApiServer::builder().yaml(MAP).start().await.expect("it starts");
    let watch = OnTerminal::start(&server, "dumb");
    tokio::task::block_in_place(|| watch.until("ADDED      first"));
    assert!(!watch.shown().contains('\u{1b}'), "{:?}", watch.shown());
}
