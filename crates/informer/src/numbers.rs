//! Numbers as names for handlers that have none, recycled when no longer needed.
//!
//! The number is a label of the handler's metrics. A counter that only grows would create a new
//! time series for each short-lived stream; taking the smallest free number limits them to the
//! number of handlers that exist at the same time.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// An allocator of numbers from 1 on. A clone shares the state.
#[derive(Clone, Debug, Default)]
pub(crate) struct Numbers(Arc<Mutex<BTreeSet<usize>>>);

/// A number that is unique within its [`Numbers`]. Dropping it frees the number.
#[derive(Debug)]
pub(crate) struct Number {
    number: usize,
    taken: Numbers,
}

impl Numbers {
    /// Allocates the smallest free number.
    pub(crate) fn take(&self) -> Number {
        let mut taken = self.taken();
        let number =
            (1..).zip(taken.iter()).find(|(free, it)| free != *it).map_or(taken.len() + 1, |it| it.0);
        taken.insert(number);
        Number { number, taken: self.clone() }
    }

    fn taken(&self) -> MutexGuard<'_, BTreeSet<usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Number {
    pub(crate) fn get(&self) -> usize {
        self.number
    }
}

impl Drop for Number {
    fn drop(&mut self) {
        self.taken.taken().remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_free_number_is_taken() {
        let numbers = Numbers::default();
        let taken: Vec<_> = (0..3).map(|_| numbers.take()).collect();
        assert_eq!(taken.iter().map(Number::get).collect::<Vec<_>>(), [1, 2, 3]);
        let mut taken = taken.into_iter();
        let (first, second) = (taken.next(), taken.next());
        drop(second);
        assert_eq!(numbers.take().get(), 2);
        drop(first);
        assert_eq!(numbers.take().get(), 1);
    }
}
