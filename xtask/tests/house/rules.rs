//! The ids of client-go's rules: every id that a source uses is defined in `docs/rules.md`, and
//! every id defined there is used.
//!
//! It works on texts that the caller has read.

use std::collections::{BTreeMap, BTreeSet};

/// Returns the ids that a document defines: the first cell of each row of its tables.
pub(crate) fn defined(document: &str) -> Vec<String> {
    let cells = document.lines().filter_map(|it| it.strip_prefix("| ")?.split_once(" |"));
    cells.map(|(first, _)| first.to_owned()).filter(|it| split(it).is_some()).collect()
}

/// Returns the ids of the families of `defined` that a source uses, in comments (`KC-3`) or in
/// names of tests (`kc_3_…`).
pub(crate) fn used(source: &str, defined: &[String]) -> BTreeSet<String> {
    let families: BTreeSet<_> = defined.iter().filter_map(|it| Some(split(it)?.0)).collect();
    let mut found = BTreeSet::new();
    let words = source.split(|it: char| !it.is_alphanumeric() && it != '_' && it != '-');
    for word in words {
        let id = match split(word) {
            Some(_) => Some(word.to_owned()),
            None => in_a_test_name(word),
        };
        found.extend(id.filter(|it| split(it).is_some_and(|(family, _)| families.contains(family))));
    }
    found
}

/// Describes each difference between the ids in use and those defined. `used` has the name of a
/// file for each id.
pub(crate) fn violations(defined: &[String], used: &BTreeMap<String, String>) -> Vec<String> {
    let unknown = used.iter().filter(|(id, _)| !defined.contains(id));
    let unused = defined.iter().filter(|id| !used.contains_key(*id));
    let mut violations: Vec<_> =
        unknown.map(|(id, file)| format!("{file}: docs/rules.md does not define {id}")).collect();
    violations.extend(unused.map(|id| format!("docs/rules.md defines {id}, which no source uses")));
    violations
}

/// Splits an id such as `KC-3` into its family and number.
fn split(id: &str) -> Option<(&str, u32)> {
    let (family, number) = id.split_once('-')?;
    let is_family = (2..=3).contains(&family.len()) && family.bytes().all(|it| it.is_ascii_uppercase());
    Some((family, number.parse().ok()?)).filter(|_| is_family)
}

/// Returns the id in a name such as `kc_3_an_override_wins`.
fn in_a_test_name(word: &str) -> Option<String> {
    let mut parts = word.splitn(3, '_');
    let (family, number, _) = (parts.next()?, parts.next()?, parts.next()?);
    let id = format!("{}-{number}", family.to_ascii_uppercase());
    split(&id).is_some().then_some(id).filter(|_| family.bytes().all(|it| it.is_ascii_lowercase()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULES: &str = "# Rules\n\n| id | rule |\n|---|---|\n| KC-1 | Files. |\n| REF-12 | Stopping. |\n";

    fn found(source: &str) -> Vec<String> {
        used(source, &defined(RULES)).into_iter().collect()
    }

    #[test]
    fn ids_are_found_in_tables_comments_and_test_names() {
        assert_eq!(defined(RULES), ["KC-1", "REF-12"]);
        assert_eq!(found("// By KC-1, and KC-7.\nfn ref_12_a_list_is_cut() {}"), ["KC-1", "KC-7", "REF-12"]);
        assert_eq!(found("SHA-1, UTF-8, kc_x_y, fn kc_1() {}"), [] as [&str; 0]);
    }

    #[test]
    fn unknown_and_unused_ids_are_reported() {
        let used =
            BTreeMap::from([("KC-1", "a.rs"), ("KC-7", "b.rs")].map(|(id, file)| (id.into(), file.into())));
        let expected = [
            "b.rs: docs/rules.md does not define KC-7",
            "docs/rules.md defines REF-12, which no source uses",
        ];
        assert_eq!(violations(&defined(RULES), &used), expected);
    }
}
