//! The rule for clocks: no `+` that panics when a number from outside is too large.
//!
//! `Instant`, `Timestamp`, `Duration` and `SignedDuration` all panic in `+` and `-` when the result
//! does not fit. Each crate has one file with saturating additions; elsewhere the operators are
//! rejected. This check does not know types, so it looks for the two common forms of such code:
//! `now + x`, and `x + Duration::from_secs(y)`. Constants may be added: their author has checked
//! them. Clippy's `arithmetic_side_effects`, which knows types, is enabled in the API server.

use std::path::Path;

use proc_macro2::{TokenStream, TokenTree};

use crate::tokens::{attribute, end_of_item, is_for_tests, is_punct, text_of};

/// The files with the saturating additions.
const HOMES: [&str; 2] = ["crates/apiserver/src/time.rs", "crates/grpc/src/time.rs"];

/// Returns the additions in one source file that may panic, as messages. `path` is relative to the
/// root of the repository.
pub(crate) fn violations(path: &Path, text: &str) -> Vec<String> {
    let shown = path.to_string_lossy();
    let in_scope = shown.starts_with("crates/") && shown.contains("/src/") && !shown.contains("/src/tests/");
    if !in_scope || HOMES.contains(&&*shown) {
        return Vec::new();
    }
    let lines = text.parse().map_or_else(|_| Vec::new(), additions);
    lines
        .into_iter()
        .map(|line| {
            format!("{shown}:{line}: adds to a time with an operator that may panic; saturate instead")
        })
        .collect()
}

/// Returns the lines with such additions, outside of tests.
fn additions(stream: TokenStream) -> Vec<usize> {
    let tokens: Vec<TokenTree> = stream.into_iter().collect();
    let (mut lines, mut at) = (Vec::new(), 0);
    while at < tokens.len() {
        if is_punct(&tokens, at, '#')
            && let Some((inside, next, inner)) = attribute(&tokens, at)
        {
            if is_for_tests(inside) && inner {
                return Vec::new();
            }
            at = if is_for_tests(inside) { end_of_item(&tokens, at) } else { next };
            continue;
        }
        match &tokens[at] {
            TokenTree::Group(group) => lines.extend(additions(group.stream())),
            TokenTree::Punct(sign) if is_operator(&tokens, at) && is_of_moments(&tokens, at) => {
                lines.push(sign.span().start().line);
            }
            _ => {}
        }
        at += 1;
    }
    lines
}

/// Returns true for a `+` or `-` between two values; not for `->`, `+=`, or the sign of a number.
fn is_operator(tokens: &[TokenTree], at: usize) -> bool {
    let sign = is_punct(tokens, at, '+') || is_punct(tokens, at, '-');
    let alone = !is_punct(tokens, at + 1, '>') && !is_punct(tokens, at + 1, '=');
    let value = at > 0 && !matches!(tokens[at - 1], TokenTree::Punct(_));
    sign && alone && value
}

/// Returns true if the left side is named `now` or the right side constructs a duration, and the
/// right side is not a constant.
fn is_of_moments(tokens: &[TokenTree], at: usize) -> bool {
    let called = match &tokens[at - 1] {
        // `now()`
        TokenTree::Group(_) if at > 1 => text_of(tokens, at - 2),
        _ => text_of(tokens, at - 1),
    };
    let mut next = at + 1;
    while is_punct(tokens, next + 1, ':') && is_punct(tokens, next + 2, ':') {
        if matches!(text_of(tokens, next).as_str(), "Duration" | "SignedDuration") {
            return true;
        }
        next += 3;
    }
    let added = text_of(tokens, next);
    let constant = !added.is_empty()
        && added.chars().all(|it| it.is_ascii_uppercase() || it.is_ascii_digit() || it == '_');
    // `now - then` is a duration, and saturates at zero.
    called == "now" && is_punct(tokens, at, '+') && !constant
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> usize {
        violations(Path::new("crates/apiserver/src/http/watch.rs"), text).len()
    }

    #[test]
    fn additions_to_now_and_of_durations_are_reported() {
        for text in [
            "fn f() { let x = Instant::now() + delay; }",
            "fn f() { Timestamp::now() + span }",
            "fn f() { g(self.source.now() + SignedDuration::from_secs(grace)) }",
            "fn f() { let end = now + self.timeout; }",
            "fn f() { end - jiff::SignedDuration::from_secs(before - grace) }",
            "fn f() { start + std::time::Duration::from_secs(seconds) }",
            "fn f() { select! { () = sleep_until(now + wait) => {} } }",
        ] {
            assert_eq!(found(text), 1, "{text}");
        }
    }

    #[test]
    fn constants_differences_tests_and_other_sums_are_accepted() {
        for text in [
            "fn f() { Instant::now() + LONGEST_WAIT; now - since; a + b; x += now; }",
            "fn f() -> Duration { -Duration::from_secs(1) }",
            "#[cfg(test)] mod tests { fn f() { now + delay; } }",
            "fn f() { // now + delay\n g(\"now + delay\") }",
        ] {
            assert_eq!(found(text), 0, "{text}");
        }
        assert_eq!(violations(Path::new(HOMES[0]), "fn f() { now + delay }"), [] as [&str; 0]);
        assert_eq!(
            violations(Path::new("crates/apiserver/src/tests/a.rs"), "fn f() { now + delay }"),
            [] as [&str; 0]
        );
    }
}
