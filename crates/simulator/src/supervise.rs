//! Supervision of a component: one that fails or panics is restarted, with a back-off, and does not
//! affect the others.

use std::any::Any;
use std::future::Future;
use std::panic::{AssertUnwindSafe, resume_unwind};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use dogwatch_client::Error;
use dogwatch_controller::{Action, BoxError, Context, Reconciler};
use dogwatch_core::{ErrorChain, ExponentialDelay, ObjectKey};
use futures_util::FutureExt;
use tokio::time::Instant;

use crate::health::Health;

/// The delay of the restart after a number of failures in a row.
const DELAY: ExponentialDelay = ExponentialDelay::doubling(Duration::from_secs(1), Duration::from_secs(30));
/// The time after which a component counts as recovered: the back-off of its next failure starts
/// again.
const RECOVERED_AFTER: Duration = Duration::from_secs(60);

/// Runs the future that `start` creates under a name, and again whenever it fails. Dropping the
/// future stops it.
///
/// A component keeps no state that it cannot read from the server, so a new one continues where the
/// old one stopped. It is down until it calls [`Startup::complete`].
pub(crate) fn supervised<F>(
    name: &'static str,
    health: Arc<Health>,
    mut start: impl FnMut(Startup) -> F + Send + 'static,
) -> impl Future<Output = ()> + Send + 'static
where
    F: Future<Output = Result<(), BoxError>> + Send + 'static,
{
    // Set before the first poll, since a health check may come earlier.
    health.down(name, "it is starting".to_owned());
    async move {
        let mut failures = 0u32;
        loop {
            let since = Arc::new(OnceLock::new());
            let startup = Startup { name, health: Arc::clone(&health), since: Arc::clone(&since) };
            // Creating the future is covered too.
            let reason = match AssertUnwindSafe(async { start(startup).await }).catch_unwind().await {
                Ok(Ok(())) => return,
                Ok(Err(error)) => ErrorChain(&*error).to_string(),
                Err(panic) => {
                    health.panicked(name);
                    format!("it panicked: {}", message(&*panic))
                }
            };
            // A start that fails may take longer than this, so only the time after it counts.
            if since.get().is_some_and(|it: &Instant| it.elapsed() >= RECOVERED_AFTER) {
                failures = 0;
            }
            failures = failures.saturating_add(1);
            let delay = DELAY.after(failures);
            tracing::error!(
                component = name,
                reason,
                ?delay,
                "a component failed; restarting it after a delay"
            );
            health.down(name, reason);
            tokio::time::sleep(delay).await;
        }
    }
}

/// The start of a component, until it works.
#[derive(Debug)]
pub(crate) struct Startup {
    name: &'static str,
    health: Arc<Health>,
    since: Arc<OnceLock<Instant>>,
}

impl Startup {
    /// Records that the component works.
    pub(crate) fn complete(self) {
        self.since.get_or_init(Instant::now);
        self.health.up(self.name);
    }
}

/// A reconciler whose panics are counted in the health of its component. The controller retries the
/// key, and continues with the others.
pub(crate) struct Observed<R> {
    pub(crate) name: &'static str,
    pub(crate) health: Arc<Health>,
    pub(crate) reconciler: R,
}

impl<R: Reconciler<Error = Error>> Reconciler for Observed<R> {
    type Error = Error;

    async fn reconcile(&self, key: &ObjectKey, context: &Context) -> Result<Action, Error> {
        match AssertUnwindSafe(self.reconciler.reconcile(key, context)).catch_unwind().await {
            // Nothing can be created in a namespace that is being deleted; its content is deleted
            // without the help of its controllers.
            Ok(Err(error)) if is_namespace_terminating(&error) => Ok(Action::Done),
            Ok(outcome) => outcome,
            Err(panic) => {
                self.health.panicked(self.name);
                resume_unwind(panic)
            }
        }
    }
}

/// Returns true if a namespace does not accept objects because it is being deleted.
fn is_namespace_terminating(error: &Error) -> bool {
    // `NamespaceTerminatingCause` in k8s.io/api v0.36.4 core/v1/types.go.
    error.status().is_some_and(|it| it.has_cause("NamespaceTerminating"))
}

fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|it| (*it).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no message".to_owned())
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_component_that_fails_or_panics_is_restarted_with_a_backoff() {
        let (health, started) = (Arc::new(Health::default()), Arc::new(AtomicUsize::new(0)));
        let count = Arc::clone(&started);
        let bad = supervised("bad", Arc::clone(&health), move |startup| {
            let count = Arc::clone(&count);
            async move {
                match count.fetch_add(1, Ordering::Relaxed) {
                    it if it >= 7 => {
                        startup.complete();
                        std::future::pending().await
                    }
                    it if it % 2 == 0 => panic!("on purpose"),
                    _ => Err("an error".into()),
                }
            }
        });
        assert_eq!(health.component("bad").unwrap().down.as_deref(), Some("it is starting"));
        let running = tokio::spawn(bad);
        let mut delays = Vec::new();
        for turn in 0..7 {
            tokio::time::sleep(Duration::from_millis(1)).await;
            let expected = if turn % 2 == 0 { "it panicked: on purpose" } else { "an error" };
            assert_eq!(health.component("bad").unwrap().down.as_deref(), Some(expected));
            let (before, begun) = (started.load(Ordering::Relaxed), Instant::now());
            while started.load(Ordering::Relaxed) == before {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
            delays.push(begun.elapsed().as_secs_f64().round());
        }
        assert_eq!(delays, [1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0]);
        assert_eq!(health.component("bad"), Some(ComponentHealth { panics: 4, down: None }));
        running.abort();
    }

    #[tokio::test(start_paused = true)]
    async fn only_the_time_after_the_start_counts_as_recovered() {
        for (completes, expected) in [(true, [1, 1, 1]), (false, [1, 2, 4])] {
            let health = Arc::new(Health::default());
            let (sender, mut starts) = tokio::sync::mpsc::unbounded_channel();
            let slow = supervised("slow", health, move |startup| {
                let sender = sender.clone();
                async move {
                    sender.send(Instant::now())?;
                    if completes {
                        startup.complete();
                    }
                    tokio::time::sleep(2 * RECOVERED_AFTER).await;
                    Err("not synced".into())
                }
            });
            let running = tokio::spawn(slow);
            let mut delays = Vec::new();
            let mut last = starts.recv().await.unwrap();
            for _ in 0..3 {
                let next = starts.recv().await.unwrap();
                delays.push((next - last - 2 * RECOVERED_AFTER).as_secs());
                last = next;
            }
            assert_eq!(delays, expected, "{completes}");
            running.abort();
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_component_that_panics_does_not_affect_others() {
        let (health, steps) = (Arc::new(Health::default()), Arc::new(AtomicUsize::new(0)));
        let counted = Arc::clone(&steps);
        let bad = supervised("panicking", Arc::clone(&health), |_| -> std::future::Ready<_> {
            panic!("before it has begun")
        });
        let good = supervised("good", Arc::clone(&health), move |_| {
            let counted = Arc::clone(&counted);
            async move {
                loop {
                    tokio::time::sleep(Duration::from_secs(1)).await;
                    counted.fetch_add(1, Ordering::Relaxed);
                }
            }
        });
        let both = async { tokio::join!(bad, good) };
        assert!(tokio::time::timeout(Duration::from_millis(10_500), both).await.is_err());
        assert_eq!(steps.load(Ordering::Relaxed), 10);
        let panics = |name: &str| health.component(name).map(|it| it.panics);
        assert_eq!((panics("good"), panics("panicking")), (Some(0), Some(4)));
    }

    use crate::health::ComponentHealth;

    /// A reconciler that panics for one key.
    struct Fussy;

    impl Reconciler for Fussy {
        type Error = Error;

        async fn reconcile(&self, key: &ObjectKey, _: &Context) -> Result<Action, Error> {
            assert_ne!(key.name(), "poison", "on purpose");
            Ok(Action::Done)
        }
    }

    #[tokio::test]
    async fn a_panic_on_an_object_is_counted() {
        let health = Arc::new(Health::default());
        let fussy = Observed { name: "fussy", health: Arc::clone(&health), reconciler: Fussy };
        for (name, panics) in [("good", false), ("poison", true)] {
            let (key, context) = (ObjectKey::cluster(name), Context::detached());
            let outcome = AssertUnwindSafe(fussy.reconcile(&key, &context)).catch_unwind().await;
            assert_eq!(outcome.is_err(), panics, "{name}");
        }
        assert_eq!(health.component("fussy").map(|it| it.panics), Some(1));
    }
}
