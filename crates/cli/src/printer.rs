//! Writes lines to stdout from a thread of its own, so that a slow reader holds up neither Ctrl-C nor the command's other work, and
//! notices when the reader goes away, even while there is nothing to write.
//!
//! The threads are not waited for when the command is asked to end: one may be blocked in a write that never finishes.

use std::io::{self, BufWriter, Write};

use anyhow::Context;
use tokio::sync::{mpsc, oneshot};

/// What a failure to write is called. A closed pipe keeps its kind below it, and ends the command quietly.
const CANNOT_WRITE: &str = "cannot write to stdout";

/// How many texts may wait to be written; then the one who prints waits.
const WAITING: usize = 64;

/// The way to stdout.
pub(crate) struct Printer {
    texts: mpsc::Sender<String>,
    /// Tells when the thread has ended, and how.
    ended: oneshot::Receiver<io::Result<()>>,
    /// Resolves when nobody reads any more; none where the system does not say.
    reader_gone: Option<oneshot::Receiver<()>>,
}

impl Printer {
    /// Starts the threads.
    ///
    /// # Errors
    /// When the system gives none.
    pub(crate) fn start() -> io::Result<Self> {
        let (texts, waiting) = mpsc::channel(WAITING);
        let (end, ended) = oneshot::channel();
        std::thread::Builder::new().name("printer".to_owned()).spawn(move || {
            // Nobody may be there any more to hear of it.
            let _ = end.send(write_all(waiting, io::stdout()));
        })?;
        let (gone, reader_gone) = oneshot::channel();
        std::thread::Builder::new().name("reader".to_owned()).spawn(move || wait_for_reader(gone))?;
        Ok(Self { texts, ended, reader_gone: Some(reader_gone) })
    }

    /// Has a text written; waits only when too many wait already.
    ///
    /// # Errors
    /// When writing has failed, as it does when the reader is gone.
    pub(crate) async fn print(&mut self, text: String) -> anyhow::Result<()> {
        match self.texts.send(text).await {
            Ok(()) => Ok(()),
            Err(_) => self.failure().await,
        }
    }

    /// Waits until everything is written.
    ///
    /// # Errors
    /// When writing has failed.
    pub(crate) async fn finish(self) -> anyhow::Result<()> {
        drop(self.texts);
        self.ended.await.unwrap_or(Ok(())).context(CANNOT_WRITE)
    }

    /// Waits until nothing more can be written: `Ok` when nobody reads any more. It may be dropped at any time.
    ///
    /// # Errors
    /// When writing has failed.
    pub(crate) async fn closed(&mut self) -> anyhow::Result<()> {
        let Self { texts, reader_gone, .. } = self;
        let gone = async {
            if let Some(gone) = reader_gone
                && gone.await.is_ok()
            {
                return;
            }
            // Not to be asked again once it has answered.
            *reader_gone = None;
            std::future::pending().await
        };
        tokio::select! {
            () = gone => Ok(()),
            () = texts.closed() => self.failure().await,
        }
    }

    /// Why the thread has ended, which it does only when it cannot write.
    async fn failure(&mut self) -> anyhow::Result<()> {
        let ended = (&mut self.ended).await.unwrap_or(Ok(()));
        ended.and(Err(io::ErrorKind::BrokenPipe.into())).context(CANNOT_WRITE)
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
