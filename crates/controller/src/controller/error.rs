//! The errors of a controller.

use std::time::Duration;

use dogwatch_informer::{Health, InformerStopped};

/// An error that stopped a controller. A failing reconcile does not stop it.
///
/// ```
/// use dogwatch_client::Api;
/// use dogwatch_controller::{Action, BoxError, Context, Controller, ControllerError};
/// use dogwatch_core::ObjectKey;
/// use dogwatch_informer::SharedInformer;
/// use k8s_openapi::api::core::v1::ConfigMap;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = dogwatch_apiserver::ApiServer::in_process().await?;
/// # let url = server.url().parse()?;
/// # let client = dogwatch_client::Client::from_service(url, "default", server.service());
/// let maps = SharedInformer::new(Api::<ConfigMap>::all(client));
/// maps.start();
/// maps.stop().await; // too early
/// let controller = Controller::of(&maps)
///     .build(|_: ObjectKey, _: Context| async { Ok::<_, BoxError>(Action::Done) });
/// match controller.run(std::future::pending()).await {
///     Err(ControllerError::NotSynced { pending, .. }) => eprintln!("{}", pending.join("\n")),
///     Err(ControllerError::Undrained { queued, .. }) => eprintln!("{queued} keys are left"),
///     Err(ControllerError::Unwatchable { source, .. }) => eprintln!("{source}"),
///     other => other?,
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ControllerError {
    /// Some informers did not sync in time. Check the reasons in the message: a permission or a CRD
    /// may be missing.
    #[error("controller {controller} did not start: after {after:?}, {}", pending.join("; "))]
    NotSynced {
        /// The name of the controller.
        controller: String,
        /// The time waited.
        after: Duration,
        /// The informers and handlers that did not sync, each with its reason.
        pending: Vec<String>,
    },
    /// An informer that the controller watches was stopped before the controller started.
    #[error("controller {controller} cannot watch")]
    Unwatchable {
        /// The name of the controller.
        controller: String,
        /// The informer.
        #[source]
        source: InformerStopped,
    },
    /// An informer that the controller watches or needs has ended: it would receive no further
    /// changes.
    #[error("controller {controller} stopped: informer {informer} has ended; its last state was {health}")]
    SourceEnded {
        /// The name of the controller.
        controller: String,
        /// The name of the informer.
        informer: String,
        /// The last health of the informer.
        health: Box<Health>,
    },
    /// The controller was stopped, and some reconciles did not finish in time. They were aborted.
    #[error(
        "controller {controller} did not drain within {after:?}: {busy} workers were aborted, {queued} keys remain queued"
    )]
    Undrained {
        /// The name of the controller.
        controller: String,
        /// The time waited.
        after: Duration,
        /// The number of workers that were busy.
        busy: usize,
        /// The number of keys left in the queue.
        queued: usize,
    },
    /// A task of the controller panicked outside of a reconcile: in a rate limiter, in a function
    /// that groups keys, or in a stream of keys.
    #[error("a task of controller {controller} panicked outside of a reconcile: {panic}")]
    Broken {
        /// The name of the controller.
        controller: String,
        /// The panic message.
        panic: String,
    },
}
