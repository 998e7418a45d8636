//! Semantic versions (k8s.io/apiserver v0.36.4 pkg/cel/library/semverlib.go).

use std::cmp::Ordering;
use std::fmt;

/// A semantic version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Version {
    pub(crate) major: u64,
    pub(crate) minor: u64,
    pub(crate) patch: u64,
    pre: Vec<String>,
    build: Vec<String>,
}

impl Version {
    /// Parses a version. With `tolerant`, a leading `v`, leading zeros and missing numbers are
    /// accepted.
    pub(crate) fn parse(text: &str, tolerant: bool) -> Option<Self> {
        let mut text = text.to_owned();
        if tolerant {
            text = normalized(&text);
        }
        let (rest, build) = split(&text, '+')?;
        let (numbers, pre) = split(rest, '-')?;
        let numbers: Vec<u64> = numbers.split('.').map(number).collect::<Option<_>>()?;
        let [major, minor, patch] = numbers.as_slice() else { return None };
        let is_sound = pre.iter().all(|it| !is_number(it) || it == "0" || !it.starts_with('0'));
        is_sound.then_some(Self { major: *major, minor: *minor, patch: *patch, pre, build })
    }

    /// Returns the number of bytes that a comparison may read.
    pub(crate) fn size(&self) -> usize {
        self.pre.iter().map(|it| it.len().saturating_add(1)).sum()
    }

    /// Returns which version comes first. Builds do not count.
    pub(crate) fn precedence(&self, other: &Self) -> Ordering {
        let numbers = |it: &Self| (it.major, it.minor, it.patch);
        numbers(self).cmp(&numbers(other)).then_with(|| match (self.pre.is_empty(), other.pre.is_empty()) {
            (true, true) => Ordering::Equal,
            (true, false) => Ordering::Greater,
            (false, true) => Ordering::Less,
            (false, false) => {
                let parts = self.pre.iter().zip(&other.pre).map(|(one, two)| precedence_of(one, two));
                let first = parts.into_iter().find(|it| it.is_ne());
                first.unwrap_or_else(|| self.pre.len().cmp(&other.pre.len()))
            }
        })
    }
}

fn precedence_of(one: &str, two: &str) -> Ordering {
    match (is_number(one), is_number(two)) {
        (true, true) => one.len().cmp(&two.len()).then_with(|| one.cmp(two)),
        (true, false) => Ordering::Less,
        (false, true) => Ordering::Greater,
        (false, false) => one.cmp(two),
    }
}

fn is_number(text: &str) -> bool {
    text.bytes().all(|it| it.is_ascii_digit())
}

fn number(text: &str) -> Option<u64> {
    let is_sound = !text.is_empty() && is_number(text) && (text == "0" || !text.starts_with('0'));
    is_sound.then(|| text.parse().ok())?
}

/// Splits off the identifiers behind a separator.
fn split(text: &str, separator: char) -> Option<(&str, Vec<String>)> {
    let Some((before, after)) = text.split_once(separator) else { return Some((text, Vec::new())) };
    let fits =
        |it: &str| !it.is_empty() && it.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    after.split('.').all(fits).then(|| (before, after.split('.').map(str::to_owned).collect()))
}

fn normalized(text: &str) -> String {
    let text = text.trim();
    let text = text.strip_prefix('v').unwrap_or(text);
    let end = text.find(['-', '+']).unwrap_or(text.len());
    let (numbers, rest) = text.split_at(end);
    let mut parts: Vec<String> = numbers
        .split('.')
        .map(|it| {
            let stripped = it.trim_start_matches('0');
            if stripped.is_empty() && !it.is_empty() { "0".to_owned() } else { stripped.to_owned() }
        })
        .collect();
    // As in `semver.ParseTolerant`, a version that lacks numbers has nothing behind them.
    if parts.len() < 3 && rest.is_empty() {
        parts.resize(3, "0".to_owned());
    }
    format!("{}{rest}", parts.join("."))
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)?;
        if !self.pre.is_empty() {
            write!(f, "-{}", self.pre.join("."))?;
        }
        if !self.build.is_empty() {
            write!(f, "+{}", self.build.join("."))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_ordered() {
        let versions = ["1.0.0-alpha", "1.0.0-alpha.1", "1.0.0-alpha.beta", "1.0.0", "1.2.0", "1.10.0"];
        for pair in versions.windows(2) {
            let [one, two] = pair else { unreachable!() };
            let (one, two) = (Version::parse(one, false).unwrap(), Version::parse(two, false).unwrap());
            assert_eq!(one.precedence(&two), Ordering::Less, "{one} {two}");
        }
        for text in ["1.0", "v1.0.0", "01.0.0", "1.0.0-", "1.0.0-01", "x"] {
            assert!(Version::parse(text, false).is_none(), "{text}");
        }
        assert_eq!(Version::parse("v01.2", true).unwrap().to_string(), "1.2.0");
        assert_eq!(Version::parse("1.2.3-rc.1+b", false).unwrap().to_string(), "1.2.3-rc.1+b");
    }
}
