//! Command lines in the syntax of Go's `pflag`, as Go programs write them for kube-apiserver and
//! etcd: `--name=value`, `--name value`, and `--name` for a boolean.

use std::collections::VecDeque;

/// A flag with its value, in the order of the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Given {
    /// The name, without the hyphens before it.
    pub(super) name: String,
    /// The value; `true` for a boolean flag without one.
    pub(super) value: String,
}

/// The reason why a command line is not understood, in the words of `pflag`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum SyntaxError {
    #[error("unknown flag: --{0}")]
    Unknown(String),
    #[error("flag needs an argument: --{0}")]
    NoValue(String),
    #[error("unknown command or argument {0:?}: only flags are expected")]
    NoFlag(String),
}

/// Reads a command line. `is_switch` returns whether a flag is boolean, and `None` for a name that
/// is not a flag. The one-letter flags `-h` and `-v` are those of kube-apiserver.
///
/// # Errors
/// Returns an error for an unknown flag, a missing value, or a word that is no flag.
pub(super) fn read(
    words: impl IntoIterator<Item = String>,
    is_switch: impl Fn(&str) -> Option<bool>,
) -> Result<Vec<Given>, SyntaxError> {
    let mut words: VecDeque<String> = words.into_iter().collect();
    let mut all = Vec::new();
    while let Some(word) = words.pop_front() {
        let (name, attached) = split(&word).ok_or_else(|| SyntaxError::NoFlag(word.clone()))?;
        let is_switch = is_switch(&name).ok_or_else(|| SyntaxError::Unknown(name.clone()))?;
        let value = match attached {
            Some(value) => value,
            None if is_switch => "true".to_owned(),
            None => words.pop_front().ok_or_else(|| SyntaxError::NoValue(name.clone()))?,
        };
        all.push(Given { name, value });
    }
    Ok(all)
}

/// Divides a word into the name of a flag and the value after `=`.
fn split(word: &str) -> Option<(String, Option<String>)> {
    let (name, value) = match word.split_once('=') {
        Some((name, value)) => (name, Some(value.to_owned())),
        None => (word, None),
    };
    if let Some(name) = name.strip_prefix("--").filter(|it| !it.is_empty()) {
        return Some((name.to_owned(), value));
    }
    let short = name.strip_prefix('-')?;
    match (short.split_at_checked(1)?, value) {
        (("h", ""), None) => Some(("help".to_owned(), None)),
        (("v", ""), value) => Some(("v".to_owned(), value)),
        // `-v4`
        (("v", level), None) => Some(("v".to_owned(), Some(level.to_owned()))),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Vec<(String, String)>, SyntaxError> {
        let is_switch = |name: &str| match name {
            "profiling" | "help" => Some(true),
            "port" | "v" | "issuer" => Some(false),
            _ => None,
        };
        let given = read(line.split(' ').map(str::to_owned), is_switch)?;
        Ok(given.into_iter().map(|it| (it.name, it.value)).collect())
    }

    #[test]
    fn values_are_attached_or_the_next_word_and_booleans_need_none() {
        let line = "--port=1 --port 2 --profiling --profiling=false -v=4 -v4 -v 5 --issuer=a=b --port -1 -h";
        let values: Vec<_> =
            parsed(line).unwrap().into_iter().map(|(name, value)| name + ":" + &value).collect();
        let expected =
            "port:1 port:2 profiling:true profiling:false v:4 v:4 v:5 issuer:a=b port:-1 help:true";
        assert_eq!(values.join(" "), expected);
    }

    #[test]
    fn what_is_not_understood_is_named() {
        for (line, error) in [
            ("--ports=1", "unknown flag: --ports"),
            ("--port", "flag needs an argument: --port"),
            ("serve", "unknown command or argument \"serve\": only flags are expected"),
            ("-x", "unknown command or argument \"-x\": only flags are expected"),
            ("--", "unknown command or argument \"--\": only flags are expected"),
            ("-", "unknown command or argument \"-\": only flags are expected"),
        ] {
            assert_eq!(parsed(line).unwrap_err().to_string(), error);
        }
    }
}
