//! The output of the demo: one line for each event with its time, and a summary at the end.

use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::printer::Printer;

/// Formats events as lines and prints them.
#[derive(Debug)]
pub(super) struct Narrator {
    began: Instant,
}

impl Narrator {
    pub(super) fn new(began: Instant) -> Self {
        Self { began }
    }

    /// Returns a line with the time since the beginning.
    pub(super) fn line(&self, words: &str) -> String {
        format!("{:7.2}s  {words}\n", self.began.elapsed().as_secs_f64())
    }

    /// Prints the lines of the tasks, until all of them are done or the reader closes stdout.
    pub(super) async fn listen(
        &self,
        lines: &mut mpsc::UnboundedReceiver<String>,
        printer: &mut Printer,
    ) -> anyhow::Result<()> {
        loop {
            tokio::select! {
                words = lines.recv() => match words {
                    Some(words) => printer.print(self.line(&words)).await?,
                    None => return Ok(()),
                },
                closed = printer.closed() => return closed,
            }
        }
    }

    /// Formats the summary, a line for each entry.
    pub(super) fn summary(&self, tasks: impl IntoIterator<Item = (&'static str, String)>) -> String {
        let ran = format!("{:.1} s", self.began.elapsed().as_secs_f64());
        let lines = [("ran for", ran)].into_iter().chain(tasks);
        let lines = lines.map(|(what, words)| format!("  {what:15}  {words}\n"));
        std::iter::once("\nsummary\n".to_owned()).chain(lines).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn lines_have_their_time_and_the_summary_is_aligned() {
        let narrator = Narrator::new(Instant::now());
        tokio::time::advance(Duration::from_millis(1500)).await;
        assert_eq!(narrator.line("a pod is ready"), "   1.50s  a pod is ready\n");
        let expected = "\nsummary\n  ran for          1.5 s\n  revision         7\n";
        assert_eq!(narrator.summary([("revision", "7".to_owned())]), expected);
    }
}
