//! The contract of every command: help, exit codes, up to three lines for a failure.

#[cfg(target_os = "linux")]
use std::process::{Command, Stdio};

use crate::{assert_failure, dogwatch, run, text};

#[test]
fn help_lists_the_commands_and_goes_to_stdout() {
    let home = tempfile::tempdir().unwrap();
    let output = run(home.path(), &["--help"]);
    assert_eq!(output.status.code(), Some(0));
    for command in ["demo", "serve", "proxy", "watch", "ui", "bench"] {
        let listed = format!("\n  {command} ");
        assert!(text(&output.stdout).contains(&listed), "{}", text(&output.stdout));
    }
    assert_eq!(text(&output.stderr), "");
}

#[test]
fn help_is_a_command_too() {
    let home = tempfile::tempdir().unwrap();
    for (help, flag) in [
        (&["help"][..], &["--help"][..]),
        (&["help", "watch"], &["watch", "--help"]),
        (&["help", "bench", "sync"], &["bench", "sync", "--help"]),
    ] {
        let [help, flag] = [help, flag].map(|it| run(home.path(), it));
        assert_eq!(help.status.code(), Some(0), "{}", text(&help.stderr));
        assert_eq!(text(&help.stdout), text(&flag.stdout));
    }
    assert_eq!(run(home.path(), &["help", "nonsense"]).status.code(), Some(2));
}

#[test]
fn help_is_wrapped_at_the_width_of_the_terminal() {
    let home = tempfile::tempdir().unwrap();
    for command in [&[][..], &["demo"], &["serve"], &["new"], &["fault"]] {
        let output = dogwatch(home.path(), &[command, &["--help"]].concat()).env("COLUMNS", "72").output();
        let output = output.unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        let printed = text(&output.stdout);
        let too_long: Vec<&str> = printed.lines().filter(|it| it.chars().count() > 72).collect();
        assert!(too_long.is_empty(), "{command:?}: {too_long:#?}");
        assert!(printed.contains("--help"), "{printed}");
    }
    assert!(text(&run(home.path(), &["--help"]).stdout).contains("\nNew here? Start with `dogwatch demo`."));
}

#[test]
fn help_has_the_long_descriptions() {
    let home = tempfile::tempdir().unwrap();
    for (command, part) in [
        (&["demo"][..], "kubectl --server URL get pods --all-namespaces --watch"),
        (&["serve"], "It serves every built-in kind"),
        (&["watch"], "It keeps a cache of each resource"),
        (&["ui"], "It changes nothing"),
        (&["bench", "sync"], "cpu_us_per_event: microseconds"),
    ] {
        let output = run(home.path(), &[command, &["--help"]].concat());
        assert!(text(&output.stdout).contains(part), "{command:?}: {}", text(&output.stdout));
    }
}

#[test]
fn without_a_cluster_it_prints_how_to_get_one() {
    let home = tempfile::tempdir().unwrap();
    let output = run(home.path(), &["watch", "pods"]);
    assert_eq!(output.status.code(), Some(1));
    let printed = text(&output.stderr);
    assert_failure(printed);
    assert!(printed.contains("/.kube/config, and this is not a pod\n"), "{printed}");
    assert!(
        ["--server URL", "`dogwatch serve`", "`dogwatch demo`"].iter().all(|it| printed.contains(it)),
        "{printed}"
    );
}

#[test]
fn a_demo_port_in_use_is_reported_with_the_demos_flag() {
    let home = tempfile::tempdir().unwrap();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let output = run(home.path(), &["demo", "--port", &port]);
    assert_eq!(output.status.code(), Some(1));
    let printed = text(&output.stderr);
    assert_failure(printed);
    assert!(
        printed.contains(&port) && printed.contains("--port") && !printed.contains("--bind"),
        "{printed}"
    );
}

#[test]
fn a_page_port_in_use_is_reported_with_its_flag() {
    let home = tempfile::tempdir().unwrap();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let output = run(home.path(), &["demo", "--page-port", &port]);
    assert_eq!(output.status.code(), Some(1));
    let printed = text(&output.stderr);
    assert_failure(printed);
    let expected = format!("error: cannot serve the live page of the demo on 127.0.0.1:{port}\n");
    assert!(printed.starts_with(&expected) && printed.contains("another port with --page-port"), "{printed}");
}

#[test]
fn a_file_of_the_variable_that_does_not_exist_is_reported_with_the_variable() {
    let home = tempfile::tempdir().unwrap();
    let missing = home.path().join("missing");
    let output = dogwatch(home.path(), &["watch", "pods"]).env("KUBECONFIG", &missing).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let printed = text(&output.stderr);
    // Before them, the client logs a warning.
    let lines: Vec<&str> = printed.lines().rev().take(3).collect();
    let [hint, cause, error] = lines[..] else { panic!("{printed}") };
    assert_eq!(error, "error: no cluster is configured");
    let missing = missing.display();
    assert_eq!(
        cause,
        format!("cause: KUBECONFIG names {missing}, which does not exist, and this is not a pod")
    );
    assert!(hint.starts_with("hint: correct KUBECONFIG"), "{printed}");
}

#[test]
fn every_command_takes_the_connection_flags() {
    let home = tempfile::tempdir().unwrap();
    let connection = ["--kubeconfig", "--context", "--server", "--token", "--insecure-skip-tls-verify"];
    for command in [&["demo"][..], &["watch"], &["ui"], &["bench", "sync"]] {
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

/// No flag is accepted and then ignored.
#[test]
fn flags_of_the_two_modes_of_the_demo_cannot_be_mixed() {
    let home = tempfile::tempdir().unwrap();
    let server = ["--server", "http://127.0.0.1:1"];
    for arguments in [
        &[&["demo", "--seconds", "1"], &server[..]].concat()[..],
        &[&["demo", "--port", "0"], &server[..]].concat(),
        &[&["demo", "--quiet"], &server[..]].concat(),
        &["demo", "--namespace", "web"],
    ] {
        let output = run(home.path(), arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {}", text(&output.stderr));
    }
    // Credentials are for a server too, so this does not start the demo.
    let output = run(home.path(), &["demo", "--token", "hunter2"]);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("no cluster is configured"), "{}", text(&output.stderr));
}

/// `dogwatch demo | less`, while `less` does not read.
#[cfg(target_os = "linux")]
#[test]
fn the_demo_can_be_interrupted_while_its_output_is_not_read() {
    let home = tempfile::tempdir().unwrap();
    let (_reader, mut writer) = std::io::pipe().unwrap();
    // The pipe is full before the first line.
    rustix::io::ioctl_fionbio(&writer, true).unwrap();
    while std::io::Write::write(&mut writer, b" ").is_ok() {}
    rustix::io::ioctl_fionbio(&writer, false).unwrap();
    let mut child = dogwatch(home.path(), &["demo"]).stdout(writer).stderr(Stdio::piped()).spawn().unwrap();
    let pid = child.id().to_string();
    let pause = || std::thread::park_timeout(std::time::Duration::from_millis(10));
    // Before that, the signal would have its default effect.
    let handles_signals = || {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let caught = status.lines().find_map(|it| it.strip_prefix("SigCgt:")).unwrap();
        u64::from_str_radix(caught.trim(), 16).unwrap() & 0b10 != 0
    };
    while !handles_signals() {
        pause();
    }
    assert!(Command::new("kill").args(["-s", "INT", &pid]).status().unwrap().success());
    // A demo that waits for its reader would wait for ever.
    let status = (0..6_000).find_map(|_| {
        pause();
        child.try_wait().unwrap()
    });
    let _ = child.kill();
    assert_eq!(status.expect("it exits within a minute").code(), Some(0));
}

#[test]
fn a_context_without_a_kubeconfig_is_reported() {
    let home = tempfile::tempdir().unwrap();
    let output = run(home.path(), &["demo", "--context", "nowhere"]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(text(&output.stdout), "");
    let printed = text(&output.stderr);
    assert_failure(printed);
    assert!(printed.starts_with("error: ") && printed.contains("nowhere"), "{printed}");
}

#[test]
fn the_demo_exits_when_its_time_is_over() {
    let home = tempfile::tempdir().unwrap();
    let output = run(home.path(), &["demo", "--seconds", "1"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(text(&output.stdout).contains("\nSUMMARY after "), "{}", text(&output.stdout));
}

#[test]
fn an_unreachable_server_is_reported_with_a_hint() {
    let home = tempfile::tempdir().unwrap();
    // The port was free a moment ago, and nothing listens on it now.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let server = format!("http://127.0.0.1:{port}");
    let output = run(home.path(), &["demo", "--server", &server]);
    assert_eq!(output.status.code(), Some(1));
    let printed = text(&output.stderr);
    assert_failure(printed);
    let lines: Vec<&str> = printed.lines().collect();
    assert_eq!(lines.len(), 3, "{printed}");
    assert!(lines[0].contains(&server) && lines[1].contains("refused"), "{printed}");
    assert!(lines[2].starts_with("hint: check that the server runs"), "{printed}");
}

#[test]
fn an_unknown_context_is_reported_with_the_existing_ones() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("config");
    let contexts = "contexts: [{name: here, context: {cluster: c}}]";
    std::fs::write(&file, format!("clusters: [{{name: c, cluster: {{server: 'https://c'}}}}]\n{contexts}\n"))
        .unwrap();
    let output = run(home.path(), &["demo", "--kubeconfig", file.to_str().unwrap(), "--context", "there"]);
    assert_eq!(output.status.code(), Some(1));
    let printed = text(&output.stderr);
    assert_failure(printed);
    assert!(printed.contains("\"there\"") && printed.contains("\"here\""), "{printed}");
}

#[test]
fn the_version_is_one_line_or_names_the_commit_and_kubernetes() {
    let home = tempfile::tempdir().unwrap();
    let short = run(home.path(), &["-V"]);
    assert_eq!(short.status.code(), Some(0));
    let short = text(&short.stdout);
    assert!(short.starts_with(concat!("dogwatch ", env!("CARGO_PKG_VERSION"), " (")), "{short}");
    assert!(short.lines().count() == 1 && short.contains("Kubernetes 1."), "{short}");
    let long = run(home.path(), &["--version"]);
    assert_eq!(long.status.code(), Some(0));
    let lines: Vec<&str> = text(&long.stdout).lines().collect();
    assert_eq!(lines[0], concat!("dogwatch ", env!("CARGO_PKG_VERSION")));
    assert!(lines[1].starts_with("commit: "), "{lines:?}");
    assert!(lines.iter().any(|it| it.starts_with("kubernetes: 1.")), "{lines:?}");
}

#[test]
fn completion_prints_a_script_for_each_shell_and_help_says_where_to_put_it() {
    let home = tempfile::tempdir().unwrap();
    for (shell, part) in
        [("bash", "complete -F _dogwatch"), ("zsh", "#compdef dogwatch"), ("fish", "complete -c dogwatch")]
    {
        let output = run(home.path(), &["completion", shell]);
        assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), ""), "{shell}");
        let script = text(&output.stdout);
        assert!(script.contains(part) && script.contains("field-selector"), "{shell}: {script}");
    }
    let help = run(home.path(), &["completion", "--help"]);
    for place in ["bash-completion/completions/dogwatch", "_dogwatch", "fish/completions/dogwatch.fish"] {
        assert!(text(&help.stdout).contains(place), "{}", text(&help.stdout));
    }
    assert_eq!(run(home.path(), &["completion", "dos"]).status.code(), Some(2));
}

#[test]
fn man_prints_the_main_page_or_writes_a_page_for_each_command() {
    let home = tempfile::tempdir().unwrap();
    let output = run(home.path(), &["man"]);
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), ""));
    assert!(text(&output.stdout).contains(".TH dogwatch 1"), "{}", text(&output.stdout));
    let directory = home.path().join("share/man1");
    let output = run(home.path(), &["man", directory.to_str().unwrap()]);
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(0), ""));
    for page in ["dogwatch.1", "dogwatch-serve.1", "dogwatch-watch.1", "dogwatch-bench-sync.1"] {
        let written = std::fs::read_to_string(directory.join(page)).unwrap();
        assert!(written.contains(".SH SYNOPSIS"), "{page}: {written}");
    }
    // A file is in the way.
    let output = run(home.path(), &["man", directory.join("dogwatch.1").to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1));
    assert_failure(text(&output.stderr));
    let help = run(home.path(), &["man", "--help"]);
    assert!(text(&help.stdout).contains("share/man/man1"), "{}", text(&help.stdout));
}
