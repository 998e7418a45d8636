//! What a reconcile comes to: an action, or an error that says whether trying again helps.

use std::error::Error;
use std::fmt;
use std::time::Duration;

/// An error of any kind.
pub(crate) type BoxError = Box<dyn Error + Send + Sync>;

/// What is to happen to a key after a reconcile that did not fail. Either way its failures are forgotten.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Action {
    /// Nothing, until something changes.
    #[default]
    Done,
    /// It is reconciled again after this time, with the priority it had, or as soon as something changes if that is sooner: what
    /// comes first supersedes the other. Zero is at once, behind those that wait.
    RequeueAfter(Duration),
}

/// Why a reconcile failed, and what is to happen to its key.
///
/// Every error turns into one with `?`, and is tried again. An error is terminal if it is made so by [`Self::terminal`], or if a
/// [`Terminal`] is anywhere among its sources, so that an error type of your own can say it too.
///
/// It is no [`Error`] itself, as it is only ever handed to the controller.
#[non_exhaustive]
pub enum ReconcileError {
    /// The key is tried again when the limiter of the controller allows it.
    Retry(Box<dyn Error + Send + Sync>),
    /// Trying again would fail again: the key is left alone until something changes.
    Terminal(Box<dyn Error + Send + Sync>),
}

/// Marks an error as one that trying again does not help against.
///
/// It reads as the error it holds.
#[derive(Debug)]
pub struct Terminal(BoxError);

impl ReconcileError {
    /// The key is to be tried again. For errors that `?` does not take, such as texts and `anyhow`'s.
    pub fn retry(error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::sorted(error.into())
    }

    /// The key is to be left alone until something changes.
    pub fn terminal(error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::Terminal(error.into())
    }

    /// Whether the key is left alone.
    pub fn is_terminal(&self) -> bool {
        matches!(self, Self::Terminal(_))
    }

    /// What went wrong.
    pub fn error(&self) -> &(dyn Error + Send + Sync + 'static) {
        match self {
            Self::Retry(error) | Self::Terminal(error) => &**error,
        }
    }

    fn sorted(error: BoxError) -> Self {
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
        Self::sorted(Box::new(error))
    }
}

impl fmt::Display for ReconcileError {
    /// The error and all its causes, in one line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", Levels(self.error()))
    }
}

impl fmt::Debug for ReconcileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = if self.is_terminal() { "Terminal" } else { "Retry" };
        f.debug_tuple(name).field(self.error()).finish()
    }
}

impl Terminal {
    /// Marks this error.
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

/// An error and all its causes, in one line.
pub(crate) struct Levels<'a>(pub(crate) &'a (dyn Error + 'static));

impl fmt::Display for Levels<'_> {
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
    fn any_error_turns_into_one_that_is_tried_again() {
        let error = failing("full".into()).unwrap_err();
        assert!(!error.is_terminal());
        assert_eq!(error.to_string(), "no ingress: full");
        assert_eq!(format!("{error:?}"), r#"Retry(Ours("full"))"#);
        assert_eq!(ReconcileError::retry("busy").to_string(), "busy");
    }

    #[test]
    fn a_terminal_error_is_known_wherever_it_is_among_the_sources() {
        let error = failing(Terminal::new(Ours("a bad host".into())).into()).unwrap_err();
        assert!(error.is_terminal());
        assert_eq!(error.to_string(), "no ingress: no ingress: a bad host");
        assert!(ReconcileError::terminal("never").is_terminal());
        assert!(ReconcileError::retry(Terminal::new("never")).is_terminal());
    }
}
