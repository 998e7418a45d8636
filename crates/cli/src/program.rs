//! The command as the user called it, for lines that suggest to run it again: after `cargo run` no
//! `dogwatch` is on the PATH.

use std::ffi::OsStr;

/// The name, if the system does not know how the program was called.
const NAME: &str = "dogwatch";

/// Returns the command to type in a shell, for example `dogwatch` or `target/release/dogwatch`.
pub(crate) fn command() -> String {
    let called = std::env::args_os().next();
    called
        .as_deref()
        .and_then(OsStr::to_str)
        .filter(|it| !it.is_empty())
        .map_or_else(|| NAME.to_owned(), quoted)
}

/// Quotes a word for a shell, if it needs that.
fn quoted(word: &str) -> String {
    let is_plain = |it: char| it.is_ascii_alphanumeric() || "_./-+=:@%".contains(it);
    if word.chars().all(is_plain) { word.to_owned() } else { format!("'{}'", word.replace('\'', r"'\''")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_one_word_of_a_shell() {
        assert_eq!(quoted("target/release/dogwatch"), "target/release/dogwatch");
        assert_eq!(quoted("/my own/it's"), r"'/my own/it'\''s'");
        assert!(!command().is_empty());
    }
}
