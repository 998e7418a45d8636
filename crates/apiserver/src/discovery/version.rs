//! Which version of a group comes first: stable before beta before alpha, high before low, others last by name.

use std::cmp::Ordering;

/// Orders versions as clients should prefer them; the best comes first.
pub fn by_stability(a: &str, b: &str) -> Ordering {
    match (parse(a), parse(b)) {
        (Some(a), Some(b)) => b.cmp(&a),
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (None, None) => a.cmp(b),
    }
}

/// Stability, major and minor of `v1`, `v2beta3`; nothing where it is none of these forms.
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

/// A number as versions have them: no sign, and no zero in front.
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
