//! The results of a package, from the output of `go test -json` and Ginkgo's summary inside of it.
//!
//! A Ginkgo suite is a single Go test; its specs are counted instead. Of Go's own tests, only those
//! without subtests are counted.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

/// The number of output lines to show of a package that ran no test.
const LAST_LINES: usize = 20;

/// The results of a package.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    pub(super) passed: usize,
    pub(super) skipped: usize,
    /// The names of failed tests and specs.
    pub(super) failed: BTreeSet<String>,
    output: Vec<String>,
}

/// One line of `go test -json`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Event {
    action: String,
    test: Option<String>,
    #[serde(default)]
    output: String,
}

impl Outcome {
    /// Parses the standard output and standard error of a run.
    pub(super) fn read(output: &str, stderr: &str) -> Self {
        let mut outcome = Self::default();
        let mut results: BTreeMap<String, String> = BTreeMap::new();
        let mut suites: BTreeSet<String> = BTreeSet::new();
        for line in output.lines() {
            let Ok(event) = serde_json::from_str::<Event>(line) else {
                outcome.output.push(line.to_owned());
                continue;
            };
            if matches!(event.action.as_str(), "pass" | "fail" | "skip")
                && let Some(test) = event.test
            {
                results.insert(test, event.action);
            } else if event.action == "output" {
                let text = without_colours(event.output.trim_end());
                if outcome.count_specs(&text) {
                    suites.extend(event.test);
                }
                outcome.output.push(text);
            }
        }
        outcome.output.extend(stderr.lines().map(str::to_owned));
        let within = |name: &str| results.keys().any(|it| it.starts_with(&format!("{name}/")));
        for (name, result) in results.iter().filter(|(name, _)| !suites.contains(*name) && !within(name)) {
            match result.as_str() {
                "pass" => outcome.passed += 1,
                "skip" => outcome.skipped += 1,
                _ => drop(outcome.failed.insert(name.clone())),
            }
        }
        // A suite that breaks before its first spec has failed too.
        if outcome.failed.is_empty() {
            let broken = results.iter().filter(|(name, result)| *result == "fail" && suites.contains(*name));
            outcome.failed.extend(broken.map(|(name, _)| name.clone()));
        }
        outcome
    }

    /// Counts the results in a line of Ginkgo's summary. Returns true if it is the line that ends a
    /// suite.
    fn count_specs(&mut self, line: &str) -> bool {
        if let Some(name) = line.strip_prefix("  [FAIL] ") {
            self.failed.insert(name.to_owned());
        }
        let Some((_, counts)) = line.split_once("! -- ") else { return false };
        let numbers: Vec<usize> =
            counts.split('|').filter_map(|it| it.split_whitespace().next()?.parse().ok()).collect();
        let [passed, _, pending, skipped] = numbers[..] else { return false };
        self.passed += passed;
        self.skipped += pending + skipped;
        true
    }

    /// Returns the last lines of the output.
    pub(super) fn last_lines(&self) -> String {
        self.output[self.output.len().saturating_sub(LAST_LINES)..].join("\n")
    }
}

/// Removes the colour codes of a line.
fn without_colours(line: &str) -> String {
    let mut parts = line.split('\u{1b}');
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| text + part.split_once('m').map_or(part, |(_, rest)| rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(action: &str, test: &str, output: &str) -> String {
        serde_json::json!({ "Action": action, "Package": "p", "Test": test, "Output": output }).to_string()
    }

    #[test]
    fn specs_count_instead_of_their_suite_and_subtests_instead_of_their_parent() {
        let output = [
            line("output", "TestSuite", "  \u{1b}[31m[FAIL]\u{1b}[0m Client List [It] should list\n"),
            line(
                "output",
                "TestSuite",
                "FAIL! -- \u{1b}[1m7 Passed\u{1b}[0m | 1 Failed | 2 Pending | 3 Skipped\n",
            ),
            line("fail", "TestSuite", ""),
            line("pass", "TestPlain", ""),
            line("fail", "TestTable", ""),
            line("fail", "TestTable/one", ""),
            line("skip", "TestTable/two", ""),
            "no event".to_owned(),
        ];
        let outcome = Outcome::read(&output.join("\n"), "from stderr");
        assert_eq!((outcome.passed, outcome.skipped), (8, 6));
        assert_eq!(
            outcome.failed.iter().collect::<Vec<_>>(),
            ["Client List [It] should list", "TestTable/one"]
        );
        assert!(outcome.last_lines().ends_with("no event\nfrom stderr"));
    }

    #[test]
    fn a_suite_that_breaks_before_its_first_spec_fails() {
        let output = [
            line("output", "TestSuite", "FAIL! -- 0 Passed | 0 Failed | 0 Pending | 9 Skipped\n"),
            line("fail", "TestSuite", ""),
        ];
        let outcome = Outcome::read(&output.join("\n"), "");
        assert_eq!(outcome.failed.iter().collect::<Vec<_>>(), ["TestSuite"]);
    }
}
