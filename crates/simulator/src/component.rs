//! A simulated component: a controller that is built anew whenever it has to be restarted.

use std::future::{pending, ready};
use std::sync::Arc;
use std::time::Duration;

use dogwatch_client::Error;
use dogwatch_controller::{BoxError, ControllerBuilder, Reconciler};
use dogwatch_core::ObjectKey;
use dogwatch_informer::ScopedRegistration;
use dogwatch_workqueue::limiter::ExponentialPerItem;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;

use crate::health::Health;
use crate::supervise::{Observed, Startup};

/// The delay of the first retry of a key, as in client-go v0.36.4
/// util/workqueue/default_rate_limiters.go, and the longest delay of any.
pub(crate) const FIRST_RETRY: Duration = Duration::from_millis(5);
pub(crate) const LONGEST_RETRY: Duration = Duration::from_secs(30);

/// The time for which a key waits for a cache that does not show its writes (`ExpectationsTimeout`
/// in k8s.io/kubernetes v1.36.4 pkg/controller/controller_utils.go).
const CONSISTENCY_WAIT: Duration = Duration::from_secs(300);

/// The time for which a component is prepared, the same as for the caches of a controller.
const PREPARATION_LIMIT: Duration = Duration::from_secs(120);

/// A simulated component.
pub(crate) trait Component: Reconciler<Error = Error> {
    /// The name, for logs, metrics and health.
    const NAME: &'static str;

    /// Returns the controller, with the collections that it watches.
    fn watch(&self) -> ControllerBuilder<ObjectKey>;

    /// Returns a future that completes when keys may be processed. The handler that it returns is
    /// registered as long as the component runs.
    fn prepare(&self) -> BoxFuture<'static, Result<Option<ScopedRegistration>, BoxError>> {
        ready(Ok(None)).boxed()
    }
}

/// Runs a component until it fails.
pub(crate) async fn run<C: Component>(
    component: C,
    startup: Startup,
    health: Arc<Health>,
) -> Result<(), BoxError> {
    let prepared = tokio::time::timeout(PREPARATION_LIMIT, component.prepare()).await;
    let _handler =
        prepared.map_err(|_| format!("its caches are not synced after {PREPARATION_LIMIT:?}"))??;
    let controller = component
        .watch()
        .named(C::NAME)
        .limiter(ExponentialPerItem::new(FIRST_RETRY, LONGEST_RETRY))
        .consistency_wait(CONSISTENCY_WAIT)
        .build(Observed { name: C::NAME, health, reconciler: component });
    let started = controller.started().map(|()| startup.complete());
    tokio::select! {
        biased;
        ended = controller.run(pending()) => Ok(ended?),
        () = started.then(|()| pending()) => Ok(()),
    }
}
