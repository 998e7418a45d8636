//! The goals: each is the most that a cost of ours may be of another cost.

use std::fmt::Write as _;

use super::names::{CLIENT_GO, CURL_PROTOBUF, FULL, PACKED, PACKED_ZSTD, VIEW, VIEW_LIST};
use super::table::{Column, EVENT, LIVE, PEAK, Results, STEADY, SYNC_CPU};

/// A cost of a contender.
type Cost = (&'static str, Column);

/// A goal: the first cost is at most `most` times the second one.
struct Goal {
    cost: Cost,
    most: f64,
    of: Cost,
}

const GOALS: &[Goal] = &[
    Goal { cost: (FULL, SYNC_CPU), most: 1.0 / 3.0, of: (CLIENT_GO, SYNC_CPU) },
    // curl reads a list, so it is compared with a list.
    Goal { cost: (VIEW_LIST, SYNC_CPU), most: 1.5, of: (CURL_PROTOBUF, SYNC_CPU) },
    Goal { cost: (PACKED, LIVE), most: 1.0 / 4.0, of: (CLIENT_GO, LIVE) },
    Goal { cost: (PACKED_ZSTD, LIVE), most: 1.0 / 10.0, of: (CLIENT_GO, LIVE) },
    Goal { cost: (VIEW, LIVE), most: 1.0 / 30.0, of: (CLIENT_GO, LIVE) },
    Goal { cost: (FULL, PEAK), most: 1.1, of: (FULL, STEADY) },
    Goal { cost: (VIEW, PEAK), most: 1.1, of: (VIEW, STEADY) },
    Goal { cost: (PACKED, PEAK), most: 1.1, of: (PACKED, STEADY) },
    Goal { cost: (PACKED_ZSTD, PEAK), most: 1.1, of: (PACKED_ZSTD, STEADY) },
    Goal { cost: (FULL, EVENT), most: 1.0 / 4.0, of: (CLIENT_GO, EVENT) },
    Goal { cost: (VIEW, EVENT), most: 1.0 / 8.0, of: (CLIENT_GO, EVENT) },
];

/// Formats the goals with the medians, a line for each.
pub(super) fn verdicts(results: &Results) -> String {
    let mut lines = String::new();
    for goal in GOALS {
        let (ours, other) = (goal.cost, goal.of);
        let ratio = match (results.median(ours.0, ours.1), results.median(other.0, other.1)) {
            (Some(ours), Some(other)) if other > 0.0 => Some(ours / other),
            _ => None,
        };
        let verdict = match ratio {
            Some(ratio) if ratio <= goal.most => "met",
            Some(_) => "missed",
            None => "not measured",
        };
        let ratio = ratio.map_or_else(|| "-".to_owned(), |it| format!("{it:.3}"));
        let what = match ours.1.heading == other.1.heading {
            true => format!("{} of {}, of {}'s", ours.1.heading, ours.0, other.0),
            false => format!("{} of {}, of its {}", ours.1.heading, ours.0, other.1.heading),
        };
        let _ = writeln!(lines, "{verdict:12} {what:62} {ratio:>7}, at most {:.3}", goal.most);
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::super::report::Report;
    use super::*;

    #[test]
    fn a_goal_is_met_missed_or_not_measured() {
        let mut results = Results::default();
        let costs = |cpu, event| Report {
            objects: 1,
            cpu_s: Some(cpu),
            cpu_us_per_event: Some(event),
            ..Report::default()
        };
        results.add(CLIENT_GO, costs(3.0, 100.0));
        results.add(FULL, costs(0.9, 26.0));
        let verdicts = verdicts(&results);
        let of = |what: &str| verdicts.lines().find(|it| it.contains(what)).unwrap().to_owned();
        assert!(of("sync CPU s of dogwatch full").starts_with("met "));
        assert!(of("CPU us/event of dogwatch full").starts_with("missed "));
        assert!(of("CPU us/event of dogwatch full").contains("0.260, at most 0.250"));
        assert!(of("sync CPU s of dogwatch view").starts_with("not measured "));
        assert_eq!(verdicts.lines().count(), GOALS.len());
    }
}
