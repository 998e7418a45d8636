//! Addresses and ports of services: who has which.

/// What is taken.
#[derive(Clone, Debug, Default)]
pub(super) struct Addresses;
