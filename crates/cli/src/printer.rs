//! Writes lines to stdout from a thread of its own, so that a slow reader blocks neither Ctrl-C nor
//! the command's other work, and detects that the reader has closed stdout even while there is
//! nothing to write.
//!
//! On shutdown the threads are not joined: one may be blocked in a write that never completes.

use std::io::{self, BufWriter, Write};

use anyhow::Context;
use tokio::sync::{mpsc, oneshot};

/// The context of a write error. A closed pipe keeps its kind below it, and ends the command
/// quietly.
const CANNOT_WRITE: &str = "cannot write to stdout";

/// The number of texts that may wait to be written; then `print` waits.
const QUEUE_LENGTH: usize = 64;

/// A handle to the thread that writes to stdout.
pub(crate) struct Printer {
    texts: mpsc::Sender<String>,
    /// The result of the thread when it has ended.
    ended: oneshot::Receiver<io::Result<()>>,
    /// Resolves when the reader has closed stdout; `None` if the system does not report that.
    reader_gone: Option<oneshot::Receiver<()>>,
}

impl Printer {
    /// Starts the threads.
    ///
    /// # Errors
    /// Returns an error if the system cannot create a thread.
    pub(crate) fn start() -> io::Result<Self> {
        let (texts, waiting) = mpsc::channel(QUEUE_LENGTH);
        let (end, ended) = oneshot::channel();
        std::thread::Builder::new().name("printer".to_owned()).spawn(move || {
            // The receiver may be gone already.
            let _ = end.send(write_all(waiting, io::stdout()));
        })?;
        let (gone, reader_gone) = oneshot::channel();
        std::thread::Builder::new().name("reader".to_owned()).spawn(move || wait_for_reader(gone))?;
        Ok(Self { texts, ended, reader_gone: Some(reader_gone) })
    }

    /// Queues a text; waits only if the queue is full.
    ///
    /// # Errors
    /// Returns an error if writing has failed, for example because the reader has closed stdout.
    pub(crate) async fn print(&mut self, text: String) -> anyhow::Result<()> {
        match self.texts.send(text).await {
            Ok(()) => Ok(()),
            Err(_) => self.failure().await,
        }
    }

    /// Waits until everything is written.
    ///
    /// # Errors
    /// Returns an error if writing has failed.
    pub(crate) async fn finish(self) -> anyhow::Result<()> {
        drop(self.texts);
        self.ended.await.unwrap_or(Ok(())).context(CANNOT_WRITE)
    }

    /// Waits until nothing more can be written. Returns `Ok` if the reader has closed stdout.
    ///
    /// # Cancel safety
    /// This method is cancel safe.
    ///
    /// # Errors
    /// Returns an error if writing has failed.
    pub(crate) async fn closed(&mut self) -> anyhow::Result<()> {
        let Self { texts, reader_gone, .. } = self;
        let gone = async {
            if let Some(gone) = reader_gone
                && gone.await.is_ok()
            {
                return;
            }
            // A oneshot receiver must not be polled again after it has resolved.
            *reader_gone = None;
            std::future::pending().await
        };
        tokio::select! {
            () = gone => Ok(()),
            () = texts.closed() => self.failure().await,
        }
    }

    /// Returns the error of the thread, which ends only when it cannot write.
    async fn failure(&mut self) -> anyhow::Result<()> {
        let ended = (&mut self.ended).await.unwrap_or(Ok(()));
        ended.and(Err(io::ErrorKind::BrokenPipe.into())).context(CANNOT_WRITE)
    }
}

/// Writes texts until the channel is closed, and flushes whenever it is empty.
fn write_all(mut texts: mpsc::Receiver<String>, out: impl Write) -> io::Result<()> {
    let mut out = BufWriter::new(out);
    while let Some(text) = texts.blocking_recv() {
        out.write_all(text.as_bytes())?;
        if texts.is_empty() {
            out.flush()?;
        }
    }
    out.flush()
}

/// Sends when the other end of stdout is closed. Polls for no events, so that only errors and
/// hang-ups, which are always reported, wake it.
#[cfg(unix)]
fn wait_for_reader(gone: oneshot::Sender<()>) {
    use rustix::event::{PollFd, PollFlags, poll};
    let stdout = io::stdout();
    let mut asked = [PollFd::new(&stdout, PollFlags::empty())];
    loop {
        match poll(&mut asked, None) {
            Err(rustix::io::Errno::INTR) => {}
            Ok(_) if asked[0].revents().intersects(PollFlags::ERR | PollFlags::HUP) => break,
            // Any other result is not something to wait for.
            _ => return,
        }
    }
    let _ = gone.send(());
}

#[cfg(not(unix))]
fn wait_for_reader(_gone: oneshot::Sender<()>) {}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn everything_is_written_in_order() {
        let (texts, waiting) = mpsc::channel(2);
        let writing = tokio::task::spawn_blocking(move || {
            let mut out = Vec::new();
            write_all(waiting, &mut out).map(|()| out)
        });
        for text in ["a\n", "b\n", "c\n"] {
            texts.send(text.to_owned()).await.expect("the writer receives");
        }
        drop(texts);
        assert_eq!(writing.await.expect("no panic").expect("writing to a vector succeeds"), b"a\nb\nc\n");
    }

    #[tokio::test]
    async fn a_closed_stdout_ends_the_writer() {
        struct Closed;
        impl Write for Closed {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(io::ErrorKind::BrokenPipe.into())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let (texts, waiting) = mpsc::channel(2);
        texts.send("a".to_owned()).await.expect("the queue has room");
        let written =
            tokio::task::spawn_blocking(move || write_all(waiting, Closed)).await.expect("no panic");
        assert_eq!(written.map_err(|it| it.kind()), Err(io::ErrorKind::BrokenPipe));
        assert!(texts.is_closed());
    }
}
