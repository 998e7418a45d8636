//! The order in which keys are handed out: by priority, in turns between groups, first come first
//! served within both.
//!
//! Fed and read by [`crate::state`]. It knows nothing about held keys, nor about time.
//!
//! No key starves. After keys of lower priorities have waited for [`Ready::patience`] takes, one of
//! them is taken next; the lower priorities share these takes in turns, from high to low. So the
//! lower ones together get one take in `patience + 1`, and a key at position `n` of its priority,
//! with `m` priorities below the highest, is taken after at most `n · m · (patience + 1)` takes,
//! whatever is added above it.

use std::collections::VecDeque;

use hashbrown::HashMap;

use crate::entries::{Entries, Id, List};

/// The number of levels up to which empty ones are kept for the next key. Few queues have more than
/// three priorities.
const LEVELS_KEPT: usize = 8;

/// All ready keys.
#[derive(Debug)]
pub(crate) struct Ready {
    /// One for each priority, the highest last. Some may be empty.
    levels: Vec<Level>,
    len: usize,
    /// True if groups take turns; otherwise a level is one list.
    fair: bool,
    /// The number of takes that lower priorities yield; `None` lets them starve.
    patience: Option<u32>,
    /// The number of takes that they have yielded so far.
    passed: u32,
    /// The lower priority that had the last take.
    last_low: i32,
}

#[derive(Debug)]
struct Level {
    priority: i32,
    order: Order,
}

#[derive(Debug)]
enum Order {
    Plain(List),
    Fair(Groups),
}

/// Lists that take turns.
#[derive(Debug, Default)]
struct Groups {
    /// Invariant: the groups in `turns`, each once.
    lists: HashMap<u64, List>,
    /// The order of turns. A group whose keys were all moved elsewhere is skipped at its turn.
    turns: VecDeque<u64>,
    len: usize,
}

impl Ready {
    pub(crate) fn new(fair: bool, patience: Option<u32>) -> Self {
        Self { levels: Vec::new(), len: 0, fair, patience, passed: 0, last_low: i32::MAX }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Appends an entry, which is in no list, to its group at its priority.
    #[inline]
    pub(crate) fn push<K>(&mut self, entries: &mut Entries<K>, id: Id) {
        let priority = entries[id].priority;
        // Nearly always it is the highest one.
        let at = match self.levels.last() {
            Some(last) if last.priority == priority => Ok(self.levels.len() - 1),
            _ => self.levels.binary_search_by_key(&priority, |it| it.priority),
        };
        let at = at.unwrap_or_else(|at| {
            let order = if self.fair { Order::Fair(Groups::default()) } else { Order::Plain(List::new()) };
            self.levels.insert(at, Level { priority, order });
            at
        });
        match &mut self.levels[at].order {
            Order::Plain(list) => list.push_back(entries, id),
            Order::Fair(groups) => groups.push(entries, id),
        }
        self.len += 1;
    }

    /// Removes the next entry.
    #[inline]
    pub(crate) fn pop<K>(&mut self, entries: &mut Entries<K>) -> Option<Id> {
        let highest = self.levels.iter().rposition(|it| it.order.len() > 0)?;
        let at = self.next_level(highest);
        let id = match &mut self.levels[at].order {
            Order::Plain(list) => list.pop_front(entries),
            Order::Fair(groups) => groups.pop(entries),
        };
        self.len -= 1;
        self.tidy(at);
        id
    }

    /// Removes an entry, wherever it is. Its priority must still be the one with which it was
    /// pushed.
    pub(crate) fn unlink<K>(&mut self, entries: &mut Entries<K>, id: Id) {
        let priority = entries[id].priority;
        let Ok(at) = self.levels.binary_search_by_key(&priority, |it| it.priority) else { return };
        match &mut self.levels[at].order {
            Order::Plain(list) => list.unlink(entries, id),
            Order::Fair(groups) => groups.unlink(entries, id),
        }
        self.len -= 1;
        self.tidy(at);
    }

    /// Returns the level to take from, given the highest level with keys.
    #[inline]
    fn next_level(&mut self, highest: usize) -> usize {
        let Some(patience) = self.patience else { return highest };
        let all_are_highest = self.levels[highest].order.len() == self.len;
        if all_are_highest {
            self.passed = 0;
            return highest;
        }
        if self.passed < patience {
            self.passed += 1;
            return highest;
        }
        self.passed = 0;
        let lower = &self.levels[..highest];
        let below = |limit: i32| lower.iter().rposition(|it| it.priority < limit && it.order.len() > 0);
        let chosen = below(self.last_low).or_else(|| below(i32::MAX)).unwrap_or(highest);
        self.last_low = self.levels[chosen].priority;
        chosen
    }

    #[inline]
    fn tidy(&mut self, at: usize) {
        if self.levels.len() > LEVELS_KEPT && self.levels[at].order.len() == 0 {
            self.levels.remove(at);
        }
    }
}

impl Order {
    #[inline]
    fn len(&self) -> usize {
        match self {
            Self::Plain(list) => list.len(),
            Self::Fair(groups) => groups.len,
        }
    }
}

impl Groups {
    fn push<K>(&mut self, entries: &mut Entries<K>, id: Id) {
        let group = entries.cold(id).group;
        let list = self.lists.entry(group).or_insert_with(|| {
            self.turns.push_back(group);
            List::new()
        });
        list.push_back(entries, id);
        self.len += 1;
    }

    fn pop<K>(&mut self, entries: &mut Entries<K>) -> Option<Id> {
        loop {
            let group = self.turns.pop_front()?;
            let list = self.lists.get_mut(&group)?;
            let id = list.pop_front(entries);
            if list.is_empty() {
                self.lists.remove(&group);
            } else {
                self.turns.push_back(group);
            }
            if id.is_some() {
                self.len -= 1;
                return id;
            }
        }
    }

    fn unlink<K>(&mut self, entries: &mut Entries<K>, id: Id) {
        if let Some(list) = self.lists.get_mut(&entries.cold(id).group) {
            list.unlink(entries, id);
            self.len -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Fixture {
        entries: Entries<String>,
        ready: Ready,
    }

    impl Fixture {
        fn new(fair: bool, patience: Option<u32>) -> Self {
            Self { entries: Entries::new(), ready: Ready::new(fair, patience) }
        }

        /// Pushes a key whose group is its first letter.
        fn push(&mut self, key: &str, priority: i32) -> Id {
            let group = u64::from(key.as_bytes()[0]);
            let (id, _) = self.entries.find_or_insert(0, key.to_owned(), Some(group));
            self.entries[id].priority = priority;
            self.ready.push(&mut self.entries, id);
            id
        }

        fn pop(&mut self) -> Option<String> {
            let id = self.ready.pop(&mut self.entries)?;
            self.entries.remove(id)
        }

        fn all(&mut self) -> String {
            std::iter::from_fn(|| self.pop()).collect::<Vec<_>>().join(" ")
        }
    }

    #[test]
    fn higher_priorities_come_first_and_a_priority_is_first_come_first_served() {
        let mut fixture = Fixture::new(false, Some(100));
        for (key, priority) in [("a", 0), ("b", -100), ("c", 7), ("d", 0), ("e", 7)] {
            fixture.push(key, priority);
        }
        assert_eq!(fixture.all(), "c e a d b");
        assert_eq!(fixture.ready.len(), 0);
    }

    #[test]
    fn groups_take_turns_within_a_priority() {
        let mut fixture = Fixture::new(true, None);
        for key in ["a1", "a2", "a3", "b1", "c1", "b2"] {
            fixture.push(key, 0);
        }
        fixture.push("z1", 1);
        assert_eq!(fixture.all(), "z1 a1 b1 c1 a2 b2 a3");
    }

    #[test]
    fn a_group_that_was_emptied_by_unlinking_is_skipped_and_may_come_back() {
        let mut fixture = Fixture::new(true, None);
        fixture.push("a1", 0);
        let moved = fixture.push("b1", 0);
        fixture.push("c1", 0);
        fixture.ready.unlink(&mut fixture.entries, moved);
        fixture.entries.remove(moved);
        assert_eq!(fixture.pop().as_deref(), Some("a1"));
        fixture.push("b2", 0);
        assert_eq!(fixture.all(), "b2 c1");
        assert!(
            matches!(&fixture.ready.levels[0].order, Order::Fair(it) if it.lists.is_empty() && it.turns.is_empty())
        );
    }

    #[test]
    fn lower_priorities_get_every_third_take_in_turns_with_a_patience_of_two() {
        let mut fixture = Fixture::new(false, Some(2));
        for key in ["h1", "h2", "h3", "h4", "h5", "h6", "h7", "h8"] {
            fixture.push(key, 10);
        }
        for (key, priority) in [("m1", 5), ("m2", 5), ("l1", -5)] {
            fixture.push(key, priority);
        }
        assert_eq!(fixture.all(), "h1 h2 m1 h3 h4 l1 h5 h6 m2 h7 h8");
    }

    #[test]
    fn with_strict_priorities_lower_ones_wait_for_ever() {
        let mut fixture = Fixture::new(false, None);
        fixture.push("low", -1);
        for _ in 0..1000 {
            fixture.push("high", 0);
            assert_eq!(fixture.pop().as_deref(), Some("high"));
        }
    }

    #[test]
    fn levels_do_not_pile_up() {
        let mut fixture = Fixture::new(false, Some(16));
        for priority in 0..1000 {
            fixture.push(&format!("k{priority}"), priority);
        }
        fixture.all();
        assert!(fixture.ready.levels.len() <= LEVELS_KEPT);
    }
}
