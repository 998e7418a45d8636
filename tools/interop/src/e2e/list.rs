//! Which tests of the conformance suite are chosen: a list in a file, and what each of them needs.
//!
//! A line is a name, as the suite has it. Before it may stand `controllers` or `kubectl` and a colon, for tests that need the
//! original of these. A line that begins with `#` names the group of those below it.

use anyhow::{Result, ensure};

const LIST: &str = include_str!("../../data/e2e-tests.txt");

/// Tests of the suite.
#[derive(Clone, Debug)]
pub(super) struct Chosen {
    tests: Vec<Test>,
}

/// One test of the suite.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Test {
    pub(super) group: &'static str,
    pub(super) name: &'static str,
    needs: Needs,
}

/// What a test needs besides our server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Needs {
    Nothing,
    Controllers,
    Kubectl,
}

impl Chosen {
    /// All of the list.
    pub(super) fn all() -> Result<Self> {
        Self::parse(LIST)
    }

    fn parse(text: &'static str) -> Result<Self> {
        let (mut tests, mut group) = (Vec::new(), "");
        for line in text.lines().map(str::trim).filter(|it| !it.is_empty()) {
            if let Some(name) = line.strip_prefix('#') {
                group = name.trim();
                continue;
            }
            let (needs, name) = if let Some(name) = line.strip_prefix("controllers:") {
                (Needs::Controllers, name)
            } else if let Some(name) = line.strip_prefix("kubectl:") {
                (Needs::Kubectl, name)
            } else {
                (Needs::Nothing, line)
            };
            let name = name.trim();
            ensure!(name.starts_with("[sig-"), "{line:?} is no test of the suite");
            ensure!(tests.iter().all(|it: &Test| it.name != name), "{name:?} is there twice");
            tests.push(Test { group, name, needs });
        }
        Ok(Self { tests })
    }

    /// Those that can run with what there is.
    pub(super) fn with(mut self, controllers: bool, kubectl: bool) -> Self {
        self.tests.retain(|it| match it.needs {
            Needs::Nothing => true,
            Needs::Controllers => controllers,
            Needs::Kubectl => controllers && kubectl,
        });
        self
    }

    /// Those whose names contain one of these words; all where there are no words.
    pub(super) fn only(mut self, words: &[String]) -> Self {
        self.tests.retain(|test| words.is_empty() || words.iter().any(|it| test.name.contains(it.as_str())));
        self
    }

    pub(super) fn tests(&self) -> &[Test] {
        &self.tests
    }

    pub(super) fn len(&self) -> usize {
        self.tests.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.tests.is_empty()
    }

    /// A regular expression that these names match, and no others.
    pub(super) fn pattern(&self) -> String {
        let names: Vec<String> = self.tests.iter().map(|it| quoted(it.name)).collect();
        // The name of the suite comes first.
        format!(" ({})$", names.join("|"))
    }
}

/// A text as a regular expression that it alone matches.
fn quoted(text: &str) -> String {
    let mut quoted = String::new();
    for it in text.chars() {
        if r"\.+*?()|[]{}^$".contains(it) {
            quoted.push('\\');
        }
        quoted.push(it);
    }
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_sound() {
        let all = Chosen::all().unwrap();
        assert!(all.tests().iter().all(|it| !it.group.is_empty() && it.name.ends_with("[Conformance]")));
        let (alone, with) = (all.clone().with(false, false).len(), all.clone().with(true, false).len());
        assert!(0 < alone && alone < with && with <= all.len());
    }

    #[test]
    fn lines_say_what_a_test_is_called_and_needs() {
        let text = "# apps\n[sig-apps] A [Conformance]\ncontrollers: [sig-apps] B (x) [Conformance]\n\n# cli\nkubectl: [sig-cli] C\n";
        let all = Chosen::parse(text).unwrap();
        let groups: Vec<_> = all.tests().iter().map(|it| it.group).collect();
        assert_eq!(groups, ["apps", "apps", "cli"]);
        assert_eq!(all.clone().with(false, true).pattern(), r" (\[sig-apps\] A \[Conformance\])$");
        assert_eq!(all.clone().with(true, false).len(), 2);
        assert_eq!(
            all.clone().only(&["(x)".to_owned()]).pattern(),
            r" (\[sig-apps\] B \(x\) \[Conformance\])$"
        );
        assert!(Chosen::parse("A").is_err() && Chosen::parse("[sig-a] A\n[sig-a] A").is_err());
    }
}
