//! Switches for the hand-made parts of a connection, to measure their effect with
//! `cargo xtask bench apiserver --ablation`. Not part of the public API.

/// The hand-made parts of a connection. The default is what servers use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::exhaustive_structs, reason = "only this repository's benchmark constructs it")]
pub struct ConnectionParts {
    /// The way in which the streams of an HTTP/2 connection run.
    pub streams: StreamTasks,
    /// Writes of all streams leave together at the end of a run of the connection's task. Without
    /// it, hyper writes frame by frame.
    pub write_coalescing: bool,
    /// Wakes of the connection are held back while its task is running.
    pub wake_gate: bool,
}

/// The way in which the streams of a connection run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::exhaustive_enums, reason = "only this repository's benchmark matches on it")]
pub enum StreamTasks {
    /// In the connection's task, by our own set of streams.
    Own,
    /// In the connection's task, by a `FuturesUnordered`.
    Unordered,
    /// Each in a task of its own.
    TaskEach,
}

impl Default for ConnectionParts {
    fn default() -> Self {
        Self { streams: StreamTasks::Own, write_coalescing: true, wake_gate: true }
    }
}
