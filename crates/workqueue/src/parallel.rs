//! Many pieces of work on a few tasks (rule PZ-1).

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use tokio::task::JoinSet;

/// Calls `work` for each of the numbers below `pieces`, on up to `workers` tasks, until all are
/// done or `stop` resolves.
///
/// A task takes `chunk` pieces at a time (at least one); there are never more tasks than chunks,
/// and at least one. After `stop` resolves, no further piece is started, and running pieces
/// complete: all tasks have ended when this returns. Dropping the future aborts them. Returns the
/// number of completed pieces.
///
/// # Panics
/// Panics if `work` panics, with the same panic; the other tasks are aborted.
///
/// # Examples
/// ```
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicUsize, Ordering};
///
/// use dogwatch_workqueue::parallelize_until;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let sum = Arc::new(AtomicUsize::new(0));
/// let total = sum.clone();
/// let done = parallelize_until(4, 10, 1, std::future::pending(), move |piece| {
///     let sum = sum.clone();
///     async move {
///         sum.fetch_add(piece, Ordering::Relaxed);
///     }
/// });
/// assert_eq!((done.await, total.load(Ordering::Relaxed)), (10, 45));
/// # Ok(())
/// # }
/// ```
pub async fn parallelize_until<F, W>(
    workers: usize,
    pieces: usize,
    chunk: usize,
    stop: impl Future<Output = ()>,
    work: F,
) -> usize
where
    F: Fn(usize) -> W + Send + Sync + 'static,
    W: Future<Output = ()> + Send,
{
    let chunk = chunk.max(1);
    let chunks = pieces.div_ceil(chunk);
    let shared = Arc::new(Pieces { next_chunk: AtomicUsize::new(0), stopped: AtomicBool::new(false), work });
    let mut tasks = JoinSet::new();
    for _ in 0..workers.max(1).min(chunks) {
        let shared = shared.clone();
        tasks.spawn(async move {
            let mut done = 0;
            loop {
                let number = shared.next_chunk.fetch_add(1, Ordering::Relaxed);
                if number >= chunks {
                    return done;
                }
                let first = number * chunk;
                for piece in first..pieces.min(first.saturating_add(chunk)) {
                    if shared.stopped.load(Ordering::Relaxed) {
                        return done;
                    }
                    (shared.work)(piece).await;
                    done += 1;
                }
            }
        });
    }
    let mut stop = pin!(stop);
    let mut done = 0;
    loop {
        tokio::select! {
            biased;
            () = &mut stop, if !shared.stopped.load(Ordering::Relaxed) => {
                shared.stopped.store(true, Ordering::Relaxed);
            }
            joined = tasks.join_next() => match joined {
                None => return done,
                Some(Ok(count)) => done += count,
                Some(Err(error)) => match error.try_into_panic() {
                    Ok(panic) => std::panic::resume_unwind(panic),
                    // A task that is still in the set is cancelled only by the shutdown of the
                    // runtime.
                    Err(_cancelled) => {}
                },
            },
        }
    }
}

/// The state that the tasks share.
struct Pieces<F> {
    next_chunk: AtomicUsize,
    stopped: AtomicBool,
    work: F,
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use super::*;

    #[tokio::test]
    async fn pz_1_each_piece_is_visited_once_for_all_mixes() {
        for (workers, pieces, chunk) in
            [(0, 3, 0), (1, 10, 1), (2, 1000, 3), (10, 1000, 10), (16, 5, 100), (100, 999, 7), (4, 0, 4)]
        {
            let visits: Arc<Vec<AtomicUsize>> = Arc::new((0..pieces).map(|_| AtomicUsize::new(0)).collect());
            let seen = visits.clone();
            let done = parallelize_until(workers, pieces, chunk, pending(), move |piece| {
                seen[piece].fetch_add(1, Ordering::Relaxed);
                ready(())
            });
            assert_eq!(done.await, pieces);
            assert!(visits.iter().all(|it| it.load(Ordering::Relaxed) == 1), "{workers} {pieces} {chunk}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn pz_1_a_stop_takes_effect_between_pieces() {
        let second = std::time::Duration::from_secs(1);
        let finished = Arc::new(AtomicUsize::new(0));
        let count = finished.clone();
        let stop = tokio::time::sleep(second * 5 / 2);
        let done = parallelize_until(2, 1000, 10, stop, move |_| {
            let count = count.clone();
            async move {
                tokio::time::sleep(second).await;
                count.fetch_add(1, Ordering::Relaxed);
            }
        });
        assert_eq!(done.await, 6, "three seconds of two tasks");
        assert_eq!(finished.load(Ordering::Relaxed), 6);
    }

    #[tokio::test]
    #[should_panic(expected = "piece 3")]
    async fn pz_1_a_panic_is_propagated() {
        let work = |piece| async move { assert!(piece != 3, "piece 3") };
        parallelize_until(2, 10, 1, pending(), work).await;
    }
}
