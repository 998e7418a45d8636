//! Numbers that serve as names of handlers that have none, recycled when no longer needed.
//!
//! The number is a label of the handler's metrics. A counter that only grows would create a new
//! time series for each short-lived stream; taking the smallest free number limits them to the
//! number of handlers that exist at the same time.

use parking_lot::{Mutex, MutexGuard};
use std::collections::BTreeSet;
use std::sync::Arc;

/// An allocator of numbers from 1 on. A clone shares the state.
#[derive(Clone, Debug, Default)]
pub(crate) struct NumberAllocator(Arc<Mutex<BTreeSet<usize>>>);

/// A number that is unique within its [`NumberAllocator`]. Dropping it frees the number.
#[derive(Debug)]
pub(crate) struct AllocatedNumber {
    number: usize,
    taken: NumberAllocator,
}

impl NumberAllocator {
    /// Allocates the smallest free number.
    pub(crate) fn take(&self) -> AllocatedNumber {
        let mut taken = self.taken();
        let number =
            (1..).zip(taken.iter()).find(|(free, it)| free != *it).map_or(taken.len() + 1, |it| it.0);
        taken.insert(number);
        AllocatedNumber { number, taken: self.clone() }
    }

    fn taken(&self) -> MutexGuard<'_, BTreeSet<usize>> {
        self.0.lock()
    }
}

impl AllocatedNumber {
    pub(crate) fn get(&self) -> usize {
        self.number
    }
}

impl Drop for AllocatedNumber {
    fn drop(&mut self) {
        self.taken.taken().remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_free_number_is_taken() {
        let numbers = NumberAllocator::default();
        let taken: Vec<_> = (0..3).map(|_| numbers.take()).collect();
        assert_eq!(taken.iter().map(AllocatedNumber::get).collect::<Vec<_>>(), [1, 2, 3]);
        let mut taken = taken.into_iter();
        let (first, second) = (taken.next(), taken.next());
        drop(second);
        assert_eq!(numbers.take().get(), 2);
        drop(first);
        assert_eq!(numbers.take().get(), 1);
    }
}
