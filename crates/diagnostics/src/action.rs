//! Actions: buttons of the page that run code of the program.

use std::fmt;
use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};

use futures_core::future::BoxFuture;

/// The result of an action: nothing, or an error that the page shows.
///
/// Implemented for `()` and for `Result<(), E>` with any error that can be boxed.
pub trait ActionResult {
    /// Returns the error as a text, if there is one.
    fn into_error(self) -> Option<String>;
}

impl ActionResult for () {
    fn into_error(self) -> Option<String> {
        None
    }
}

impl<E: Into<Box<dyn std::error::Error + Send + Sync>>> ActionResult for Result<(), E> {
    fn into_error(self) -> Option<String> {
        self.err().map(|it| it.into().to_string())
    }
}

/// A button of the page.
pub(crate) struct Action {
    pub(crate) name: String,
    is_running: AtomicBool,
    run: Box<dyn Fn() -> BoxFuture<'static, Option<String>> + Send + Sync>,
}

impl Action {
    pub(crate) fn new<F>(name: String, run: impl Fn() -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output: ActionResult> + Send + 'static,
    {
        let run = Box::new(move || -> BoxFuture<'static, Option<String>> {
            let running = run();
            Box::pin(async move { running.await.into_error() })
        });
        Self { name, is_running: AtomicBool::new(false), run }
    }

    pub(crate) fn is_running(&self) -> bool {
        self.is_running.load(Ordering::Relaxed)
    }

    /// Runs the action and returns its error. Returns `None` at once if it is already running.
    pub(crate) async fn run(&self) -> Option<Result<(), String>> {
        if self.is_running.swap(true, Ordering::Relaxed) {
            return None;
        }
        // Also if the future is dropped, or the action panics.
        let _running = Running(&self.is_running);
        Some((self.run)().await.map_or(Ok(()), Err))
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
        assert_eq!(action.run().await, Some(Ok(())));
    }

    #[tokio::test]
    async fn the_error_of_an_action_is_a_text() {
        let action = Action::new("fail".to_owned(), || async { Err::<(), _>("no server") });
        assert_eq!(action.run().await, Some(Err("no server".to_owned())));
    }
}
