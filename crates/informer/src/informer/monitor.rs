//! An observer of an informer of any type, which does not keep it alive.

use std::fmt;
use std::sync::{Arc, Weak};

use dogwatch_core::Object;

use super::shared_state::SharedState;
use crate::stats::InformerStats;

/// Reads the numbers of an informer without keeping it alive, and without the type of its objects.
///
/// Two monitors are equal if they observe the same informer.
///
/// ```
/// use dogwatch_client::Api;
/// use dogwatch_informer::SharedInformer;
/// use k8s_openapi::api::core::v1::ConfigMap;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = dogwatch_apiserver::ApiServer::in_process().await?;
/// # let url = server.url().parse()?;
/// # let client = dogwatch_client::Client::from_service(url, "default", server.service());
/// let maps = SharedInformer::new(Api::<ConfigMap>::all(client));
/// let monitor = maps.monitor();
/// assert_eq!(monitor.stats().map(|it| it.name), Some("configmaps".to_owned()));
/// drop(maps);
/// assert_eq!(monitor.stats(), None);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct InformerMonitor(Weak<dyn Observed>);

/// The part of an informer that does not depend on the type of its objects.
trait Observed: Send + Sync {
    fn stats(&self) -> InformerStats;
}

impl<T: Object> Observed for SharedState<T> {
    fn stats(&self) -> InformerStats {
        self.stats()
    }
}

impl InformerMonitor {
    pub(super) fn new<T: Object>(state: &Arc<SharedState<T>>) -> Self {
        // Not of the handle: while a monitor reads, the informer must not be kept running.
        let state: Weak<SharedState<T>> = Arc::downgrade(state);
        Self(state)
    }

    /// Returns the numbers of the informer. Returns `None` once its last handle was dropped and its
    /// tasks have ended.
    pub fn stats(&self) -> Option<InformerStats> {
        self.0.upgrade().map(|it| it.stats())
    }

    /// Returns true if the informer is gone, as for [`Self::stats`].
    pub fn is_gone(&self) -> bool {
        self.0.strong_count() == 0
    }
}

impl PartialEq for InformerMonitor {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::addr_eq(self.0.as_ptr(), other.0.as_ptr())
    }
}

impl Eq for InformerMonitor {}

impl fmt::Debug for InformerMonitor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InformerMonitor").field("gone", &self.is_gone()).finish_non_exhaustive()
    }
}
