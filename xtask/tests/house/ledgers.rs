//! What a ledger of scenarios owes its reader: each scenario once in its section, with tests that are there, or a reason.
//!
//! Works on texts that the caller has read.

use std::collections::HashSet;

const NOT_OURS: &str = "does not apply: ";
/// A reason is longer than this.
const SHORTEST_REASON: usize = 10;

/// What is wrong with a ledger, as sentences. `least` is how many scenarios it had when it was last looked at, or a few less.
pub(crate) fn breaches(ledger: &str, tests: &HashSet<String>, least: usize) -> Vec<String> {
    let mut breaches = Vec::new();
    let (mut section, mut seen) = ("", HashSet::new());
    for line in ledger.lines() {
        section = line.strip_prefix("## ").unwrap_or(section);
        let Some(entry) = line.strip_prefix("- ") else { continue };
        let Some((scenario, held)) = entry.split_once(" → ") else {
            breaches.push(format!("{section}: no arrow in {entry:?}"));
            continue;
        };
        if !seen.insert((section, scenario)) {
            breaches.push(format!("{section}: twice: {scenario}"));
        }
        let mut named = held.split('`').skip(1).step_by(2).peekable();
        let reason = held.strip_prefix(NOT_OURS).is_some_and(|it| it.len() > SHORTEST_REASON);
        if named.peek().is_none() && !reason {
            breaches.push(format!("{section}: nobody holds {scenario}, and no reason is given"));
        }
        let missing = named.filter(|it| !tests.contains(*it));
        breaches.extend(missing.map(|it| format!("{section}: {scenario}: there is no test {it}")));
    }
    if seen.len() < least {
        breaches.push(format!("the ledger has lost lines: {} of {least} are left", seen.len()));
    }
    breaches
}

/// The names of the tests in a source. A test program with a `main` of its own calls its functions itself: there, all are tests.
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
    fn only_what_is_marked_is_a_test_but_where_a_program_calls_them_itself() {
        assert_eq!(tests(), ["one", "two"].map(str::to_owned).into());
        assert!(tests_of("async fn main() {\n}\nfn three() {}").contains("three"));
    }

    #[test]
    fn a_ledger_that_keeps_its_word_has_no_breach() {
        let ledger = "# L\n## A\n- s → `one`, `two`\n- t → does not apply: there is no such thing\n## B\n- s → `one`\n";
        assert_eq!(breaches(ledger, &tests(), 3), Vec::<String>::new());
    }

    #[test]
    fn every_way_to_break_its_word_is_told() {
        for (ledger, told) in [
            ("## A\n- s\n- t → `one`", "A: no arrow in \"s\""),
            ("## A\n- s → `one`\n- s → `two`", "A: twice: s"),
            ("## A\n- s → later", "A: nobody holds s, and no reason is given"),
            ("## A\n- s → does not apply: no", "A: nobody holds s, and no reason is given"),
            ("## A\n- s → `gone`", "A: s: there is no test gone"),
            ("## A\n", "the ledger has lost lines: 0 of 1 are left"),
        ] {
            assert_eq!(breaches(ledger, &tests(), 1), [told], "{ledger}");
        }
    }
}
