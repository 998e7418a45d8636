//! The goals of the proxy, and their verdicts.

use std::fmt::Write as _;

use super::costs::{Comparison, Costs, Floor};

/// The most CPU time of the API server with the proxy, as a share of that without it.
const UPSTREAM_CPU: f64 = 1.0 / 20.0;
/// The most memory of an idle watcher, in KB.
const WATCHER_KB: f64 = 30.0;
/// The most memory of a pod, as a share of client-go's.
const CLIENT_GO: f64 = 1.0 / 4.0;
/// The most that the proxy may add to the 99th percentile of the latency, in milliseconds.
const ADDED_P99_MS: f64 = 10.0;
/// The share of busy processors from which latencies are those of an overloaded machine.
pub(super) const OVERLOADED: f64 = 0.9;

/// Formats the goals with the measurements for one number of watchers, a line for each.
pub(super) fn verdicts(comparison: &Comparison, floor: Floor) -> String {
    let (direct, through) = (&comparison.direct, &comparison.through);
    let incomplete = |it: &Costs| it.completeness.lost + it.completeness.wrong as u64;
    let (per_watcher, watches) = (comparison.kb_per_watcher(), comparison.through_upward.watches);
    let mut lines = String::new();
    let mut add = |met: Option<bool>, goal: &str, value: String| {
        let verdict = met.map_or("not measurable", |met| if met { "met" } else { "missed" });
        let _ = writeln!(lines, "{verdict:14} {goal:62} {value:>9}");
    };
    let ratio = comparison.upstream_ratio();
    add(
        ratio.map(|it| it <= UPSTREAM_CPU),
        "upstream CPU, of that without the proxy: at most 1/20",
        ratio.map_or_else(|| "-".to_owned(), |it| format!("{it:.3}")),
    );
    let watching = comparison.ratio_without_writes(floor);
    add(
        watching.map(|it| it <= UPSTREAM_CPU),
        "the same for watches alone, without the changes: at most 1/20",
        watching.map_or_else(|| "-".to_owned(), |it| format!("{it:.3}")),
    );
    add(Some(watches == 1), "watches upstream with the proxy: one", watches.to_string());
    add(
        Some(per_watcher < WATCHER_KB),
        "proxy memory per idle watcher: less than 30 KB",
        format!("{per_watcher:.1}"),
    );
    let share = comparison.memory_of_client_go(floor);
    add(
        share.map(|it| it <= CLIENT_GO),
        "resident memory per pod, of client-go's heap: at most 1/4",
        share.map_or_else(|| "-".to_owned(), |it| format!("{it:.3}")),
    );
    let added = comparison.added_p99_ms();
    let is_overloaded = direct.busy.max(through.busy) > OVERLOADED;
    add(
        added.filter(|_| !is_overloaded).map(|it| it < ADDED_P99_MS),
        "p99 of the latency that the proxy adds: less than 10 ms",
        added.map_or_else(|| "-".to_owned(), |it| format!("{it:.1}")),
    );
    let missing = incomplete(direct) + incomplete(through);
    add(Some(missing == 0), "events lost or wrong: none", missing.to_string());
    if is_overloaded {
        lines.push_str(
            "The processors were busy most of the time, with the load as well: latencies are those of an \
             overloaded\nmachine. Repeat it with fewer --changes.\n",
        );
    }
    lines
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::costs::{Floor, ProxyMemory, Upward};
    use super::*;

    fn costs(upstream_cpu: f64, p99_ms: u64) -> Costs {
        Costs { upstream_cpu, p99: Some(Duration::from_millis(p99_ms)), ..Costs::default() }
    }

    fn comparison() -> Comparison {
        Comparison {
            watchers: 1000,
            direct: costs(20.0, 5),
            through: costs(1.0, 14),
            through_upward: Upward { connections: 1, watches: 1 },
            memory: ProxyMemory {
                ready_mb: 100.0,
                idle_mb: 129.0,
                objects: 10_000,
                ..ProxyMemory::default()
            },
            ..Comparison::default()
        }
    }

    /// 5 KB of each pod here, and 20 KB in client-go.
    const FLOOR: Floor = Floor {
        writes_cpu: 0.5,
        writes_seconds: 5.0,
        idle_cpu: 0.04,
        empty_mb: 50.0,
        client_go_kb: Some(20.0),
    };

    fn begins(comparison: &Comparison) -> Vec<String> {
        let verdicts = verdicts(comparison, FLOOR);
        verdicts.lines().take(7).map(|it| it[..14].trim().to_owned()).collect()
    }

    #[test]
    fn every_goal_is_judged_by_its_own_measurement() {
        assert_eq!(begins(&comparison()), ["met"; 7]);
        for (at, change) in [
            (0, (|it| it.through.upstream_cpu = 1.1) as fn(&mut Comparison)),
            // More of the CPU time is that of a server without clients.
            (1, |it| it.direct.seconds = 200.0),
            (2, |it| it.through_upward.watches = 1001),
            (3, |it| it.memory.idle_mb = 130.0),
            (4, |it| it.memory.objects = 9_000),
            (5, |it| it.through.p99 = Some(Duration::from_millis(15))),
            (6, |it| it.through.completeness.lost = 1),
            (6, |it| it.direct.completeness.wrong = 1),
        ] {
            let mut comparison = comparison();
            change(&mut comparison);
            let mut expected = ["met"; 7];
            expected[at] = "missed";
            assert_eq!(begins(&comparison), expected);
        }
    }

    #[test]
    fn the_latency_of_an_overloaded_machine_is_not_judged() {
        let mut comparison = comparison();
        comparison.direct.busy = 0.95;
        assert_eq!(begins(&comparison), ["met", "met", "met", "met", "met", "not measurable", "met"]);
        assert!(verdicts(&comparison, FLOOR).contains("fewer --changes"));
    }

    #[test]
    fn memory_is_not_compared_with_a_client_go_that_was_not_measured() {
        let verdicts = verdicts(&comparison(), Floor { client_go_kb: None, ..FLOOR });
        let line = verdicts.lines().find(|it| it.contains("client-go")).unwrap();
        assert!(line.starts_with("not measurable"), "{line}");
    }

    /// Regression test: the CPU time of a single watch is less than what two measurements of the
    /// same writes differ by, and a negative rest was printed as a ratio of zero, and as met.
    #[test]
    fn a_ratio_that_is_lost_in_the_writes_is_not_a_goal_that_is_met() {
        for lost in [0.3, 0.1] {
            let mut comparison = comparison();
            comparison.through.upstream_cpu = lost;
            let verdicts = verdicts(&comparison, FLOOR);
            let line = verdicts.lines().nth(1).unwrap();
            assert!(line.starts_with("not measurable") && line.ends_with(" -"), "{line}");
        }
    }
}
