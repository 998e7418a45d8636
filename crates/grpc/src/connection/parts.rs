//! Switches for the parts of a connection whose worth is measured: `cargo xtask bench grpc parts`. Not part of the interface.

/// Which parts of a connection are in use. The default is what channels use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(clippy::exhaustive_structs, reason = "only the benchmark of this repository makes one")]
pub struct Parts {
    /// Frames of several calls leave in one write.
    pub cork: bool,
    /// When reading stops after a few kilobytes to let other tasks run.
    pub turns: Turns,
    /// Frames are noted on the socket. Without it, calls in line on a connection that breaks count as sent, and keep-alive
    /// sees neither calls nor what is read.
    pub tracker: bool,
}

/// When reading stops after a few kilobytes to let other tasks run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(clippy::exhaustive_enums, reason = "only the benchmark of this repository names them")]
pub enum Turns {
    /// On runtimes of one worker.
    OneWorker,
    /// On every runtime.
    Always,
    /// On none.
    Never,
}

impl Default for Parts {
    fn default() -> Self {
        Self { cork: true, turns: Turns::OneWorker, tracker: true }
    }
}
