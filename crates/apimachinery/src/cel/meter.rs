//! The budget of one evaluation.
//!
//! The cost is counted as kube-apiserver counts it. It does not cover everything: the size of a
//! text costs as much as that of a short one, and lists are compared for the price of their length.
//! The work (about one unit for each byte or value that is looked at) and the memory that results
//! take have limits of their own, so that no expression runs for long.

use std::cell::Cell;

use super::error::EvaluationError;

/// The largest cost of one evaluation: `PerCallLimit` of k8s.io/apiserver v0.36.4
/// pkg/apis/cel/config.go.
pub const PER_CALL_LIMIT: u64 = 1_000_000;

/// The work of one evaluation for each unit of its largest cost: less than a second for
/// [`PER_CALL_LIMIT`].
const WORK_PER_COST: u64 = 200;

/// The memory that all results of one evaluation may take, in bytes.
const MAX_MEMORY: u64 = 128 * 1024 * 1024;

/// Counts what an evaluation has used.
#[derive(Debug)]
pub(crate) struct Meter {
    limit: u64,
    cost: Cell<u64>,
    work: Cell<u64>,
    memory: Cell<u64>,
}

impl Meter {
    pub(crate) fn new(limit: u64) -> Self {
        Self { limit, cost: Cell::new(0), work: Cell::new(0), memory: Cell::new(0) }
    }

    /// Returns the cost so far.
    pub(crate) fn cost(&self) -> u64 {
        self.cost.get()
    }

    /// Adds to the cost.
    pub(crate) fn charge(&self, cost: u64) -> Result<(), EvaluationError> {
        Self::add(&self.cost, cost, self.limit)?;
        self.work(1)
    }

    /// Adds to the work.
    pub(crate) fn work(&self, units: u64) -> Result<(), EvaluationError> {
        Self::add(&self.work, units, self.limit.saturating_mul(WORK_PER_COST))
    }

    /// Adds memory, with the work of filling it.
    pub(crate) fn allocate(&self, bytes: usize) -> Result<(), EvaluationError> {
        let bytes = bytes as u64;
        Self::add(&self.memory, bytes, MAX_MEMORY)?;
        self.work(bytes / 8)
    }

    fn add(sum: &Cell<u64>, more: u64, limit: u64) -> Result<(), EvaluationError> {
        sum.set(sum.get().saturating_add(more));
        if sum.get() > limit { Err(EvaluationError::limit_exceeded()) } else { Ok(()) }
    }
}
