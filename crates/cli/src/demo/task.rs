//! The tasks of the demo, each in a file of its own, over a common context.
//!
//! To add a task: write a file with a struct that implements [`DemoTask`], and add it to the list
//! in `mod.rs`.

use dogwatch::{Client, InformerFactory};
use futures_util::future::BoxFuture;
use tokio::sync::mpsc;

/// The context of a task.
#[derive(Clone, Debug)]
pub(super) struct DemoContext {
    /// A client of the demo's own server.
    pub(super) client: Client,
    /// The informers of the tasks, shared so that no collection is watched twice. Started when all
    /// tasks are created.
    pub(super) informers: InformerFactory,
    /// Prints a line.
    pub(super) output: Output,
}

/// Prints events; the narrator adds the time. A clone prints to the same narrator.
#[derive(Clone, Debug)]
pub(super) struct Output(mpsc::UnboundedSender<String>);

/// One task of the demo.
pub(super) trait DemoTask: Send {
    /// Runs until it is dropped; returns only on an error. Called once.
    fn run(&mut self) -> BoxFuture<'_, anyhow::Result<()>>;

    /// Returns its lines of the summary: a label and a text.
    fn summary(&self) -> Vec<(&'static str, String)>;
}

impl Output {
    /// Creates an output, and the receiver of its lines.
    pub(super) fn new() -> (Self, mpsc::UnboundedReceiver<String>) {
        let (lines, receiver) = mpsc::unbounded_channel();
        (Self(lines), receiver)
    }

    pub(super) fn print(&self, words: impl Into<String>) {
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
