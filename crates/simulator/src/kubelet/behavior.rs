//! The life of a pod's containers: how long they take to start, whether their images can be pulled,
//! when they end, and with which exit code. Annotations of the pod say so; the settings and the
//! restart policy fill in the rest.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use crate::json_access::{items, number, text};
use crate::settings::Settings;

/// The time from the assignment of a pod until its containers run, such as `5s` or `1m30s`.
const START_AFTER: &str = "simulator.dogwatch.dev/start-after";
/// The time for which containers run until they end.
const COMPLETE_AFTER: &str = "simulator.dogwatch.dev/complete-after";
/// The exit code with which containers end.
const EXIT_CODE: &str = "simulator.dogwatch.dev/exit-code";
/// The number of runs that end with the exit code, before one that is a success.
const FAILURES: &str = "simulator.dogwatch.dev/failures";
/// The number of attempts to pull the images that fail, or `always`.
const PULL_FAILURES: &str = "simulator.dogwatch.dev/image-pull-failures";

/// The first and the longest time before a container is restarted or an image is pulled again, and
/// the time that a container has to run so that the next delay is the first one again:
/// `initialContainerRestartDelay`, `MaxContainerBackOff` and `backOffPeriod` in k8s.io/kubernetes
/// v1.36.4 pkg/kubelet/kubelet.go.
const FIRST_BACKOFF: Duration = Duration::from_secs(10);
const LONGEST_BACKOFF: Duration = Duration::from_secs(300);
const RECOVERED_AFTER: i64 = 600;

/// The life of the containers of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Behavior {
    start_after: Option<Duration>,
    complete_after: Option<Duration>,
    exit_code: Option<u8>,
    failures: Option<u64>,
    pub(super) pull_failures: u64,
    restarts: u64,
    policy: RestartPolicy,
    /// The annotations that cannot be read, which have no effect.
    pub(super) invalid: Vec<&'static str>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RestartPolicy {
    Always,
    OnFailure,
    Never,
}

impl Behavior {
    pub(super) fn read(pod: &Value) -> Self {
        let mut invalid = Vec::new();
        let start_after = annotation(pod, START_AFTER, duration, &mut invalid);
        let complete_after = annotation(pod, COMPLETE_AFTER, duration, &mut invalid);
        let exit_code = annotation(pod, EXIT_CODE, |it| it.parse().ok(), &mut invalid);
        let failures = annotation(pod, FAILURES, |it| it.parse().ok(), &mut invalid);
        let attempts = |it: &str| if it == "always" { Some(u64::MAX) } else { it.parse().ok() };
        let pull_failures = annotation(pod, PULL_FAILURES, attempts, &mut invalid).unwrap_or(0);
        let restarts =
            items(pod, "/status/containerStatuses").iter().filter_map(|it| number(it, "/restartCount"));
        let policy = match text(pod, "/spec/restartPolicy") {
            "Never" => RestartPolicy::Never,
            "OnFailure" => RestartPolicy::OnFailure,
            _ => RestartPolicy::Always,
        };
        let restarts = restarts.max().unwrap_or(0).unsigned_abs();
        Self { start_after, complete_after, exit_code, failures, pull_failures, restarts, policy, invalid }
    }

    /// Returns the time until the containers run, if the pod has one of its own.
    pub(super) fn start_after(&self) -> Option<Duration> {
        self.start_after
    }

    /// Returns true if the containers end by themselves.
    pub(super) fn ends(&self) -> bool {
        let fails = self.failures.is_some_and(|it| self.restarts < it);
        match self.policy {
            RestartPolicy::Never | RestartPolicy::OnFailure => true,
            RestartPolicy::Always if self.failures.is_some() => fails,
            RestartPolicy::Always => self.complete_after.is_some() || self.exit_code.is_some(),
        }
    }

    /// Returns the time for which the containers run.
    pub(super) fn complete_after(&self, settings: &Settings) -> Duration {
        self.complete_after.unwrap_or(settings.complete_after)
    }

    /// Returns the exit code with which the containers end.
    pub(super) fn exit_code(&self) -> u8 {
        match self.failures {
            Some(failures) if self.restarts >= failures => 0,
            Some(_) => self.exit_code.filter(|it| *it != 0).unwrap_or(1),
            None => self.exit_code.unwrap_or(0),
        }
    }

    /// Returns true if the containers are restarted after their end.
    pub(super) fn restarts(&self) -> bool {
        match self.policy {
            RestartPolicy::Always => true,
            RestartPolicy::OnFailure => self.exit_code() != 0,
            RestartPolicy::Never => false,
        }
    }

    /// Returns the time until the containers are restarted after a run that has begun at a time.
    pub(super) fn restart_after(&self, begun: Option<Timestamp>, now: Timestamp) -> Duration {
        let ran = begun.map_or(0, |it| now.as_second().saturating_sub(it.as_second()));
        if self.restarts == 0 || ran >= RECOVERED_AFTER {
            return Duration::ZERO;
        }
        backoff(self.restarts)
    }
}

/// Returns the delay after a number of failures.
pub(super) fn backoff(failures: u64) -> Duration {
    let doubled = u32::try_from(failures.saturating_sub(1)).ok().and_then(|it| 2_u32.checked_pow(it));
    doubled.map_or(LONGEST_BACKOFF, |it| FIRST_BACKOFF.saturating_mul(it)).min(LONGEST_BACKOFF)
}

/// Returns a duration as the kubelet writes it, such as `1m20s`.
pub(super) fn written(duration: Duration) -> String {
    match (duration.as_secs() / 60, duration.as_secs() % 60) {
        (0, seconds) => format!("{seconds}s"),
        (minutes, seconds) => format!("{minutes}m{seconds}s"),
    }
}

fn annotation<T>(
    pod: &Value,
    name: &'static str,
    read: impl Fn(&str) -> Option<T>,
    invalid: &mut Vec<&'static str>,
) -> Option<T> {
    let value = pod["metadata"]["annotations"].get(name)?.as_str()?;
    let value = read(value);
    if value.is_none() {
        invalid.push(name);
    }
    value
}

fn duration(text: &str) -> Option<Duration> {
    Duration::try_from(text.parse::<SignedDuration>().ok()?).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn behavior(policy: &str, restarts: u32, annotations: Value) -> Behavior {
        Behavior::read(
            &json!({ "metadata": { "annotations": annotations }, "spec": { "restartPolicy": policy },
            "status": { "containerStatuses": [{ "restartCount": restarts }] } }),
        )
    }

    #[test]
    fn the_restart_policy_decides_whether_containers_end_and_come_back() {
        for (policy, restarts, annotations, expected) in [
            ("Always", 0, json!({}), (false, 0, true)),
            ("Never", 0, json!({}), (true, 0, false)),
            ("OnFailure", 0, json!({}), (true, 0, false)),
            ("OnFailure", 0, json!({ EXIT_CODE: "3" }), (true, 3, true)),
            ("Never", 0, json!({ EXIT_CODE: "3" }), (true, 3, false)),
            ("Always", 0, json!({ COMPLETE_AFTER: "1m" }), (true, 0, true)),
            ("Always", 1, json!({ FAILURES: "2" }), (true, 1, true)),
            ("Always", 2, json!({ FAILURES: "2" }), (false, 0, true)),
            ("OnFailure", 1, json!({ FAILURES: "2", EXIT_CODE: "9" }), (true, 9, true)),
            ("OnFailure", 2, json!({ FAILURES: "2" }), (true, 0, false)),
        ] {
            let it = behavior(policy, restarts, annotations.clone());
            assert_eq!((it.ends(), it.exit_code(), it.restarts()), expected, "{policy} {annotations}");
            assert!(it.invalid.is_empty());
        }
    }

    #[test]
    fn restarts_are_delayed_more_and_more_until_a_container_has_run_for_long() {
        let at = |second: i64| Timestamp::from_second(second).unwrap();
        for (restarts, expected) in [(0, 0), (1, 10), (2, 20), (3, 40), (6, 300), (4_000_000_000, 300)] {
            let rest = behavior("Always", restarts, json!({})).restart_after(Some(at(0)), at(5));
            assert_eq!(rest, Duration::from_secs(expected), "{restarts}");
        }
        let recovered = behavior("Always", 5, json!({})).restart_after(Some(at(0)), at(600));
        assert_eq!((recovered, written(backoff(4))), (Duration::ZERO, "1m20s".to_owned()));
    }

    #[test]
    fn annotations_that_cannot_be_read_have_no_effect_and_are_named() {
        let it = behavior(
            "Never",
            0,
            json!({ START_AFTER: "soon", COMPLETE_AFTER: "-5s", EXIT_CODE: "256",
            FAILURES: "-1", PULL_FAILURES: "always" }),
        );
        assert_eq!(it.invalid, [START_AFTER, COMPLETE_AFTER, EXIT_CODE, FAILURES]);
        assert_eq!((it.start_after(), it.exit_code(), it.pull_failures), (None, 0, u64::MAX));
        let it = behavior("Never", 0, json!({ START_AFTER: "1m30s", PULL_FAILURES: "2" }));
        assert_eq!((it.start_after(), it.pull_failures), (Some(Duration::from_secs(90)), 2));
    }
}
