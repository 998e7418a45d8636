//! The selected tests of the conformance suite: a list in a file, with the requirements of each
//! test.
//!
//! A line is the name of a test in the suite. The prefix `controllers:` or `kubectl:` marks a test
//! that needs kube-controller-manager, or also kubectl. A line that begins with `#` names the group
//! of the tests below it.

use anyhow::{Result, ensure};

const LIST: &str = include_str!("../../data/e2e-tests.txt");

/// Selected tests of the suite.
#[derive(Clone, Debug)]
pub(super) struct SelectedTests {
    tests: Vec<Test>,
}

/// One test of the suite.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Test {
    pub(super) group: &'static str,
    pub(super) name: &'static str,
    needs: Needs,
}

/// The requirements of a test besides our server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Needs {
    Nothing,
    Controllers,
    Kubectl,
}

impl SelectedTests {
    /// Returns the whole list.
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
            ensure!(name.starts_with("[sig-"), "{line:?} is not the name of a test");
            ensure!(tests.iter().all(|it: &Test| it.name != name), "{name:?} is listed twice");
            tests.push(Test { group, name, needs });
        }
        Ok(Self { tests })
    }

    /// Keeps the tests whose requirements are met.
    pub(super) fn with(mut self, controllers: bool, kubectl: bool) -> Self {
        self.tests.retain(|it| match it.needs {
            Needs::Nothing => true,
            Needs::Controllers => controllers,
            Needs::Kubectl => controllers && kubectl,
        });
        self
    }

    /// Keeps the tests whose names contain one of these words. Without words it keeps all.
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

    /// Returns a regular expression that matches exactly these names.
    pub(super) fn pattern(&self) -> String {
        let names: Vec<String> = self.tests.iter().map(|it| quoted(it.name)).collect();
        // Ginkgo puts the name of the suite in front.
        format!(" ({})$", names.join("|"))
    }
}

/// Escapes a text for use in a regular expression.
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
    fn the_list_parses_and_every_test_has_a_group() {
        let all = SelectedTests::all().unwrap();
        assert!(all.tests().iter().all(|it| !it.group.is_empty() && it.name.ends_with("[Conformance]")));
        let (alone, with) = (all.clone().with(false, false).len(), all.clone().with(true, false).len());
        assert!(0 < alone && alone < with && with <= all.len());
    }

    #[test]
    fn a_line_has_the_name_and_the_requirements_of_a_test() {
        let text = "# apps\n[sig-apps] A [Conformance]\ncontrollers: [sig-apps] B (x) [Conformance]\n\n# cli\nkubectl: [sig-cli] C\n";
        let all = SelectedTests::parse(text).unwrap();
        let groups: Vec<_> = all.tests().iter().map(|it| it.group).collect();
        assert_eq!(groups, ["apps", "apps", "cli"]);
        assert_eq!(all.clone().with(false, true).pattern(), r" (\[sig-apps\] A \[Conformance\])$");
        assert_eq!(all.clone().with(true, false).len(), 2);
        assert_eq!(
            all.clone().only(&["(x)".to_owned()]).pattern(),
            r" (\[sig-apps\] B \(x\) \[Conformance\])$"
        );
        assert!(SelectedTests::parse("A").is_err() && SelectedTests::parse("[sig-a] A\n[sig-a] A").is_err());
    }
}
