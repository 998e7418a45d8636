//! A command that a client runs in a container, or a container to whose output it is attached,
//! whatever the protocol of its streams.

use std::sync::Arc;

use serde_json::{Value, json};
use tokio::sync::{mpsc, watch};

use super::console::Console;
use super::container::{Container, Run};
use super::container_view::ContainerView;
use super::followers::Followed;
use super::log_stream::LogFollower;
use super::rejection::Rejection;
use super::shell::Process;
use crate::environment::Environment;
use crate::json_access::text;

/// The number of messages of a client that wait for its command, and of parts of the output that
/// wait for the client.
pub(super) const WAITING_MESSAGES: usize = 16;

/// The most words and bytes of a command.
const MOST_WORDS: usize = 10_000;
const LONGEST_COMMAND: usize = 256 * 1024;

/// The exit code of a process that ends with its container.
const KILLED: u8 = 128 + 9;

/// The streams that a client wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StreamOptions {
    pub(super) stdin: bool,
    pub(super) stdout: bool,
    pub(super) stderr: bool,
    pub(super) tty: bool,
}

impl StreamOptions {
    /// Reads the options of a query, as `NewOptions` in k8s.io/cri-streaming v0.36.4
    /// pkg/streaming/remotecommand/httpstream.go.
    pub(super) fn parse(query: &str) -> Result<Self, Rejection> {
        let flag = |name: &str| {
            let mut all = form_urlencoded::parse(query.as_bytes());
            all.find(|(key, _)| key == name).is_some_and(|(_, value)| value == "1")
        };
        let (stdin, stdout, tty) = (flag("input"), flag("output"), flag("tty"));
        let stderr = flag("error") && !tty;
        if !stdin && !stdout && !stderr {
            return Err(Rejection::bad_request("you must specify at least 1 of stdin, stdout, stderr"));
        }
        Ok(Self { stdin, stdout, stderr, tty })
    }
}

/// The work of a session, with the pod as it changes.
#[derive(Debug)]
pub(super) struct RemoteCommand {
    work: Work,
    pod: watch::Receiver<Followed>,
    uid: String,
    container: String,
    run: String,
}

#[derive(Debug)]
enum Work {
    Exec { words: Vec<String>, view: Box<ContainerView>, environment: Arc<Environment> },
    Attach(LogFollower),
}

impl RemoteCommand {
    /// Prepares a command in the query of a request.
    pub(super) fn exec(
        query: &str,
        run: &Run<'_>,
        pod: watch::Receiver<Followed>,
        environment: &Arc<Environment>,
    ) -> Result<Self, Rejection> {
        let all = form_urlencoded::parse(query.as_bytes()).filter(|(key, _)| key == "command");
        let words: Vec<String> = all.take(MOST_WORDS).map(|(_, value)| value.into_owned()).collect();
        if words.is_empty() {
            return Err(Rejection::bad_request("you must specify at least 1 command"));
        }
        if words.iter().map(String::len).sum::<usize>() > LONGEST_COMMAND {
            return Err(Rejection::bad_request(format!(
                "the command is longer than {LONGEST_COMMAND} bytes"
            )));
        }
        let view = Box::new(ContainerView::of(&run.container));
        Ok(Self::new(Work::Exec { words, view, environment: Arc::clone(environment) }, run, pod))
    }

    /// Prepares to attach to the output of a run, from its beginning.
    pub(super) fn attach(run: &Run<'_>, pod: watch::Receiver<Followed>) -> Self {
        Self::new(Work::Attach(LogFollower::after(run, 0, pod.clone())), run, pod)
    }

    fn new(work: Work, run: &Run<'_>, pod: watch::Receiver<Followed>) -> Self {
        Self {
            work,
            pod,
            uid: text(run.container.pod, "/metadata/uid").to_owned(),
            container: run.container.name().to_owned(),
            run: run.id.to_owned(),
        }
    }

    /// Does the work, and returns the status for the client.
    pub(super) async fn perform(self, mut console: Console) -> Value {
        let Self { work, mut pod, uid, container, run } = self;
        match work {
            Work::Exec { words, view, environment } => {
                let process = Process::new(*view, console, environment).run(&words);
                tokio::select! {
                    biased;
                    code = process => status(code),
                    () = end_of(&mut pod, &uid, &container, &run) => status(KILLED),
                }
            }
            Work::Attach(mut log) => loop {
                let lines = tokio::select! {
                    biased;
                    () = console.discard_input() => None,
                    lines = log.next() => lines,
                };
                let Some(lines) = lines else { return status(0) };
                for line in lines {
                    console.print(line.output, &line.written(false)).await;
                }
            },
        }
    }
}

/// Creates the streams of a session: those of its process, the sender of its input, and the
/// receiver of its output.
pub(super) fn streams(
    options: StreamOptions,
) -> (Console, mpsc::Sender<bytes::Bytes>, mpsc::Receiver<(super::log_lines::Output, bytes::Bytes)>) {
    let (input, stdin) = mpsc::channel(WAITING_MESSAGES);
    let (output, written) = mpsc::channel(WAITING_MESSAGES);
    (Console::new(options.stdin.then_some(stdin), output, options.tty), input, written)
}

/// Completes when a run of a container has ended.
async fn end_of(pod: &mut watch::Receiver<Followed>, uid: &str, container: &str, run: &str) {
    let runs = |it: &Followed| {
        let container = Container::find(&it.pod, container).filter(|_| text(&it.pod, "/metadata/uid") == uid);
        let run = container.and_then(|it| it.run_with_id(run));
        !it.is_gone && run.is_some_and(|it| it.end.is_none())
    };
    let _ = pod.wait_for(|it| !runs(it)).await;
}

/// Returns the status of a process for the error channel of protocol v4 and later (`ServeExec` in
/// k8s.io/cri-streaming v0.36.4 pkg/streaming/remotecommand/exec.go).
fn status(code: u8) -> Value {
    if code == 0 {
        return json!({ "metadata": {}, "status": "Success" });
    }
    json!({
        "metadata": {}, "status": "Failure", "reason": "NonZeroExitCode",
        "message": format!("command terminated with non-zero exit code: exit status {code}"),
        "details": { "causes": [{ "reason": "ExitCode", "message": code.to_string() }] },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_wants_at_least_one_stream() {
        let all = StreamOptions::parse("input=1&output=1&error=1&tty=1").unwrap();
        assert_eq!(all, StreamOptions { stdin: true, stdout: true, stderr: false, tty: true });
        for query in ["", "tty=1", "error=1&tty=1", "output=true"] {
            assert!(StreamOptions::parse(query).is_err(), "{query}");
        }
    }

    #[test]
    fn the_status_has_the_exit_code_as_a_cause() {
        let failed = status(3);
        assert_eq!((&failed["reason"], &failed["status"]), (&json!("NonZeroExitCode"), &json!("Failure")));
        assert_eq!(failed["details"]["causes"], json!([{ "reason": "ExitCode", "message": "3" }]));
        assert_eq!(status(0)["status"], "Success");
    }
}
