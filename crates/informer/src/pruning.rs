//! The decision when to look for entries of a list that have ended.
//!
//! The lists of an informer's handlers ask when one is added. It knows only lengths.

/// The length below which nothing is looked for.
pub(crate) const FIRST_PRUNING: usize = 16;

/// The decision when to look for entries of a list that have ended.
///
/// Looking whenever one is added would make adding `n` entries cost `n²`. So it is done when the
/// list has twice as many as the last look left, and each entry is looked at twice on average.
#[derive(Debug)]
pub(crate) struct Pruning {
    /// The length at which to look next.
    next: usize,
}

impl Pruning {
    /// Returns true if a list of this length is to be looked at.
    pub(crate) fn is_due(&self, length: usize) -> bool {
        length >= self.next
    }

    /// Notes the number of entries that are left.
    pub(crate) fn pruned(&mut self, left: usize) {
        self.next = left.saturating_mul(2).max(FIRST_PRUNING);
    }
}

impl Default for Pruning {
    fn default() -> Self {
        Self { next: FIRST_PRUNING }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_looked_at_when_its_length_has_doubled() {
        let mut pruning = Pruning::default();
        let looked_at: Vec<usize> = (0..1_000)
            .filter(|length| {
                let is_due = pruning.is_due(*length);
                if is_due {
                    pruning.pruned(*length);
                }
                is_due
            })
            .collect();
        assert_eq!(looked_at, [16, 32, 64, 128, 256, 512]);
    }
}
