//! The destination of events, and the retries of a write (rule EV-1).

use std::time::Duration;

use dogwatch_client::api::Patch;
use dogwatch_client::{Api, Client, Error};
use dogwatch_core::{PatchParams, WriteParams};
use futures_util::future::BoxFuture;
use k8s_openapi::api::events::v1::Event;
use serde_json::json;

use super::series::Write;

/// The maximum number of attempts of one write, and the pause between them, as `maxTriesPerEvent`
/// and `defaultSleepDuration` in `k8s.io/client-go v0.36.4 tools/events/event_broadcaster.go`. The
/// first pause is random, so that many clients do not retry together.
const TRIES: u32 = 12;
const PAUSE: Duration = Duration::from_secs(10);

/// A destination of events. Implemented by [`Client`]; tests have their own.
///
/// ```
/// use std::time::Duration;
///
/// use dogwatch_client::Error;
/// use dogwatch_controller::EventBroadcaster;
/// use dogwatch_controller::events::EventSink;
/// use futures_util::FutureExt;
/// use futures_util::future::{BoxFuture, ready};
/// use k8s_openapi::api::events::v1::Event;
///
/// /// Prints events instead of writing them to a server.
/// struct Print;
///
/// impl EventSink for Print {
///     fn create(&self, event: &Event) -> BoxFuture<'_, Result<(), Error>> {
///         println!("{:?}: {:?}", event.reason, event.note);
///         ready(Ok(())).boxed()
///     }
///     fn patch_series(&self, event: &Event) -> BoxFuture<'_, Result<(), Error>> {
///         self.create(event)
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let broadcaster = EventBroadcaster::over(Print).start();
/// # assert!(broadcaster.shutdown(Duration::from_secs(10)).await);
/// # Ok(())
/// # }
/// ```
pub trait EventSink: Send + Sync + 'static {
    /// Creates a new event.
    fn create(&self, event: &Event) -> BoxFuture<'_, Result<(), Error>>;

    /// Replaces the series of an existing event.
    fn patch_series(&self, event: &Event) -> BoxFuture<'_, Result<(), Error>>;
}

impl EventSink for Client {
    fn create(&self, event: &Event) -> BoxFuture<'_, Result<(), Error>> {
        let event = event.clone();
        Box::pin(async move {
            events(self, &event).create(&WriteParams::default(), &event).await?;
            Ok(())
        })
    }

    fn patch_series(&self, event: &Event) -> BoxFuture<'_, Result<(), Error>> {
        let event = event.clone();
        Box::pin(async move {
            let series = json!({ "series": event.series });
            let name = event.metadata.name.as_deref().unwrap_or_default();
            events(self, &event).patch(name, &PatchParams::default(), Patch::Merge(&series)).await?;
            Ok(())
        })
    }
}

/// The result of one attempt to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Attempted {
    Written,
    /// A retry would not help.
    Lost,
    /// To be retried after this time.
    Later(Duration),
}

/// Attempts a write; `attempt` counts from 1.
pub(super) async fn attempt(sink: &dyn EventSink, write: &Write, attempt: u32) -> Attempted {
    let error = match once(sink, write).await {
        Ok(()) => return Attempted::Written,
        Err(error) => error,
    };
    if is_final(&error) || attempt >= TRIES {
        tracing::warn!(event = write.event().metadata.name, %error, attempt, "giving up on an event");
        return Attempted::Lost;
    }
    Attempted::Later(if attempt == 1 { PAUSE.mul_f64(rand::random::<f64>()) } else { PAUSE })
}

async fn once(sink: &dyn EventSink, write: &Write) -> Result<(), Error> {
    match write {
        // An earlier attempt of ours, whose response was lost, has created it.
        Write::Create(event) => match sink.create(event).await {
            Err(error) if error.is_already_exists() => Ok(()),
            outcome => outcome,
        },
        // The server deletes events after an hour or so; a series may outlive its event.
        Write::Series(event) => match sink.patch_series(event).await {
            Err(error) if error.is_not_found() => sink.create(event).await,
            outcome => outcome,
        },
    }
}

/// Returns true if the server has rejected the write and would reject it again.
fn is_final(error: &Error) -> bool {
    match error {
        Error::Unreachable { .. } | Error::TimedOut(_) => false,
        Error::AfterRetries(error) => is_final(&error.current),
        other => other.status().is_none_or(|it| it.code < 500 && it.code != 429),
    }
}

fn events(client: &Client, event: &Event) -> Api<Event> {
    Api::namespaced(client.clone(), event.metadata.namespace.as_deref().unwrap_or("default"))
}
