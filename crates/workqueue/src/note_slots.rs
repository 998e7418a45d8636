//! The notes of the keys in a queue, by the id of their entry.
//!
//! Fed and read by [`crate::state`], which knows whether a key has outstanding work or a delay.
//! They are apart from [`crate::entries`], so that a queue without notes has entries of the same
//! size and does no work for notes: for a type without a size, every function here is empty.

use std::mem::{needs_drop, size_of, swap, take};

use crate::entries::Id;
use crate::note::Note;

/// The notes of all entries.
#[derive(Debug)]
pub(crate) struct NoteSlots<N> {
    /// Those of the first entries; as long as the highest id that was written.
    slots: Vec<Slot<N>>,
    /// Notes that are not needed any more, and wait until they can be dropped outside the lock.
    discarded: Vec<N>,
}

/// The notes of one entry.
#[derive(Debug, Default)]
struct Slot<N> {
    /// The note of the outstanding work. Invariant: the default while there is none.
    outstanding: N,
    /// The note of the delayed add. Invariant: the default while there is none.
    delayed: N,
}

impl<N: Note> NoteSlots<N> {
    /// False if notes have no content.
    const STORED: bool = size_of::<N>() > 0;

    pub(crate) fn new() -> Self {
        Self { slots: Vec::new(), discarded: Vec::new() }
    }

    /// Merges the note of an add into that of the outstanding work. What is left in `note` is for
    /// the caller to drop.
    #[inline]
    pub(crate) fn add(&mut self, id: Id, note: &mut N) {
        if Self::STORED {
            self.slot(id).outstanding.merge(note);
        }
    }

    /// Merges the note of a delayed add into that of the delay, or replaces it. What is left in
    /// `note` is for the caller to drop.
    #[inline]
    pub(crate) fn delay(&mut self, id: Id, note: &mut N, replace: bool) {
        if !Self::STORED {
            return;
        }
        let delayed = &mut self.slot(id).delayed;
        if replace {
            swap(delayed, note);
        } else {
            delayed.merge(note);
        }
    }

    /// Merges the note of a delay that has become an add into that of the outstanding work.
    /// `is_new` is true if there was no outstanding work.
    #[inline]
    pub(crate) fn become_due(&mut self, id: Id, is_new: bool) {
        if !Self::STORED {
            return;
        }
        let Slot { outstanding, delayed } = self.slot(id);
        if is_new {
            swap(outstanding, delayed);
        } else {
            outstanding.merge(delayed);
            self.discard_delayed(id);
        }
    }

    /// Takes the note of the outstanding work.
    #[inline]
    pub(crate) fn take(&mut self, id: Id) -> N {
        if !Self::STORED {
            return N::default();
        }
        self.slots.get_mut(id as usize).map(|it| take(&mut it.outstanding)).unwrap_or_default()
    }

    /// Returns the note of the outstanding work, for inspection.
    pub(crate) fn outstanding(&self, id: Id) -> Option<&N> {
        self.slots.get(id as usize).map(|it| &it.outstanding)
    }

    /// Returns the note of the delayed add, for inspection.
    pub(crate) fn delayed(&self, id: Id) -> Option<&N> {
        self.slots.get(id as usize).map(|it| &it.delayed)
    }

    /// Removes the note of a delayed add.
    #[inline]
    pub(crate) fn discard_delayed(&mut self, id: Id) {
        if !Self::STORED {
            return;
        }
        let note = self.slots.get_mut(id as usize).map(|it| take(&mut it.delayed));
        if needs_drop::<N>() {
            self.discarded.extend(note);
        }
    }

    /// Takes the notes that are not needed any more. The caller drops them outside the lock.
    #[inline]
    pub(crate) fn take_discarded(&mut self) -> Vec<N> {
        if needs_drop::<N>() { take(&mut self.discarded) } else { Vec::new() }
    }

    /// Releases the memory of the slots. No entry may exist.
    #[inline]
    pub(crate) fn release(&mut self) {
        if Self::STORED {
            self.slots = Vec::new();
        }
    }

    /// Returns the memory allocated by the structure itself.
    #[cfg(test)]
    pub(crate) fn bytes(&self) -> usize {
        self.slots.capacity() * size_of::<Slot<N>>() + self.discarded.capacity() * size_of::<N>()
    }

    fn slot(&mut self, id: Id) -> &mut Slot<N> {
        let place = id as usize;
        if place >= self.slots.len() {
            self.slots.resize_with(place + 1, Slot::default);
        }
        &mut self.slots[place]
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::ready::Ready;
    use crate::state::{AddRequest, QueueState};

    /// The numbers of all adds.
    #[derive(Debug, Default, PartialEq)]
    struct Adds(Vec<u32>);

    impl Note for Adds {
        fn merge(&mut self, later: &mut Self) {
            self.0.append(&mut later.0);
        }
    }

    /// A step with the one key of a queue; adds have a number.
    enum Step {
        Add(u32),
        Delay(u32, u64),
        Replace(u32, u64),
        Cancel,
        Advance(u64),
        Stop,
        /// Takes the key, with the note of these adds.
        Take(&'static [u32]),
        NotReady,
        Finish,
    }

    fn request() -> AddRequest {
        AddRequest { hash: 7, group: None, priority: 0, now: 0 }
    }

    fn state<N: Note>(earliest_wins: bool) -> QueueState<u64, N> {
        QueueState::new(Ready::new(false, Some(15)), earliest_wins, false)
    }

    #[test]
    fn a_take_has_the_notes_of_the_adds_that_it_answers() {
        use Step::*;
        let either: [(&str, &[Step]); 15] = [
            ("added twice", &[Add(1), Add(2), Take(&[1, 2]), Finish, NotReady]),
            ("added in two turns", &[Add(1), Take(&[1]), Finish, Add(2), Take(&[2]), Finish]),
            ("added while held", &[Add(1), Take(&[1]), Add(2), Add(3), Finish, Take(&[2, 3]), Finish]),
            ("delayed", &[Delay(1, 5), NotReady, Advance(5), Take(&[1]), Finish, NotReady]),
            ("delayed twice, later", &[Delay(1, 5), Delay(2, 9), Advance(5), Take(&[1, 2]), Finish]),
            ("delayed twice, earlier", &[Delay(1, 9), Delay(2, 5), Advance(5), Take(&[1, 2]), Finish]),
            ("due and added", &[Delay(1, 5), Advance(5), Add(2), Take(&[1, 2]), Finish, NotReady]),
            ("due while held", &[Add(1), Take(&[1]), Delay(2, 5), Advance(5), Finish, Take(&[2]), Finish]),
            (
                "still delayed when done",
                &[Add(1), Take(&[1]), Delay(2, 5), Finish, NotReady, Advance(5), Take(&[2]), Finish],
            ),
            (
                "replaced by a later one",
                &[Delay(1, 5), Replace(2, 9), Advance(5), NotReady, Advance(9), Take(&[2]), Finish],
            ),
            ("replaced by an earlier one", &[Delay(1, 9), Replace(2, 5), Advance(9), Take(&[2]), Finish]),
            (
                "replaced and delayed",
                &[Delay(1, 9), Replace(2, 5), Delay(3, 7), Advance(5), Take(&[2, 3]), Finish, NotReady],
            ),
            ("cancelled", &[Delay(1, 5), Cancel, Advance(5), NotReady, Add(2), Take(&[2]), Finish]),
            (
                "cancelled while held",
                &[Add(1), Take(&[1]), Delay(2, 5), Cancel, Add(3), Finish, Take(&[3]), Finish, NotReady],
            ),
            ("stopped", &[Add(1), Take(&[1]), Add(2), Stop, Add(3), Finish, Take(&[2]), Finish, NotReady]),
        ];
        for earliest_wins in [false, true] {
            for (case, steps) in &either {
                run(case, earliest_wins, steps);
            }
        }
        let both_take_effect: [(&str, &[Step]); 5] = [
            (
                "delayed, then added",
                &[Delay(1, 5), Add(2), Take(&[2]), Finish, NotReady, Advance(5), Take(&[1]), Finish],
            ),
            (
                "added, then delayed",
                &[Add(1), Delay(2, 5), Take(&[1]), Finish, NotReady, Advance(5), Take(&[2]), Finish],
            ),
            ("due while it waits", &[Add(1), Delay(2, 5), Add(3), Advance(5), Take(&[1, 3, 2]), Finish]),
            (
                "due while held and dirty",
                &[Add(1), Take(&[1]), Delay(2, 5), Add(3), Advance(5), Finish, Take(&[3, 2]), Finish],
            ),
            ("cancelled while it waits", &[Add(1), Delay(2, 5), Cancel, Advance(5), Take(&[1]), Finish]),
        ];
        for (case, steps) in &both_take_effect {
            run(case, false, steps);
        }
        let the_earliest_wins: [(&str, &[Step]); 4] = [
            ("delayed, then added", &[Delay(1, 5), Add(2), Take(&[1, 2]), Finish, Advance(5), NotReady]),
            ("added, then delayed", &[Add(1), Delay(2, 5), Take(&[1, 2]), Finish, Advance(5), NotReady]),
            (
                "delayed while held, then added",
                &[
                    Add(1),
                    Take(&[1]),
                    Delay(2, 5),
                    Add(3),
                    Finish,
                    Take(&[2, 3]),
                    Finish,
                    Advance(5),
                    NotReady,
                ],
            ),
            (
                "delayed while held and dirty",
                &[
                    Add(1),
                    Take(&[1]),
                    Add(2),
                    Delay(3, 5),
                    Finish,
                    Take(&[2, 3]),
                    Finish,
                    Advance(5),
                    NotReady,
                ],
            ),
        ];
        for (case, steps) in &the_earliest_wins {
            run(case, true, steps);
        }
    }

    fn run(case: &str, earliest_wins: bool, steps: &[Step]) {
        let mut state = state::<Adds>(earliest_wins);
        let mut held = None;
        for step in steps {
            match step {
                Step::Add(number) => drop(state.add_noted(1, &mut Adds(vec![*number]), request())),
                Step::Delay(number, at) => {
                    state.delay_noted(1, &mut Adds(vec![*number]), request(), *at, false);
                }
                Step::Replace(number, at) => {
                    state.delay_noted(1, &mut Adds(vec![*number]), request(), *at, true);
                }
                Step::Cancel => assert!(state.cancel(7, &1).0, "{case}"),
                Step::Advance(now) => {
                    state.advance(*now);
                }
                Step::Stop => drop(state.stop()),
                Step::Take(expected) => {
                    let taken = state.take(0).expect(case);
                    assert_eq!(taken.note.0, *expected, "{case}, {earliest_wins}");
                    held = Some(taken.id);
                }
                Step::NotReady => assert!(state.take(0).is_none(), "{case}, {earliest_wins}"),
                Step::Finish => drop(state.finish(held.take().expect(case))),
            }
        }
        // No note is left behind for the next key with the same id.
        assert!(held.is_none() && !state.has_delays(), "{case}");
        state.stop();
        let left = state.notes().slots.iter().flat_map(|it| [&it.outstanding, &it.delayed]);
        assert!(left.into_iter().all(|it| *it == Adds::default()), "{case}, {earliest_wins}");
    }

    /// The first and the last add.
    #[derive(Debug, Default)]
    struct Ends {
        first: Option<Arc<()>>,
        last: Option<Arc<()>>,
    }

    impl Note for Ends {
        fn merge(&mut self, later: &mut Self) {
            if self.first.is_none() {
                swap(self, later);
            } else {
                let Self { first, last } = later;
                swap(&mut self.last, if last.is_some() { last } else { first });
            }
        }
    }

    #[test]
    fn a_million_adds_of_a_key_take_no_more_memory_than_two() {
        let memory = |adds: u32| {
            let (mut state, token) = (state::<Ends>(false), Arc::new(()));
            for _ in 0..adds {
                let note = || Ends { first: Some(Arc::clone(&token)), last: None };
                state.add_noted(1, &mut note(), request());
                state.delay_noted(1, &mut note(), request(), 5, false);
            }
            (state.bytes(), Arc::strong_count(&token))
        };
        assert_eq!(memory(1_000_000), memory(2));
    }

    #[test]
    fn a_queue_without_notes_stores_none_and_the_memory_of_others_is_released() {
        let mut plain = state::<()>(false);
        let mut noted = state::<Adds>(false);
        for key in 0..10_000 {
            let request = AddRequest { hash: key, ..request() };
            plain.add_noted(key, &mut (), request);
            noted.add_noted(key, &mut Adds(vec![1]), request);
            noted.delay_noted(key, &mut Adds(vec![2]), request, 5, false);
        }
        plain.take(0).expect("there are keys");
        assert_eq!(plain.notes().bytes(), 0);
        noted.stop();
        assert_eq!(noted.take_discarded_notes().len(), 10_000);
        while let Some(taken) = noted.take(0) {
            noted.finish(taken.id);
        }
        assert_eq!(noted.bytes(), 0);
    }
}
