//! The dependency on dogwatch in the manifest of a new operator: a checkout, or a git repository.
//!
//! Never a version: dogwatch is on no registry, and a package of that name there would be
//! another's.

use std::path::Path;

use super::error::NewError;

/// Returns the entry of the manifest, without braces and features, for example `git = "…"`.
///
/// A path is one of a checkout of this repository, or of the crate in it. The entry has the
/// absolute path, since cargo would read a relative one from the folder of the operator.
///
/// # Errors
/// Returns an error without a value, if there is no such crate, or if the value is no URL that
/// cargo reads.
pub(crate) fn entry(source: Option<&str>) -> Result<String, NewError> {
    let Some(value) = source else {
        return Err(NewError::NoSource);
    };
    let reject = |reason: &'static str| NewError::Source { value: value.to_owned(), source: reason.into() };
    if let Some((scheme, rest)) = value.split_once("://") {
        if !["https", "http", "ssh", "git", "file"].contains(&scheme) || rest.is_empty() {
            return Err(reject("cargo reads https, http, ssh, git and file"));
        }
        return Ok(format!("git = {}", quoted(value)));
    }
    let folder = Path::new(value);
    let found = [folder.join("crates/dogwatch"), folder.to_owned()].into_iter().find(|it| is_facade(it));
    let found = found
        .and_then(|it| it.canonicalize().ok())
        .ok_or_else(|| reject("it is neither a checkout of the repository nor a URL"))?;
    let path = found.to_str().ok_or_else(|| reject("its path is not UTF-8"))?;
    Ok(format!("path = {}", quoted(path)))
}

/// Returns true for a folder with the crate `dogwatch`.
fn is_facade(folder: &Path) -> bool {
    let manifest = std::fs::read_to_string(folder.join("Cargo.toml"));
    manifest.is_ok_and(|it| it.lines().any(|line| line.trim() == "name = \"dogwatch\""))
}

/// Quotes text for TOML, whose basic strings have the escapes of JSON.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_on_a_registry_is_assumed() {
        assert!(matches!(entry(None), Err(NewError::NoSource)));
    }

    #[test]
    fn a_checkout_and_its_crate_give_the_same_absolute_path() {
        let folder = tempfile::tempdir().unwrap();
        let facade = folder.path().join("crates/dogwatch");
        std::fs::create_dir_all(&facade).unwrap();
        std::fs::write(facade.join("Cargo.toml"), "[package]\nname = \"dogwatch\"\n").unwrap();
        let expected = format!("path = {}", quoted(facade.canonicalize().unwrap().to_str().unwrap()));
        for path in [folder.path(), facade.as_path()] {
            assert_eq!(entry(path.to_str()).unwrap(), expected);
        }
    }

    #[test]
    fn a_url_is_a_git_repository() {
        let entry = entry(Some("https://example.com/dogwatch.git")).unwrap();
        assert_eq!(entry, "git = \"https://example.com/dogwatch.git\"");
    }

    #[test]
    fn other_values_are_rejected_and_text_is_escaped() {
        let empty = tempfile::tempdir().unwrap();
        for value in [empty.path().to_str().unwrap(), "", "/no/such/folder", "ftp://a/b", "https://"] {
            assert!(matches!(entry(Some(value)), Err(NewError::Source { .. })), "{value}");
        }
        assert_eq!(quoted("a\"b\\c\nd"), r#""a\"b\\c\nd""#);
    }
}
