//! The result of a reconcile: an action, or an error that says if a retry can help.

use std::error::Error;
use std::fmt;
use std::time::Duration;

/// A boxed error of any type.
pub(crate) type BoxError = Box<dyn Error + Send + Sync>;

/// The next step for a key after a successful reconcile. Every action resets the key's failure
/// count.
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

/// A failed reconcile, and what happens to its key.
///
/// Every error converts into a retryable one with `?`. An error is terminal if it is created with
/// [`Self::terminal`], or if a [`Terminal`] occurs anywhere in its source chain, so that your own
/// error types can be terminal too.
///
/// It does not implement [`Error`]: it is only ever returned to the controller.
#[non_exhaustive]
pub enum ReconcileError {
    /// The key is retried when the controller's rate limiter allows it.
    Retry(Box<dyn Error + Send + Sync>),
    /// A retry would fail again: the key is not retried until something changes.
    Terminal(Box<dyn Error + Send + Sync>),
}

/// Marks an error as permanent: the key is not retried.
///
/// It displays as the error that it wraps.
#[derive(Debug)]
pub struct Terminal(BoxError);

impl ReconcileError {
    /// Creates an error after which the key is retried. Use it for values that `?` does not accept,
    /// such as strings and `anyhow` errors.
    pub fn retry(error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::classified(error.into())
    }

    /// Creates an error after which the key is not retried until something changes.
    pub fn terminal(error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::Terminal(error.into())
    }

    /// Returns true if the key is not retried.
    pub fn is_terminal(&self) -> bool {
        matches!(self, Self::Terminal(_))
    }

    /// Returns the underlying error.
    pub fn error(&self) -> &(dyn Error + Send + Sync + 'static) {
        match self {
            Self::Retry(error) | Self::Terminal(error) => &**error,
        }
    }

    fn classified(error: BoxError) -> Self {
        let mut level: Option<&(dyn Error + 'static)> = Some(&*error);
        while let Some(it) = level {
            if it.is::<Terminal>() {
                return Self::Terminal(error);
            }
            level = it.source();
        }
        Self::Retry(error)
    }
}

impl<E: Error + Send + Sync + 'static> From<E> for ReconcileError {
    fn from(error: E) -> Self {
        Self::classified(Box::new(error))
    }
}

impl fmt::Display for ReconcileError {
    /// Writes the error and all its causes on one line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", ErrorChain(self.error()))
    }
}

impl fmt::Debug for ReconcileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = if self.is_terminal() { "Terminal" } else { "Retry" };
        f.debug_tuple(name).field(self.error()).finish()
    }
}

impl Terminal {
    /// Wraps an error.
    pub fn new(error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self(error.into())
    }
}

impl fmt::Display for Terminal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl Error for Terminal {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.0.source()
    }
}

/// Displays an error and all its causes on one line.
pub(crate) struct ErrorChain<'a>(pub(crate) &'a (dyn Error + 'static));

impl fmt::Display for ErrorChain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)?;
        let mut level = self.0.source();
        while let Some(cause) = level {
            write!(f, ": {cause}")?;
            level = cause.source();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("no ingress")]
    struct Ours(#[source] BoxError);

    fn failing(error: BoxError) -> Result<Action, ReconcileError> {
        Err(Ours(error))?;
        Ok(Action::Done)
    }

    #[test]
    fn any_error_converts_into_a_retryable_one() {
        let error = failing("full".into()).unwrap_err();
        assert!(!error.is_terminal());
        assert_eq!(error.to_string(), "no ingress: full");
        assert_eq!(format!("{error:?}"), r#"Retry(Ours("full"))"#);
        assert_eq!(ReconcileError::retry("busy").to_string(), "busy");
    }

    #[test]
    fn a_terminal_error_is_found_anywhere_in_the_source_chain() {
        let error = failing(Terminal::new(Ours("a bad host".into())).into()).unwrap_err();
        assert!(error.is_terminal());
        assert_eq!(error.to_string(), "no ingress: no ingress: a bad host");
        assert!(ReconcileError::terminal("never").is_terminal());
        assert!(ReconcileError::retry(Terminal::new("never")).is_terminal());
    }
}
