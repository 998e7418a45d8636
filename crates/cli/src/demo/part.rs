//! The parts of the demo, each in a file of its own, over a common context.
//!
//! To add a part: write a file with a struct that implements [`Part`], and add it to the list in
//! `mod.rs`.

use dogwatch::{Client, InformerFactory};
use futures_util::future::BoxFuture;
use tokio::sync::mpsc;

/// The context of a part.
#[derive(Clone, Debug)]
pub(super) struct Stage {
    /// A client of the demo's own server.
    pub(super) client: Client,
    /// The informers of the parts, shared so that no collection is watched twice. Started when all
    /// parts are created.
    pub(super) informers: InformerFactory,
    /// Prints a line.
    pub(super) voice: Voice,
}

/// Prints events; the narrator adds the time. A clone prints to the same narrator.
#[derive(Clone, Debug)]
pub(super) struct Voice(mpsc::UnboundedSender<String>);

/// One part of the demo.
pub(super) trait Part: Send {
    /// Runs until it is dropped; returns only on an error. Called once.
    fn run(&mut self) -> BoxFuture<'_, anyhow::Result<()>>;

    /// Returns its lines of the summary: a label and a text.
    fn summary(&self) -> Vec<(&'static str, String)>;
}

impl Voice {
    /// Creates a voice, and the receiver of its lines.
    pub(super) fn new() -> (Self, mpsc::UnboundedReceiver<String>) {
        let (lines, said) = mpsc::unbounded_channel();
        (Self(lines), said)
    }

    pub(super) fn say(&self, words: impl Into<String>) {
        // At the end of the demo the receiver is gone.
        let _ = self.0.send(words.into());
    }
}

/// Formats a count, such as `1 pod` and `2 pods`.
pub(super) fn counted(count: u64, of: &str) -> String {
    if count == 1 { format!("1 {of}") } else { format!("{count} {of}s") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_singular() {
        assert_eq!([0, 1, 2].map(|it| counted(it, "pod")), ["0 pods", "1 pod", "2 pods"]);
    }
}
