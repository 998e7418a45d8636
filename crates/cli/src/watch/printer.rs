//! Writes lines to stdout from a thread of its own, so that a reader who takes his time holds up neither Ctrl-C nor the watch's
//! other business; and notices a reader who goes away, even while there is nothing to write.
//!
//! The threads are not waited for when we are asked to end: one may be blocked in a write that never finishes.

use std::io::{self, BufWriter, Write};

use tokio::sync::{mpsc, oneshot};

/// How many texts may wait to be written; then the one who prints waits.
const WAITING: usize = 64;

/// The way to stdout.
pub(super) struct Printer {
    texts: mpsc::Sender<String>,
    /// Tells when the thread has ended, and how.
    ended: oneshot::Receiver<io::Result<()>>,
    /// Resolves when nobody reads any more.
    reader_gone: oneshot::Receiver<()>,
}

impl Printer {
    /// Starts the threads.
    ///
    /// # Errors
    /// When the system gives none.
    pub(super) fn start() -> io::Result<Self> {
        let (texts, waiting) = mpsc::channel(WAITING);
        let (end, ended) = oneshot::channel();
        std::thread::Builder::new().name("printer".to_owned()).spawn(move || {
            // Nobody may be there any more to hear of it.
            let _ = end.send(write_all(waiting, io::stdout()));
        })?;
        let (gone, reader_gone) = oneshot::channel();
        std::thread::Builder::new().name("reader".to_owned()).spawn(move || wait_for_reader(gone))?;
        Ok(Self { texts, ended, reader_gone })
    }

    /// Has a text written; waits only when too many wait already.
    ///
    /// # Errors
    /// When writing has failed, as it does when the reader is gone.
    pub(super) async fn print(&mut self, text: String) -> io::Result<()> {
        match self.texts.send(text).await {
            Ok(()) => Ok(()),
            Err(_) => (&mut self.ended).await.unwrap_or(Ok(())).and(Err(io::ErrorKind::BrokenPipe.into())),
        }
    }

    /// Waits until everything is written.
    ///
    /// # Errors
    /// When writing has failed.
    pub(super) async fn finish(self) -> io::Result<()> {
        drop(self.texts);
        self.ended.await.unwrap_or(Ok(()))
    }

    /// Resolves when nobody reads any more. It may be dropped at any time.
    pub(super) async fn reader_gone(&mut self) {
        if (&mut self.reader_gone).await.is_err() {
            // The system does not say.
            std::future::pending::<()>().await;
        }
    }
}

/// Writes texts until there will be no more, and holds none back while it waits.
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

/// Says when the other end of stdout was closed. Asks for no event, so that only what is always told wakes it: errors and hang-ups.
#[cfg(unix)]
fn wait_for_reader(gone: oneshot::Sender<()>) {
    use rustix::event::{PollFd, PollFlags, poll};
    let stdout = io::stdout();
    let mut asked = [PollFd::new(&stdout, PollFlags::empty())];
    loop {
        match poll(&mut asked, None) {
            Err(rustix::io::Errno::INTR) => {}
            Ok(_) if asked[0].revents().intersects(PollFlags::ERR | PollFlags::HUP) => break,
            // Whatever else it is, it is nothing we can wait for.
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
            texts.send(text.to_owned()).await.expect("it is read");
        }
        drop(texts);
        assert_eq!(writing.await.expect("no panic").expect("a vector takes all"), b"a\nb\nc\n");
    }

    #[tokio::test]
    async fn a_reader_that_is_gone_ends_it() {
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
        texts.send("a".to_owned()).await.expect("there is room");
        let written =
            tokio::task::spawn_blocking(move || write_all(waiting, Closed)).await.expect("no panic");
        assert_eq!(written.map_err(|it| it.kind()), Err(io::ErrorKind::BrokenPipe));
        assert!(texts.is_closed());
    }
}
