//! What the server knows about single built-in kinds, as pure functions on JSON values.
//!
//! A write passes through them in this order: [`defaults`], [`prepare`], [`validate`]. [`traits`] says how a kind is
//! updated and deleted, [`fields`] by which fields it can be selected, [`events`] how the two groups of events share
//! one store, [`autoscaling`] how the two versions of autoscalers do. Kinds are named by group and kind (or plural); a kind that is not known here gets the common treatment.
//! Nothing here knows requests, storage or the clock.
//!
//! The `mod` lines below are in layer order.

pub(crate) mod look;
pub mod names;
pub mod quantity;
pub(crate) mod shape;
pub mod traits;
pub mod events;
pub mod fields;
pub mod defaults;
pub mod autoscaling;
mod allocate;
pub mod prepare;
pub mod validate;
