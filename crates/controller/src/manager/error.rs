//! The errors of a manager.

use std::error::Error;
use std::io;
use std::time::Duration;

use crate::controller::ControllerError;
use crate::leader::ElectionEnded;

/// An error that stopped a manager. A program that gets one should exit and be restarted.
///
/// ```
/// use dogwatch_controller::{Manager, ManagerError};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = dogwatch_apiserver::ApiServer::in_process().await?;
/// # let url = server.url().parse()?;
/// # let client = dogwatch_client::Client::from_service(url, "default", server.service());
/// let manager = Manager::new(client).task("copy", |_| async { Err::<(), _>("the disk is full") });
/// match manager.run_until(std::future::pending()).await {
///     Err(ManagerError::LeadershipLost(reason)) => eprintln!("{reason}"), // restart
///     Err(ManagerError::ShutdownTimeout { still, .. }) => eprintln!("aborted: {still:?}"),
///     Err(ManagerError::Task { name, source }) => assert_eq!(name, "copy", "{source}"),
///     other => other?,
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ManagerError {
    /// A controller stopped with an error, which contains its name.
    #[error(transparent)]
    Controller(#[from] ControllerError),
    /// A task failed.
    #[error("task {name} failed")]
    Task {
        /// The name of the task.
        name: String,
        /// The error of the task.
        #[source]
        source: Box<dyn Error + Send + Sync>,
    },
    /// A task panicked.
    #[error("{name} panicked: {panic}")]
    Panicked {
        /// The name of the task.
        name: String,
        /// The panic message.
        panic: String,
    },
    /// Two controllers or tasks have the same name, so logs, metrics and errors would be ambiguous.
    #[error("two controllers or tasks of the manager are named {name}")]
    NameTaken {
        /// The name of both.
        name: String,
    },
    /// Another process may lead now. The work of the leader was aborted.
    #[error("leadership was lost")]
    LeadershipLost(#[source] ElectionEnded),
    /// The manager was stopped, and some of its controllers or tasks did not end in time. They were
    /// aborted.
    #[error("still running after {after:?}, and aborted: {}", still.join(", "))]
    ShutdownTimeout {
        /// The time waited.
        after: Duration,
        /// The names of the controllers and tasks that had not ended.
        still: Vec<String>,
    },
    /// The manager was stopped by a signal, and a second signal aborted the shutdown.
    #[error("a second signal aborted the shutdown; still running: {}", still.join(", "))]
    Interrupted {
        /// The names of the controllers and tasks that had not ended.
        still: Vec<String>,
    },
    /// The process cannot register signal handlers.
    #[error("cannot listen for signals")]
    Signals(#[source] io::Error),
}
