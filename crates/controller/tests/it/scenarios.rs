//! Holds the ledger of upstream scenarios to its word: every test it names is there.

use std::collections::HashSet;
use std::path::Path;

const LEDGER: &str = include_str!("../SCENARIOS.md");

/// The names of all functions below a directory.
fn functions_below(directory: &Path, found: &mut HashSet<String>) {
    for entry in std::fs::read_dir(directory).expect("a directory of this crate") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            functions_below(&path, found);
        } else if path.extension().is_some_and(|it| it == "rs") {
            let text = std::fs::read_to_string(&path).expect("a source file");
            let declared = text.lines().filter_map(|it| it.trim().split_once("fn ")).map(|(_, rest)| rest);
            found.extend(declared.filter_map(|it| it.split(['(', '<']).next()).map(str::to_owned));
        }
    }
}

#[test]
fn every_scenario_stands_once_and_names_tests_that_exist_or_says_why_it_does_not_apply() {
    let mut functions = HashSet::new();
    for directory in ["src", "tests"] {
        functions_below(&Path::new(env!("CARGO_MANIFEST_DIR")).join(directory), &mut functions);
    }
    let (mut section, mut seen) = ("", HashSet::new());
    for line in LEDGER.lines() {
        section = line.strip_prefix("## ").unwrap_or(section);
        let Some(entry) = line.strip_prefix("- ") else { continue };
        let (scenario, held) = entry.split_once(" → ").unwrap_or_else(|| panic!("no arrow in {entry:?}"));
        assert!(seen.insert((section, scenario)), "twice: {section}: {scenario}");
        let named: Vec<_> = held.split('`').skip(1).step_by(2).collect();
        assert!(
            !named.is_empty() || held.starts_with("does not apply: "),
            "nobody holds {section}: {scenario}"
        );
        let missing: Vec<_> = named.into_iter().filter(|it| !functions.contains(*it)).collect();
        assert!(missing.is_empty(), "{section}: {scenario}: there is no {missing:?}");
    }
    assert!(seen.len() > 80, "the ledger has lost lines: {}", seen.len());
}
