//! The files of a new operator, from the templates that are part of the program.
//!
//! A template is the text of the file with tokens such as `__Kind__`, so that the Rust files among
//! them stay readable Rust.

use super::names::Names;

/// A file of a new operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct File {
    /// The path in the folder of the operator.
    pub(crate) path: &'static str,
    /// The text.
    pub(crate) text: String,
}

macro_rules! templates {
    ($($path:literal from $template:literal),* $(,)?) => {
        [$(($path, include_str!(concat!("../../templates/", $template)))),*]
    };
}

/// The paths and templates, in the order in which they are listed.
// A folder with a Cargo.toml would not be a part of our package, and a .gitignore would apply to
// it.
const TEMPLATES: [(&str, &str); 15] = templates! {
    "Cargo.toml" from "cargo-manifest.toml",
    "README.md" from "README.md",
    "src/main.rs" from "src/main.rs",
    "src/lib.rs" from "src/lib.rs",
    "src/resource.rs" from "src/resource.rs",
    "src/controller.rs" from "src/controller.rs",
    "tests/operator.rs" from "tests/operator.rs",
    "manifests/01-crd.yaml" from "manifests/01-crd.yaml",
    "manifests/02-rbac.yaml" from "manifests/02-rbac.yaml",
    "manifests/03-deployment.yaml" from "manifests/03-deployment.yaml",
    "example.yaml" from "example.yaml",
    "rustfmt.toml" from "rustfmt.toml",
    "Dockerfile" from "Dockerfile",
    ".dockerignore" from "dockerignore",
    ".gitignore" from "gitignore",
};

/// The paths of the Rust files that are crate roots, from which rustfmt finds the others.
pub(crate) const RUST_ROOTS: [&str; 3] = ["src/main.rs", "src/lib.rs", "tests/operator.rs"];

/// Renders all files. `dogwatch` is the dependency without braces, as `dependency::entry` returns
/// it.
pub(crate) fn files(names: &Names, dogwatch: &str) -> Vec<File> {
    let (crate_name, singular, plural) = (names.crate_name(), names.singular(), names.plural());
    let values = [
        ("name", names.name.as_str()),
        ("crate", crate_name.as_str()),
        ("Kind", names.kind.as_str()),
        ("singular", singular.as_str()),
        ("plural", plural.as_str()),
        ("group", names.group.as_str()),
        ("dogwatch", dogwatch),
    ];
    TEMPLATES.map(|(path, template)| File { path, text: render(template, &values) }).into()
}

/// Replaces the tokens in a template. Values are not searched for tokens.
fn render(template: &str, values: &[(&str, &str)]) -> String {
    let mut text = String::with_capacity(template.len());
    let mut rest = template;
    while let Some((before, after)) = rest.split_once("__") {
        text.push_str(before);
        let token = values
            .iter()
            .find_map(|(name, value)| Some((*value, after.strip_prefix(name)?.strip_prefix("__")?)));
        match token {
            Some((value, remaining)) => {
                text.push_str(value);
                rest = remaining;
            }
            None => {
                text.push_str("__");
                rest = after;
            }
        }
    }
    text + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rendered(name: &str) -> Vec<File> {
        files(&Names::new(name, None, "sea.example").unwrap(), "version = \"0.1\"")
    }

    #[test]
    fn tokens_are_replaced_once_and_other_text_is_kept() {
        let values = [("a", "__b__"), ("b", "2")];
        assert_eq!(render("x__a__y __b__ __c__ __a", &values), "x__b__y 2 __c__ __a");
        assert_eq!(render("___b__", &values), "___b__");
    }

    #[test]
    fn every_file_has_its_names_and_no_token_is_left() {
        let files = rendered("buoy-operator");
        for file in &files {
            assert!(!file.text.contains("__"), "{}: {}", file.path, file.text);
            assert!(file.text.ends_with('\n'), "{}", file.path);
        }
        let text = |path: &str| &files.iter().find(|it| it.path == path).unwrap().text;
        assert!(text("Cargo.toml").contains("dogwatch = { version = \"0.1\", default-features = false"));
        assert!(text("src/resource.rs").contains("pub struct BuoySpec {"));
        assert!(text("src/main.rs").contains("buoy_operator::manager(client)"));
        assert!(text("manifests/01-crd.yaml").contains("name: buoys.sea.example\n"));
        assert!(text("manifests/02-rbac.yaml").contains("resources: [\"buoys/status\"]"));
        assert!(text("example.yaml").contains("apiVersion: sea.example/v1alpha1\nkind: Buoy\n"));
    }

    #[test]
    fn the_code_is_short_and_each_file_has_a_header() {
        let files = rendered("buoy");
        let sources: Vec<_> = files.iter().filter(|it| it.path.starts_with("src/")).collect();
        let lines = sources.iter().flat_map(|it| it.text.lines()).filter(|it| !it.trim().is_empty());
        assert!(lines.count() <= 200);
        assert!(sources.iter().all(|it| it.text.starts_with("//! ")));
        let long = files.iter().flat_map(|it| it.text.lines()).find(|it| it.chars().count() > 110);
        assert_eq!(long, None);
    }
}
