//! Dividing keys among replicas: each key has one owner, and while replicas come and go none has two.
//!
//! ```text
//!           ┌────────────────────── every retry period ──────────────────────┐
//! renew our Lease, which says which view we act on ─► list all Leases ─► live ones = view
//!    view is another ─► keys that move are given up here and now, the Lease says so, the list is read again
//!    all live members act on this view ─► the keys that moved to us are ours
//! ```
//!
//! Every replica holds a member Lease. Live is who renewed it within its duration, as seen by our own clock; the owner of a key is
//! chosen among the live by rendezvous hashing, so a replica that comes or goes moves only its own share of the keys.
//!
//! Why there are never two owners. A member writes the view it acts on into its Lease *before* it reads the others', and takes a key
//! only when all of its view say the same. Of two members with different views that know each other, the one that wrote last
//! reads the other's and takes nothing. One that is not known was not renewed for a whole lease duration, and then it has given up
//! by itself before, at its renew deadline; when it comes back it begins anew, with a write and a read.
//!
//! Where the server can divide a list itself, parts of it take the place of keys: [`ShardMember::work_on_parts`] hands them over as it does
//! keys, and a [`ShardSelector`] says which part to ask the server for. The `mod` lines below are in layer order.

mod selector;
mod view;
mod members;
mod ownership;
mod seat;
mod holds;
mod shared;
mod keeper;
mod member;
mod builder;
mod parts;
#[cfg(test)]
mod simulation;

pub use builder::ShardMemberBuilder;
pub use member::ShardMember;
pub use seat::MemberSeats;
pub use selector::{ShardField, ShardSelector};
