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
mod core;
mod pump;
mod shared;
mod builder;

pub use builder::InformerBuilder;
pub use core::NotSynced;
pub use pump::OnGone;
pub use shared::{InformerStopped, SharedInformer};

pub(crate) use builder::Contents;
pub(crate) use shared::{Life, WeakInformer};
