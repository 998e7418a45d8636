//! The table for one number of watchers: the phase without the proxy beside the one with it.

use std::fmt::Write as _;

use super::costs::{Comparison, Costs, Floor, ms};

/// Formats the table.
pub(super) fn table(comparison: &Comparison, floor: Floor) -> String {
    let Comparison { direct, direct_upward, through, through_upward, memory, .. } = comparison;
    let mut lines = format!("{:44} {:>12} {:>12}\n", "", "direct", "through");
    let mut add = |label: &str, direct: Option<f64>, through: Option<f64>, decimals: usize| {
        let cell = |it: Option<f64>| it.map_or_else(|| "-".to_owned(), |it| format!("{it:.decimals$}"));
        let _ = writeln!(lines, "{label:44} {:>12} {:>12}", cell(direct), cell(through));
    };
    let mut both = |label: &str, of: &dyn Fn(&Costs) -> Option<f64>, decimals: usize| {
        add(label, of(direct), of(through), decimals);
    };
    let percent = |cpu: f64, it: &Costs| Some(cpu / it.seconds * 100.0).filter(|it| it.is_finite());
    both("upstream CPU, s", &|it| Some(it.upstream_cpu), 2);
    both("upstream CPU, % of a core", &|it| percent(it.upstream_cpu, it), 1);
    both("upstream CPU without the writes, s", &|it| it.without_writes(floor), 2);
    both("proxy CPU, s", &|it| it.proxy_cpu, 2);
    both("proxy CPU, % of a core", &|it| percent(it.proxy_cpu?, it), 1);
    both("CPU of this load, % of a core", &|it| percent(it.load_cpu, it), 1);
    both("all processors busy, %", &|it| Some(it.busy * 100.0), 0);
    both("latency p50, ms", &|it| it.p50.map(ms), 2);
    both("latency p99, ms", &|it| it.p99.map(ms), 2);
    both("events lost", &|it| Some(it.completeness.lost as f64), 0);
    both("watchers with other events", &|it| Some(it.completeness.wrong as f64), 0);
    add(
        "connections upstream",
        Some(direct_upward.connections as f64),
        Some(through_upward.connections as f64),
        0,
    );
    add("watches upstream", Some(direct_upward.watches as f64), Some(through_upward.watches as f64), 0);
    let mut of_proxy = |label: &str, value: f64, decimals: usize| add(label, None, Some(value), decimals);
    of_proxy("watches answered from memory", memory.watches as f64, 0);
    of_proxy("requests passed on while watchers connected", memory.forwarded as f64, 0);
    of_proxy("proxy memory, no watchers, MB", memory.ready_mb, 1);
    of_proxy("proxy memory, idle watchers, MB", memory.idle_mb, 1);
    of_proxy("proxy memory after the changes, MB", memory.end_mb, 1);
    of_proxy("proxy memory per idle watcher, KB", comparison.kb_per_watcher(), 1);
    of_proxy("proxy memory per pod, KB", comparison.kb_per_object(floor), 2);
    of_proxy("reviews while watchers were open", memory.reviews as f64, 0);
    of_proxy(
        "  of that, the pod as the proxy counts it",
        memory.bytes as f64 / 1e3 / memory.objects.max(1) as f64,
        2,
    );
    for (name, costs) in [("direct", direct), ("through", through)] {
        if let Some(reason) = &costs.completeness.reason {
            let _ = writeln!(
                lines,
                "{name}: {} watches ended, the first one with: {reason}",
                costs.completeness.ended
            );
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::costs::{ProxyMemory, Upward};
    use super::super::watchers::Completeness;
    use super::*;

    #[test]
    fn a_line_has_the_values_of_both_phases_and_dashes_for_those_that_are_not_there() {
        let costs = |upstream_cpu, proxy_cpu| Costs {
            seconds: 10.0,
            upstream_cpu,
            proxy_cpu,
            p99: Some(Duration::from_micros(2_500)),
            ..Costs::default()
        };
        let ended = Completeness { ended: 2, reason: Some("410 Gone".to_owned()), ..Completeness::default() };
        let comparison = Comparison {
            watchers: 1000,
            direct: Costs { completeness: ended, ..costs(5.0, None) },
            direct_upward: Upward { connections: 20, watches: 1000 },
            through: costs(1.5, Some(4.0)),
            through_upward: Upward { connections: 1, watches: 1 },
            memory: ProxyMemory {
                ready_mb: 50.0,
                idle_mb: 65.0,
                objects: 10_000,
                bytes: 35_000_000,
                ..ProxyMemory::default()
            },
        };
        let text = table(
            &comparison,
            Floor {
                writes_cpu: 1.0,
                writes_seconds: 10.0,
                idle_cpu: 0.0,
                empty_mb: 10.0,
                client_go_kb: None,
            },
        );
        let of = |label: &str| {
            let line =
                text.lines().find_map(|it| it.strip_prefix(label)).unwrap_or_else(|| panic!("no {label}"));
            line.split_whitespace().map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(of("upstream CPU, s"), ["5.00", "1.50"]);
        assert_eq!(of("upstream CPU, % of a core"), ["50.0", "15.0"]);
        assert_eq!(of("upstream CPU without the writes, s"), ["4.00", "0.50"]);
        assert_eq!(of("proxy CPU, % of a core"), ["-", "40.0"]);
        assert_eq!(of("latency p50, ms"), ["-", "-"]);
        assert_eq!(of("latency p99, ms"), ["2.50", "2.50"]);
        assert_eq!(of("watches upstream"), ["1000", "1"]);
        assert_eq!(of("proxy memory per idle watcher, KB"), ["-", "15.0"]);
        assert_eq!(of("proxy memory per pod, KB"), ["-", "4.00"]);
        assert_eq!(of("  of that, the pod as the proxy counts it"), ["-", "3.50"]);
        assert!(text.ends_with("direct: 2 watches ended, the first one with: 410 Gone\n"));
    }
}
