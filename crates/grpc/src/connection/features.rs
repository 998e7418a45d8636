//! Switches for optional parts of a connection, to measure their effect with
//! `cargo xtask bench grpc ablation`. Not part of the public API.

/// The optional parts of a connection. The default is what channels use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(clippy::exhaustive_structs, reason = "only this repository's benchmark constructs it")]
pub struct Parts {
    /// Writes the frames of several calls with one system call.
    pub write_coalescing: bool,
    /// Limits each read turn to a few kilobytes, to let other tasks run in between.
    pub turns: Turns,
    /// Tracks frames on the socket. Without it, calls that are queued on a connection that breaks
    /// count as sent, and keep-alive sees neither calls nor received data.
    pub tracker: bool,
}

/// The runtimes on which a read turn is limited to a few kilobytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(clippy::exhaustive_enums, reason = "only this repository's benchmark matches on it")]
pub enum Turns {
    /// Runtimes with one worker.
    OneWorker,
    /// All runtimes.
    Always,
    /// No runtime.
    Never,
}

impl Default for Parts {
    fn default() -> Self {
        Self { write_coalescing: true, turns: Turns::OneWorker, tracker: true }
    }
}
