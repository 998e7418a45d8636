//! Controllers: programs that bring the cluster to where it should be, one object at a time.
//!
//! The `mod` lines below are in layer order: a module uses only modules declared above it.

pub mod owner;
pub mod finalizer;
pub mod upsert;
pub mod events;
pub mod leader;
pub mod sharding;

pub use events::{EventBroadcaster, EventRecorder, Note};
pub use finalizer::Finalizer;
pub use leader::{LeaderElector, Led};
pub use owner::Owner;
pub use sharding::ShardMember;
pub use upsert::create_or_update;
