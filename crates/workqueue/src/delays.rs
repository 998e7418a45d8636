//! The deadlines of delayed adds: a binary heap with lazy deletion.
//!
//! Fed and read by [`crate::state`], which passes the time in; there is no clock here. A delay that
//! is replaced or cancelled stays in the heap as a stale element (its ticket differs from the
//! entry's) until it reaches the top or until half of the heap is stale. That keeps a push cheap,
//! and the memory proportional to the pending delays.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use crate::entries::{Delay, Entries, Id};

/// The number of stale elements that never cause a compaction.
const MAX_STALE: usize = 64;

/// All delayed adds.
#[derive(Debug, Default)]
pub(crate) struct Delays {
    heap: BinaryHeap<Reverse<Deadline>>,
    /// The number of entries with a delay. All other elements of the heap are stale.
    pending: usize,
    next_ticket: u32,
}

/// 16 bytes, so that a heap of a million elements takes 16 MB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Deadline {
    at: u64,
    ticket: u32,
    id: Id,
}

impl Ord for Deadline {
    fn cmp(&self, other: &Self) -> Ordering {
        // At equal times, the one that was set first. Tickets wrap around, so their distance
        // decides.
        let asked = || (self.ticket.wrapping_sub(other.ticket) as i32).cmp(&0);
        self.at.cmp(&other.at).then_with(asked)
    }
}

impl PartialOrd for Deadline {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Delays {
    /// Returns the number of pending delays.
    pub(crate) fn len(&self) -> usize {
        self.pending
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.pending == 0
    }

    /// Sets the delay of an entry, replacing an earlier one.
    pub(crate) fn set<K: Eq>(&mut self, entries: &mut Entries<K>, id: Id, at: u64, priority: i32) {
        let ticket = self.next_ticket;
        self.next_ticket = ticket.wrapping_add(1);
        if entries.set_delay(id, Some(Delay { at, ticket, priority })).is_none() {
            self.pending += 1;
        }
        self.heap.push(Reverse(Deadline { at, ticket, id }));
        self.tidy(entries);
    }

    /// Removes the delay of an entry.
    pub(crate) fn cancel<K: Eq>(&mut self, entries: &mut Entries<K>, id: Id) -> Option<Delay> {
        let delay = entries.set_delay(id, None)?;
        self.pending -= 1;
        self.tidy(entries);
        Some(delay)
    }

    /// Removes the delay that is due first, if it is not after `now`, and returns it with its
    /// entry.
    pub(crate) fn pop_due<K: Eq>(&mut self, entries: &mut Entries<K>, now: u64) -> Option<(Id, Delay)> {
        let at = self.next(entries)?;
        if at > now {
            return None;
        }
        let Reverse(deadline) = self.heap.pop()?;
        let delay = entries.set_delay(deadline.id, None)?;
        self.pending -= 1;
        if self.heap.is_empty() {
            self.heap = BinaryHeap::new();
        }
        Some((deadline.id, delay))
    }

    /// Returns the time of the next pending delay.
    pub(crate) fn next<K: Eq>(&mut self, entries: &Entries<K>) -> Option<u64> {
        while let Some(Reverse(deadline)) = self.heap.peek() {
            if is_pending(entries, *deadline) {
                return Some(deadline.at);
            }
            self.heap.pop();
        }
        None
    }

    /// Returns at most `limit` pending delays with their times, soonest first. They are those at
    /// the top of the heap, which are due soon but need not be the very next ones.
    pub(crate) fn upcoming<K: Eq>(&self, entries: &Entries<K>, limit: usize) -> Vec<(Id, u64)> {
        // Stale elements are at most half of the heap and [`MAX_STALE`].
        let looked_at = self.heap.iter().take(limit.saturating_mul(4).saturating_add(MAX_STALE));
        let pending = looked_at.filter(|Reverse(it)| is_pending(entries, *it));
        let mut upcoming: Vec<_> = pending.take(limit).map(|Reverse(it)| (it.id, it.at)).collect();
        upcoming.sort_unstable_by_key(|(_, at)| *at);
        upcoming
    }

    /// Removes all delays; the caller updates the entries.
    pub(crate) fn clear(&mut self) {
        *self = Self { next_ticket: self.next_ticket, ..Self::default() };
    }

    fn tidy<K: Eq>(&mut self, entries: &Entries<K>) {
        if self.heap.len() > 2 * self.pending + MAX_STALE {
            self.heap.retain(|Reverse(it)| is_pending(entries, *it));
            self.heap.shrink_to(2 * self.pending);
        }
    }
}

fn is_pending<K: Eq>(entries: &Entries<K>, deadline: Deadline) -> bool {
    entries.delay(deadline.id).is_some_and(|it| it.ticket == deadline.ticket && it.at == deadline.at)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_entries(count: u32) -> (Entries<u32>, Delays, Vec<Id>) {
        let mut entries = Entries::new();
        let ids = (0..count).map(|it| entries.find_or_insert(u64::from(it), it, None).0).collect();
        (entries, Delays::default(), ids)
    }

    #[test]
    fn delays_are_ordered_by_time_and_then_by_when_they_were_set() {
        let (mut entries, mut delays, ids) = with_entries(4);
        for (id, at) in ids.iter().zip([30, 10, 20, 10]) {
            delays.set(&mut entries, *id, at, 0);
        }
        let due: Vec<_> = std::iter::from_fn(|| delays.pop_due(&mut entries, 20)).map(|(id, _)| id).collect();
        assert_eq!(due, [ids[1], ids[3], ids[2]]);
        assert_eq!(delays.next(&entries), Some(30));
        assert_eq!(delays.len(), 1);
    }

    #[test]
    fn the_order_survives_a_wraparound_of_tickets() {
        let (mut entries, mut delays, ids) = with_entries(4);
        delays.next_ticket = u32::MAX - 1;
        for id in &ids {
            delays.set(&mut entries, *id, 5, 0);
        }
        let due: Vec<_> = std::iter::from_fn(|| delays.pop_due(&mut entries, 5)).map(|(id, _)| id).collect();
        assert_eq!(due, ids);
    }

    #[test]
    fn stale_delays_do_not_pile_up() {
        let (mut entries, mut delays, ids) = with_entries(2);
        for round in 0..100_000 {
            delays.set(&mut entries, ids[0], round, 0);
            delays.set(&mut entries, ids[1], round, 0);
            delays.cancel(&mut entries, ids[1]);
        }
        assert_eq!(delays.len(), 1);
        assert!(delays.heap.len() <= 2 + MAX_STALE, "{} elements", delays.heap.len());
        assert_eq!(delays.next(&entries), Some(99_999));
    }

    #[test]
    fn the_memory_of_delayed_keys_is_proportional_and_released() {
        for count in [10_000, 200_000] {
            let (mut entries, mut delays, ids) = with_entries(count);
            // Each delay is moved once, which leaves a stale element behind.
            for at in [1, 2] {
                ids.iter().for_each(|id| delays.set(&mut entries, *id, at, 0));
            }
            let heap = |delays: &Delays| delays.heap.capacity() * size_of::<Deadline>();
            let each = (entries.bytes() + heap(&delays)) / count as usize;
            assert!(each < 300, "{each} bytes for each of {count} keys");
            while let Some((id, _)) = delays.pop_due(&mut entries, 2) {
                entries.remove(id);
            }
            assert_eq!((entries.bytes(), heap(&delays)), (0, 0), "{count}");
        }
    }

    #[test]
    fn a_stale_delay_does_not_affect_the_next_entry_with_its_id() {
        let (mut entries, mut delays, ids) = with_entries(1);
        delays.set(&mut entries, ids[0], 5, 0);
        delays.cancel(&mut entries, ids[0]);
        entries.remove(ids[0]);
        let reused = entries.find_or_insert(9, 9, None).0;
        assert_eq!(reused, ids[0]);
        delays.set(&mut entries, reused, 50, 0);
        assert_eq!(delays.pop_due(&mut entries, 10), None);
        assert_eq!(delays.next(&entries), Some(50));
    }
}
