//! Telling people what happened to an object: events of `events.k8s.io/v1`, few of them even when much happens.
//!
//! ```text
//! recorders ─► queue (1000, full: dropped and counted) ─► series, spam filter ─► 8 workers ─► server
//! ```
//!
//! The same event again becomes a series with a count instead of another object (rule EV-2), and a source that has much to say about
//! one object is limited (rule EV-1). Recording never waits. Everything is bounded: the queue, the workers and what they hold,
//! and the series that are remembered. The `mod` lines below are in layer order.

mod note;
mod series;
mod spam;
mod sink;
mod worker;
mod broadcaster;

pub use broadcaster::{EventBroadcaster, EventBroadcasterBuilder, EventRecorder};
pub use note::{EventKind, InvalidReporter, Note};
pub use sink::EventSink;
