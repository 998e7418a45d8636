//! The limits of an autoscaler: its minimum and maximum, the stabilization windows, and the
//! policies for the speed of a change, as `normalizeDesiredReplicas` and its companion for
//! behaviors in k8s.io/kubernetes v1.36.4 pkg/controller/podautoscaler/horizontal.go apply them.

use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;

use super::history::{History, LONGEST_WINDOW};
use super::proposal::Tolerances;
use crate::json_access::{at, items, number, text};
use crate::quantity::parse;

/// The window before replicas are removed: the default of
/// `--horizontal-pod-autoscaler-downscale-stabilization`.
const DOWN_WINDOW: Duration = Duration::from_secs(300);
/// The default of `--horizontal-pod-autoscaler-tolerance`.
const TOLERANCE: f64 = 0.1;

/// A number of replicas within the limits, with the reasons for it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Limited {
    pub(super) replicas: i64,
    /// The reason and the message of the condition `AbleToScale`, which is true.
    pub(super) able: Reason,
    /// The reason and the message of the condition `ScalingLimited`.
    pub(super) limited: Reason,
    /// The status of the condition `ScalingLimited`.
    pub(super) is_limited: bool,
}

/// The reason of a condition, and its message.
pub(super) type Reason = (&'static str, &'static str);

const READY: Reason = ("ReadyForNewScale", "recommended size matches current size");
const UP_STABILIZED: Reason = (
    "ScaleUpStabilized",
    "recent recommendations were lower than current one, applying the lowest recent recommendation",
);
const DOWN_STABILIZED: Reason = (
    "ScaleDownStabilized",
    "recent recommendations were higher than current one, applying the highest recent recommendation",
);
const WITHIN: Reason = ("DesiredWithinRange", "the desired count is within the acceptable range");
const TOO_MANY: Reason =
    ("TooManyReplicas", "the desired replica count is more than the maximum replica count");
const TOO_FEW: Reason =
    ("TooFewReplicas", "the desired replica count is less than the minimum replica count");
const TOO_FAST_UP: Reason =
    ("ScaleUpLimit", "the desired replica count is increasing faster than the maximum scale rate");
const TOO_FAST_DOWN: Reason =
    ("ScaleDownLimit", "the desired replica count is decreasing faster than the maximum scale rate");

/// The spec of an autoscaler, and the number of replicas that its target should have now.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits<'a> {
    pub(super) spec: &'a Value,
    pub(super) current: i64,
    pub(super) now: Instant,
}

/// Returns the smallest number of replicas.
pub(super) fn minimum(spec: &Value) -> i64 {
    number(spec, "/minReplicas").unwrap_or(1)
}

/// Returns the largest number of replicas.
pub(super) fn maximum(spec: &Value) -> i64 {
    number(spec, "/maxReplicas").unwrap_or(0)
}

/// Returns the deviations from a target that change nothing.
pub(super) fn tolerances(spec: &Value) -> Tolerances {
    let of = |direction: &str| {
        let written = text(spec, &format!("/behavior/{direction}/tolerance"));
        parse(written).map_or(TOLERANCE, |it| it as f64 / 1000.0)
    };
    Tolerances { down: of("scaleDown"), up: of("scaleUp") }
}

impl Limits<'_> {
    /// Records the number of replicas that the metrics ask for, and returns it within the limits.
    pub(super) fn apply(self, proposed: i64, history: &mut History) -> Limited {
        let has_behavior = at(self.spec, "/behavior").is_some();
        let up = if has_behavior { self.window("scaleUp", Duration::ZERO) } else { Duration::ZERO };
        let down = if has_behavior { self.window("scaleDown", DOWN_WINDOW) } else { DOWN_WINDOW };
        let lowest = history.proposals(up, self.now).fold(proposed, i64::min);
        let highest = history.proposals(down, self.now).fold(proposed, i64::max);
        history.propose(proposed, self.now);
        let stabilized = match has_behavior {
            true => self.current.max(lowest).min(highest),
            false => highest,
        };
        let able = match stabilized == proposed {
            true => READY,
            false if has_behavior && proposed >= self.current => UP_STABILIZED,
            false => DOWN_STABILIZED,
        };
        let (replicas, limited) = match has_behavior {
            true => self.within_policies(stabilized, history),
            false => self.within_default_speed(stabilized),
        };
        Limited { replicas, able, limited, is_limited: replicas != stabilized }
    }

    fn window(self, direction: &str, default: Duration) -> Duration {
        let seconds = number(self.spec, &format!("/behavior/{direction}/stabilizationWindowSeconds"));
        let window = seconds.and_then(|it| u64::try_from(it).ok()).map(Duration::from_secs);
        window.unwrap_or(default).min(LONGEST_WINDOW)
    }

    fn within_default_speed(self, wanted: i64) -> (i64, Reason) {
        let (minimum, maximum) = (minimum(self.spec), maximum(self.spec));
        // Metrics that are wrong for a moment are not to start many pods at once.
        let fastest = self.current.saturating_mul(2).max(4);
        let (most, reason) = if maximum > fastest { (fastest, TOO_FAST_UP) } else { (maximum, TOO_MANY) };
        match wanted {
            _ if wanted < minimum => (minimum, TOO_FEW),
            _ if wanted > most => (most, reason),
            _ => (wanted, WITHIN),
        }
    }

    fn within_policies(self, wanted: i64, history: &History) -> (i64, Reason) {
        if wanted > self.current {
            let maximum = maximum(self.spec);
            let fastest = self.most_by_policies(history).max(self.current);
            let (most, reason) = if maximum > fastest { (fastest, TOO_FAST_UP) } else { (maximum, TOO_MANY) };
            if wanted > most {
                return (most, reason);
            }
        } else if wanted < self.current {
            let minimum = minimum(self.spec);
            let fastest = self.least_by_policies(history).min(self.current);
            let (least, reason) =
                if minimum < fastest { (fastest, TOO_FAST_DOWN) } else { (minimum, TOO_FEW) };
            if wanted < least {
                return (least, reason);
            }
        }
        (wanted, WITHIN)
    }

    /// Returns the largest number of replicas that the policies for more of them allow.
    fn most_by_policies(self, history: &History) -> i64 {
        let rules = &self.spec["behavior"]["scaleUp"];
        let allowed = items(rules, "/policies").iter().map(|policy| {
            let (before, value) = self.before(policy, history);
            match text(policy, "/type") {
                // Rounded up, so that a small number of replicas can grow at all.
                "Percent" => (before as f64 * (1.0 + value as f64 / 100.0)).ceil() as i64,
                _ => before.saturating_add(value),
            }
        });
        match text(rules, "/selectPolicy") {
            "Disabled" => Some(self.current),
            "Min" => allowed.min(),
            _ => allowed.max(),
        }
        .unwrap_or(self.current)
    }

    /// Returns the smallest number of replicas that the policies for fewer of them allow.
    fn least_by_policies(self, history: &History) -> i64 {
        let rules = &self.spec["behavior"]["scaleDown"];
        let allowed = items(rules, "/policies").iter().map(|policy| {
            let (before, value) = self.before(policy, history);
            match text(policy, "/type") {
                "Percent" => (before as f64 * (1.0 - value as f64 / 100.0)) as i64,
                _ => before.saturating_sub(value),
            }
        });
        match text(rules, "/selectPolicy") {
            "Disabled" => Some(self.current),
            "Min" => allowed.max(),
            _ => allowed.min(),
        }
        .unwrap_or(self.current)
    }

    /// Returns the number of replicas at the begin of the period of a policy, and its value.
    fn before(self, policy: &Value, history: &History) -> (i64, i64) {
        let count = |pointer: &str| number(policy, pointer).unwrap_or(0);
        let period = Duration::from_secs(u64::try_from(count("/periodSeconds")).unwrap_or(0));
        (history.before(self.current, period, self.now), count("/value"))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn applied(spec: &Value, current: i64, proposed: i64, history: &mut History) -> Limited {
        Limits { spec, current, now: Instant::now() }.apply(proposed, history)
    }

    #[tokio::test(start_paused = true)]
    async fn the_minimum_the_maximum_and_the_speed_limit_the_replicas() {
        let spec = json!({ "minReplicas": 2, "maxReplicas": 20 });
        for (current, proposed, expected) in [
            (3, 5, (5, WITHIN)),
            (3, 1, (2, TOO_FEW)),
            (3, 9, (6, TOO_FAST_UP)),
            (1, 9, (4, TOO_FAST_UP)),
            (15, 40, (20, TOO_MANY)),
        ] {
            let found = applied(&spec, current, proposed, &mut History::default());
            assert_eq!((found.replicas, found.limited), expected, "{current} {proposed}");
            assert_eq!(found.is_limited, expected.1 != WITHIN);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn fewer_replicas_wait_for_the_window() {
        let (spec, mut history) = (json!({ "maxReplicas": 20 }), History::default());
        history.begin(8, Instant::now());
        let found = applied(&spec, 8, 2, &mut history);
        assert_eq!((found.replicas, found.able), (8, DOWN_STABILIZED));
        tokio::time::advance(Duration::from_secs(200)).await;
        assert_eq!(applied(&spec, 8, 4, &mut history).replicas, 8);
        tokio::time::advance(Duration::from_secs(100)).await;
        let found = applied(&spec, 8, 2, &mut history);
        assert_eq!((found.replicas, found.able), (4, DOWN_STABILIZED), "the highest of the window");
        tokio::time::advance(Duration::from_secs(300)).await;
        let found = applied(&spec, 4, 2, &mut history);
        assert_eq!((found.replicas, found.able, found.is_limited), (2, READY, false));
    }

    #[tokio::test(start_paused = true)]
    async fn windows_can_be_longer_and_shorter_in_each_direction() {
        let spec = json!({ "maxReplicas": 20, "behavior": {
            "scaleUp": { "stabilizationWindowSeconds": 60, "policies": [{ "type": "Pods", "value": 9, "periodSeconds": 15 }] },
            "scaleDown": { "stabilizationWindowSeconds": 0, "policies": [{ "type": "Percent", "value": 100, "periodSeconds": 15 }] } } });
        let mut history = History::default();
        history.begin(3, Instant::now());
        let found = applied(&spec, 3, 6, &mut history);
        assert_eq!((found.replicas, found.able), (3, UP_STABILIZED));
        tokio::time::advance(Duration::from_secs(60)).await;
        let found = applied(&spec, 3, 7, &mut history);
        assert_eq!((found.replicas, found.able), (7, READY));
        let found = applied(&spec, 7, 1, &mut history);
        assert_eq!((found.replicas, found.able), (1, READY), "at once");
    }

    #[tokio::test(start_paused = true)]
    async fn policies_limit_the_change_within_their_period() {
        let rules = |select: &str| {
            json!({ "stabilizationWindowSeconds": 0, "selectPolicy": select, "policies": [
                { "type": "Pods", "value": 2, "periodSeconds": 60 },
                { "type": "Percent", "value": 50, "periodSeconds": 60 }] })
        };
        let spec = |select: &str| {
            json!({ "minReplicas": 1, "maxReplicas": 100, "behavior": {
                "scaleUp": rules(select), "scaleDown": rules(select) } })
        };
        for (select, proposed, expected) in [
            ("Max", 90, (15, TOO_FAST_UP)),
            ("Min", 90, (12, TOO_FAST_UP)),
            ("Disabled", 90, (10, TOO_FAST_UP)),
            ("Max", 1, (5, TOO_FAST_DOWN)),
            ("Min", 1, (8, TOO_FAST_DOWN)),
            ("Disabled", 1, (10, TOO_FAST_DOWN)),
            ("Max", 11, (11, WITHIN)),
        ] {
            let found = applied(&spec(select), 10, proposed, &mut History::default());
            assert_eq!((found.replicas, found.limited), expected, "{select} {proposed}");
        }
        let mut history = History::default();
        history.scale(10, 15, Instant::now());
        let found = applied(&spec("Max"), 15, 90, &mut history);
        assert_eq!((found.replicas, found.limited), (15, TOO_FAST_UP), "until the period is over");
        tokio::time::advance(Duration::from_secs(60)).await;
        assert_eq!(applied(&spec("Max"), 15, 90, &mut history).replicas, 23);
    }

    #[test]
    fn the_tolerance_is_a_tenth_unless_the_behavior_has_another() {
        let spec = json!({ "behavior": { "scaleUp": { "tolerance": "0.02" } } });
        let found = tolerances(&spec);
        assert_eq!((found.down, found.up), (0.1, 0.02));
    }
}
