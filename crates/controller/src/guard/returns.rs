//! The missing objects that brought a key back, which bound how often they do.

use std::collections::VecDeque;
use std::time::Duration;

use dogwatch_core::{ObjectKey, ResourceVersion};

use crate::reconciler::Written;

/// The number of times in a row that missing objects bring a key back at once.
const IMMEDIATE_RETURNS: u32 = 3;
/// The delay of the next such return, doubled each time.
const FIRST_DELAY: Duration = Duration::from_millis(100);
/// The maximal delay of such a return.
const LONGEST_DELAY: Duration = Duration::from_secs(60);
/// The number of missing states that are remembered for a key.
pub(super) const REMEMBERED: usize = 64;

/// The missing objects that brought a key back, since a reconcile last missed none.
#[derive(Debug, Default)]
pub(super) struct Returns {
    /// The source, object and version of each, oldest first.
    pub(super) states: VecDeque<(usize, ObjectKey, ResourceVersion)>,
    count: u32,
}

impl Returns {
    /// Records a missing object. Returns the delay with which it brings the key back, or `None` if
    /// this very state already has: the reconciler has then seen the cache without it, and wrote
    /// nothing else.
    pub(super) fn add(&mut self, source: usize, object: &Written) -> Option<Duration> {
        let state = (source, object.key.clone(), object.version.clone());
        if self.states.contains(&state) {
            return None;
        }
        if self.states.len() == REMEMBERED {
            self.states.pop_front();
        }
        self.states.push_back(state);
        self.count = self.count.saturating_add(1);
        let doublings = self.count.checked_sub(IMMEDIATE_RETURNS + 1);
        let delay = |it: u32| FIRST_DELAY.saturating_mul(2_u32.saturating_pow(it)).min(LONGEST_DELAY);
        Some(doublings.map_or(Duration::ZERO, delay))
    }
}
