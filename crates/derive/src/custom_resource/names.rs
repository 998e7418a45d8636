//! The names that a kind has in URLs.

/// Returns the regular plural of a lower-case English word.
///
/// The rules are those of kube-derive, so that a kind has the same resource name with either
/// derive.
pub(crate) fn plural(word: &str) -> String {
    if ["s", "x", "z", "ch", "sh"].iter().any(|ending| word.ends_with(ending)) {
        return format!("{word}es");
    }
    match word.strip_suffix('y') {
        Some(stem) if stem.ends_with(|it| !matches!(it, 'a' | 'e' | 'i' | 'o' | 'u')) => format!("{stem}ies"),
        _ => format!("{word}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plurals_are_regular() {
        let cases = [
            ("buoy", "buoys"),
            ("ferry", "ferries"),
            ("compass", "compasses"),
            ("box", "boxes"),
            ("quiz", "quizes"),
            ("watch", "watches"),
            ("leash", "leashes"),
            ("ship", "ships"),
            ("y", "ys"),
        ];
        for (word, expected) in cases {
            assert_eq!(plural(word), expected);
        }
    }
}
