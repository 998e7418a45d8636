//! The log of a container's run, derived from the status of its pod: the start, the readiness, and
//! the end with its reason.
//!
//! The same run has the same lines with the same times whenever it is read; only its end adds some.

use jiff::{SignedDuration, Timestamp};

use super::container::Run;
use crate::json_access::{items, number, text};

/// The length of the line with a command, beyond which it is cut off.
const LONGEST_COMMAND: usize = 1000;

/// An output of a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Output {
    Stdout,
    Stderr,
}

/// A line of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LogLine {
    pub(super) time: Timestamp,
    pub(super) output: Output,
    /// The line without its end.
    pub(super) text: String,
}

impl LogLine {
    /// Returns the line with its end, after its time in the format of the kubelet
    /// (`RFC3339NanoFixed` in k8s.io/kubernetes v1.36.4 pkg/kubelet/types/constants.go) if
    /// `timestamps`.
    pub(super) fn written(&self, timestamps: bool) -> String {
        match timestamps {
            true => format!("{} {}\n", self.time.strftime("%Y-%m-%dT%H:%M:%S%.9fZ"), self.text),
            false => format!("{}\n", self.text),
        }
    }
}

/// Returns the log of a run as far as it has come.
pub(super) fn of_run(run: &Run<'_>) -> Vec<LogLine> {
    let (spec, mut lines) = (run.container.spec, Lines { all: Vec::new(), base: run.started });
    let name = run.container.name();
    let start = format!("simulated container {name} started from image {}", text(spec, "/image"));
    lines.add(
        Output::Stdout,
        match run.restarts {
            0 => start,
            restarts => format!("{start}, restart {restarts}"),
        },
    );
    let command: Vec<&str> =
        ["/command", "/args"].iter().flat_map(|it| items(spec, it)).filter_map(|it| it.as_str()).collect();
    if !command.is_empty() {
        lines.add(Output::Stdout, shortened(format!("command {command:?} is not executed")));
    }
    if run.container.is_main {
        lines.add(Output::Stdout, format!("{name} is ready"));
    }
    let (Some(ended), Some(end)) = (run.ended(), run.end) else { return lines.all };
    lines.base = ended;
    let code = number(end, "/exitCode").unwrap_or(0);
    let pod = run.container.pod;
    let reason = match text(pod, "/status/reason") {
        "" => text(end, "/reason"),
        reason => reason,
    };
    match code {
        0 => lines.add(Output::Stdout, format!("{name} has completed, exit code 0")),
        137 => lines.add(Output::Stderr, format!("{name} was killed by SIGKILL: {reason}, exit code 137")),
        143 => {
            lines.add(Output::Stdout, "received SIGTERM, shutting down".to_owned());
            lines.add(Output::Stderr, format!("{name} was terminated by SIGTERM, exit code 143"));
        }
        code => lines.add(Output::Stderr, format!("{name} has failed: {reason}, exit code {code}")),
    }
    lines.all
}

/// Lines in the order of their times.
struct Lines {
    all: Vec<LogLine>,
    base: Timestamp,
}

impl Lines {
    /// Adds a line. Statuses have whole seconds, so each line of a run is a millisecond later.
    fn add(&mut self, output: Output, text: String) {
        let later = SignedDuration::from_millis(i64::try_from(self.all.len()).unwrap_or(0));
        let time = self.base.checked_add(later).unwrap_or(self.base);
        self.all.push(LogLine { time, output, text });
    }
}

fn shortened(mut line: String) -> String {
    if let Some((at, _)) = line.char_indices().nth(LONGEST_COMMAND) {
        line.truncate(at);
        line.push('…');
    }
    line
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::kubelet_server::container::Container;

    fn lines(state: Value, restarts: u32) -> Vec<String> {
        let pod = json!({ "spec": { "containers": [{ "name": "web", "image": "nginx", "args": ["-x", "a\nb"] }] },
            "status": { "containerStatuses": [{ "name": "web", "state": state, "restartCount": restarts,
                "containerID": "simulated://1" }] } });
        let container = Container::find(&pod, "web").unwrap();
        let run = container.logged_run(false).unwrap();
        of_run(&run).iter().map(|it| it.written(true)).collect()
    }

    #[test]
    fn a_run_has_lines_for_its_start_and_its_end() {
        let running = lines(json!({ "running": { "startedAt": "2026-01-02T03:04:05Z" } }), 0);
        let expected = [
            "2026-01-02T03:04:05.000000000Z simulated container web started from image nginx\n",
            "2026-01-02T03:04:05.001000000Z command [\"-x\", \"a\\nb\"] is not executed\n",
            "2026-01-02T03:04:05.002000000Z web is ready\n",
        ];
        assert_eq!(running, expected);
        for (code, expected) in [
            (0, vec!["09.003000000Z web has completed, exit code 0\n"]),
            (3, vec!["09.003000000Z web has failed: Error, exit code 3\n"]),
            (137, vec!["09.003000000Z web was killed by SIGKILL: Error, exit code 137\n"]),
            (
                143,
                vec![
                    "09.003000000Z received SIGTERM, shutting down\n",
                    "09.004000000Z web was terminated by SIGTERM, exit code 143\n",
                ],
            ),
        ] {
            let ended = lines(
                json!({ "terminated": { "containerID": "simulated://1", "exitCode": code, "reason": "Error",
                    "startedAt": "2026-01-02T03:04:05Z", "finishedAt": "2026-01-02T03:04:09Z" } }),
                0,
            );
            assert_eq!(ended[..3], running, "the lines of a run stay");
            let end: Vec<_> = ended[3..].iter().map(|it| &it["2026-01-02T03:04:".len()..]).collect();
            assert_eq!(end, expected);
        }
    }

    #[test]
    fn a_restart_is_counted_and_a_long_command_is_cut_off() {
        let running = lines(json!({ "running": { "startedAt": "2026-01-02T03:04:05Z" } }), 4);
        assert!(running[0].ends_with("started from image nginx, restart 4\n"), "{}", running[0]);
        assert_eq!(shortened("ä".repeat(2000)).chars().count(), LONGEST_COMMAND + 1);
    }
}
