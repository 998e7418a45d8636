//! The rules for files: a header and a meaningful name; for an example, brevity and a mention in
//! the README; for a document, that the files it names exist.
//!
//! It works on paths and texts that the caller has read.

use std::path::Path;

/// The maximum length of an example, in lines.
const LONGEST_EXAMPLE: usize = 60;

/// Names that do not describe the content.
const EMPTY_NAMES: [&str; 6] = ["util", "utils", "helper", "helpers", "common", "misc"];

/// Names that describe the content only together with another word, as in `frame_parts`.
const INCOMPLETE_NAMES: [&str; 5] = ["whole", "parts", "words", "look", "others"];

/// Returns the violations in one source file, as messages. `path` is relative to the root of the
/// repository.
pub(crate) fn violations(path: &Path, text: &str) -> Vec<String> {
    let mut violations = Vec::new();
    let shown = path.display();
    if !text.starts_with("//! ") {
        violations.push(format!("{shown}: does not begin with a `//!` header"));
    }
    if is_example(path) && text.lines().count() > LONGEST_EXAMPLE {
        let lines = text.lines().count();
        violations.push(format!("{shown}: the example has {lines} lines, more than {LONGEST_EXAMPLE}"));
    }
    if path.starts_with("crates") && text.contains("PoisonError") {
        violations.push(format!("{shown}: handles a poisoned lock; product code uses parking_lot"));
    }
    let names = path.components().map(|it| it.as_os_str().to_string_lossy());
    for name in names {
        let stem = name.strip_suffix(".rs").unwrap_or(&name);
        let is_empty = stem.split(['_', '-']).any(|word| EMPTY_NAMES.contains(&word));
        if is_empty || INCOMPLETE_NAMES.contains(&stem) {
            violations.push(format!("{shown}: `{stem}` does not describe the content"));
        }
    }
    violations
}

/// Returns the examples among `targets` that `readme` does not name.
pub(crate) fn unlisted<'a>(targets: impl IntoIterator<Item = &'a str>, readme: &str) -> Vec<String> {
    let words: Vec<&str> = readme.split(|it: char| !it.is_alphanumeric() && it != '_' && it != '-').collect();
    targets
        .into_iter()
        .filter(|name| !words.contains(name))
        .map(|name| format!("the README does not name the example `{name}`"))
        .collect()
}

/// Returns the files that a document names and that do not exist. Names in `*(not built yet …)*`
/// are ignored.
pub(crate) fn missing(document: &str, exists: impl Fn(&str) -> bool) -> Vec<String> {
    let mut built = String::new();
    for (at, part) in document.split("*(not built yet").enumerate() {
        built.push_str(if at == 0 { part } else { part.split_once(")*").map_or("", |(_, after)| after) });
    }
    let links = built.split("](").skip(1).filter_map(|it| it.split_once(')')).map(|(target, _)| target);
    let quoted =
        built.split('`').skip(1).step_by(2).filter(|it| {
            ["bench/", "crates/", "tools/", "xtask/"].iter().any(|folder| it.starts_with(folder))
        });
    let named = links.filter(|it| !it.contains("://") && !it.starts_with('#')).chain(quoted);
    named.filter(|it| !exists(it)).map(|it| format!("names {it}, which does not exist")).collect()
}

/// Returns true for `…/examples/name.rs` and `…/examples/name/main.rs`.
fn is_example(path: &Path) -> bool {
    path.components().skip(1).any(|it| it.as_os_str() == "examples")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> Vec<String> {
        violations(Path::new(path), text)
    }

    #[test]
    fn a_file_with_a_header_and_a_meaningful_name_is_accepted() {
        assert_eq!(found("crates/core/src/key.rs", "//! Keys.\n"), [] as [&str; 0]);
    }

    #[test]
    fn a_file_without_a_header_is_reported() {
        for text in ["", "fn f() {}", "// Keys.\n", "#![allow(x)]\n//! Keys.", "//!\n", "/// Keys.\n"] {
            assert_eq!(found("crates/core/src/key.rs", text).len(), 1, "{text:?}");
        }
    }

    #[test]
    fn meaningless_names_of_files_and_directories_are_reported() {
        for path in
            ["crates/core/src/util.rs", "crates/wire/tests/common/mod.rs", "xtask/src/test_helpers.rs"]
        {
            assert_eq!(found(path, "//! X.\n").len(), 1, "{path}");
        }
        for name in INCOMPLETE_NAMES {
            assert_eq!(found(&format!("crates/core/src/{name}.rs"), "//! X.\n").len(), 1, "{name}");
        }
        for path in ["crates/core/src/utility_rates.rs", "crates/cli/src/frame_parts.rs"] {
            assert_eq!(found(path, "//! X.\n"), [] as [&str; 0]);
        }
    }

    #[test]
    fn handling_poisoned_locks_is_reported_in_product_code() {
        let text = "//! X.\nuse std::sync::PoisonError;\n";
        assert_eq!(found("crates/core/src/key.rs", text).len(), 1);
        assert_eq!(found("bench/src/main.rs", text), [] as [&str; 0]);
    }

    #[test]
    fn long_examples_are_reported_and_other_long_files_are_not() {
        let long = "//! X.\n".repeat(LONGEST_EXAMPLE + 1);
        assert_eq!(found("crates/dogwatch/examples/pods.rs", &long).len(), 1);
        assert_eq!(found("crates/dogwatch/examples/pods.rs", &long[7..]), [] as [&str; 0]);
        assert_eq!(found("crates/dogwatch/src/lib.rs", &long), [] as [&str; 0]);
    }

    #[test]
    fn a_document_may_name_only_existing_files() {
        let exists = |path: &str| path == "crates/a.rs" || path == "LICENSE";
        let good = "See [it](LICENSE), [them](https://x/y), `crates/a.rs`, `b` *(not built yet: `crates/c`,\n`crates/d`)*.";
        assert_eq!(missing(good, exists), [] as [&str; 0]);
        for bad in ["[it](LICENCE)", "```text\n```\nand `crates/b.rs`", "*(not built yet)* `xtask/c`"] {
            assert_eq!(missing(bad, exists).len(), 1, "{bad}");
        }
    }

    #[test]
    fn an_example_that_the_readme_does_not_name_is_reported() {
        let readme = "Run `cargo run --example watch_pods`, or read [it](examples/own_type.rs).";
        assert_eq!(unlisted(["watch_pods", "own_type"], readme), [] as [&str; 0]);
        assert_eq!(unlisted(["pods"], readme), ["the README does not name the example `pods`"]);
    }
}
