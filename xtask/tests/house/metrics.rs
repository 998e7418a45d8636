//! The list of metrics in docs/metrics.md: every metric of the source with its type, and no other.
//! Tables and alerts of other documents use only metrics of the list, with labels that they have.
//!
//! A metric is a call of `counter!`, `gauge!` or `histogram!` whose first argument is a literal. A
//! name that is computed would be in no list, so it is a violation.

use std::collections::{BTreeMap, BTreeSet};

/// The macros that create a metric, by its type.
const TYPES: [&str; 3] = ["counter", "gauge", "histogram"];

/// The name and the type of a metric.
pub(crate) type Metric = (String, String);

/// Returns the metrics of a source, and the calls whose name is not a literal as messages. `path`
/// is relative to the root of the repository.
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

/// Returns the labels of each metric in the tables of a document: the third cell of a row. A cell
/// that begins with `the same` adds to those of the last row that does not.
pub(crate) fn labels(document: &str) -> BTreeMap<String, BTreeSet<String>> {
    let (mut all, mut previous) = (BTreeMap::new(), BTreeSet::new());
    for line in document.lines().filter(|it| it.starts_with("| `")) {
        let mut cells = line.split('|').map(str::trim).skip(1);
        let (Some(name), Some(labels)) = (cells.next(), cells.nth(1)) else { continue };
        let mut own = in_backticks(labels);
        match labels.starts_with("the same") {
            true => own.extend(previous.iter().cloned()),
            false => previous.clone_from(&own),
        }
        all.insert(name.trim_matches('`').to_owned(), own);
    }
    all
}

/// Returns the metrics and labels that a chapter uses and that are not listed. A row of a table
/// begins with metrics and, after `by`, their labels; alerts have lines with `expr:`.
pub(crate) fn unknown(chapter: &str, listed: &BTreeMap<String, BTreeSet<String>>) -> Vec<String> {
    let mut uses = Vec::new();
    let table = chapter.split("\n| metric |").skip(1).flat_map(|it| it.lines().skip(2));
    for row in table.take_while(|it| it.starts_with('|')) {
        let first = row.split('|').nth(1).unwrap_or_default();
        let (metrics, labels) = first.split_once(" by ").unwrap_or((first, ""));
        uses.push((in_backticks(metrics), in_backticks(labels)));
    }
    let expressions = chapter.lines().filter_map(|it| it.trim_start().strip_prefix("expr: "));
    uses.extend(expressions.map(names_in));
    let mut problems = Vec::new();
    for (metrics, labels) in uses {
        for metric in metrics {
            match listed.get(&metric) {
                None => problems.push(format!("{metric} is no metric of docs/metrics.md")),
                Some(known) => {
                    let unknown = labels.iter().filter(|it| !known.contains(*it));
                    problems.extend(unknown.map(|it| format!("{metric} has no label {it}")));
                }
            }
        }
    }
    problems
}

/// Returns the metrics and the labels in an expression of Prometheus: a name with an underscore is
/// a metric, and those after `by` or before `=` are labels.
fn names_in(expression: &str) -> (BTreeSet<String>, BTreeSet<String>) {
    let is_part = |it: char| it.is_alphanumeric() || it == '_';
    let (mut metrics, mut labels) = (BTreeSet::new(), BTreeSet::new());
    for (at, part) in expression.split(" by (").enumerate() {
        let (names, rest) = if at > 0 { part.split_once(')').unwrap_or((part, "")) } else { ("", part) };
        labels.extend(names.split(',').map(|it| it.trim().to_owned()).filter(|it| !it.is_empty()));
        for (inside, text) in rest.split(['{', '}']).enumerate().map(|(at, it)| (at % 2 == 1, it)) {
            if inside {
                labels.extend(
                    text.split(',').filter_map(|it| it.split_once('=')).map(|it| it.0.trim().to_owned()),
                );
            } else {
                metrics
                    .extend(text.split(|it| !is_part(it)).filter(|it| it.contains('_')).map(str::to_owned));
            }
        }
    }
    (metrics, labels)
}

fn in_backticks(text: &str) -> BTreeSet<String> {
    text.split('`').skip(1).step_by(2).map(str::to_owned).collect()
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

    const LIST: &str = "| metric | type | labels | meaning |\n|---|---|---|---|\n| `a_total` | counter | `x` | |\n\
                        | `b_total` | counter | the same and `y` | |\n| `c_bytes` | gauge | | |\n";

    #[test]
    fn labels_are_those_of_the_third_cell() {
        let labels = labels(LIST);
        let of = |name: &str| labels[name].iter().map(String::as_str).collect::<Vec<_>>();
        assert_eq!((of("a_total"), of("b_total"), of("c_bytes")), (vec!["x"], vec!["x", "y"], vec![]));
    }

    #[test]
    fn tables_and_alerts_use_metrics_and_labels_that_are_listed() {
        let chapter = |row: &str, expression: &str| {
            format!(
                "text\n\n| metric | meaning |\n|---|---|\n| {row} | text |\n\n| other |\n```yaml\n    expr: {expression}\n```\n"
            )
        };
        let good = chapter("`a_total`, `b_total` by `x`", "sum by (x, y) (rate(b_total{x=\"1\"}[5m])) > 1");
        assert_eq!(unknown(&good, &labels(LIST)), [] as [&str; 0]);
        let bad = chapter("`d_total`", "increase(a_total{z=\"1\"}[1m]) > 0");
        assert_eq!(
            unknown(&bad, &labels(LIST)),
            ["d_total is no metric of docs/metrics.md", "a_total has no label z"]
        );
    }
}
