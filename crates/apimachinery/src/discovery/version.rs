//! The order of the versions of a group: stable before beta before alpha, high before low, others
//! last by name. As `CompareKubeAwareVersionStrings` in k8s.io/apimachinery v0.36.4
//! pkg/version/helpers.go.

use std::cmp::Ordering;

/// Compares versions in the order in which clients should prefer them, best first.
pub fn by_stability(a: &str, b: &str) -> Ordering {
    match (parse(a), parse(b)) {
        (Some(a), Some(b)) => b.cmp(&a),
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (None, None) => a.cmp(b),
    }
}

/// Parses `v1` or `v2beta3` into stability, major and minor; returns `None` for other forms.
fn parse(version: &str) -> Option<(u8, u64, u64)> {
    let rest = version.strip_prefix('v')?;
    let end = rest.find(|it: char| !it.is_ascii_digit()).unwrap_or(rest.len());
    let (major, rest) = rest.split_at(end);
    let (stability, minor) = match rest {
        "" => (2, "0"),
        _ => match rest.strip_prefix("beta") {
            Some(minor) => (1, minor),
            None => (0, rest.strip_prefix("alpha")?),
        },
    };
    Some((stability, number(major)?, number(minor)?))
}

/// Parses a number without sign and leading zeros.
fn number(text: &str) -> Option<u64> {
    if text != "0" && (text.starts_with('0') || !text.bytes().all(|it| it.is_ascii_digit())) {
        return None;
    }
    text.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stable_comes_before_beta_before_alpha_and_high_before_low() {
        let mut versions =
            ["foo10", "v1", "v11alpha2", "v10", "v3beta1", "foo1", "v12alpha1", "v10beta3", "v2", "v11beta2"];
        versions.sort_by(|a, b| by_stability(a, b));
        assert_eq!(
            versions,
            ["v10", "v2", "v1", "v11beta2", "v10beta3", "v3beta1", "v12alpha1", "v11alpha2", "foo1", "foo10"]
        );
    }
}
