//! A command on a pseudo-terminal, with the test at its other end.

use std::fs::File;
use std::io::{Read, Write};
use std::process::{Child, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};
use tokio::time::{sleep, timeout};

use crate::{dogwatch, picture};

/// Longer than anything takes on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(60);
/// The interval at which the screen is checked.
const LOOK: Duration = Duration::from_millis(10);

const NO_PANIC: &str = "not poisoned";

/// The command on a terminal of its own.
pub(crate) struct OnTerminal {
    child: Child,
    keyboard: File,
    /// The terminal as the command sees it.
    terminal: File,
    /// Everything that was written, as bytes: a read may end within a character.
    shown: Arc<Mutex<Vec<u8>>>,
    _home: tempfile::TempDir,
}

impl OnTerminal {
    /// Starts a command on a terminal without a size, which counts as one of 80 by 24.
    pub(crate) fn start_with(arguments: &[&str], variables: &[(&str, &str)]) -> Self {
        Self::start_sized(arguments, variables, (0, 0))
    }

    /// Starts a command on a terminal of this width and height.
    pub(crate) fn start_sized(arguments: &[&str], variables: &[(&str, &str)], size: (u16, u16)) -> Self {
        let controller = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a pseudo-terminal");
        grantpt(&controller).expect("the pseudo-terminal is ours");
        unlockpt(&controller).expect("the pseudo-terminal is ours");
        let path =
            ptsname(&controller, Vec::new()).expect("the terminal has a name").into_string().expect("text");
        let terminal = File::options().read(true).write(true).open(path).expect("the terminal opens");
        set_size(&terminal, size);
        let end = || Stdio::from(terminal.try_clone().expect("the descriptor can be cloned"));
        let home = tempfile::tempdir().expect("a temporary directory");
        let mut command = dogwatch(home.path(), arguments);
        command.envs(variables.iter().copied());
        let child = command.stdin(end()).stdout(end()).stderr(end()).spawn();
        let keyboard = File::from(controller);
        let (mut screen, shown) = (keyboard.try_clone().expect("as above"), Arc::<Mutex<Vec<u8>>>::default());
        let drawn = Arc::clone(&shown);
        // Ends with the test's process at the latest: nothing is written after the command has
        // exited.
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(read @ 1..) = screen.read(&mut bytes) {
                drawn.lock().expect(NO_PANIC).extend_from_slice(&bytes[..read]);
            }
        });
        Self { child: child.expect("the command starts"), keyboard, terminal, shown, _home: home }
    }

    pub(crate) fn shown(&self) -> String {
        String::from_utf8_lossy(&self.shown.lock().expect(NO_PANIC)).into_owned()
    }

    /// Waits until this text is on the screen.
    pub(crate) async fn until(&self, part: &str) {
        let waited = timeout(TIMEOUT, async {
            while !self.shown().contains(part) {
                sleep(LOOK).await;
            }
        });
        assert!(waited.await.is_ok(), "no {part:?} within a minute in {:?}", self.shown());
    }

    /// Sets the size of the terminal. The command is notified if it has one already.
    pub(crate) fn resize(&self, width: u16, height: u16) {
        set_size(&self.terminal, (width, height));
    }

    /// Waits until the picture on the screen satisfies a condition; returns it.
    pub(crate) async fn until_picture(&self, what: &str, is_it: impl Fn(&str) -> bool) -> String {
        let waited = timeout(TIMEOUT, async {
            loop {
                let picture = picture::of(&self.shown());
                if is_it(&picture) {
                    return picture;
                }
                sleep(LOOK).await;
            }
        });
        match waited.await {
            Ok(picture) => picture,
            Err(_) => panic!("no {what} within a minute in\n{}", picture::of(&self.shown())),
        }
    }

    /// Sends a signal to the command.
    pub(crate) fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        let sent = std::process::Command::new("kill").args(["-s", name, &pid]).status();
        assert!(sent.expect("`kill` exists").success());
    }

    pub(crate) fn type_keys(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).expect("written to the terminal");
    }

    pub(crate) fn interrupt(&self) {
        self.signal("INT");
    }

    pub(crate) fn echoes(&self) -> bool {
        tcgetattr(&self.terminal).expect("a terminal").local_modes.contains(LocalModes::ECHO)
    }

    pub(crate) async fn ended(&mut self) -> Option<i32> {
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

fn set_size(terminal: &File, (width, height): (u16, u16)) {
    let size = Winsize { ws_col: width, ws_row: height, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(terminal, size).expect("a terminal");
}

impl Drop for OnTerminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
