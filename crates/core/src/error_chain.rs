//! An error and its causes in one line, for logs and messages.

use std::error::Error;
use std::fmt;

/// Displays an error and its causes in one line, separated by colons.
///
/// A cause whose text the line already contains is left out: some errors repeat their source in
/// their own message.
///
/// ```
/// use dogwatch_core::ErrorChain;
///
/// let error = "x".parse::<i32>().expect_err("not a number");
/// assert_eq!(ErrorChain(&error).to_string(), "invalid digit found in string");
/// ```
#[derive(Clone, Copy, Debug)]
pub struct ErrorChain<'a>(pub &'a (dyn Error + 'static));

impl fmt::Display for ErrorChain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut line = self.0.to_string();
        let mut next = self.0.source();
        while let Some(cause) = next {
            let text = cause.to_string();
            if !line.contains(&text) {
                line.push_str(": ");
                line.push_str(&text);
            }
            next = cause.source();
        }
        f.write_str(&line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("{text}")]
    struct Level {
        text: &'static str,
        source: Option<Box<Level>>,
    }

    fn levels(texts: &[&'static str]) -> Level {
        let [text, rest @ ..] = texts else { panic!("no text") };
        let source = (!rest.is_empty()).then(|| Box::new(levels(rest)));
        Level { text, source }
    }

    #[test]
    fn every_cause_is_shown_once() {
        for (texts, expected) in [
            (&["cannot read"][..], "cannot read"),
            (&["cannot read", "no route", "timed out"], "cannot read: no route: timed out"),
            (&["cannot read: no route", "no route", "timed out"], "cannot read: no route: timed out"),
            (&["cannot read", "cannot read", "no route"], "cannot read: no route"),
        ] {
            assert_eq!(ErrorChain(&levels(texts)).to_string(), expected);
        }
    }
}
