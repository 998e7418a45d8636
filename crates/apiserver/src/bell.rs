//! A change notifier: wakes every listener on each change, grouped by task.
//!
//! The grouping is the point. All watches of one connection run in one task. If a change wakes them
//! one after the other, the task runs once, finds all of them ready, and their events leave in one
//! write. If wakes of other tasks came in between, the task would run and write several times.
//! Polling a listener again before the next change costs one atomic load.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

/// Notifies listeners that something has changed. It carries no value: listeners look at the shared
/// state themselves.
#[derive(Debug, Default)]
pub(crate) struct Bell {
    /// The number of notifications so far. Changed only while `waiting` is locked, so that a
    /// listener cannot start to wait in between.
    rings: AtomicU64,
    /// Never held while a waker is woken or dropped.
    waiting: Mutex<Waiting>,
}

/// The listeners that wait for the next notification.
#[derive(Debug, Default)]
struct Waiting {
    /// In order of arrival.
    places: Vec<Seat>,
    /// Invariant: exactly the indices of the entries whose waker is `None`.
    free: Vec<usize>,
}

/// An entry of the wait list.
#[derive(Debug)]
struct Seat {
    /// The task that waits, if it is a tokio task.
    task: Option<tokio::task::Id>,
    /// `None` after the listener was dropped.
    waker: Option<Waker>,
}

/// A subscription to a [`ChangeNotifier`]. Each notification is seen once and none is lost: several
/// of them may be seen as one.
#[derive(Debug)]
pub(crate) struct Listener {
    bell: Arc<Bell>,
    /// The number of notifications at the last check.
    heard: u64,
    place: Option<Place>,
}

/// The listener's entry in the wait list, valid only until the next notification.
#[derive(Debug)]
struct Place {
    rings: u64,
    at: usize,
    /// The identity of the waker in the entry.
    whom: Identity,
}

/// The identity of a waker, unique as long as the waker is kept alive.
type Identity = (usize, usize);

impl Bell {
    /// Wakes all listeners: task by task, and within a task in order of arrival.
    pub(crate) fn ring(&self) {
        let mut waiting = self.waiting();
        self.rings.fetch_add(1, Ordering::Release);
        waiting.free.clear();
        let mut woken = std::mem::take(&mut waiting.places);
        drop(waiting);
        woken.sort_by_key(|it| it.task);
        woken.into_iter().filter_map(|it| it.waker).for_each(Waker::wake);
    }

    /// Subscribes to all notifications from now on.
    pub(crate) fn listen(self: &Arc<Self>) -> Listener {
        Listener { bell: Arc::clone(self), heard: self.rings(), place: None }
    }

    fn rings(&self) -> u64 {
        self.rings.load(Ordering::Acquire)
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Listener {
    /// Returns true if there was a notification since the last call of this or any other method of
    /// the listener.
    pub(crate) fn has_rung(&mut self) -> bool {
        let rings = self.bell.rings();
        std::mem::replace(&mut self.heard, rings) != rings
    }

    /// Waits for a notification that was not seen yet.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses no notification.
    pub(crate) async fn rung(&mut self) {
        std::future::poll_fn(|context| self.poll_rung(context)).await;
    }

    /// Polls as [`Self::changed`] does. Only the waker of the last call is woken.
    pub(crate) fn poll_rung(&mut self, context: &Context<'_>) -> Poll<()> {
        if self.has_rung() {
            return Poll::Ready(());
        }
        let waits = |it: &Place| it.rings == self.heard && it.whom == identity(context.waker());
        if self.place.as_ref().is_some_and(waits) {
            return Poll::Pending;
        }
        self.wait(context.waker())
    }

    fn wait(&mut self, waker: &Waker) -> Poll<()> {
        let (bell, task) = (Arc::clone(&self.bell), tokio::task::try_id());
        let mut waiting = bell.waiting();
        if self.has_rung() {
            return Poll::Ready(());
        }
        let mine = self.place.as_ref().filter(|it| it.rings == self.heard).map(|it| it.at);
        let at = match mine.or_else(|| waiting.free.pop()) {
            Some(at) => at,
            None => {
                waiting.places.push(Seat { task, waker: None });
                waiting.places.len() - 1
            }
        };
        let seat = Seat { task, waker: Some(waker.clone()) };
        let before = std::mem::replace(&mut waiting.places[at], seat);
        drop(waiting);
        drop(before);
        self.place = Some(Place { rings: self.heard, at, whom: identity(waker) });
        Poll::Pending
    }
}

/// Returns the identity of a waker; wakers with the same identity wake the same task. The wait list
/// keeps a clone of the waker, so no other waker can get its identity in the meantime.
fn identity(waker: &Waker) -> Identity {
    (waker.data().addr(), std::ptr::from_ref(waker.vtable()).addr())
}

impl Drop for Listener {
    fn drop(&mut self) {
        let Some(place) = &self.place else { return };
        let mut waiting = self.bell.waiting();
        if self.bell.rings() == place.rings {
            let waker = waiting.places[place.at].waker.take();
            waiting.free.push(place.at);
            drop(waiting);
            drop(waker);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::task::Wake;

    use super::*;

    /// Records its name when it is woken.
    struct Named(usize, Woken);

    impl Wake for Named {
        fn wake(self: Arc<Self>) {
            self.1.lock().expect("no panic").push(self.0);
        }
    }

    /// The names of the woken listeners, in order.
    type Woken = Arc<Mutex<Vec<usize>>>;

    /// A notifier with `count` listeners, a waker for each, and the record of wakes.
    fn listening(count: usize) -> (Arc<Bell>, Vec<(Listener, Waker)>, Woken) {
        let (bell, woken) = (Arc::new(Bell::default()), Arc::default());
        let listeners = (0..count)
            .map(|name| (bell.listen(), Waker::from(Arc::new(Named(name, Arc::clone(&woken))))))
            .collect();
        (bell, listeners, woken)
    }

    fn poll((listener, waker): &mut (Listener, Waker)) -> bool {
        listener.poll_rung(&Context::from_waker(waker)).is_ready()
    }

    #[test]
    fn each_listener_sees_a_notification_once_in_order_of_arrival() {
        let (bell, mut listeners, woken) = listening(4);
        for at in [2, 0, 3, 1, 0, 2] {
            assert!(!poll(&mut listeners[at]), "no notification yet");
        }
        bell.ring();
        assert_eq!(
            *woken.lock().expect("no panic"),
            [2, 0, 3, 1],
            "each is woken once, however often it was polled"
        );
        bell.ring();
        assert_eq!(woken.lock().expect("no panic").len(), 4, "no listener waits");
        assert!(listeners.iter_mut().all(poll), "several notifications are seen as one");
        assert!(!listeners.iter_mut().any(poll));
    }

    #[tokio::test]
    async fn listeners_of_one_task_are_woken_one_after_the_other() {
        let (bell, mut listeners, woken) = listening(4);
        let others = listeners.split_off(2);
        let both = Arc::new(tokio::sync::Barrier::new(2));
        let tasks = [listeners, others].map(|mut mine| {
            let both = Arc::clone(&both);
            tokio::spawn(async move {
                for listener in &mut mine {
                    assert!(!poll(listener));
                    both.wait().await;
                }
                mine
            })
        });
        let mut kept = Vec::new();
        for task in tasks {
            kept.push(task.await.expect("no panic"));
        }
        bell.ring();
        let woken = woken.lock().expect("no panic").clone();
        assert!(woken == [0, 1, 2, 3] || woken == [2, 3, 0, 1], "{woken:?}");
    }

    #[test]
    fn the_waker_of_the_last_poll_is_woken_and_a_dropped_listener_is_not() {
        let (bell, mut listeners, woken) = listening(3);
        listeners.iter_mut().for_each(|it| assert!(!poll(it)));
        let (mut moved, _) = listeners.remove(0);
        let other = Waker::from(Arc::new(Named(9, Arc::clone(&woken))));
        assert!(moved.poll_rung(&Context::from_waker(&other)).is_pending());
        drop(listeners.remove(0));
        bell.ring();
        assert_eq!(*woken.lock().expect("no panic"), [9, 2]);
    }

    #[test]
    fn listeners_that_come_and_go_leave_nothing_behind() {
        let (bell, mut listeners, _) = listening(2);
        assert!(!poll(&mut listeners[0]));
        for _ in 0..100 {
            let mut passing = (bell.listen(), listeners[1].1.clone());
            assert!(!poll(&mut passing));
        }
        assert_eq!(bell.waiting().places.len(), 2);
        bell.ring();
        assert!(bell.waiting().places.is_empty() && bell.waiting().free.is_empty());
        drop(listeners);
        assert!(bell.waiting().free.is_empty(), "an entry of an earlier generation belongs to no listener");
    }

    #[tokio::test]
    async fn no_notification_is_lost_between_threads() {
        let bell = Arc::new(Bell::default());
        let mut listener = bell.listen();
        let ringing = std::thread::spawn(move || (0..1_000).for_each(|_| bell.ring()));
        while listener.heard < 1_000 {
            listener.rung().await;
        }
        ringing.join().expect("no panic");
    }
}
