//! Supervision of a controller: one that panics is restarted, with a back-off, and does not affect
//! the others.

use std::sync::Arc;
use std::time::Duration;

use dogwatch_core::ExponentialDelay;
use tokio::time::Instant;

use super::background::Running;
use crate::cluster::Cluster;
use crate::panics::caught;

/// The delay of the restart after a number of panics in a row.
const DELAY: ExponentialDelay = ExponentialDelay::doubling(Duration::from_secs(1), Duration::from_secs(30));
/// The time after which a controller counts as recovered: the backoff of its next panic starts
/// again.
const RECOVERED_AFTER: Duration = Duration::from_secs(60);

/// Runs the loop that `start` creates under a name, forever. Dropping the future stops it.
///
/// A controller keeps no state that is not in the store, so a new one continues where the old one
/// stopped.
pub(crate) fn supervised(
    name: &'static str,
    cluster: &Arc<Cluster>,
    mut start: impl FnMut(Arc<Cluster>) -> Running + Send + 'static,
) -> Running {
    let cluster = Arc::clone(cluster);
    // Set before the first poll, since a health check may come earlier.
    cluster.background().up(name);
    Box::pin(async move {
        let mut panics = 0u32;
        loop {
            cluster.background().up(name);
            let begun = Instant::now();
            // Creating the loop is covered too: some read the store before they first wait.
            let run = async { start(Arc::clone(&cluster)).await };
            let Err(panic) = caught(run).await else { return };
            cluster.background().down(name, &panic.0);
            if begun.elapsed() >= RECOVERED_AFTER {
                panics = 0;
            }
            panics = panics.saturating_add(1);
            let delay = DELAY.after(panics);
            tracing::error!(
                controller = name,
                panic = panic.0,
                ?delay,
                "a controller panicked; restarting it after a delay"
            );
            tokio::time::sleep(delay).await;
        }
    })
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::cluster::Source;
    use crate::controllers::together;

    fn cluster() -> Arc<Cluster> {
        Arc::new(Cluster::new(Source::real()))
    }

    #[tokio::test(start_paused = true)]
    async fn a_controller_that_panics_is_restarted_with_a_backoff() {
        let (cluster, started) = (cluster(), Arc::new(AtomicUsize::new(0)));
        let count = Arc::clone(&started);
        let bad = supervised("bad", &cluster, move |_| {
            let count = Arc::clone(&count);
            Box::pin(async move {
                if count.fetch_add(1, Ordering::Relaxed) < 7 {
                    panic!("on purpose");
                }
                std::future::pending().await
            })
        });
        let health = || cluster.background().loops()["bad"].clone();
        let running = tokio::spawn(bad);
        let mut rests = Vec::new();
        for _ in 0..7 {
            tokio::time::sleep(Duration::from_millis(1)).await;
            assert_eq!(health().down.as_deref(), Some("on purpose"));
            let (before, begun) = (started.load(Ordering::Relaxed), Instant::now());
            while started.load(Ordering::Relaxed) == before {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
            rests.push(begun.elapsed().as_secs_f64().round());
        }
        assert_eq!(rests, [1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0]);
        assert_eq!((health().panics, health().down), (7, None));
        running.abort();
    }

    #[tokio::test(start_paused = true)]
    async fn a_controller_that_panics_does_not_affect_others() {
        let (cluster, steps) = (cluster(), Arc::new(AtomicUsize::new(0)));
        let (panicking, counted) = ("panicking", Arc::clone(&steps));
        let bad = supervised(panicking, &cluster, |_| panic!("before it has begun"));
        let good = supervised("good", &cluster, move |_| {
            let counted = Arc::clone(&counted);
            Box::pin(async move {
                loop {
                    tokio::time::sleep(Duration::from_secs(1)).await;
                    counted.fetch_add(1, Ordering::Relaxed);
                }
            })
        });
        together(vec![bad, good], tokio::time::sleep(Duration::from_millis(10_500))).await;
        assert_eq!(steps.load(Ordering::Relaxed), 10);
        let loops = cluster.background().loops();
        assert_eq!((loops["good"].panics, loops["panicking"].panics), (0, 4));
    }
}
