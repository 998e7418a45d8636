//! What the demo is made of: parts, each in a file of its own, that all stand on one stage.
//!
//! To add a part: write a file with a struct that implements [`Part`], and name it in the list in `mod.rs`.

use dogwatch::{Client, InformerFactory};
use futures_util::future::BoxFuture;
use tokio::sync::mpsc;

/// What every part has at hand.
#[derive(Clone, Debug)]
pub(super) struct Stage {
    /// Speaks to the demo's own server.
    pub(super) client: Client,
    /// Where parts get their informers, so that no collection is followed twice. Started when all parts are made.
    pub(super) informers: InformerFactory,
    /// Says a line to whoever looks on.
    pub(super) voice: Voice,
}

/// Says what happens; the narrator adds the time. A clone speaks to the same narrator.
#[derive(Clone, Debug)]
pub(super) struct Voice(mpsc::UnboundedSender<String>);

/// One part of the demo.
pub(super) trait Part: Send {
    /// Does what it is there for until it is dropped; gives back only what went wrong. Called once.
    fn run(&mut self) -> BoxFuture<'_, anyhow::Result<()>>;

    /// What it has to say at the end: a word or two, and what there is to it.
    fn summary(&self) -> Vec<(&'static str, String)>;
}

impl Voice {
    /// A voice, and where its lines come out.
    pub(super) fn new() -> (Self, mpsc::UnboundedReceiver<String>) {
        let (lines, said) = mpsc::unbounded_channel();
        (Self(lines), said)
    }

    pub(super) fn say(&self, words: impl Into<String>) {
        // At the end of the demo nobody listens any more.
        let _ = self.0.send(words.into());
    }
}

/// A number of things, such as `1 pod` and `2 pods`.
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
