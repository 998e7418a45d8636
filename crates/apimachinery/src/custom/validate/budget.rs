//! The number of checks that a value may take.

use std::cell::{Cell, RefCell};

use serde_json::Value;

use crate::custom::value_path::ValuePath;
use crate::weight;

/// The number of checks that any value may take.
const FREE_CHECKS: usize = 200_000;

/// The number of checks for each part of a value. Without alternatives in the schema, each part is
/// checked once; with them, once for each alternative.
const CHECKS_PER_PART: usize = 100;

/// The largest number of checks, each of which takes up to 200 ns. kube-apiserver has no limit.
const MOST_CHECKS: usize = 10_000_000;

/// The number of checks that may still be made of a value, or of several together.
#[derive(Debug)]
pub(crate) struct CheckBudget(usize);

impl CheckBudget {
    /// Returns the budget for the parts of a value.
    pub(crate) fn of(value: &Value) -> Self {
        Self::of_change(value, None)
    }

    /// Returns the budget for the parts of a value and of the old one, if there is one.
    pub(crate) fn of_change(value: &Value, old: Option<&Value>) -> Self {
        let parts = weight::of(value).saturating_add(old.map_or(0, weight::of));
        let number = parts.saturating_mul(CHECKS_PER_PART).saturating_add(FREE_CHECKS);
        Self(number.min(MOST_CHECKS))
    }

    /// Returns true if nothing can be checked any more.
    pub(crate) fn is_spent(&self) -> bool {
        self.0 == 0
    }
}

/// The number of checks that may still be made, shared by all parts of a value. The cost of
/// alternatives is the product of their number and the size of the value.
pub(super) struct Checks {
    left: Cell<usize>,
    /// The path of the value whose check exceeded the number.
    ended_at: RefCell<Option<String>>,
}

impl Checks {
    pub(super) fn within(budget: &CheckBudget) -> Self {
        Self { left: Cell::new(budget.0), ended_at: RefCell::new(None) }
    }

    /// Returns the checks that are left, and the path of the value whose check exceeded the number.
    pub(super) fn finish(self) -> (CheckBudget, Option<String>) {
        (CheckBudget(self.left.get()), self.ended_at.into_inner())
    }

    /// Returns true if no more checks may be made, so that the rest can be skipped.
    pub(super) fn are_spent(&self) -> bool {
        self.left.get() == 0
    }

    /// Takes a number of checks of the value at a path. Returns false if they are spent.
    pub(super) fn take(&self, count: usize, path: &ValuePath<'_>) -> bool {
        let left = self.left.get().saturating_sub(count);
        self.left.set(left);
        if left == 0 {
            self.ended_at.borrow_mut().get_or_insert_with(|| path.to_string());
        }
        left > 0
    }
}
