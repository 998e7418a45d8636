//! What came of a package: read from what `go test -json` prints, and from what Ginkgo prints inside of that.
//!
//! A suite of Ginkgo is one test for Go; its specs are what counts. Of Go's own tests those count that have none within.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

/// How many lines of a package that ran nothing are shown.
const LAST_WORDS: usize = 20;

/// What came of a package.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    pub(super) passed: usize,
    pub(super) skipped: usize,
    /// The names of what failed.
    pub(super) failed: BTreeSet<String>,
    said: Vec<String>,
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
    /// Reads what a run printed; `complaints` is what came beside it.
    pub(super) fn read(said: &str, complaints: &str) -> Self {
        let mut outcome = Self::default();
        let mut results: BTreeMap<String, String> = BTreeMap::new();
        let mut suites: BTreeSet<String> = BTreeSet::new();
        for line in said.lines() {
            let Ok(event) = serde_json::from_str::<Event>(line) else {
                outcome.said.push(line.to_owned());
                continue;
            };
            if matches!(event.action.as_str(), "pass" | "fail" | "skip")
                && let Some(test) = event.test
            {
                results.insert(test, event.action);
            } else if event.action == "output" {
                let text = plain(event.output.trim_end());
                if outcome.count_specs(&text) {
                    suites.extend(event.test);
                }
                outcome.said.push(text);
            }
        }
        outcome.said.extend(complaints.lines().map(str::to_owned));
        let within = |name: &str| results.keys().any(|it| it.starts_with(&format!("{name}/")));
        for (name, result) in results.iter().filter(|(name, _)| !suites.contains(*name) && !within(name)) {
            match result.as_str() {
                "pass" => outcome.passed += 1,
                "skip" => outcome.skipped += 1,
                _ => drop(outcome.failed.insert(name.clone())),
            }
        }
        // A suite that broke before its first spec has failed all the same.
        if outcome.failed.is_empty() {
            let broken = results.iter().filter(|(name, result)| *result == "fail" && suites.contains(*name));
            outcome.failed.extend(broken.map(|(name, _)| name.clone()));
        }
        outcome
    }

    /// Counts what a line of Ginkgo's summary says. Says whether it is the one that ends a suite.
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

    /// The last lines it printed.
    pub(super) fn last_words(&self) -> String {
        self.said[self.said.len().saturating_sub(LAST_WORDS)..].join("\n")
    }
}

/// A line without its colours.
fn plain(line: &str) -> String {
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
    fn specs_count_in_place_of_their_suite_and_tests_in_place_of_what_holds_them() {
        let said = [
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
        let outcome = Outcome::read(&said.join("\n"), "beside it");
        assert_eq!((outcome.passed, outcome.skipped), (8, 6));
        assert_eq!(
            outcome.failed.iter().collect::<Vec<_>>(),
            ["Client List [It] should list", "TestTable/one"]
        );
        assert!(outcome.last_words().ends_with("no event\nbeside it"));
    }

    #[test]
    fn a_suite_that_breaks_before_its_first_spec_has_failed() {
        let said = [
            line("output", "TestSuite", "FAIL! -- 0 Passed | 0 Failed | 0 Pending | 9 Skipped\n"),
            line("fail", "TestSuite", ""),
        ];
        let outcome = Outcome::read(&said.join("\n"), "");
        assert_eq!(outcome.failed.iter().collect::<Vec<_>>(), ["TestSuite"]);
    }
}
