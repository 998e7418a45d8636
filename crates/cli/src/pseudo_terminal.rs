//! A pseudo-terminal for tests that run one of them again, in a process of its own with the
//! terminal: a panic that ends a program cannot be seen from within.

use std::fs::File;
use std::io::Read;
use std::process::Stdio;
use std::time::Duration;

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, tcgetattr};
use tokio::process::Command;
use tokio::time::timeout;

/// Set in the process on the terminal.
const VARIABLE: &str = "DOGWATCH_TEST_ON_TERMINAL";

/// Longer than anything takes on a busy machine.
const LIMIT: Duration = Duration::from_secs(60);

/// The terminal after the process has ended.
pub(crate) struct Left {
    /// Everything that was written.
    pub(crate) output: String,
    pub(crate) echoes: bool,
    pub(crate) is_success: bool,
}

/// Returns true in the process that [`run_again`] starts.
pub(crate) fn is_on_terminal() -> bool {
    std::env::var_os(VARIABLE).is_some()
}

/// Runs a test of this program again, on a terminal of its own. `module` is the path of its module.
pub(crate) async fn run_again(module: &str, test: &str) -> Left {
    let controller = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a pseudo-terminal");
    grantpt(&controller).expect("the pseudo-terminal is ours");
    unlockpt(&controller).expect("the pseudo-terminal is ours");
    let path = ptsname(&controller, Vec::new()).expect("a name").into_string().expect("a name in UTF-8");
    let terminal = File::options().read(true).write(true).open(path).expect("the terminal opens");
    let end = || Stdio::from(terminal.try_clone().expect("the descriptor can be cloned"));
    let (_, module) = module.split_once("::").expect("a module of this crate");
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.args(["--exact", &format!("{module}::{test}"), "--nocapture"]);
    command.envs([(VARIABLE, "1"), ("TERM", "xterm"), ("RUST_BACKTRACE", "0")]);
    let started = command.stdin(end()).stdout(end()).stderr(end()).kill_on_drop(true).spawn();
    let mut child = started.expect("this program starts");
    // It keeps descriptors of the terminal, whose other end would never see the end of the output.
    drop(command);
    let mut screen = File::from(controller);
    let reader = std::thread::spawn(move || {
        let (mut output, mut bytes) = (Vec::new(), [0; 4096]);
        // Linux reports the end as an error.
        while let Ok(read @ 1..) = screen.read(&mut bytes) {
            output.extend_from_slice(&bytes[..read]);
        }
        String::from_utf8_lossy(&output).into_owned()
    });
    let status = timeout(LIMIT, child.wait()).await.expect("the test ends within a minute");
    let modes = tcgetattr(&terminal).expect("a terminal").local_modes;
    drop(terminal);
    let output = reader.join().expect("no panic");
    let is_success = status.expect("the process is our child").success();
    Left { output, echoes: modes.contains(LocalModes::ECHO), is_success }
}

/// Asserts that a panic restored the terminal before it was reported.
pub(crate) fn assert_restored(left: &Left, message: &str) {
    let at =
        |part: &str| left.output.find(part).unwrap_or_else(|| panic!("no {part:?} in {:?}", left.output));
    let (enter, leave) = (at("\u{1b}[?1049h"), at("\u{1b}[?1049l"));
    assert!(enter < leave && leave < at(message), "{:?}", left.output);
    assert!(at("\u{1b}[?25h") < at(message), "the cursor is shown: {:?}", left.output);
    assert!(left.echoes && !left.is_success, "{:?}", left.output);
}
