//! The processor time and the memory of an informer, for `dogwatch bench sync` and
//! `cargo xtask bench peers`.
//!
//! An informer is compiled for each type of object. Those that are measured are compiled here, so
//! that the profile of the command, which is not optimised, does not count against them.
//!
//! The `mod` lines below are in layer order.

mod process;
mod pod_view;
mod change_counter;
mod sync;

pub use change_counter::ChangeCounter;
pub use pod_view::PodView;
pub use process::{Memory, Stopwatch, idle};
pub use sync::{Payload, Source, SyncCost};
