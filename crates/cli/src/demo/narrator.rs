//! Tells what happens, one line for each thing with the time it happened, and at the end how much of it there was.

use std::io::{self, Write};

use tokio::sync::mpsc;
use tokio::time::Instant;

/// Tells what happens.
pub(super) struct Narrator<W> {
    out: W,
    began: Instant,
}

impl<W: Write> Narrator<W> {
    pub(super) fn new(out: W, began: Instant) -> Self {
        Self { out, began }
    }

    /// Says a line with the time since the beginning.
    pub(super) fn say(&mut self, words: &str) -> io::Result<()> {
        writeln!(self.out, "{:7.2}s  {words}", self.began.elapsed().as_secs_f64())
    }

    /// Says what the parts have to say, until none of them is left.
    pub(super) async fn listen(&mut self, said: &mut mpsc::UnboundedReceiver<String>) -> io::Result<()> {
        while let Some(words) = said.recv().await {
            self.say(&words)?;
        }
        Ok(())
    }

    /// Says how much there was.
    pub(super) fn summary(
        &mut self,
        parts: impl IntoIterator<Item = (&'static str, String)>,
    ) -> io::Result<()> {
        writeln!(self.out, "\nsummary")?;
        let ran = format!("{:.1} s", self.began.elapsed().as_secs_f64());
        for (what, words) in [("ran for", ran)].into_iter().chain(parts) {
            writeln!(self.out, "  {what:15}  {words}")?;
        }
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::part::Voice;
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_is_said_comes_with_its_time_and_the_summary_lines_up() {
        let (voice, mut said) = Voice::new();
        let began = Instant::now();
        tokio::time::advance(Duration::from_millis(1500)).await;
        voice.say("a pod is ready");
        drop(voice);
        let mut out = Vec::new();
        let mut narrator = Narrator::new(&mut out, began);
        narrator.listen(&mut said).await.expect("a vector takes all");
        narrator.summary([("revision", "7".to_owned())]).expect("a vector takes all");
        let expected =
            "   1.50s  a pod is ready\n\nsummary\n  ran for          1.5 s\n  revision         7\n";
        assert_eq!(String::from_utf8(out).expect("text"), expected);
    }
}
