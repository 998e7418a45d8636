//! The rule for reproducible seeds: a soak that fails has to fail again with the same seed, so the
//! code that it runs must not depend on the process.
//!
//! `select!` without `biased` polls its branches in a random order from a generator that no seed
//! controls. If two branches are ready at once, the outcome differs in the next process. So every
//! `select!` in the crates that soaks run begins with `biased;`, which also makes its author decide
//! which branch goes first.

use std::path::Path;

use proc_macro2::{TokenStream, TokenTree};

use crate::tokens::{is_punct, text_of};

/// The crates that soaks run.
const SOAKED_CRATES: [&str; 9] = [
    "apimachinery",
    "apiserver",
    "client",
    "controller",
    "core",
    "informer",
    "simulator",
    "wire",
    "workqueue",
];

/// Returns the uses of `select!` without `biased` in one source file, as messages. `path` is
/// relative to the root of the repository.
pub(crate) fn violations(path: &Path, text: &str) -> Vec<String> {
    let shown = path.to_string_lossy();
    let soaked = SOAKED_CRATES.iter().any(|it| shown.starts_with(&format!("crates/{it}/src/")));
    if !soaked || shown.contains("/src/tests/") {
        return Vec::new();
    }
    let lines = text.parse().map_or_else(|_| Vec::new(), unbiased);
    lines.into_iter().map(|line| format!("{shown}:{line}: `select!` without `biased;`")).collect()
}

/// Returns the lines with such uses.
fn unbiased(stream: TokenStream) -> Vec<usize> {
    let tokens: Vec<TokenTree> = stream.into_iter().collect();
    let mut lines = Vec::new();
    for (at, token) in tokens.iter().enumerate() {
        let TokenTree::Group(group) = token else { continue };
        lines.extend(unbiased(group.stream()));
        if at >= 2 && is_punct(&tokens, at - 1, '!') && text_of(&tokens, at - 2) == "select" {
            let inside: Vec<TokenTree> = group.stream().into_iter().collect();
            if text_of(&inside, 0) != "biased" {
                lines.push(group.span_open().start().line);
            }
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> usize {
        violations(Path::new("crates/informer/src/a.rs"), text).len()
    }

    #[test]
    fn a_select_without_biased_is_reported() {
        assert_eq!(found("fn f() { tokio::select! { () = a => {} () = b => {} } }"), 1);
        assert_eq!(found("fn f() { select! { biased; () = a => select! { () = b => {} } } }"), 1);
    }

    #[test]
    fn a_biased_select_and_other_crates_are_accepted() {
        let text = "fn f() { tokio::select! { // first things first\n biased; () = a => {} } }";
        assert_eq!(found(text), 0);
        let unbiased = "fn f() { select! { () = a => {} } }";
        assert_eq!(violations(Path::new("crates/cli/src/a.rs"), unbiased), [] as [&str; 0]);
        assert_eq!(violations(Path::new("crates/informer/tests/a.rs"), unbiased), [] as [&str; 0]);
    }
}
