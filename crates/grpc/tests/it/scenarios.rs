//! Holds the ledger of what is proved of calls to its word: every test it names is there.

use std::collections::{BTreeSet, HashSet};
use std::path::Path;

const LEDGER: &str = include_str!("../SCENARIOS.md");
const NOT_OURS: &str = "does not apply: ";

/// The names of all test functions below a directory.
fn tests_below(directory: &Path, found: &mut HashSet<String>) {
    for entry in std::fs::read_dir(directory).expect("a directory of this crate") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            tests_below(&path, found);
        } else if path.extension().is_some_and(|it| it == "rs") {
            let text = std::fs::read_to_string(&path).expect("a source file");
            let mut marked = false;
            for line in text.lines().map(str::trim) {
                if line.starts_with("#[") {
                    marked |= line.starts_with("#[test]") || line.starts_with("#[tokio::test");
                } else if let Some((_, rest)) = line.split_once("fn ")
                    && std::mem::take(&mut marked)
                {
                    let name = rest.split(|it: char| !it.is_alphanumeric() && it != '_').next();
                    found.extend(name.map(str::to_owned));
                }
            }
        }
    }
}

/// The words in backticks.
fn named(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

#[test]
fn every_test_the_ledger_names_exists() {
    let mut tests = HashSet::new();
    for directory in ["src", "tests"] {
        tests_below(&Path::new(env!("CARGO_MANIFEST_DIR")).join(directory), &mut tests);
    }
    let lines = LEDGER.lines().filter_map(|it| it.strip_prefix("- "));
    let held = lines.map(|it| it.split_once(" → ").unwrap_or_else(|| panic!("no arrow in {it:?}")).1);
    let missing: BTreeSet<_> = held.flat_map(named).filter(|it| !tests.contains(*it)).collect();
    assert!(missing.is_empty(), "the ledger names tests that are not there: {missing:#?}");
}

#[test]
fn every_scenario_has_a_test_or_a_reason_and_stands_once() {
    let mut seen = HashSet::new();
    for entry in LEDGER.lines().filter_map(|it| it.strip_prefix("- ")) {
        let (scenario, held) = entry.split_once(" → ").expect("looked at by the other test");
        let reason = held.strip_prefix(NOT_OURS).is_some_and(|it| it.len() > 10);
        assert!(reason || named(held).next().is_some(), "{entry}");
        assert!(seen.insert(scenario), "twice: {scenario}");
    }
    assert!(seen.len() > 50, "the ledger has lost lines: {}", seen.len());
}
