//! Failures of credential plugins (rule AU-3).

use std::time::Duration;

use dogwatch_client::auth::{AuthError, AuthOptions, Credentials, PluginError};
use dogwatch_client::config::{InteractiveMode, PluginPolicy};
use futures_util::future::join_all;
use http::StatusCode;
use serde_json::json;
use tokio::io::AsyncReadExt;

use super::plugin::{Script, V1, document};
use super::{Server, authorize, config, full_text};
use crate::support::soon;

async fn failure(credentials: &Credentials) -> PluginError {
    match authorize(credentials).await {
        Err(AuthError::Plugin(error)) => error,
        other => panic!("expected a failing plugin, got {other:?}"),
    }
}

#[tokio::test]
async fn the_error_of_a_failed_plugin_has_the_end_of_its_stderr() {
    let script = Script::new("echo 'session expired' >&2\necho 'run login' >&2\nexit 3");
    let error = failure(&script.credentials()).await;
    assert_eq!(
        error.to_string(),
        "credential plugin `/bin/sh` failed (exit status: 3): session expired; run login"
    );
    assert!(matches!(error, PluginError::Failed { code: Some(3), .. }));
}

#[tokio::test]
async fn a_plugin_that_a_signal_ended_has_no_exit_code() {
    let error = failure(&Script::new("kill -9 $$").credentials()).await;
    assert!(matches!(error, PluginError::Failed { code: None, .. }), "{error}");
}

#[tokio::test]
async fn waiting_requests_share_a_failure_and_the_next_request_tries_again() {
    let answer = document(V1, &json!({"token": "t$RUN"}));
    let script = Script::new(&format!("[ $RUN -gt 1 ] || exit 1\ncat <<END\n{answer}\nEND"));
    let credentials = script.credentials();
    let results = join_all((0..20).map(|_| authorize(&credentials))).await;
    assert!(results.iter().all(Result::is_err));
    assert_eq!(script.runs(), 1);
    assert_eq!(authorize(&credentials).await.unwrap().0, "Bearer t2");
}

#[tokio::test]
async fn if_a_plugin_fails_after_a_401_the_caller_gets_the_401() {
    let answer = document(V1, &json!({"token": "t$RUN"}));
    let script = Script::new(&format!("[ $RUN -eq 1 ] || exit 1\ncat <<END\n{answer}\nEND"));
    let server = Server::answering(&[StatusCode::UNAUTHORIZED]);
    let credentials = script.credentials();
    assert_eq!(server.send(&credentials).await.unwrap(), StatusCode::UNAUTHORIZED);
    // The next request reports why there are no credentials.
    let error = server.send(&credentials).await.unwrap_err();
    assert!(error.downcast_ref::<AuthError>().is_some_and(|error| matches!(error, AuthError::Plugin(_))));
    assert_eq!(server.authorizations(), ["Bearer t1"]);
}

#[tokio::test]
async fn a_plugin_that_hangs_is_killed() {
    let script =
        Script::new("exec 3> \"$DIR/alive\"\necho 'open your browser' >&2\necho x >&3\nexec sleep 600 2>&-");
    let mut alive = script.lifeline();
    let mut options = AuthOptions::default();
    options.plugin_time_limit = Some(Duration::from_millis(300));
    let credentials = script.with_options(options).unwrap();
    let error = failure(&credentials).await;
    let words = error.to_string();
    assert!(
        words.starts_with("credential plugin `/bin/sh` did not end within 0.3 s and was killed"),
        "{words}"
    );
    let mut heard = Vec::new();
    alive.read_to_end(&mut heard).await.unwrap();
    assert!(matches!(error, PluginError::TimedOut { .. }));
}

/// Plugins are often shell scripts: the program that hangs is a child of the killed process.
#[tokio::test]
async fn a_plugin_that_hangs_is_killed_with_everything_it_started() {
    let script = Script::new("exec 3> \"$DIR/alive\"\nsleep 600 2>&- &\nsleep 600 2>&- &\nwait");
    let mut alive = script.lifeline();
    let mut options = AuthOptions::default();
    options.plugin_time_limit = Some(Duration::from_millis(300));
    let credentials = script.with_options(options).unwrap();
    assert!(matches!(failure(&credentials).await, PluginError::TimedOut { .. }));
    // The pipe ends when the last process that has it open ends.
    soon(alive.read_to_end(&mut Vec::new())).await.unwrap();
}

#[tokio::test]
async fn a_helper_that_a_plugin_leaves_behind_is_not_waited_for() {
    let answer = document(V1, &json!({"token": "t"}));
    let script = Script::new(&format!("sleep 30 &\necho $! > \"$DIR/helper\"\ncat <<END\n{answer}\nEND"));
    let credentials = script.credentials();
    let authorized = soon(super::authorize(&credentials)).await;
    assert_eq!(authorized.unwrap().0, "Bearer t");
    let helper = std::fs::read_to_string(script.file("helper")).unwrap();
    let kill = std::process::Command::new("kill").arg(helper.trim()).status().unwrap();
    assert!(kill.success(), "the helper was not killed");
}

#[tokio::test]
async fn au_3_the_install_hint_of_a_missing_plugin_is_shown_ten_times() {
    let mut script = Script::new("");
    script.exec.command = "dogwatch-test-no-such-plugin".to_owned();
    script.exec.install_hint = Some("Get it from the toolbox.\n".to_owned());
    let credentials = script.credentials();
    let bare = "credential plugin `dogwatch-test-no-such-plugin` is not installed or not executable";
    for _ in 0..10 {
        assert_eq!(failure(&credentials).await.to_string(), format!("{bare}\n\nGet it from the toolbox."));
    }
    assert_eq!(failure(&credentials).await.to_string(), bare);
}

#[tokio::test]
async fn au_3_invalid_output_is_rejected_without_quoting_it() {
    let beta = "client.authentication.k8s.io/v1beta1";
    let whole = |version, status| format!("echo '{}'", document(version, &status));
    let cases = [
        ("echo s3cret-garbage".to_owned(), "it is neither JSON (line 1, column 1) nor YAML"),
        (":".to_owned(), "it printed nothing"),
        (whole(beta, json!({"token": "s3cret"})), "specifies API version client.authentication.k8s.io/v1,"),
        (whole(V1, json!(null)), "it has no status"),
        (whole(V1, json!({})), "neither a token nor a certificate"),
        (whole(V1, json!({"clientCertificateData": "s3cret"})), "a certificate without its key"),
        (whole(V1, json!({"clientKeyData": "s3cret"})), "a key without its certificate"),
        (whole(V1, json!({"token": ["s3cret"]})), "a field has the wrong type"),
        (whole(V1, json!({"token": "s3cret\u{7f}"})), "characters that are not valid in a header"),
        ("head -c 1100000 /dev/zero".to_owned(), "more than a megabyte"),
    ];
    for (script, expected) in cases {
        let error = failure(&Script::new(&script).credentials()).await;
        let words = full_text(&error);
        assert!(words.starts_with("credential plugin `/bin/sh` printed no usable credential: "), "{words}");
        assert!(words.contains(expected), "{words} / {expected}");
        assert!(!words.contains("s3cret"), "{words}");
    }
}

#[tokio::test]
async fn au_3_a_plugin_the_policy_denies_is_never_started() {
    let script = Script::new("");
    let list =
        |entries: &[&str]| PluginPolicy::Allowlist(entries.iter().map(|it| (*it).to_owned()).collect());
    let mut config = config();
    config.auth.exec = Some(script.exec.clone());
    for (policy, expected) in [
        (PluginPolicy::DenyAll, "the plugin policy denies all plugins"),
        (list(&["aws"]), "it is not on the plugin allowlist"),
        (list(&["/usr/local/bin/sh"]), "it is not on the plugin allowlist"),
    ] {
        config.plugin_policy = policy;
        let error = failure(&Credentials::new(&config, None).unwrap()).await;
        assert_eq!(error.to_string(), format!("credential plugin `/bin/sh` may not run: {expected}"));
    }
    assert_eq!(script.runs(), 0);

    config.plugin_policy = list(&["aws", "/bin/sh"]);
    let permitted = Credentials::new(&config, None).unwrap();
    assert!(matches!(failure(&permitted).await, PluginError::Malformed { .. }));
    assert_eq!(script.runs(), 1);

    for broken in [list(&[]), list(&["/bin//sh"])] {
        config.plugin_policy = broken;
        assert!(matches!(Credentials::new(&config, None), Err(AuthError::Misconfigured(_))));
    }
}

/// The path was cleaned for the check and run as written: behind a symbolic link, these are two
/// programs.
#[tokio::test]
async fn au_3_the_program_that_was_checked_is_the_one_that_runs() {
    let mut script = Script::new("");
    let home = script.file("");
    for directory in ["allowed", "other/folder"] {
        std::fs::create_dir_all(home.join(directory)).unwrap();
    }
    std::os::unix::fs::symlink(home.join("other/folder"), home.join("allowed/link")).unwrap();
    std::os::unix::fs::symlink("/bin/sh", home.join("other/plugin")).unwrap();
    script.exec.command = home.join("allowed/link/../plugin").to_str().unwrap().to_owned();
    let mut config = config();
    config.auth.exec = Some(script.exec.clone());
    let allowed = home.join("allowed/plugin");
    config.plugin_policy = PluginPolicy::Allowlist(vec![allowed.to_str().unwrap().to_owned()]);
    let credentials = Credentials::new(&config, None).unwrap();
    let error = failure(&credentials).await;
    assert!(matches!(error, PluginError::NotFound { .. }), "{error}");
    assert_eq!(script.runs(), 0, "a program that is not on the list was started");
    std::os::unix::fs::symlink("/bin/sh", allowed).unwrap();
    let config = config;
    let credentials = Credentials::new(&config, None).unwrap();
    assert!(matches!(failure(&credentials).await, PluginError::Malformed { .. }));
    assert_eq!(script.runs(), 1);
}

#[tokio::test]
async fn au_3_a_plugin_that_needs_a_terminal_is_not_started_without_one() {
    let mut script = Script::new("");
    script.exec.interactive_mode = Some(InteractiveMode::Always);
    let mut options = AuthOptions::default();
    options.stdin_unavailable = true;
    let error = failure(&script.with_options(options).unwrap()).await;
    assert!(error.to_string().starts_with("credential plugin `/bin/sh` needs a terminal: "), "{error}");
    assert_eq!(script.runs(), 0);
}
