//! The abilities of the terminal: colours, and lines that are overwritten.

/// Returns true if the terminal understands no escape sequences (`TERM=dumb`).
pub(crate) fn is_dumb() -> bool {
    std::env::var_os("TERM").is_some_and(|it| it == "dumb")
}

/// Returns true unless the user wants no colours (<https://no-color.org>), or the terminal has
/// none.
pub(crate) fn allows_colour() -> bool {
    !is_dumb() && std::env::var_os("NO_COLOR").is_none_or(|it| it.is_empty())
}
