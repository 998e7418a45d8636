//! The list of metrics in docs/metrics.md: every metric of the source with its type, and no other.
//!
//! A metric is a call of `counter!`, `gauge!` or `histogram!` whose first argument is a literal. A
//! name that is computed would be in no list, so it is a violation.

use std::collections::BTreeSet;

/// The macros that create a metric, by its type.
const TYPES: [&str; 3] = ["counter", "gauge", "histogram"];

/// The name and the type of a metric.
pub(crate) type Metric = (String, String);

/// Returns the metrics of a source, and the calls whose name is not a literal as messages. `path` is
/// relative to the root of the repository.
pub(crate) fn used(path: &str, source: &str) -> (BTreeSet<Metric>, Vec<String>) {
    let (mut found, mut violations) = (BTreeSet::new(), Vec::new());
    for kind in TYPES {
        for (at, call) in source.match_indices(&format!("{kind}!(")) {
            // `describe_counter!` describes a metric that another call creates.
            if source[..at].ends_with(|it: char| it.is_alphanumeric() || it == '_') {
                continue;
            }
            let arguments = source[at + call.len()..].trim_start();
            match arguments.strip_prefix('"').and_then(|it| it.split_once('"')) {
                Some((name, _)) => drop(found.insert((name.to_owned(), kind.to_owned()))),
                None => violations.push(format!("{path}: the name of a {kind} is not a literal")),
            }
        }
    }
    (found, violations)
}

/// Returns the metrics in the tables of a document: rows that begin with a name in backticks and a
/// type.
pub(crate) fn listed(document: &str) -> Vec<Metric> {
    let row = |line: &str| {
        let mut cells = line.strip_prefix("| `")?.split('|').map(str::trim);
        let name = cells.next()?.strip_suffix('`')?.to_owned();
        Some((name, cells.next()?.to_owned()))
    };
    document.lines().filter_map(row).collect()
}

/// Returns the differences between the source and the document, as messages.
pub(crate) fn violations(used: &BTreeSet<Metric>, listed: &[Metric]) -> Vec<String> {
    let show = |(name, kind): &Metric| format!("the {kind} {name}");
    let mut violations = Vec::new();
    for it in used.iter().filter(|it| !listed.contains(it)) {
        violations.push(format!("docs/metrics.md does not list {}", show(it)));
    }
    for (at, it) in listed.iter().enumerate() {
        if !used.contains(it) {
            violations.push(format!("docs/metrics.md lists {}, which no source creates", show(it)));
        }
        if listed[..at].contains(it) {
            violations.push(format!("docs/metrics.md lists {} twice", show(it)));
        }
    }
    violations
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metric(name: &str, kind: &str) -> Metric {
        (name.to_owned(), kind.to_owned())
    }

    #[test]
    fn metrics_are_found_by_their_macros() {
        let source = "describe_counter!(\"c\", \"text\");\ncounter!(\"a_total\", labels);\nmetrics::gauge!(\n    \"b\",\n    x);";
        let (found, violations) = used("a.rs", source);
        assert_eq!(found, BTreeSet::from([metric("a_total", "counter"), metric("b", "gauge")]));
        assert_eq!(violations, [] as [&str; 0]);
        let (_, violations) = used("a.rs", "histogram!(name, labels)");
        assert_eq!(violations, ["a.rs: the name of a histogram is not a literal"]);
    }

    #[test]
    fn differences_between_the_source_and_the_list_are_reported() {
        let document =
            "| metric | type |\n|---|---|\n| `a` | counter | | text |\n| `b` | gauge | `x` | text |\n";
        let listed = listed(document);
        assert_eq!(listed, [metric("a", "counter"), metric("b", "gauge")]);
        let used = BTreeSet::from([metric("a", "counter"), metric("c", "gauge")]);
        let expected = [
            "docs/metrics.md does not list the gauge c",
            "docs/metrics.md lists the gauge b, which no source creates",
        ];
        assert_eq!(violations(&used, &listed), expected);
        let twice = [metric("a", "counter"), metric("a", "counter")];
        assert_eq!(
            violations(&BTreeSet::from([metric("a", "counter")]), &twice),
            ["docs/metrics.md lists the counter a twice"]
        );
    }
}
