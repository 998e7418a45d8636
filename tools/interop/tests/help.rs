//! The program starts, and its help names every task.
//!
//! Besides, a package with an integration test has its program built by `cargo test --workspace`,
//! with the features of that build; `.ci/run` starts it from there.

use std::process::Command;

#[test]
fn the_help_names_every_task() {
    let output = Command::new(env!("CARGO_BIN_EXE_interop"))
        .arg("--help")
        .output()
        .expect("the program was built for this test");
    assert!(output.status.success(), "{output:?}");
    let help = String::from_utf8(output.stdout).expect("the help is UTF-8");
    let tasks = [
        "kubectl",
        "original-controllers",
        "controller-runtime",
        "e2e",
        "browser",
        "live-page",
        "follow",
        "proxied",
        "grpc-soak",
    ];
    let missing: Vec<_> = tasks.iter().filter(|task| !help.contains(*task)).collect();
    assert!(missing.is_empty(), "{missing:?} missing in:\n{help}");
}
