//! The results of the tests, by group: parsed from Ginkgo's JSON report.

use std::collections::BTreeMap;
use std::fmt;

use anyhow::{Context, Result};
use serde::Deserialize;

use super::list::SelectedTests;

/// The results of the selected tests.
#[derive(Debug)]
pub(super) struct Report {
    /// By group: the number of tests that passed, and the failures.
    groups: BTreeMap<&'static str, (usize, Vec<Failed>)>,
}

/// The name of a test, and the reason of its failure.
type Failed = (&'static str, String);

/// A suite in Ginkgo's JSON report.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Suite {
    #[serde(default)]
    spec_reports: Option<Vec<Spec>>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Spec {
    #[serde(default)]
    container_hierarchy_texts: Option<Vec<String>>,
    #[serde(default)]
    leaf_node_text: String,
    #[serde(default)]
    state: String,
    #[serde(default)]
    failure: Failure,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Failure {
    #[serde(default)]
    message: String,
}

impl Report {
    /// Parses a report. A selected test that is not in it has not run, which counts as a failure.
    pub(super) fn read(written: &[u8], selected: &SelectedTests) -> Result<Self> {
        let suites: Vec<Suite> = serde_json::from_slice(written).context("cannot parse the results")?;
        let specs = suites.into_iter().flat_map(|it| it.spec_reports.unwrap_or_default());
        let mut states = BTreeMap::new();
        for spec in specs.filter(|it| it.state != "skipped" && it.state != "pending") {
            let mut words = spec.container_hierarchy_texts.unwrap_or_default();
            words.push(spec.leaf_node_text);
            states.insert(words.join(" "), (spec.state, spec.failure.message));
        }
        let mut groups: BTreeMap<_, (usize, Vec<_>)> = BTreeMap::new();
        for test in selected.tests() {
            let (passed, failed) = groups.entry(test.group).or_default();
            match states.get(test.name) {
                Some((state, _)) if state == "passed" => *passed += 1,
                Some((state, why)) => {
                    let first = why.lines().next().unwrap_or_default();
                    failed.push((test.name, format!("{state}: {first}")));
                }
                None => failed.push((test.name, "did not run".to_owned())),
            }
        }
        Ok(Self { groups })
    }

    /// Returns true if all tests have passed.
    pub(super) fn is_success(&self) -> bool {
        self.groups.values().all(|(_, failed)| failed.is_empty())
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (mut all_passed, mut all_failed) = (0, 0);
        for (group, (passed, failed)) in &self.groups {
            writeln!(f, "{group:16} {passed:4} passed {:4} failed", failed.len())?;
            for (name, why) in failed {
                writeln!(f, "    {name}\n        {why}")?;
            }
            all_passed += passed;
            all_failed += failed.len();
        }
        writeln!(f, "{:16} {all_passed:4} passed {all_failed:4} failed", "all")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_test_is_listed_with_its_reason_and_so_is_one_that_did_not_run() {
        let selected = SelectedTests::all().unwrap().with(false, false);
        let names: Vec<_> = selected.tests().iter().take(2).map(|it| it.name).collect();
        let (head, leaf) = names[0].split_once(' ').unwrap();
        let written = serde_json::json!([{ "SpecReports": [
            { "LeafNodeText": "x", "State": "skipped" },
            { "ContainerHierarchyTexts": [head], "LeafNodeText": leaf, "State": "passed" },
            { "ContainerHierarchyTexts": null, "LeafNodeText": names[1], "State": "failed",
                "Failure": { "Message": "because\nof this" } },
        ] }]);
        let selected = selected.only(&names.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>());
        let report = Report::read(written.to_string().as_bytes(), &selected).unwrap();
        let text = report.to_string();
        assert!(!report.is_success() && text.contains("failed: because\n"), "{text}");
        assert!(text.contains("1 passed    1 failed"), "{text}");
        let report = Report::read(b"[]", &selected).unwrap();
        assert!(!report.is_success() && report.to_string().contains("did not run"));
        assert!(Report::read(b"{}", &selected).is_err());
    }
}
