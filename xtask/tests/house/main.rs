//! The rules of this repository, checked on the sources themselves: layers, dependencies, headers,
//! names, examples, clocks, reproducible seeds, ledgers, rule ids, prose, columns, metrics,
//! metadata for publication, public items, features, kinds, the README, the book.
//!
//! They run with `cargo test --workspace`. Each rule is in its own file, with small fixtures of
//! what it accepts and rejects.

mod tokens;
mod layers;
mod crates;
mod files;
mod readme;
mod clocks;
mod seeds;
mod ledgers;
mod rules;
mod prose;
mod columns;
mod metrics;
mod publishing;
mod public_items;
mod examples;
mod feature_table;
mod kind_table;
mod book;
mod book_structure;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::crates::{list, text};

/// The maximum length of the description of the architecture, in lines: it is read in one sitting.
const LONGEST_ARCHITECTURE: usize = 250;

#[test]
fn modules_use_only_modules_declared_above_them() {
    let metadata = metadata();
    let mut violations = Vec::new();
    let mut roots = 0;
    for target in list(&metadata, "packages").iter().flat_map(|it| list(it, "targets")) {
        if list(target, "kind").iter().any(|it| ["lib", "bin"].contains(&it.as_str().unwrap_or_default())) {
            let root = PathBuf::from(text(target, "src_path"));
            violations.extend(layers::Tree::load(&root, &|it| std::fs::read_to_string(it).ok()).violations());
            roots += 1;
        }
    }
    assert!(roots > 0, "`cargo metadata` has no library and no binary");
    assert_none(&violations);
}

#[test]
fn crates_depend_only_on_crates_below_them() {
    assert_none(&crates::violations(&metadata()));
}

#[test]
fn every_file_has_a_header_and_a_name_and_examples_are_short() {
    let root = root();
    let sources = sources(&root);
    assert!(!sources.is_empty(), "no sources under {}", root.display());
    let mut violations = Vec::new();
    for file in sources {
        let text = std::fs::read_to_string(&file).expect("the file was just listed");
        let path = file.strip_prefix(&root).expect("the walk began at the root");
        violations.extend(files::violations(path, &text));
    }
    assert_none(&violations);
}

#[test]
fn additions_to_points_in_time_cannot_overflow() {
    let root = root();
    let mut violations = Vec::new();
    for file in rust_files([root.join("crates")]) {
        let text = std::fs::read_to_string(&file).expect("the file was just listed");
        let path = file.strip_prefix(&root).expect("the walk began at the root");
        violations.extend(clocks::violations(path, &text));
    }
    assert_none(&violations);
}

#[test]
fn code_that_soaks_run_has_only_biased_selects() {
    let root = root();
    let mut violations = Vec::new();
    for file in rust_files([root.join("crates")]) {
        let text = std::fs::read_to_string(&file).expect("the file was just listed");
        let path = file.strip_prefix(&root).expect("the walk began at the root");
        violations.extend(seeds::violations(path, &text));
    }
    assert_none(&violations);
}

#[test]
fn the_readme_of_the_examples_names_every_example() {
    let metadata = metadata();
    let targets = list(&metadata, "packages").iter().flat_map(|it| list(it, "targets"));
    let examples = targets.filter(|it| list(it, "kind").iter().any(|kind| kind == "example"));
    let readme = std::fs::read_to_string(root().join("crates/dogwatch/examples/README.md"));
    let readme = readme.expect("there is a README");
    assert_none(&files::unlisted(examples.map(|it| text(it, "name")), &readme));
}

#[test]
fn the_readme_is_short_and_its_programs_too() {
    let text = std::fs::read_to_string(root().join("README.md")).expect("there is a README");
    assert_none(&readme::violations(&text));
    let guide = std::fs::read_to_string(root().join("docs/book/src/memory.md")).expect("there is a guide");
    assert_none(&readme::unknown_numbers(&text, &guide));
}

#[test]
fn the_documented_installation_installs_the_command() {
    let (root, metadata) = (root(), metadata());
    let mut commands = Vec::new();
    for package in list(&metadata, "packages") {
        let is_command = |it: &Value| text(it, "name") == "dogwatch" && it["kind"][0] == "bin";
        if list(package, "targets").iter().any(is_command) {
            let manifest = Path::new(text(package, "manifest_path"));
            let folder = manifest.strip_prefix(&root).expect("it is in the workspace").parent();
            commands.extend(folder.and_then(Path::to_str));
        }
    }
    assert_eq!(commands.len(), 1, "{commands:?}");
    let mut documented = 0;
    for document in ["README.md", "CONTRIBUTING.md", "crates/cli/README.md"] {
        let text = std::fs::read_to_string(root.join(document)).expect("the document is there");
        documented += text.matches("cargo install --locked --path ").count();
        assert_none(&readme::wrong_installations(&text, &commands));
    }
    assert!(documented > 1, "no document says how to install the command");
}

#[test]
fn the_documents_name_only_existing_files() {
    let root = root();
    let mut violations = Vec::new();
    for document in ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md"] {
        let text = std::fs::read_to_string(root.join(document)).expect("the document is there");
        let missing = files::missing(&text, |it| root.join(it).exists());
        violations.extend(missing.into_iter().map(|it| format!("{document}: {it}")));
    }
    assert_none(&violations);
}

#[test]
fn every_ledger_of_scenarios_is_complete() {
    let mut violations = Vec::new();
    for (name, minimum) in
        [("client", 251), ("informer", 101), ("workqueue", 41), ("controller", 81), ("grpc", 51)]
    {
        let folder = root().join("crates").join(name);
        let read = |it: &Path| std::fs::read_to_string(it).expect("the file is there");
        let tests = rust_files([folder.clone()]).iter().flat_map(|it| ledgers::tests_of(&read(it))).collect();
        let ledger = folder.join("tests/SCENARIOS.md");
        let found = ledgers::violations(&read(&ledger), &tests, minimum);
        violations.extend(found.into_iter().map(|it| format!("{}: {it}", ledger.display())));
    }
    assert_none(&violations);
}

#[test]
fn comments_are_plain_english() {
    let root = root();
    let mut found = Vec::new();
    for file in sources(&root) {
        let path = file.strip_prefix(&root).expect("the walk began at the root");
        // The rule itself has to name the words.
        if path != Path::new("xtask/tests/house/prose.rs") {
            let text = std::fs::read_to_string(&file).expect("the file was just listed");
            found.extend(prose::violations(path, &text));
        }
    }
    assert_none(&found);
}

#[test]
fn prose_ends_at_column_100() {
    let root = root();
    let read = |it: &Path| std::fs::read_to_string(it).expect("the file is there");
    let mut found = Vec::new();
    for document in ["ARCHITECTURE.md", "CONTRIBUTING.md", "bench/README.md", "conformance/README.md"] {
        found.extend(columns::long_prose(Path::new(document), &read(&root.join(document))));
    }
    for file in sources(&root) {
        let path = file.strip_prefix(&root).expect("the walk began at the root");
        found.extend(columns::long_comments(path, &read(&file)));
    }
    let lines = read(&root.join("ARCHITECTURE.md")).lines().count();
    if lines > LONGEST_ARCHITECTURE {
        found.push(format!("ARCHITECTURE.md has {lines} lines, more than {LONGEST_ARCHITECTURE}"));
    }
    assert_none(&found);
}

#[test]
fn every_rule_id_is_defined_and_every_defined_rule_is_used() {
    let root = root();
    let document = std::fs::read_to_string(root.join("docs/rules.md")).expect("the document is there");
    let defined = rules::defined(&document);
    assert!(!defined.is_empty(), "docs/rules.md defines no rule");
    let mut used = BTreeMap::new();
    for file in rust_files([root.join("crates")]) {
        let text = std::fs::read_to_string(&file).expect("the file was just listed");
        let path = file.strip_prefix(&root).expect("the walk began at the root").display().to_string();
        used.extend(rules::used(&text, &defined).into_iter().map(|id| (id, path.clone())));
    }
    assert_none(&rules::violations(&defined, &used));
}

#[test]
fn every_metric_is_listed_with_its_meaning() {
    let root = root();
    let (mut used, mut violations) = (BTreeSet::new(), Vec::new());
    for file in rust_files([root.join("crates")]) {
        let path = file.strip_prefix(&root).expect("the walk began at the root");
        if path.components().nth(2).is_some_and(|it| it.as_os_str() == "src") {
            let text = std::fs::read_to_string(&file).expect("the file was just listed");
            let (metrics, problems) = metrics::used(&path.display().to_string(), &text);
            used.extend(metrics);
            violations.extend(problems);
        }
    }
    let document = std::fs::read_to_string(root.join("docs/metrics.md")).expect("the document is there");
    violations.extend(metrics::violations(&used, &metrics::listed(&document)));
    let (labels, chapter) = (metrics::labels(&document), "docs/book/src/operations.md");
    let text = std::fs::read_to_string(root.join(chapter)).expect("the chapter is there");
    violations.extend(metrics::unknown(&text, &labels).into_iter().map(|it| format!("{chapter}: {it}")));
    assert_none(&violations);
}

#[test]
fn every_published_crate_has_what_a_registry_and_its_readers_need() {
    let (root, metadata) = (root(), metadata());
    let published: Vec<&Value> =
        list(&metadata, "packages").iter().filter(|it| publishing::is_published(it)).collect();
    assert!(published.len() > 5, "`cargo metadata` has no crates");
    let mut violations = Vec::new();
    for package in &published {
        let manifest = PathBuf::from(text(package, "manifest_path"));
        let folder = manifest.parent().expect("a manifest is in a folder");
        let read = |it: &str| std::fs::read_to_string(folder.join(it)).ok();
        let at_root = |it: &str| std::fs::read_to_string(root.join(it)).ok();
        violations.extend(publishing::violations(package, read, at_root));
        violations.extend(publishing::missing_example(package, read));
    }
    let document = std::fs::read_to_string(root.join("CONTRIBUTING.md")).expect("the document is there");
    violations.extend(publishing::order_violations(&published, &document));
    let facade = published.iter().find(|it| text(it, "name") == "dogwatch").expect("there is a facade");
    let front =
        std::fs::read_to_string(root.join("crates/dogwatch/src/lib.rs")).expect("it has a front page");
    violations.extend(publishing::undocumented_features(facade, &front));
    assert_none(&violations);
}

/// With `RECORD_PUBLIC_ITEMS` in the environment, replaces the record instead.
#[test]
fn no_public_item_of_the_record_is_gone() {
    let (root, metadata) = (root(), metadata());
    let mut violations = Vec::new();
    for package in list(&metadata, "packages").iter().filter(|it| publishing::is_published(it)) {
        let name = text(package, "name");
        let library =
            list(package, "targets").iter().find(|it| list(it, "kind").iter().any(|it| it == "lib"));
        // Macros of a crate for macros are exported by the facade.
        let Some(library) = library else { continue };
        let source = PathBuf::from(text(library, "src_path"));
        let items = public_items::of_crate(&source, &|it| std::fs::read_to_string(it).ok());
        let items = items.expect("the crate was compiled");
        let record = root.join("docs/public-api").join(format!("{name}.txt"));
        if std::env::var_os("RECORD_PUBLIC_ITEMS").is_some() {
            std::fs::write(&record, public_items::text(&items)).expect("the folder is there");
        }
        match std::fs::read_to_string(&record) {
            Ok(text) => {
                let gone = public_items::removed(&public_items::parse(&text), &items);
                violations.extend(gone.into_iter().map(|it| format!("{name} no longer has {it}")));
            }
            Err(_) => violations.push(format!("docs/public-api has no {name}.txt")),
        }
    }
    assert_none(&violations);
}

/// The types of the record: `no_public_item_of_the_record_is_gone` keeps it complete.
#[test]
fn a_compiled_example_shows_every_public_type_of_the_libraries_that_programs_call() {
    let root = root();
    let read = |it: &Path| std::fs::read_to_string(it).expect("the file was just listed");
    let mut shown = examples::Shown::default();
    for file in rust_files(["crates", "examples"].map(|it| root.join(it))) {
        let is_program = file.iter().any(|it| it == "examples");
        if is_program { shown.add_program(&read(&file)) } else { shown.add_source(&read(&file)) }
    }
    let mut violations = Vec::new();
    for library in ["client", "informer", "controller", "grpc", "dogwatch"] {
        let package = if library == "dogwatch" { library.to_owned() } else { format!("dogwatch-{library}") };
        let record = read(&root.join("docs/public-api").join(format!("{package}.txt")));
        for item in public_items::parse(&record).keys() {
            let Some((kind, path)) = item.split_once(' ') else { continue };
            let name = path.rsplit("::").next().unwrap_or(path);
            // The front page of a crate is a type without a name of its own.
            let is_type = ["struct", "enum", "trait", "type"].contains(&kind) && !name.ends_with("Readme");
            let is_of_tests = kind == "use" && path.starts_with("testing::");
            if (is_type || is_of_tests) && !shown.contains(name) {
                violations.push(format!("{package}: no compiled example shows {path}"));
            }
        }
    }
    assert_none(&violations);
}

#[test]
fn the_book_lists_every_feature_of_the_facade() {
    let metadata = metadata();
    let facade = list(&metadata, "packages").iter().find(|it| text(it, "name") == "dogwatch");
    let chapter = root().join("docs/book/src/support.md");
    let chapter = std::fs::read_to_string(chapter).expect("the chapter is there");
    assert_none(&feature_table::violations(facade.expect("there is a facade"), &chapter));
}

#[test]
fn the_table_of_kinds_in_the_book_has_every_built_in_kind() {
    let read = |it: &str| std::fs::read_to_string(root().join(it)).expect("the file is there");
    let resources = read("crates/apimachinery/data/generated/resources.json");
    let resources: Value = serde_json::from_str(&resources).expect("the generator writes JSON");
    assert_none(&kind_table::violations(&resources, &read("docs/book/src/kinds.md")));
}

#[test]
fn the_book_is_complete_and_its_code_and_links_are_checked() {
    let root = root();
    let folder = root.join("docs/book/src");
    let read = |it: &Path| std::fs::read_to_string(it).expect("the file is there");
    let files = std::fs::read_dir(&folder).expect("the book is there").flatten().map(|it| it.path());
    let files = files.filter(|it| it.extension().is_some_and(|it| it == "md") && !it.ends_with("SUMMARY.md"));
    let texts: BTreeMap<PathBuf, String> = files
        .map(|it| (it.strip_prefix(&root).expect("the folder is below the root").to_owned(), read(&it)))
        .collect();
    let chapters: Vec<_> = texts.iter().map(|(path, text)| book::Chapter { path, text }).collect();
    let mut violations = Vec::new();
    let tested: Vec<_> = chapters.iter().copied().filter(book::has_doctests).collect();
    let (contents, includes) = ("docs/book/src/SUMMARY.md", "tools/book-tests/src/lib.rs");
    let in_contents = book_structure::contents_violations(&read(&root.join(contents)));
    violations.extend(in_contents.into_iter().map(|it| format!("{contents}: {it}")));
    let (settings, book) = ("docs/book/book.toml", root.join("docs/book"));
    let missing = book_structure::missing_files(&read(&root.join(settings)), |it| book.join(it).exists());
    violations.extend(missing.into_iter().map(|it| format!("{settings}: {it}")));
    for (list, listed) in [(contents, &chapters), (includes, &tested)] {
        violations.extend(book::unlisted(listed, &read(&root.join(list)), list));
    }
    let tests = rust_files([root.join("tools/book-tests/tests"), root.join("crates/cli/tests")]);
    let tests: String = tests.iter().map(|it| read(it)).collect();
    for manifest in
        std::fs::read_dir(root.join("docs/book/manifests")).expect("the folder is there").flatten()
    {
        let name = manifest.file_name().to_string_lossy().into_owned();
        if !tests.contains(&format!("docs/book/manifests/{name}\")")) {
            violations.push(format!("docs/book/manifests/{name}: no test loads it"));
        }
    }
    for chapter in &chapters {
        violations.extend(book::broken_links(*chapter, &chapters, |it| root.join(it).exists()));
        violations.extend(book::unchecked_code(*chapter, |it| std::fs::read_to_string(root.join(it)).ok()));
        violations.extend(columns::long_prose(chapter.path, chapter.text));
        let misread = book_structure::misread_lines(chapter.text);
        violations.extend(misread.into_iter().map(|it| format!("{}: {it}", chapter.path.display())));
    }
    assert_none(&violations);
}

/// Returns the output of `cargo metadata` without dependencies, which needs no network.
fn metadata() -> Value {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--offline", "--format-version", "1"])
        .current_dir(root())
        .output()
        .expect("cargo runs: it built this test");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("cargo metadata prints JSON")
}

fn root() -> PathBuf {
    let xtask = Path::new(env!("CARGO_MANIFEST_DIR"));
    xtask.parent().expect("xtask has a parent directory").to_owned()
}

/// Returns every Rust file of the workspace, ordered by path.
fn sources(root: &Path) -> Vec<PathBuf> {
    rust_files(["bench/src", "crates", "examples", "tools", "xtask"].map(|it| root.join(it)))
}

fn rust_files(folders: impl Into<Vec<PathBuf>>) -> Vec<PathBuf> {
    let (mut found, mut folders) = (Vec::new(), folders.into());
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("the folder exists").flatten() {
            let path = entry.path();
            // Cargo marks its build directories; a module may well be called `target`.
            if path.is_dir() && !path.join("CACHEDIR.TAG").exists() {
                folders.push(path);
            } else if path.extension().is_some_and(|it| it == "rs") {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

#[track_caller]
fn assert_none(violations: &[String]) {
    // Paths relative to the root of the repository are easier to read and to click.
    let here = format!("{}/", root().display());
    assert!(violations.is_empty(), "\n{}\n", violations.join("\n").replace(&here, ""));
}
