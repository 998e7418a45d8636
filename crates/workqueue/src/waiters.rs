//! The tasks that wait for a key: which of them is woken, and which of them keeps the timer.
//!
//! Fed by [`crate::shared_queue`], under the same lock as [`crate::state`], so that nothing can
//! happen between looking for a key and beginning to wait. It knows nothing about keys.
//!
//! Each key that becomes ready wakes one waiter, which then leaves the line. A waiter that gives up
//! after it was woken wakes another one. The delays of a queue need one timer, and one of the
//! waiters has it: the timekeeper. There is one whenever a task waits and a key is delayed; a
//! timekeeper that gives up or takes a key appoints the next.

use std::collections::VecDeque;
use std::task::Waker;

/// The wakers to call after the lock has been released. An empty one allocates nothing.
#[derive(Debug, Default)]
pub(crate) struct Wakes(Vec<Waker>);

impl Wakes {
    #[inline]
    pub(crate) fn wake(self) {
        if !self.0.is_empty() {
            self.0.into_iter().for_each(Waker::wake);
        }
    }
}

/// Identifies a waiter. Tickets of a queue are never reused.
pub(crate) type Ticket = u64;

#[derive(Debug, Default)]
pub(crate) struct Waiters {
    /// The waiters that have not been woken for a key, the longest-waiting first.
    line: VecDeque<(Ticket, Waker)>,
    next_ticket: Ticket,
    timekeeper: Option<Timekeeper>,
    /// The tasks that wait for the queue to be drained.
    drainers: Vec<Waker>,
}

#[derive(Clone, Copy, Debug)]
struct Timekeeper {
    ticket: Ticket,
    /// The time that its timer is set to; zero after it was woken, because it will look for itself.
    at: u64,
}

impl Waiters {
    /// Adds a waiter to the line, or updates its waker.
    pub(crate) fn wait(&mut self, ticket: Option<Ticket>, waker: &Waker) -> Ticket {
        let ticket = ticket.unwrap_or_else(|| {
            self.next_ticket += 1;
            self.next_ticket
        });
        match self.line.iter_mut().find(|(it, _)| *it == ticket) {
            Some((_, old)) => old.clone_from(waker),
            None => self.line.push_back((ticket, waker.clone())),
        }
        ticket
    }

    /// Removes up to `count` waiters from the line, to be woken for as many keys. The timekeeper
    /// goes last.
    #[inline]
    pub(crate) fn wake(&mut self, count: usize, wakes: &mut Wakes) {
        if !self.line.is_empty() {
            self.wake_some(count, wakes);
        }
    }

    fn wake_some(&mut self, count: usize, wakes: &mut Wakes) {
        for _ in 0..count.min(self.line.len()) {
            let first_keeps_time = self.line.front().is_some_and(|(it, _)| self.keeps_time(*it));
            let at = usize::from(first_keeps_time && self.line.len() > 1);
            wakes.0.extend(self.line.remove(at).map(|(_, waker)| waker));
        }
    }

    /// Wakes all waiters, and clears the timekeeper.
    pub(crate) fn wake_all(&mut self, wakes: &mut Wakes) {
        wakes.0.extend(self.line.drain(..).map(|(_, waker)| waker));
        self.timekeeper = None;
    }

    /// Removes a waiter that has a key or gives up. Returns true if it had been woken for a key.
    pub(crate) fn leave(&mut self, ticket: Ticket) -> bool {
        if self.keeps_time(ticket) {
            self.timekeeper = None;
        }
        let place = self.line.iter().position(|(it, _)| *it == ticket);
        place.and_then(|at| self.line.remove(at)).is_none()
    }

    /// Appoints a timekeeper if a task waits and there is none. Call it only while a key is
    /// delayed.
    pub(crate) fn appoint(&mut self, wakes: &mut Wakes) {
        if self.timekeeper.is_none()
            && let Some((ticket, waker)) = self.line.front()
        {
            self.timekeeper = Some(Timekeeper { ticket: *ticket, at: 0 });
            wakes.0.push(waker.clone());
        }
    }

    /// Announces a delay that is due at `at`: wakes the timekeeper if its timer is set to a later
    /// time.
    pub(crate) fn is_due_at(&mut self, at: u64, wakes: &mut Wakes) {
        match &mut self.timekeeper {
            None => self.appoint(wakes),
            Some(keeper) if at < keeper.at => {
                keeper.at = 0;
                let ticket = keeper.ticket;
                // If it is not in the line, it has been woken already.
                let waker = self.line.iter().find(|(it, _)| *it == ticket).map(|(_, waker)| waker.clone());
                wakes.0.extend(waker);
            }
            Some(_) => {}
        }
    }

    /// Makes this waiter, which is in the line, the timekeeper if there is none. Returns true if it
    /// is the timekeeper.
    pub(crate) fn keep_time(&mut self, ticket: Ticket, at: u64) -> bool {
        let keeper = self.timekeeper.get_or_insert(Timekeeper { ticket, at });
        if keeper.ticket == ticket {
            keeper.at = at;
        }
        keeper.ticket == ticket
    }

    /// Clears the timekeeper, since nothing is delayed.
    pub(crate) fn dismiss(&mut self) {
        self.timekeeper = None;
    }

    pub(crate) fn wait_for_drain(&mut self, waker: &Waker) {
        if !self.drainers.iter().any(|it| it.will_wake(waker)) {
            self.drainers.push(waker.clone());
        }
    }

    pub(crate) fn wake_drainers(&mut self, wakes: &mut Wakes) {
        wakes.0.append(&mut self.drainers);
    }

    fn keeps_time(&self, ticket: Ticket) -> bool {
        self.timekeeper.is_some_and(|it| it.ticket == ticket)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    use super::*;

    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn line(count: usize) -> (Waiters, Vec<(Ticket, Arc<Count>)>) {
        let mut waiters = Waiters::default();
        let all = (0..count).map(|_| {
            let count = Arc::new(Count::default());
            (waiters.wait(None, &Waker::from(count.clone())), count)
        });
        let all = all.collect();
        (waiters, all)
    }

    fn woken(waiters: &[(Ticket, Arc<Count>)], wakes: Wakes) -> Vec<usize> {
        wakes.wake();
        waiters.iter().map(|(_, it)| it.0.swap(0, Ordering::Relaxed)).collect()
    }

    #[test]
    fn each_key_wakes_one_waiter_the_longest_waiting_first() {
        let (mut waiters, all) = line(3);
        let mut wakes = Wakes::default();
        waiters.wake(2, &mut wakes);
        assert_eq!(woken(&all, wakes), [1, 1, 0]);
        assert!(waiters.leave(all[0].0), "it was woken");
        assert!(!waiters.leave(all[2].0), "it was not woken");
    }

    #[test]
    fn the_timekeeper_is_woken_last_for_a_key_and_first_for_an_earlier_time() {
        let (mut waiters, all) = line(3);
        assert!(waiters.keep_time(all[0].0, 100));
        assert!(!waiters.keep_time(all[1].0, 100));
        let mut wakes = Wakes::default();
        waiters.wake(1, &mut wakes);
        assert_eq!(woken(&all, wakes), [0, 1, 0]);

        let mut wakes = Wakes::default();
        waiters.is_due_at(150, &mut wakes);
        assert_eq!(woken(&all, std::mem::take(&mut wakes)), [0, 0, 0]);
        waiters.is_due_at(50, &mut wakes);
        waiters.is_due_at(40, &mut wakes);
        assert_eq!(woken(&all, wakes), [1, 0, 0], "once, because it looks for itself then");
    }

    #[test]
    fn a_timekeeper_that_leaves_is_replaced_even_before_it_has_looked() {
        let (mut waiters, all) = line(3);
        let mut wakes = Wakes::default();
        for (gone, _) in &all[..2] {
            waiters.appoint(&mut wakes);
            waiters.leave(*gone);
        }
        waiters.appoint(&mut wakes);
        assert_eq!(woken(&all, wakes), [1, 1, 1]);
        assert!(waiters.keep_time(all[2].0, 5));
    }
}
