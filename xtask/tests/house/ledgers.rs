//! The rules for ledgers of scenarios: each scenario once in its section, with existing tests or a
//! reason.
//!
//! It works on texts that the caller has read.

use std::collections::HashSet;

const DOES_NOT_APPLY: &str = "does not apply: ";
/// The minimum length of a reason, exclusive.
const SHORTEST_REASON: usize = 10;

/// Returns the violations in a ledger, as messages. `minimum` is the minimum number of scenarios,
/// so that none is lost by accident.
pub(crate) fn violations(ledger: &str, tests: &HashSet<String>, minimum: usize) -> Vec<String> {
    let mut violations = Vec::new();
    let (mut section, mut seen) = ("", HashSet::new());
    for line in ledger.lines() {
        section = line.strip_prefix("## ").unwrap_or(section);
        let Some(entry) = line.strip_prefix("- ") else { continue };
        let Some((scenario, evidence)) = entry.split_once(" → ") else {
            violations.push(format!("{section}: there is no ` → ` in {entry:?}"));
            continue;
        };
        if !seen.insert((section, scenario)) {
            violations.push(format!("{section}: listed twice: {scenario}"));
        }
        let mut named = evidence.split('`').skip(1).step_by(2).peekable();
        let reason = evidence.strip_prefix(DOES_NOT_APPLY).is_some_and(|it| it.len() > SHORTEST_REASON);
        if named.peek().is_none() && !reason {
            violations.push(format!("{section}: {scenario} has neither a test nor a reason"));
        }
        let missing = named.filter(|it| !tests.contains(*it));
        violations.extend(missing.map(|it| format!("{section}: {scenario}: there is no test {it}")));
    }
    if seen.len() < minimum {
        violations.push(format!("the ledger has only {} of at least {minimum} scenarios", seen.len()));
    }
    violations
}

/// Returns the names of the tests in a source. A test program with its own `main` calls its
/// functions itself: there, all functions are tests.
pub(crate) fn tests_of(source: &str) -> HashSet<String> {
    let own_main = source.lines().any(|it| it.ends_with("fn main() {"));
    let (mut found, mut marked) = (HashSet::new(), false);
    for line in source.lines().map(str::trim) {
        if line.starts_with("#[") {
            marked |= line.starts_with("#[test]") || line.starts_with("#[tokio::test");
        } else if let Some((_, rest)) = line.split_once("fn ")
            && (std::mem::take(&mut marked) || own_main)
        {
            let name = rest.split(|it: char| !it.is_alphanumeric() && it != '_').next();
            found.extend(name.map(str::to_owned));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tests() -> HashSet<String> {
        tests_of(
            "#[test]\nfn one() {}\nfn no_test() {}\n#[tokio::test(start_paused = true)]\nasync fn two() {}\n",
        )
    }

    #[test]
    fn tests_have_an_attribute_except_in_a_program_with_its_own_main() {
        assert_eq!(tests(), ["one", "two"].map(str::to_owned).into());
        assert!(tests_of("async fn main() {\n}\nfn three() {}").contains("three"));
    }

    #[test]
    fn a_complete_ledger_is_accepted() {
        let ledger = "# L\n## A\n- s → `one`, `two`\n- t → does not apply: there is no such thing\n## B\n- s → `one`\n";
        assert_eq!(violations(ledger, &tests(), 3), Vec::<String>::new());
    }

    #[test]
    fn every_violation_of_a_ledger_is_reported() {
        for (ledger, expected) in [
            ("## A\n- s\n- t → `one`", "A: there is no ` → ` in \"s\""),
            ("## A\n- s → `one`\n- s → `two`", "A: listed twice: s"),
            ("## A\n- s → later", "A: s has neither a test nor a reason"),
            ("## A\n- s → does not apply: no", "A: s has neither a test nor a reason"),
            ("## A\n- s → `gone`", "A: s: there is no test gone"),
            ("## A\n", "the ledger has only 0 of at least 1 scenarios"),
        ] {
            assert_eq!(violations(ledger, &tests(), 1), [expected], "{ledger}");
        }
    }
}
