//! Sharding of keys over replicas: each key has one owner, and never two while replicas come and
//! go.
//!
//! ```text
//!           ┌────────────────────── every retry period ──────────────────────┐
//! renew our Lease, which declares the view we act on ─► list all Leases ─► live ones = view
//!    view changed ─► give up the keys that move, declare the new view in our Lease, list again
//!    all live members act on this view ─► we own the keys that moved to us
//! ```
//!
//! Every replica holds a member Lease. A member is live if it renewed the Lease within its
//! duration, as seen by our own clock; the owner of a key is chosen among the live members by
//! rendezvous hashing, so a replica that comes or goes moves only its own share of the keys.
//!
//! A key never has two owners: a member writes the view it acts on into its Lease *before* it reads
//! the others', and takes a key only if all members of its view declare the same view. Of two
//! members with different views that know each other, the one that wrote last reads the other's
//! Lease and takes nothing. A member that is not in the view has not renewed for a whole lease
//! duration, so it gave up its keys before that, at its renew deadline; when it comes back it
//! starts over, with a write and a read.
//!
//! If the server can shard a list itself, shards of a collection take the place of keys:
//! [`ShardMember::work_on_shards`] hands them over like keys, and a [`ShardSelector`] is the
//! parameter that requests one of them from the server. The `mod` lines below are in layer order.

mod selector;
mod view;
mod members;
mod ownership;
mod seat;
mod holds;
mod member_state;
mod member_lease;
mod member;
mod builder;
mod shard_work;
#[cfg(test)]
mod simulation;
#[cfg(test)]
pub(crate) mod manual;

pub use builder::ShardMemberBuilder;
pub use member::ShardMember;
pub use seat::MemberLeaseStore;
pub use selector::{ShardField, ShardSelector};

pub(crate) use ownership::KeyOwner;
