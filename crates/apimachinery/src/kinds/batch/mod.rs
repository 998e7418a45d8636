//! The kinds of the group `batch`.
//!
//! The `mod` lines below are in layer order.

mod schedule;
pub(crate) mod job;
pub(crate) mod cron_job;
