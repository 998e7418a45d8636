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
    ///
    /// # Errors
    /// The message of github.com/blang/semver v4.0.0.
    pub(crate) fn parse(text: &str, tolerant: bool) -> Result<Self, String> {
        let normal;
        let text = if tolerant {
            normal = normalized(text)?;
            &*normal
        } else {
            text
        };
        if text.is_empty() {
            return Err("Version string empty".to_owned());
        }
        let mut parts = text.splitn(3, '.');
        let (Some(major), Some(minor), Some(rest)) = (parts.next(), parts.next(), parts.next()) else {
            return Err("No Major.Minor.Patch elements found".to_owned());
        };
        let (major, minor) = (number("Major", major)?, number("Minor", minor)?);
        let (rest, build) = split(rest, '+');
        let (patch, pre) = split(rest, '-');
        let patch = number("Patch", patch)?;
        for part in &pre {
            check_part("Prerelease", "prerelease", part)?;
            if is_number(part) && part.len() > 1 && part.starts_with('0') {
                return Err(format!("Numeric PreRelease version must not contain leading zeroes {part:?}"));
            }
        }
        for part in &build {
            check_part("Build meta data", "build meta data", part)?;
        }
        Ok(Self { major, minor, patch, pre, build })
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

fn number(name: &str, text: &str) -> Result<u64, String> {
    if !is_number(text) {
        let name = name.to_lowercase();
        return Err(format!("Invalid character(s) found in {name} number {text:?}"));
    }
    if text.len() > 1 && text.starts_with('0') {
        return Err(format!("{name} number must not contain leading zeroes {text:?}"));
    }
    text.parse().map_err(|_| match text.is_empty() {
        true => "strconv.ParseUint: parsing \"\": invalid syntax".to_owned(),
        false => format!("strconv.ParseUint: parsing {text:?}: value out of range"),
    })
}

fn check_part(name: &str, place: &str, part: &str) -> Result<(), String> {
    if part.is_empty() {
        return Err(format!("{name} is empty"));
    }
    match part.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-') {
        true => Ok(()),
        false => Err(format!("Invalid character(s) found in {place} {part:?}")),
    }
}

/// Splits off the identifiers behind a separator.
fn split(text: &str, separator: char) -> (&str, Vec<String>) {
    match text.split_once(separator) {
        Some((before, after)) => (before, after.split('.').map(str::to_owned).collect()),
        None => (text, Vec::new()),
    }
}

/// Completes a version as `semver.ParseTolerant` does.
fn normalized(text: &str) -> Result<String, String> {
    let text = text.trim();
    let text = text.strip_prefix('v').unwrap_or(text);
    let mut parts: Vec<String> = text.splitn(3, '.').map(str::to_owned).collect();
    for part in parts.iter_mut().filter(|it| it.len() > 1) {
        let stripped = part.trim_start_matches('0');
        let zero = if stripped.starts_with(|it: char| it.is_ascii_digit()) { "" } else { "0" };
        *part = format!("{zero}{stripped}");
    }
    if parts.len() < 3 {
        if parts.last().is_some_and(|it| it.contains(['+', '-'])) {
            return Err("Short version cannot contain PreRelease/Build meta data".to_owned());
        }
        parts.resize(3, "0".to_owned());
    }
    Ok(parts.join("."))
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
            assert!(Version::parse(text, false).is_err(), "{text}");
        }
        assert_eq!(Version::parse("v01.2", true).unwrap().to_string(), "1.2.0");
        assert_eq!(Version::parse("1.2.3-rc.1+b", false).unwrap().to_string(), "1.2.3-rc.1+b");
    }
}
