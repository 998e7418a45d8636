//! A bell: whoever listens is woken when it is rung, those of one task one behind the other.
//!
//! The order is the point. The watches of one connection run in one task. When a change wakes them together, the task runs
//! once and finds all of them ready, and what they tell leaves in one write; were they woken in between others, it would run
//! and write again and again. A listener that is asked again before the next ring costs an atomic load.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

/// Something that can be rung. It does not say what happened: listeners look for themselves.
#[derive(Debug, Default)]
pub(crate) struct Bell {
    /// How often it was rung. Changed only while `waiting` is locked, so that nobody begins to wait meanwhile.
    rings: AtomicU64,
    /// Never held while anybody is woken, or dropped.
    waiting: Mutex<Waiting>,
}

/// Those who wait for the next ring.
#[derive(Debug, Default)]
struct Waiting {
    /// In the order in which they came.
    places: Vec<Seat>,
    /// Invariant: exactly the places whose waker is `None`.
    free: Vec<usize>,
}

/// Where somebody waits.
#[derive(Debug)]
struct Seat {
    /// The task in which they wait, if it is one.
    task: Option<tokio::task::Id>,
    /// `None` when whoever waited has gone.
    waker: Option<Waker>,
}

/// Hears a bell. A ring is heard once, and none is lost: several of them are heard as one.
#[derive(Debug)]
pub(crate) struct Listener {
    bell: Arc<Bell>,
    /// How often the bell had been rung when this was last asked.
    heard: u64,
    place: Option<Place>,
}

/// Where a listener waits. It is its own only until the next ring.
#[derive(Debug)]
struct Place {
    rings: u64,
    at: usize,
    /// Whom the waker there wakes.
    whom: Identity,
}

/// What tells a waker from others, as long as it is kept.
type Identity = (usize, usize);

impl Bell {
    /// Wakes everybody who waits: task by task, and in a task in the order in which they came.
    pub(crate) fn ring(&self) {
        let mut waiting = self.waiting();
        self.rings.fetch_add(1, Ordering::Release);
        waiting.free.clear();
        let mut woken = std::mem::take(&mut waiting.places);
        drop(waiting);
        woken.sort_by_key(|it| it.task);
        woken.into_iter().filter_map(|it| it.waker).for_each(Waker::wake);
    }

    /// Hears every ring from now on.
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
    /// Whether the bell was rung since the last time this was asked, in whichever way.
    pub(crate) fn has_rung(&mut self) -> bool {
        let rings = self.bell.rings();
        std::mem::replace(&mut self.heard, rings) != rings
    }

    /// Waits for a ring that was not heard yet. Dropping the future loses nothing.
    pub(crate) async fn rung(&mut self) {
        std::future::poll_fn(|context| self.poll_rung(context)).await;
    }

    /// As [`Self::rung`]. Only the last one who asked is woken.
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

/// Wakers with the same identity wake the same task. The place keeps one, so that no other gets it meanwhile.
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

    /// Writes down its name when it is woken.
    struct Named(usize, Woken);

    impl Wake for Named {
        fn wake(self: Arc<Self>) {
            self.1.lock().expect("no panic").push(self.0);
        }
    }

    /// Who was woken, in order.
    type Woken = Arc<Mutex<Vec<usize>>>;

    /// A bell with so many listeners, a waker for each, and who was woken.
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
    fn a_ring_is_heard_once_by_each_in_the_order_in_which_they_came_to_wait() {
        let (bell, mut listeners, woken) = listening(4);
        for at in [2, 0, 3, 1, 0, 2] {
            assert!(!poll(&mut listeners[at]), "not rung yet");
        }
        bell.ring();
        assert_eq!(
            *woken.lock().expect("no panic"),
            [2, 0, 3, 1],
            "and each once, however often it was asked"
        );
        bell.ring();
        assert_eq!(woken.lock().expect("no panic").len(), 4, "nobody waits");
        assert!(listeners.iter_mut().all(poll), "several rings are heard as one");
        assert!(!listeners.iter_mut().any(poll));
    }

    #[tokio::test]
    async fn those_of_one_task_are_woken_one_behind_the_other_whenever_they_came() {
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
    fn whoever_asks_last_is_woken_and_whoever_has_gone_is_not() {
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
        assert!(bell.waiting().free.is_empty(), "a place of an earlier ring is nobody's");
    }

    #[tokio::test]
    async fn no_ring_is_lost_between_threads() {
        let bell = Arc::new(Bell::default());
        let mut listener = bell.listen();
        let ringing = std::thread::spawn(move || (0..1_000).for_each(|_| bell.ring()));
        while listener.heard < 1_000 {
            listener.rung().await;
        }
        ringing.join().expect("no panic");
    }
}
