//! Persistent volumes: claims are bound to volumes, which are created in the simulated class.
//!
//! The `mod` lines below are in layer order.

mod matching;
mod binder;
mod reclaimer;
mod ephemeral;

pub(crate) use binder::ClaimBinder;
pub(crate) use ephemeral::EphemeralVolumes;
pub(crate) use matching::{class_of_claim, is_bound, waits_for_consumer};
pub(crate) use reclaimer::VolumeReclaimer;
