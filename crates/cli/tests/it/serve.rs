//! `dogwatch serve` as scripts use it.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, ChildStdout, Stdio};

use crate::{dogwatch, run, text};

/// A server in a process of its own, which ends with it.
struct Served {
    child: Child,
    stdout: BufReader<ChildStdout>,
    url: String,
}

impl Served {
    fn start(home: &Path, arguments: &[&str]) -> Self {
        let mut command = dogwatch(home, &[&["serve"], arguments].concat());
        let mut child =
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the command starts");
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        stdout.read_line(&mut line).unwrap();
        let url = line.strip_prefix("ready ").and_then(|it| it.strip_suffix('\n'));
        let url = url.unwrap_or_else(|| panic!("{line:?}")).to_owned();
        Self { child, stdout, url }
    }

    /// The status line of the answer to a request in the clear.
    fn get(&self, path: &str, header: &str) -> String {
        let address = self.url.strip_prefix("http://").expect("in the clear");
        let mut stream = TcpStream::connect(address).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n{header}\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer.lines().next().unwrap_or_default().to_owned()
    }

    #[cfg(unix)]
    fn signal(&mut self, name: &str) -> std::process::ExitStatus {
        let pid = self.child.id().to_string();
        let sent = std::process::Command::new("kill").args(["-s", name, &pid]).status().unwrap();
        assert!(sent.success());
        self.child.wait().unwrap()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn it_says_where_it_serves_and_everybody_is_welcome_there() {
    let home = tempfile::tempdir().unwrap();
    let served = Served::start(home.path(), &[]);
    assert!(served.url.starts_with("http://127.0.0.1:"), "{}", served.url);
    assert_eq!(served.get("/api", ""), "HTTP/1.1 200 OK");
}

#[test]
fn a_token_keeps_others_out() {
    let home = tempfile::tempdir().unwrap();
    let served = Served::start(home.path(), &["--token", "hunter2"]);
    assert_eq!(served.get("/api", ""), "HTTP/1.1 401 Unauthorized");
    assert_eq!(served.get("/api", "Authorization: Bearer wrong\r\n"), "HTTP/1.1 401 Unauthorized");
    assert_eq!(served.get("/api", "Authorization: Bearer hunter2\r\n"), "HTTP/1.1 200 OK");
    assert_eq!(served.get("/readyz", ""), "HTTP/1.1 200 OK");
}

#[cfg(unix)]
#[test]
fn signals_end_it_in_order() {
    let home = tempfile::tempdir().unwrap();
    for signal in ["INT", "TERM"] {
        let mut served = Served::start(home.path(), &["--simulate", "--admin", "--seed", "7"]);
        assert_eq!(served.signal(signal).code(), Some(0), "{signal}");
        let mut rest = String::new();
        served.stdout.read_to_string(&mut rest).unwrap();
        assert_eq!(rest, "");
        let mut said = String::new();
        served.child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        assert_eq!(said, "");
    }
}

#[cfg(unix)]
#[test]
fn the_kubeconfig_is_its_owners_alone_and_leads_to_the_server() {
    use std::os::unix::fs::PermissionsExt;
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("kubeconfig");
    // Whoever could read the old one cannot read the new one.
    std::fs::write(&file, "old").unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
    let served = Served::start(home.path(), &["--tls", "--kubeconfig-out", file.to_str().unwrap()]);
    assert!(served.url.starts_with("https://127.0.0.1:"), "{}", served.url);
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(std::fs::read_dir(home.path()).unwrap().count(), 1, "nothing is left beside it");
    for context in ["token", "certificate"] {
        let flags = ["demo", "--kubeconfig", file.to_str().unwrap(), "--context", context];
        let output = run(home.path(), &flags);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    }
}

#[test]
fn a_kubeconfig_that_cannot_be_written_is_named() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("no/such/folder/kubeconfig");
    let output = run(home.path(), &["serve", "--kubeconfig-out", file.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(text(&output.stdout), "");
    let said = text(&output.stderr);
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(said.contains(file.to_str().unwrap()), "{said}");
}

#[test]
fn it_does_not_leave_this_machine_without_tls_and_a_token() {
    let home = tempfile::tempdir().unwrap();
    for more in [&[][..], &["--tls"], &["--token", "hunter2"]] {
        let output = run(home.path(), &[&["serve", "--bind", "0.0.0.0:0"], more].concat());
        assert_eq!(output.status.code(), Some(1), "{more:?}");
        assert_eq!(text(&output.stdout), "");
        let said = text(&output.stderr);
        assert_eq!(said.lines().count(), 1, "{said}");
        assert!(said.contains("--tls") && said.contains("--token") && said.contains("--bind"), "{said}");
    }
}

#[test]
fn a_port_that_is_taken_is_told_in_one_line() {
    let home = tempfile::tempdir().unwrap();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let output = run(home.path(), &["serve", "--bind", &address]);
    assert_eq!(output.status.code(), Some(1));
    let said = text(&output.stderr);
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(said.contains(&address) && said.contains("--bind"), "{said}");
}

#[test]
fn help_teaches_by_examples_and_mistakes_exit_with_2() {
    let home = tempfile::tempdir().unwrap();
    let output = run(home.path(), &["serve", "--help"]);
    assert_eq!(output.status.code(), Some(0));
    assert!(text(&output.stdout).contains("kubectl --server"), "{}", text(&output.stdout));
    for more in [&["--tls", "--plain"][..], &["--bind", "nowhere"], &["--token", ""], &["--seed", "x"]] {
        let output = run(home.path(), &[&["serve"], more].concat());
        assert_eq!(output.status.code(), Some(2), "{more:?}");
    }
}
