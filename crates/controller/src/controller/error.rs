//! Why a controller could not go on.

use std::time::Duration;

use dogwatch_informer::{Health, InformerStopped};

/// Why a controller ended otherwise than by being stopped. A failing reconcile is no reason.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ControllerError {
    /// Some of what it watches did not come in time. Look at what is named: a permission or a definition may be missing.
    #[error("controller {controller} did not begin: after {after:?}, {}", pending.join("; "))]
    NotSynced {
        /// The name of the controller.
        controller: String,
        /// How long was waited.
        after: Duration,
        /// What did not sync, each with what keeps it.
        pending: Vec<String>,
    },
    /// Something it watches was stopped before the controller began.
    #[error("controller {controller} cannot watch")]
    Unwatchable {
        /// The name of the controller.
        controller: String,
        /// Which informer it is.
        #[source]
        source: InformerStopped,
    },
    /// An informer that it watches or needs has ended: it would have gone on without ever hearing of a change again.
    #[error("controller {controller} cannot go on: informer {informer} has ended; it was {health}")]
    SourceEnded {
        /// The name of the controller.
        controller: String,
        /// The name of the informer.
        informer: String,
        /// How the informer was doing in the end.
        health: Box<Health>,
    },
    /// It was stopped, and some reconciles did not end in time. They were cut off.
    #[error(
        "controller {controller} did not end within {after:?}: {busy} workers were cut off, {queued} keys were left"
    )]
    Undrained {
        /// The name of the controller.
        controller: String,
        /// How long was waited.
        after: Duration,
        /// How many workers were at work.
        busy: usize,
        /// How many keys nobody had taken yet.
        queued: usize,
    },
    /// A task of the controller panicked outside of a reconcile: in a limiter, in a function that groups keys, or in a stream of keys.
    #[error("a task of controller {controller} panicked outside of a reconcile: {panic}")]
    Broken {
        /// The name of the controller.
        controller: String,
        /// What the panic said.
        panic: String,
    },
}
