//! Why a manager ended otherwise than by being stopped.

use std::error::Error;
use std::io;
use std::time::Duration;

use crate::controller::ControllerError;
use crate::leader::Ended;

/// Why a manager ended otherwise than by being stopped. A program that meets one exits, and is started again.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ManagerError {
    /// A controller could not go on; its error has its name.
    #[error(transparent)]
    Controller(#[from] ControllerError),
    /// A task failed.
    #[error("task {name} failed")]
    Task {
        /// What it is called.
        name: String,
        /// What it failed with.
        #[source]
        source: Box<dyn Error + Send + Sync>,
    },
    /// A task panicked.
    #[error("{name} panicked: {panic}")]
    Panicked {
        /// What it is called.
        name: String,
        /// What the panic said.
        panic: String,
    },
    /// Two controllers or tasks have one name, which logs, metrics and errors could not tell apart.
    #[error("two parts of the manager are called {name}")]
    NameTaken {
        /// What both are called.
        name: String,
    },
    /// Somebody else may lead now. What was at work as the leader was cut off.
    #[error("leadership was lost")]
    LeadershipLost(#[source] Ended),
    /// It was stopped, and some of it did not end in time. That was cut off.
    #[error("after {after:?}, {} had not ended and was cut off", still.join(", "))]
    Late {
        /// How long was waited.
        after: Duration,
        /// What had not ended.
        still: Vec<String>,
    },
    /// It was stopped by a signal, and another one said that it is to end at once.
    #[error("a second signal ended the manager at once: {} had not ended", still.join(", "))]
    Interrupted {
        /// What had not ended.
        still: Vec<String>,
    },
    /// The process cannot hear signals.
    #[error("cannot listen for signals")]
    Signals(#[source] io::Error),
}
