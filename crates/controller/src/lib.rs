//! Controllers: programs that bring the cluster to where it should be, one object at a time.
//!
//! The `mod` lines below are in layer order: a module uses only modules declared above it.

pub mod leader;

pub use leader::{LeaderElector, Led};
