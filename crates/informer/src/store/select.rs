//! Reading a state by labels: through a label index if there is one and it is worthwhile, and
//! otherwise by examining every object.

use std::sync::Arc;

use dogwatch_core::{LabelSelector, Object, Operator, Requirement};

use super::lookup::KeyRange;
use super::postings::Postings;
use super::state::StoreState;
use super::walk::Values;

impl<T: Object> StoreState<T> {
    /// Returns the objects of one namespace, or of all, whose labels match, ordered by key.
    pub(super) fn select(&self, namespace: Option<&str>, selector: &LabelSelector) -> Vec<Arc<T>> {
        let range = KeyRange::new(namespace);
        if selector.is_everything() {
            return self.range(&range);
        }
        if selector.is_nothing() {
            return Vec::new();
        }
        let by_index = selector.requirements().iter().filter_map(|it| self.narrowed(it, &range));
        let cheapest = by_index.min_by_key(|(count, ..)| *count);
        match cheapest {
            // A look-up by key costs about as much as examining the labels of three consecutive
            // objects.
            Some((count, postings, requirement)) if count * 3 <= self.count(&range) => {
                let mut keys = Vec::with_capacity(count);
                for value in requirement.values() {
                    keys.extend(postings.keys(value, &range.from, range.to.as_deref()));
                }
                if requirement.values().len() > 1 {
                    keys.sort_unstable();
                }
                let mut objects = self.fetch(keys.into_iter());
                if selector.requirements().len() > 1 {
                    objects.retain(|it| selector.matches(it.header().labels));
                }
                objects
            }
            _ => {
                let all = Values::of(self.slices(&range));
                all.filter(|it| selector.matches(it.header().labels)).cloned().collect()
            }
        }
    }

    /// Returns the number of objects that a label index leaves to examine for this requirement, if
    /// there is such an index.
    fn narrowed<'s, 'r>(
        &'s self,
        requirement: &'r Requirement,
        range: &KeyRange,
    ) -> Option<(usize, &'s Postings, &'r Requirement)> {
        if !matches!(requirement.operator(), Operator::Equals | Operator::In) {
            return None;
        }
        let found = self.indexes.iter().find(|it| it.index.is_of_label(requirement.key()))?;
        let count =
            requirement.values().map(|it| found.postings.count(it, &range.from, range.to.as_deref())).sum();
        Some((count, &found.postings, requirement))
    }
}
