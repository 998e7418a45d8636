//! The address by which clients inside the cluster reach the API server, as its objects say.

/// The advertised address of the API server, which is outside of every network that it serves.
pub(super) const ADVERTISED: &str = "10.255.255.1";
