//! `dogwatch serve` as scripts use it.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, ChildStdout, Stdio};

use crate::{assert_failure, dogwatch, run, text};

/// A server in a process of its own, which is killed when this is dropped.
struct Served {
    child: Child,
    stdout: BufReader<ChildStdout>,
    url: String,
}

impl Served {
    fn start(home: &Path, arguments: &[&str]) -> Self {
        Self::start_with(home, arguments, &[])
    }

    fn start_with(home: &Path, arguments: &[&str], variables: &[(&str, &str)]) -> Self {
        let mut command = dogwatch(home, &[&["serve"], arguments].concat());
        command.envs(variables.iter().copied());
        let mut child =
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the command starts");
        let mut stdout = BufReader::new(child.stdout.take().expect("the stream is piped"));
        let mut line = String::new();
        stdout.read_line(&mut line).expect("a line");
        let url = line.strip_prefix("ready ").and_then(|it| it.strip_suffix('\n'));
        let url = url.unwrap_or_else(|| panic!("{line:?}")).to_owned();
        Self { child, stdout, url }
    }

    /// Sends a plaintext request. Returns the status line of the response.
    fn get(&self, path: &str, header: &str) -> String {
        self.ask(path, &format!("Host: localhost\r\n{header}"))
    }

    /// The same with only these headers.
    fn ask(&self, path: &str, headers: &str) -> String {
        let address = self.url.strip_prefix("http://").expect("a plaintext URL");
        let mut stream = TcpStream::connect(address).expect("connected");
        write!(stream, "GET {path} HTTP/1.1\r\nConnection: close\r\n{headers}\r\n").expect("sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("a response");
        answer.lines().next().unwrap_or_default().to_owned()
    }

    #[cfg(unix)]
    fn signal(&mut self, name: &str) -> std::process::ExitStatus {
        let pid = self.child.id().to_string();
        let sent =
            std::process::Command::new("kill").args(["-s", name, &pid]).status().expect("`kill` exists");
        assert!(sent.success());
        self.child.wait().expect("it exits")
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn it_prints_its_address_and_accepts_every_local_client() {
    let home = tempfile::tempdir().unwrap();
    let served = Served::start(home.path(), &[]);
    assert!(served.url.starts_with("http://127.0.0.1:"), "{}", served.url);
    assert_eq!(served.get("/api", ""), "HTTP/1.1 200 OK");
    // Except for web pages of other origins.
    assert_eq!(served.ask("/api", "Host: rebind.example\r\n"), "HTTP/1.1 403 Forbidden");
    assert_eq!(served.get("/api", "Origin: https://evil.example\r\n"), "HTTP/1.1 403 Forbidden");
}

#[test]
fn a_token_is_required_if_set() {
    let home = tempfile::tempdir().unwrap();
    let served = Served::start(home.path(), &["--token", "hunter2"]);
    assert_eq!(served.get("/api", ""), "HTTP/1.1 401 Unauthorized");
    assert_eq!(served.get("/api", "Authorization: Bearer wrong\r\n"), "HTTP/1.1 401 Unauthorized");
    assert_eq!(served.get("/api", "Authorization: Bearer hunter2\r\n"), "HTTP/1.1 200 OK");
    assert_eq!(served.get("/readyz", ""), "HTTP/1.1 200 OK");
}

#[test]
fn a_token_may_come_from_a_file_or_a_variable() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("token");
    std::fs::write(&file, "hunter2\n").unwrap();
    let from_file = ["--token-file", file.to_str().unwrap()];
    for (arguments, variables) in [
        (&from_file[..], &[][..]),
        (&[], &[("DOGWATCH_TOKEN", "hunter2")]),
        // A flag takes precedence over the variable.
        (&from_file, &[("DOGWATCH_TOKEN", "another")]),
    ] {
        let served = Served::start_with(home.path(), arguments, variables);
        assert_eq!(served.get("/api", ""), "HTTP/1.1 401 Unauthorized", "{arguments:?} {variables:?}");
        assert_eq!(served.get("/api", "Authorization: Bearer hunter2\r\n"), "HTTP/1.1 200 OK");
    }
    std::fs::write(&file, " \n").unwrap();
    for name in [file.to_str().unwrap(), "/nowhere/token"] {
        let output = run(home.path(), &["serve", "--token-file", name]);
        assert_eq!((output.status.code(), text(&output.stdout)), (Some(1), ""), "{name}");
        assert!(text(&output.stderr).contains(name), "{}", text(&output.stderr));
    }
    let both = run(home.path(), &["serve", "--token-file", "a", "--token", "b"]);
    assert_eq!(both.status.code(), Some(2));
}

#[test]
fn an_address_may_be_a_port_or_begin_with_localhost() {
    let home = tempfile::tempdir().unwrap();
    for bind in ["0", "localhost:0", "127.0.0.1:0"] {
        let served = Served::start(home.path(), &["--bind", bind]);
        assert!(served.url.starts_with("http://127.0.0.1:"), "{bind}: {}", served.url);
    }
}

#[cfg(unix)]
#[test]
fn with_v_each_request_is_a_line_on_stderr() {
    let home = tempfile::tempdir().unwrap();
    let mut served = Served::start(home.path(), &["-v"]);
    assert_eq!(served.get("/api/v1/namespaces/default", ""), "HTTP/1.1 200 OK");
    assert_eq!(served.get("/nowhere", ""), "HTTP/1.1 404 Not Found");
    served.signal("TERM");
    let mut logged = String::new();
    served.child.stderr.take().unwrap().read_to_string(&mut logged).unwrap();
    let lines: Vec<&str> = logged.lines().filter(|it| it.contains("dogwatch_apiserver::requests")).collect();
    assert_eq!(lines.len(), 2, "{logged}");
    for (line, parts) in lines.iter().zip([
        [r#"method="GET""#, r#"path="/api/v1/namespaces/default""#, "status=200", r#"user="admin""#],
        [r#"method="GET""#, r#"path="/nowhere""#, "status=404", "duration="],
    ]) {
        assert!(parts.iter().all(|it| line.contains(it)), "{line}");
    }
}

#[cfg(unix)]
#[test]
fn with_v_the_banner_is_on_stderr_and_stdout_has_one_line() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("kubeconfig");
    let mut served = Served::start(home.path(), &["-v", "--tls", "--kubeconfig-out", file.to_str().unwrap()]);
    served.signal("TERM");
    let (mut rest, mut printed) = (String::new(), String::new());
    served.stdout.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "");
    served.child.stderr.take().unwrap().read_to_string(&mut printed).unwrap();
    let export = format!("try it:       export KUBECONFIG={}\n", file.display());
    assert!(printed.contains(&export), "{printed}");
    for part in ["kubectl get namespaces\n", "\nenforced: ", "\nnot enforced: ", "\nsimulated: "] {
        assert_eq!(printed.matches(part).count(), 1, "{part:?}: {printed}");
    }
}

#[cfg(unix)]
#[test]
fn signals_stop_it_in_order() {
    let home = tempfile::tempdir().unwrap();
    for signal in ["INT", "TERM"] {
        let mut served = Served::start(home.path(), &["--simulate", "--admin", "--seed", "7"]);
        assert_eq!(served.signal(signal).code(), Some(0), "{signal}");
        let mut rest = String::new();
        served.stdout.read_to_string(&mut rest).unwrap();
        assert_eq!(rest, "");
        let mut printed = String::new();
        served.child.stderr.take().unwrap().read_to_string(&mut printed).unwrap();
        // Only the differences from a Kubernetes API server that users would not expect.
        assert!(printed.starts_with("not enforced: roles (every caller may do everything"), "{printed}");
        assert_eq!(printed.lines().count(), 1, "{printed}");
    }
}

#[test]
fn with_rbac_a_request_takes_a_permission() {
    let home = tempfile::tempdir().unwrap();
    let served = Served::start(home.path(), &["--token", "hunter2", "--authorization-mode", "RBAC"]);
    for (path, header, expected) in [
        ("/api/v1/pods", "Authorization: Bearer hunter2\r\n", "HTTP/1.1 200 OK"),
        (
            "/api/v1/pods",
            "Authorization: Bearer hunter2\r\nImpersonate-User: bob\r\n",
            "HTTP/1.1 403 Forbidden",
        ),
        ("/api", "Authorization: Bearer hunter2\r\nImpersonate-User: bob\r\n", "HTTP/1.1 200 OK"),
        ("/api", "", "HTTP/1.1 403 Forbidden"),
        ("/readyz", "", "HTTP/1.1 200 OK"),
        ("/readyz", "Authorization: Bearer wrong\r\n", "HTTP/1.1 401 Unauthorized"),
    ] {
        assert_eq!(served.get(path, header), expected, "{path} {header}");
    }
}

#[cfg(unix)]
#[test]
fn the_kubeconfig_is_private_and_leads_to_the_server() {
    use std::os::unix::fs::PermissionsExt;
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("kubeconfig");
    // The new file is not readable for those who could read the old one.
    std::fs::write(&file, "old").unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
    let served = Served::start(home.path(), &["--tls", "--kubeconfig-out", file.to_str().unwrap()]);
    assert!(served.url.starts_with("https://127.0.0.1:"), "{}", served.url);
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(std::fs::read_dir(home.path()).unwrap().count(), 1, "no temporary file is left");
    for context in ["token", "certificate"] {
        let flags = ["demo", "--kubeconfig", file.to_str().unwrap(), "--context", context];
        let output = run(home.path(), &flags);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    }
}

#[test]
fn a_kubeconfig_that_cannot_be_written_is_named_in_the_error() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("no/such/folder/kubeconfig");
    let output = run(home.path(), &["serve", "--kubeconfig-out", file.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(text(&output.stdout), "");
    let printed = text(&output.stderr);
    assert_failure(printed);
    assert!(printed.contains(file.to_str().unwrap()), "{printed}");
    // The error does not contain the name of the temporary file.
    assert!(printed.ends_with("kubeconfig\ncause: No such file or directory (os error 2)\n"), "{printed}");
}

/// A symbolic link is kept, and a device or a socket is not replaced by a file.
#[cfg(unix)]
#[test]
fn a_kubeconfig_is_written_through_a_link_and_never_over_a_device() {
    let home = tempfile::tempdir().unwrap();
    let path = |name: &str| home.path().join(name).to_str().unwrap().to_owned();
    std::fs::write(path("real"), "old").unwrap();
    std::os::unix::fs::symlink("real", path("link")).unwrap();
    let served = Served::start(home.path(), &["--kubeconfig-out", &path("link")]);
    assert!(std::fs::symlink_metadata(path("link")).unwrap().is_symlink());
    assert!(std::fs::read_to_string(path("real")).unwrap().contains(&served.url));
    std::os::unix::fs::symlink("/dev/null", path("device")).unwrap();
    let socket = std::os::unix::net::UnixListener::bind(path("socket")).unwrap();
    for name in ["device", "socket"] {
        let output = run(home.path(), &["serve", "--kubeconfig-out", &path(name)]);
        assert_eq!((output.status.code(), text(&output.stdout)), (Some(1), ""), "{name}");
        let printed = text(&output.stderr);
        assert_failure(printed);
        assert!(printed.contains(name) && printed.contains("not a regular file"), "{printed}");
    }
    drop(socket);
}

/// `dogwatch serve -v 2>&1 | head`: the server keeps serving when the reader of its log is gone.
#[test]
fn a_closed_stderr_does_not_stop_the_server() {
    let home = tempfile::tempdir().unwrap();
    let mut served = Served::start(home.path(), &["-v"]);
    drop(served.child.stderr.take());
    for _ in 0..3 {
        assert_eq!(served.get("/api", ""), "HTTP/1.1 200 OK");
    }
}

#[test]
fn it_listens_only_on_loopback_without_tls_and_a_token() {
    let home = tempfile::tempdir().unwrap();
    for more in [&[][..], &["--tls"], &["--token", "hunter2"]] {
        let output = run(home.path(), &[&["serve", "--bind", "0.0.0.0:0"], more].concat());
        assert_eq!(output.status.code(), Some(1), "{more:?}");
        assert_eq!(text(&output.stdout), "");
        let printed = text(&output.stderr);
        assert_failure(printed);
        assert!(
            printed.contains("--tls") && printed.contains("--token") && printed.contains("--bind"),
            "{printed}"
        );
    }
}

#[test]
fn a_port_in_use_is_reported_with_a_hint() {
    let home = tempfile::tempdir().unwrap();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let output = run(home.path(), &["serve", "--bind", &address]);
    assert_eq!(output.status.code(), Some(1));
    let printed = text(&output.stderr);
    assert_failure(printed);
    assert!(printed.contains(&address) && printed.contains("--bind"), "{printed}");
}

#[test]
fn help_has_examples_and_bad_usage_exits_with_2() {
    let home = tempfile::tempdir().unwrap();
    let output = run(home.path(), &["serve", "--help"]);
    assert_eq!(output.status.code(), Some(0));
    let help = text(&output.stdout);
    assert!(help.contains("kubectl --server") && help.contains("there is no authorization"), "{help}");
    // The first example creates a deployment, which gets pods only if they are simulated.
    let first = help.lines().find(|it| it.starts_with("    dogwatch serve"));
    assert_eq!(first, Some("    dogwatch serve --bind 127.0.0.1:8080 --simulate"));
    for more in [
        &["--tls", "--plain"][..],
        &["--bind", "nowhere"],
        &["--bind", "65536"],
        &["--token", ""],
        &["--token", "two words"],
        &["--advertise", "a:1"],
        &["--seed", "x"],
    ] {
        let output = run(home.path(), &[&["serve"], more].concat());
        assert_eq!(output.status.code(), Some(2), "{more:?}");
    }
}
