//! The shared informer: reflectors, store and fan-out, assembled and kept running.
//!
//! ```text
//! Feed (a reflector and its queue) ─┐
//! Feed, one per namespace           ├─► Pump: apply, publish ─► FanOut
//!                                   │     └─ takes handlers in between two batches
//! SharedInformer: a handle ─────────┘
//! ```

mod feed;
mod coverage;
mod inbox;
mod shared_state;
mod monitor;
mod pump;
mod shared_informer;
mod builder;

pub use builder::InformerBuilder;
pub use monitor::InformerMonitor;
pub use pump::OnGone;
pub use shared_informer::{InformerStopped, SharedInformer};
pub use shared_state::NotSynced;

pub(crate) use builder::Contents;
pub(crate) use shared_informer::{Lifecycle, WeakInformer};
