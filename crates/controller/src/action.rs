//! The result of a reconcile: an action, or an error that may be marked as permanent.

use std::error::Error;
use std::fmt;
use std::time::Duration;

/// A boxed error of any type: an error type for reconcilers that `?` converts every error into.
///
/// ```
/// use dogwatch_controller::BoxError;
///
/// fn replicas(text: &str) -> Result<u32, BoxError> {
///     Ok(text.parse()?)
/// }
/// assert!(replicas("three").is_err());
/// ```
pub type BoxError = Box<dyn Error + Send + Sync>;

/// The next step for a key after a successful reconcile. Every action resets the key's failure
/// count.
///
/// ```
/// use std::time::Duration;
///
/// use dogwatch_controller::Action;
///
/// fn next(certificate_expires_in: Option<Duration>) -> Action {
///     match certificate_expires_in {
///         Some(left) => Action::RequeueAfter(left / 2), // nothing will change: look again in time
///         None => Action::Done,
///     }
/// }
/// assert_eq!(next(None), Action::default());
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Action {
    /// Nothing: the key is reconciled again when something changes.
    #[default]
    Done,
    /// Reconcile the key again after this time, with its current priority. A change before then
    /// replaces the delay. A duration of zero requeues the key at once, behind the keys that
    /// already wait.
    RequeueAfter(Duration),
}

/// Marks an error as permanent: the key is not retried until something changes.
///
/// It displays as the error that it wraps, and it is found anywhere in the source chain of an
/// error, so your own error types can contain it.
///
/// ```
/// use dogwatch_controller::Terminal;
///
/// fn check(host: &str) -> anyhow::Result<()> {
///     if host.is_empty() {
///         return Err(Terminal::new("spec.host is empty").into());
///     }
///     Ok(())
/// }
/// assert_eq!(check("").unwrap_err().to_string(), "spec.host is empty");
/// ```
#[derive(Debug)]
pub struct Terminal(NotRetried);

/// The level below a [`Terminal`] in its source chain. `anyhow` hides the type of the outermost
/// error when it boxes it, but not the types of its sources.
#[derive(Debug)]
struct NotRetried(BoxError);

/// A failed reconcile, and what happens to its key.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The key is retried when the controller's rate limiter allows it.
    Retry(BoxError),
    /// A retry would fail again: the key is not retried until something changes.
    Terminal(BoxError),
}

impl Failure {
    /// Classifies an error by the types in its source chain.
    pub(crate) fn new(error: BoxError) -> Self {
        let mut level: Option<&(dyn Error + 'static)> = Some(&*error);
        while let Some(it) = level {
            if it.is::<Terminal>() || it.is::<NotRetried>() {
                return Self::Terminal(error);
            }
            level = it.source();
        }
        Self::Retry(error)
    }
}

impl Terminal {
    /// Wraps an error.
    pub fn new(error: impl Into<BoxError>) -> Self {
        Self(NotRetried(error.into()))
    }
}

impl fmt::Display for Terminal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0.0, f)
    }
}

impl Error for Terminal {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&self.0)
    }
}

impl fmt::Display for NotRetried {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the key is not retried")
    }
}

impl Error for NotRetried {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.0.source()
    }
}

#[cfg(test)]
mod tests {
    use dogwatch_core::ErrorChain;

    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("no ingress")]
    struct Ours(#[source] BoxError);

    fn failing(error: BoxError) -> Result<Action, BoxError> {
        Err(Ours(error))?;
        Ok(Action::Done)
    }

    /// The class of an error, and its text.
    fn classified(error: impl Into<BoxError>) -> (&'static str, String) {
        match Failure::new(error.into()) {
            Failure::Retry(error) => ("retry", ErrorChain(&*error).to_string()),
            Failure::Terminal(error) => ("terminal", ErrorChain(&*error).to_string()),
        }
    }

    #[test]
    fn any_error_is_retried() {
        let error = failing("full".into()).unwrap_err();
        assert_eq!(classified(error), ("retry", "no ingress: full".to_owned()));
        assert_eq!(classified("busy"), ("retry", "busy".to_owned()));
        assert_eq!(classified(anyhow::anyhow!("busy").context("no ingress")).0, "retry");
    }

    #[test]
    fn a_terminal_error_is_found_anywhere_in_the_source_chain() {
        let error = failing(Terminal::new(Ours("a bad host".into())).into()).unwrap_err();
        assert_eq!(
            classified(error),
            ("terminal", "no ingress: the key is not retried: a bad host".to_owned())
        );
        assert_eq!(
            classified(Terminal::new("never")),
            ("terminal", "never: the key is not retried".to_owned())
        );
    }

    #[test]
    fn a_terminal_error_is_found_inside_anyhow() {
        let error = anyhow::Error::from(Terminal::new("never"));
        assert_eq!(classified(error), ("terminal", "never: the key is not retried".to_owned()));
        let error = anyhow::Error::from(Terminal::new("never")).context("no ingress");
        assert_eq!(classified(error), ("terminal", "no ingress: never: the key is not retried".to_owned()));
    }
}
