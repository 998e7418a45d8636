//! `Warning` headers of responses (rule RQ-14).

use parking_lot::Mutex;
use std::collections::HashSet;
use std::fmt;

use http::HeaderMap;
use http::header::WARNING;

/// A warning of a server, for example about a deprecated API version.
///
/// ```
/// use dogwatch_client::Warning;
///
/// fn is_deprecation(warning: &Warning) -> bool {
///     warning.code == 299 && warning.text.contains("deprecated")
/// }
/// let text = "batch/v1beta1 CronJob is deprecated".to_owned();
/// assert!(is_deprecation(&Warning { code: 299, agent: "-".to_owned(), text }));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Warning {
    /// The code; 299 for all warnings of a Kubernetes API server.
    pub code: u16,
    /// The agent that added the warning; `-` if unknown.
    pub agent: String,
    /// The text of the warning.
    pub text: String,
}

/// A handler of the warnings of every response.
///
/// It is called on the task that made the request, before its response is returned: return quickly.
///
/// ```
/// use std::sync::atomic::{AtomicU64, Ordering};
///
/// use dogwatch_client::{Client, Config, Warning, WarningHandler};
///
/// #[derive(Debug, Default)]
/// struct Count(AtomicU64);
///
/// impl WarningHandler for Count {
///     fn warn(&self, _warning: &Warning) {
///         self.0.fetch_add(1, Ordering::Relaxed);
///     }
/// }
/// # let config = Config::new("http://localhost:8080".parse()?);
/// let client = Client::builder(config).warnings(Count::default()).build()?;
/// # let _ = client;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait WarningHandler: Send + Sync + fmt::Debug + 'static {
    /// Handles one warning. Warnings come in the order of the headers.
    fn warn(&self, warning: &Warning);
}

/// A handler that logs each warning of code 299. The default.
///
/// ```
/// use dogwatch_client::{DistinctWarnings, LogWarnings};
///
/// let once_each = DistinctWarnings::new(LogWarnings);
/// # let _ = once_each;
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct LogWarnings;

/// A handler that drops all warnings.
///
/// ```
/// use dogwatch_client::{Client, Config, IgnoreWarnings};
///
/// let config = Config::new("http://localhost:8080".parse()?);
/// let client = Client::builder(config).warnings(IgnoreWarnings).build()?;
/// # let _ = client;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct IgnoreWarnings;

/// A handler that passes each distinct text to another handler once.
///
/// It remembers every text: memory grows with the number of distinct warnings.
///
/// ```
/// use dogwatch_client::{Client, Config, DistinctWarnings, LogWarnings};
///
/// let config = Config::new("http://localhost:8080".parse()?);
/// let warnings = DistinctWarnings::new(LogWarnings);
/// let client = Client::builder(config).warnings(warnings).build()?; // as kubectl does
/// # let _ = client;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct DistinctWarnings<H> {
    inner: H,
    seen: Mutex<HashSet<String>>,
}

impl<H: WarningHandler> DistinctWarnings<H> {
    /// Wraps the handler that gets each distinct warning.
    pub fn new(inner: H) -> Self {
        Self { inner, seen: Mutex::default() }
    }
}

impl WarningHandler for LogWarnings {
    fn warn(&self, warning: &Warning) {
        if warning.code == 299 && !warning.text.is_empty() {
            tracing::warn!(text = %warning.text, "warning from the API server");
        }
    }
}

impl WarningHandler for IgnoreWarnings {
    fn warn(&self, _: &Warning) {}
}

impl<H: WarningHandler> WarningHandler for DistinctWarnings<H> {
    fn warn(&self, warning: &Warning) {
        let mut seen = self.seen.lock();
        let is_new = seen.insert(warning.text.clone());
        drop(seen);
        if is_new {
            self.inner.warn(warning);
        }
    }
}

/// Parses all warnings of a response. Parts that do not follow RFC 7234 are skipped.
pub(crate) fn parse(headers: &HeaderMap) -> Vec<Warning> {
    let mut warnings = Vec::new();
    for value in headers.get_all(WARNING) {
        let text = String::from_utf8_lossy(value.as_bytes());
        let mut rest = text.trim();
        while let Some((warning, remainder)) = parse_one(rest) {
            warnings.push(warning);
            match remainder.trim_start().strip_prefix(',') {
                Some(next) => rest = next.trim_start(),
                None => break,
            }
        }
    }
    warnings
}

/// Parses `code SP agent SP "text" [SP "date"]`; returns the rest of the text, too.
fn parse_one(text: &str) -> Option<(Warning, &str)> {
    let (code, rest) = text.split_once(' ')?;
    let code = (code.len() == 3).then(|| code.parse().ok())??;
    let (agent, rest) = rest.split_once(' ')?;
    let (text, rest) = quoted(rest)?;
    let after_date = rest.strip_prefix(' ').and_then(quoted).map_or(rest, |(_, rest)| rest);
    let rest = after_date.trim_start();
    let text = text.chars().filter(|it| !it.is_control()).collect();
    (rest.is_empty() || rest.starts_with(','))
        .then(|| (Warning { code, agent: agent.to_owned(), text }, rest))
}

/// Parses a quoted string with backslash escapes; returns the rest of the text, too.
fn quoted(text: &str) -> Option<(String, &str)> {
    let inner = text.strip_prefix('"')?;
    let mut plain = String::new();
    let mut chars = inner.char_indices();
    while let Some((at, it)) = chars.next() {
        match it {
            '"' => return Some((plain, &inner[at + 1..])),
            '\\' => plain.push(chars.next()?.1),
            other => plain.push(other),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[derive(Clone, Debug, Default)]
    struct Recorded(Arc<Mutex<Vec<String>>>);

    impl WarningHandler for Recorded {
        fn warn(&self, warning: &Warning) {
            self.0.lock().push(warning.text.clone());
        }
    }

    fn texts(values: &[&str]) -> Vec<(u16, String)> {
        let headers = values.iter().map(|it| (WARNING, it.parse().expect("a header"))).collect();
        parse(&headers).into_iter().map(|it| (it.code, it.text)).collect()
    }

    #[test]
    fn rq_14_warnings_parse_as_rfc_7234_says() {
        for (value, expected) in [
            (r#"299 - "deprecated""#, vec![(299, "deprecated")]),
            (r#"299 agent:80 "a", 199 - "b""#, vec![(299, "a"), (199, "b")]),
            (r#"299 - "with \"quotes\" and \\""#, vec![(299, r#"with "quotes" and \"#)]),
            (r#"299 - "dated" "Wed, 21 Oct 2015 07:28:00 GMT""#, vec![(299, "dated")]),
            (r#"299 - """#, vec![(299, "")]),
            (r#"299 - "open"#, vec![]),
            (r#"29 - "short code""#, vec![]),
            (r#"299 "no agent""#, vec![]),
            (r#"299 - "good", nonsense"#, vec![(299, "good")]),
            ("", vec![]),
        ] {
            let expected: Vec<_> = expected.into_iter().map(|(code, text)| (code, text.to_owned())).collect();
            assert_eq!(texts(&[value]), expected, "{value}");
        }
        assert_eq!(texts(&[r#"299 - "a""#, "junk", r#"299 - "b""#]).len(), 2);
    }

    /// A subscriber that counts the warnings in the log.
    struct Log(Arc<Mutex<usize>>);

    impl tracing::Subscriber for Log {
        fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
            *metadata.level() == tracing::Level::WARN
        }

        fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
            tracing::span::Id::from_u64(1)
        }

        fn event(&self, _: &tracing::Event<'_>) {
            *self.0.lock() += 1;
        }

        fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}

        fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}

        fn enter(&self, _: &tracing::span::Id) {}

        fn exit(&self, _: &tracing::span::Id) {}
    }

    #[test]
    fn rq_14_only_code_299_with_a_text_is_logged() {
        for (code, text, logged) in [(299, "old", 1), (299, "", 0), (199, "misc", 0)] {
            let logged_events = Arc::new(Mutex::new(0));
            let warning = Warning { code, agent: "-".to_owned(), text: text.to_owned() };
            tracing::subscriber::with_default(Log(Arc::clone(&logged_events)), || {
                LogWarnings.warn(&warning);
                IgnoreWarnings.warn(&warning);
            });
            assert_eq!(*logged_events.lock(), logged, "{warning:?}");
        }
    }

    #[test]
    fn rq_14_a_distinct_handler_passes_each_text_once() {
        let recorded = Recorded::default();
        let handler = DistinctWarnings::new(recorded.clone());
        for text in ["a", "b", "a"] {
            handler.warn(&Warning { code: 299, agent: "-".to_owned(), text: text.to_owned() });
        }
        assert_eq!(*recorded.0.lock(), ["a", "b"]);
    }
}
