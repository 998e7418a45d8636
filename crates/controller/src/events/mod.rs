//! Events of `events.k8s.io/v1`, which report to people what happened to an object; few of them
//! even when much happens.
//!
//! ```text
//! recorders ─► queue (1000, full: dropped and counted) ─► series, spam filter ─► 8 workers ─► server
//! ```
//!
//! A repeated event becomes a series with a count instead of another object (rule EV-2), and events
//! from one source about one object are rate-limited (rule EV-1). Recording never waits. Everything
//! is bounded: the queue, the workers and their queues, and the series in memory. The `mod` lines
//! below are in layer order.

mod new_event;
mod series;
mod spam;
mod sink;
mod worker;
mod broadcaster;

pub use broadcaster::{EventBroadcaster, EventBroadcasterBuilder, EventRecorder};
pub use new_event::{EventType, InvalidReporter, NewEvent};
pub use sink::EventSink;
