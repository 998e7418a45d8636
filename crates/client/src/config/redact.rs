//! Redaction for `Debug` and messages: addresses without user and password, arguments and variables
//! without their values.

use std::fmt;

use url::Url;

/// Returns an address with everything before the `@` of its authority redacted.
pub(super) fn address(text: &str) -> String {
    let start = text.find("://").map_or(0, |at| at + 3);
    let end = text[start..].find(['/', '?', '#']).map_or(text.len(), |at| start + at);
    match text[start..end].rfind('@') {
        Some(at) => format!("{}[REDACTED]{}", &text[..start], &text[start + at..]),
        // A password with a slash ends the authority early; show nothing rather than half of it.
        None if text[start..].contains('@') => "[REDACTED]".to_owned(),
        None => text.to_owned(),
    }
}

/// Redacts a parsed address.
pub(super) fn url(url: &Url) -> String {
    address(url.as_str())
}

/// Shows only the number of a program's arguments.
pub(super) fn arguments(arguments: &[String]) -> impl fmt::Debug + use<> {
    let count = arguments.len();
    fmt::from_fn(move |f| write!(f, "[{count} redacted]"))
}

/// Shows only the name of a variable.
pub(super) fn variable(f: &mut fmt::Formatter<'_>, name: &str) -> fmt::Result {
    write!(f, "{name}=[REDACTED]")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_and_passwords_are_redacted() {
        let cases = [
            ("http://proxy:3128", "http://proxy:3128"),
            ("http://me:secret@proxy:3128/a", "http://[REDACTED]@proxy:3128/a"),
            ("socks5://me@proxy", "socks5://[REDACTED]@proxy"),
            ("me:secret@proxy", "[REDACTED]@proxy"),
            ("http://me:sec/ret@proxy", "[REDACTED]"),
            ("proxy:80", "proxy:80"),
            ("", ""),
        ];
        for (text, shown) in cases {
            assert_eq!(address(text), shown, "{text}");
        }
    }
}
