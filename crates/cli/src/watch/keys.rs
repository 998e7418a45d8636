//! Keys that are typed while the live table is shown: they are not echoed over it, and `q` quits.
//!
//! Echo and line mode are turned off separately instead of with crossterm's raw mode, which also
//! turns off Ctrl-C and Ctrl-Z.

use tokio::sync::oneshot;

/// The keyboard, while the table is shown.
#[derive(Debug)]
pub(super) struct Keys {
    quit: Option<oneshot::Receiver<()>>,
}

impl Keys {
    /// Begins to read keys, if there is a keyboard in the foreground.
    pub(super) fn read(mode: Option<&EchoOff>) -> Self {
        Self { quit: mode.and_then(|_| spawn_reader()) }
    }

    /// Resolves when `q` is typed.
    ///
    /// # Cancel safety
    /// This method is cancel safe.
    pub(super) async fn quit(&mut self) {
        if let Some(quit) = &mut self.quit
            && quit.await.is_ok()
        {
            return;
        }
        // There are no keys, or no more.
        self.quit = None;
        std::future::pending().await
    }
}

/// Reads keys in a thread of its own, which is never joined: a read from a keyboard cannot be
/// cancelled.
fn spawn_reader() -> Option<oneshot::Receiver<()>> {
    let (typed, quit) = oneshot::channel();
    let read = move || {
        let (mut stdin, mut key) = (std::io::stdin().lock(), [0]);
        while let Ok(1) = std::io::Read::read(&mut stdin, &mut key) {
            if matches!(key[0], b'q' | b'Q') {
                let _ = typed.send(());
                return;
            }
        }
    };
    std::thread::Builder::new().name("keys".to_owned()).spawn(read).ok().map(|_| quit)
}

#[cfg(unix)]
mod mode {
    use std::io::{self, IsTerminal};

    use rustix::process::getpgrp;
    use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcgetpgrp, tcsetattr};

    /// The state of the terminal before its echo was turned off.
    #[derive(Clone, Debug)]
    pub(in crate::watch) struct EchoOff {
        before: Termios,
    }

    impl EchoOff {
        /// Turns off echo and line mode. Returns `None` if stdin is not a terminal, or if the
        /// process is in the background and may not change it.
        pub(in crate::watch) fn enter() -> Option<Self> {
            let stdin = io::stdin();
            // A terminal without job control has no background.
            let in_foreground = tcgetpgrp(&stdin).map_or(true, |group| group == getpgrp());
            if !stdin.is_terminal() || !in_foreground {
                return None;
            }
            let before = tcgetattr(&stdin).ok()?;
            let mut quiet = before.clone();
            quiet.local_modes.remove(LocalModes::ECHO | LocalModes::ICANON);
            tcsetattr(&stdin, OptionalActions::Now, &quiet).ok()?;
            Some(Self { before })
        }

        /// Restores the terminal.
        pub(in crate::watch) fn leave(&self) {
            // If the terminal is gone there is nothing to restore. Unread keys are not meant for
            // the shell.
            let _ = tcsetattr(io::stdin(), OptionalActions::Flush, &self.before);
        }
    }
}

#[cfg(not(unix))]
mod mode {
    /// On other platforms the console is left unchanged, and keys are not read.
    #[derive(Clone, Debug)]
    pub(in crate::watch) enum EchoOff {}

    impl EchoOff {
        pub(in crate::watch) fn enter() -> Option<Self> {
            None
        }

        pub(in crate::watch) fn leave(&self) {
            match *self {}
        }
    }
}

pub(super) use mode::EchoOff;
