//! The rules for crates that are published: complete metadata, versions for all dependencies, the
//! licence and a README in the folder of each, and the order of publication in CONTRIBUTING.md.
//!
//! Works on `cargo metadata` and on files that the caller reads. `cargo xtask publish-check` does
//! the rest: it lets cargo package the crates.

use serde_json::Value;

use crate::crates::{list, text};

/// The limits of crates.io for keywords and categories.
const MAX_WORDS: usize = 5;
const MAX_KEYWORD: usize = 20;

/// Returns the violations of one crate, given its entry in `cargo metadata --no-deps`. `read`
/// returns the text of a file beside the manifest, and `root` that of one at the root of the
/// repository.
pub(crate) fn violations(
    package: &Value,
    read: impl Fn(&str) -> Option<String>,
    root: impl Fn(&str) -> Option<String>,
) -> Vec<String> {
    let mut problems = Vec::new();
    for key in ["description", "license", "rust_version", "repository", "homepage"] {
        if text(package, key).is_empty() {
            problems.push(format!("has no `{key}`"));
        }
    }
    for key in ["keywords", "categories"] {
        if !(1..=MAX_WORDS).contains(&list(package, key).len()) {
            problems.push(format!("needs one to {MAX_WORDS} `{key}`"));
        }
    }
    let long = list(package, "keywords").iter().filter_map(Value::as_str).find(|it| it.len() > MAX_KEYWORD);
    problems.extend(long.map(|it| format!("has the keyword {it}, which is too long")));
    if is_library(package) && package["metadata"]["docs"]["rs"].is_null() {
        problems.push("has no `[package.metadata.docs.rs]`".to_owned());
    }
    for file in ["LICENSE", "NOTICE"] {
        if read(file).is_none() || read(file) != root(file) {
            problems.push(format!("has no {file} like that of the repository"));
        }
    }
    match read(text(package, "readme")) {
        None => problems.push("has no README".to_owned()),
        Some(it) if is_library(package) && !it.contains("```rust") => {
            problems.push("has a README without an example".to_owned());
        }
        Some(it) if !it.contains("dogwatch") => problems.push("has a README that links nowhere".to_owned()),
        Some(_) => {}
    }
    for dependency in list(package, "dependencies") {
        if !is_stripped(dependency) && text(dependency, "req") == "*" {
            problems.push(format!("depends on {} without a version", text(dependency, "name")));
        }
    }
    problems.into_iter().map(|it| format!("{} {it}", text(package, "name"))).collect()
}

/// Returns a violation if the front page of a library has no example in Rust that is tested. The
/// page is the documentation of its `lib.rs`, with the file that it includes. `read` is as above.
pub(crate) fn missing_example(package: &Value, read: impl Fn(&str) -> Option<String>) -> Option<String> {
    if !is_library(package) {
        return None;
    }
    let source = read("src/lib.rs").unwrap_or_default();
    let page: String =
        source.lines().filter_map(|it| it.strip_prefix("//!")).map(|it| format!("{}\n", it.trim())).collect();
    // Doctests of a crate for macros would need the crate that uses it. That one tests the file.
    let included = source.split("#![cfg_attr(not(doctest), doc = include_str!(\"").nth(1);
    let included =
        included.and_then(|it| it.split_once('"')).and_then(|(file, _)| read(&format!("src/{file}")));
    let has_example = [Some(page), included].iter().flatten().any(|it| has_tested_block(it));
    (!has_example).then(|| format!("{} has a front page without an example in Rust", text(package, "name")))
}

/// Returns true if one of the code blocks is a doctest.
fn has_tested_block(markdown: &str) -> bool {
    let openings = markdown.lines().filter_map(|it| it.strip_prefix("```")).step_by(2);
    openings.into_iter().any(|info| {
        let mut words = info.split(',').map(str::trim);
        words.all(|it| ["", "rust", "no_run", "should_panic", "compile_fail"].contains(&it))
    })
}

/// Returns the violations of the order of publication, which is a line of CONTRIBUTING.md with the
/// names of all published crates: each after those that it depends on, also for its tests.
pub(crate) fn order_violations(packages: &[&Value], document: &str) -> Vec<String> {
    let names: Vec<&str> = packages.iter().map(|it| text(it, "name")).collect();
    let Some(order) = order(document) else {
        return vec!["CONTRIBUTING.md has no line that begins with `dogwatch-core`".to_owned()];
    };
    let mut violations = Vec::new();
    for name in order.iter().filter(|it| !names.contains(it)) {
        violations.push(format!("CONTRIBUTING.md: {name} is not published"));
    }
    for package in packages {
        let name = text(package, "name");
        let Some(place) = order.iter().position(|it| *it == name) else {
            violations.push(format!("CONTRIBUTING.md: the order of publication lacks {name}"));
            continue;
        };
        for dependency in list(package, "dependencies").iter().filter(|it| !is_stripped(it)) {
            let used = text(dependency, "name");
            if names.contains(&used) && !order[..place].contains(&used) {
                violations.push(format!("CONTRIBUTING.md: {name} is published before {used}"));
            }
        }
    }
    violations
}

/// Returns the features of a crate that its front page does not list in a table.
pub(crate) fn undocumented_features(package: &Value, front: &str) -> Vec<String> {
    let names = package["features"].as_object().into_iter().flat_map(|it| it.keys());
    let missing = names.filter(|it| *it != "default" && !front.contains(&format!("| `{it}` |")));
    missing.map(|it| format!("{} does not list its feature {it}", text(package, "name"))).collect()
}

/// Returns true for a crate that is published.
pub(crate) fn is_published(package: &Value) -> bool {
    !package["publish"].as_array().is_some_and(Vec::is_empty)
}

/// Returns the crates of the paragraph that begins with the first of them.
fn order(document: &str) -> Option<Vec<&str>> {
    let start = document.find("\n`dogwatch-core`")?;
    let paragraph = document[start..].trim_start().split("\n\n").next()?;
    Some(paragraph.split('`').skip(1).step_by(2).collect())
}

fn is_library(package: &Value) -> bool {
    let mut kinds = list(package, "targets").iter().flat_map(|it| list(it, "kind"));
    kinds.any(|it| it == "lib" || it == "proc-macro")
}

/// Returns true for a dev-dependency on a path without a version, which cargo leaves out of a
/// package.
fn is_stripped(dependency: &Value) -> bool {
    text(dependency, "kind") == "dev"
        && text(dependency, "req") == "*"
        && !text(dependency, "path").is_empty()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn complete() -> Value {
        json!({
            "name": "dogwatch-x", "description": "d", "license": "l", "rust_version": "1", "repository": "r",
            "homepage": "h", "keywords": ["k"], "categories": ["c"], "readme": "README.md", "publish": null,
            "targets": [{ "kind": ["lib"] }], "metadata": { "docs": { "rs": {} } },
            "dependencies": [
                { "name": "serde", "req": "^1", "kind": null },
                { "name": "kit", "req": "*", "kind": "dev", "path": "/kit" },
            ],
        })
    }

    fn found(package: &Value) -> Vec<String> {
        let read = |it: &str| Some(if it == "README.md" { "dogwatch ```rust".into() } else { it.to_owned() });
        violations(package, read, |it| Some(it.to_owned()))
    }

    #[test]
    fn a_complete_crate_is_accepted_and_each_missing_part_is_reported() {
        assert_eq!(found(&complete()), [] as [&str; 0]);
        for key in [
            "description",
            "license",
            "rust_version",
            "repository",
            "homepage",
            "keywords",
            "categories",
            "metadata",
        ] {
            let mut package = complete();
            package[key] = Value::Null;
            assert_eq!(found(&package).len(), 1, "{key}");
        }
        let mut package = complete();
        package["dependencies"][0]["req"] = json!("*");
        assert_eq!(found(&package), ["dogwatch-x depends on serde without a version"]);
    }

    #[test]
    fn another_licence_and_a_readme_without_an_example_are_reported() {
        let found = violations(&complete(), |it| Some(format!("dogwatch {it}")), |it| Some(it.to_owned()));
        let expected = [
            "dogwatch-x has no LICENSE like that of the repository",
            "dogwatch-x has no NOTICE like that of the repository",
            "dogwatch-x has a README without an example",
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn a_front_page_needs_a_block_of_rust_that_is_tested() {
        let found = |lib: &str, included: &str| {
            let read = |it: &str| match it {
                "src/lib.rs" => Some(lib.to_owned()),
                "src/example.md" => Some(included.to_owned()),
                _ => None,
            };
            missing_example(&complete(), read).is_some()
        };
        for good in [
            "//! ```\n//! a();\n//! ```\n",
            "//! ```text\n//! a\n//! ```\n//! ```no_run\n//! a();\n//! ```\n",
        ] {
            assert!(!found(good, ""), "{good}");
        }
        for bad in [
            "//! A crate.\n",
            "//! ```text\n//! a\n//! ```\n",
            "//! ```rust,ignore\n//! a\n//! ```\n",
            "/// ```\n",
        ] {
            assert!(found(bad, ""), "{bad}");
        }
        let including = "//! A crate.\n#![cfg_attr(not(doctest), doc = include_str!(\"example.md\"))]\n";
        assert!(!found(including, "```rust\na();\n```\n") && found(including, "none"));
        let mut program = complete();
        program["targets"] = json!([{ "kind": ["bin"] }]);
        assert_eq!(missing_example(&program, |_| None), None);
    }

    #[test]
    fn the_order_of_publication_is_checked() {
        let core = json!({ "name": "dogwatch-core", "dependencies": [] });
        let wire =
            json!({ "name": "dogwatch-wire", "dependencies": [{ "name": "dogwatch-core", "req": "^0.1" }] });
        let packages = [&wire, &core];
        let good = "text:\n\n`dogwatch-core`, `dogwatch-wire`.\n\nmore `text`";
        assert_eq!(order_violations(&packages, good), [] as [&str; 0]);
        let lacking = "\n`dogwatch-core`, `dogwatch-gone`";
        assert_eq!(order_violations(&packages, lacking).len(), 2);
        assert_eq!(order_violations(&packages, "none").len(), 1);
        let core_needs_wire =
            json!({ "name": "dogwatch-core", "dependencies": [{ "name": "dogwatch-wire", "req": "^0.1" }] });
        assert_eq!(
            order_violations(&[&core_needs_wire, &wire], good),
            ["CONTRIBUTING.md: dogwatch-core is published before dogwatch-wire"]
        );
    }

    #[test]
    fn every_feature_is_on_the_front_page() {
        let package = json!({ "name": "dogwatch-x", "features": { "default": ["a"], "a": [], "b": [] } });
        assert_eq!(
            undocumented_features(&package, "//! | `a` | yes |"),
            ["dogwatch-x does not list its feature b"]
        );
    }
}
