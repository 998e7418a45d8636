//! The contract every command keeps: help, exit codes, one line for a failure.

use crate::{run, text};

#[test]
fn help_lists_the_commands_and_goes_to_stdout() {
    let home = tempfile::tempdir().unwrap();
    let output = run(home.path(), &["--help"]);
    assert_eq!(output.status.code(), Some(0));
    for command in ["demo", "serve", "watch", "bench"] {
        let listed = format!("\n  {command} ");
        assert!(text(&output.stdout).contains(&listed), "{}", text(&output.stdout));
    }
    assert_eq!(text(&output.stderr), "");
}

#[test]
fn every_command_takes_the_connection_flags() {
    let home = tempfile::tempdir().unwrap();
    let connection = ["--kubeconfig", "--context", "--server", "--token", "--insecure-skip-tls-verify"];
    for command in [&["demo"][..], &["watch"], &["bench", "sync"]] {
        let output = run(home.path(), &[command, &["--help"]].concat());
        for flag in connection.iter().chain(&["  -v, --verbose"]) {
            assert!(text(&output.stdout).contains(flag), "{command:?}: {flag}");
        }
    }
}

#[test]
fn bad_usage_exits_with_2() {
    let home = tempfile::tempdir().unwrap();
    for arguments in [&[][..], &["nonsense"], &["demo", "--nonsense"], &["demo", "--context"]] {
        let output = run(home.path(), arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert_eq!(text(&output.stdout), "", "{arguments:?}");
    }
}

#[test]
fn a_context_without_a_kubeconfig_is_told_in_one_line() {
    let home = tempfile::tempdir().unwrap();
    let output = run(home.path(), &["demo", "--context", "nowhere"]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(text(&output.stdout), "");
    let said = text(&output.stderr);
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(said.starts_with("error: ") && said.contains("nowhere"), "{said}");
}

#[test]
fn the_demo_needs_no_cluster_and_ends_with_a_summary() {
    let home = tempfile::tempdir().unwrap();
    let output = run(home.path(), &["demo", "--seconds", "1"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let told = text(&output.stdout);
    assert!(told.contains("deployment web runs example.com/web:1") && told.contains("\nsummary\n"), "{told}");
    let counts = ["  events followed  ", " by 4 informers, with 0 relists\n", "  lag  ", "  pods by node  "];
    for counted in counts.into_iter().chain(["  leadership  ", " calls, 0 failed, ", "  share of each  "]) {
        assert!(told.contains(counted), "{counted:?} in {told}");
    }
    assert_eq!(text(&output.stderr), "");
}

#[test]
fn a_server_that_is_not_there_is_told_in_one_line() {
    let home = tempfile::tempdir().unwrap();
    // The port was free a moment ago, and nothing listens on it now.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let server = format!("http://127.0.0.1:{port}");
    let output = run(home.path(), &["demo", "--server", &server]);
    assert_eq!(output.status.code(), Some(1));
    let said = text(&output.stderr);
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(said.contains(&server) && said.contains("check that the server runs"), "{said}");
}

#[test]
fn a_context_that_does_not_exist_is_told_with_those_that_do() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("config");
    let contexts = "contexts: [{name: here, context: {cluster: c}}]";
    std::fs::write(&file, format!("clusters: [{{name: c, cluster: {{server: 'https://c'}}}}]\n{contexts}\n"))
        .unwrap();
    let output = run(home.path(), &["demo", "--kubeconfig", file.to_str().unwrap(), "--context", "there"]);
    assert_eq!(output.status.code(), Some(1));
    let said = text(&output.stderr);
    assert!(said.contains("\"there\"") && said.contains("\"here\""), "{said}");
}
