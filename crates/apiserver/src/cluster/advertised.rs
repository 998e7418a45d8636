//! The address at which the API server tells its clients inside the cluster to reach it.

/// The advertised address of the API server, which is outside of every network that it serves.
pub(super) const ADVERTISED: &str = "10.255.255.1";
