//! Actions: buttons of the page that run code of the program.

use std::fmt;
use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};

use dogwatch_core::ErrorChain;
use futures_core::future::BoxFuture;

/// The result of an action: a text that says what was done, or an error. The page shows either.
///
/// Implemented for texts, for `()`, which is shown as "done", and for a `Result` of these with any
/// error that can be boxed.
pub trait ActionResult {
    /// Returns what the page shows.
    ///
    /// # Errors
    /// Returns the text of the error, with its causes, if the action failed.
    fn into_text(self) -> Result<String, String>;
}

impl ActionResult for () {
    fn into_text(self) -> Result<String, String> {
        Ok("done".to_owned())
    }
}

impl ActionResult for String {
    fn into_text(self) -> Result<String, String> {
        Ok(self)
    }
}

impl ActionResult for &'static str {
    fn into_text(self) -> Result<String, String> {
        Ok(self.to_owned())
    }
}

impl<T: ActionResult, E: Into<Box<dyn std::error::Error + Send + Sync>>> ActionResult for Result<T, E> {
    fn into_text(self) -> Result<String, String> {
        match self {
            Ok(done) => done.into_text(),
            Err(error) => {
                let error: Box<dyn std::error::Error + Send + Sync> = error.into();
                Err(ErrorChain(&*error).to_string())
            }
        }
    }
}

/// A button of the page.
pub(crate) struct Action {
    pub(crate) name: String,
    is_running: AtomicBool,
    run: Box<dyn Fn() -> BoxFuture<'static, Result<String, String>> + Send + Sync>,
}

impl Action {
    pub(crate) fn new<F>(name: String, run: impl Fn() -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output: ActionResult> + Send + 'static,
    {
        let run = Box::new(move || -> BoxFuture<'static, Result<String, String>> {
            let running = run();
            Box::pin(async move { running.await.into_text() })
        });
        Self { name, is_running: AtomicBool::new(false), run }
    }

    pub(crate) fn is_running(&self) -> bool {
        self.is_running.load(Ordering::Relaxed)
    }

    /// Runs the action and returns its text or its error. Returns `None` at once if it is already
    /// running.
    pub(crate) async fn run(&self) -> Option<Result<String, String>> {
        if self.is_running.swap(true, Ordering::Relaxed) {
            return None;
        }
        // Also if the future is dropped, or the action panics.
        let _running = Running(&self.is_running);
        Some((self.run)().await)
    }
}

struct Running<'a>(&'a AtomicBool);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Relaxed);
    }
}

impl fmt::Debug for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Action").field("name", &self.name).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio::sync::Notify;

    use super::*;

    #[tokio::test]
    async fn an_action_runs_once_at_a_time_and_again_after_it_was_dropped() {
        let go = Arc::new(Notify::new());
        let waiting = Arc::clone(&go);
        let action = Action::new("wait".to_owned(), move || {
            let waiting = Arc::clone(&waiting);
            async move { waiting.notified().await }
        });
        {
            let mut first = std::pin::pin!(action.run());
            assert!(futures_util::poll!(first.as_mut()).is_pending());
            assert!(action.is_running());
            assert_eq!(action.run().await, None);
        }
        assert!(!action.is_running());
        go.notify_one();
        assert_eq!(action.run().await, Some(Ok("done".to_owned())));
    }

    #[tokio::test]
    async fn an_action_says_what_it_did_or_why_it_failed() {
        let action = Action::new("delete".to_owned(), || async { "pod a was deleted" });
        assert_eq!(action.run().await, Some(Ok("pod a was deleted".to_owned())));
        let action =
            Action::new("count".to_owned(), || async { Ok::<_, std::io::Error>(format!("{} pods", 2)) });
        assert_eq!(action.run().await, Some(Ok("2 pods".to_owned())));
        let action = Action::new("fail".to_owned(), || async { Err::<(), _>("no server") });
        assert_eq!(action.run().await, Some(Err("no server".to_owned())));
    }

    #[test]
    fn an_error_is_shown_with_its_causes() {
        #[derive(Debug, thiserror::Error)]
        #[error("cannot delete the pod")]
        struct Failed(#[source] std::io::Error);
        let failed = Failed(std::io::ErrorKind::ConnectionRefused.into());
        assert_eq!(
            Err::<(), _>(failed).into_text(),
            Err("cannot delete the pod: connection refused".to_owned())
        );
    }
}
