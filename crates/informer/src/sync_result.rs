//! The result of waiting for several informers to be synced.

use crate::informer::NotSynced;

/// The result of waiting for several informers.
///
/// ```
/// use std::time::Duration;
///
/// use dogwatch_informer::InformerFactory;
/// use k8s_openapi::api::core::v1::ConfigMap;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = dogwatch_apiserver::ApiServer::in_process().await?;
/// # let url = server.url().parse()?;
/// # let client = dogwatch_client::Client::from_service(url, "default", server.service());
/// let factory = InformerFactory::new(client);
/// let maps = factory.get::<ConfigMap>();
/// factory.start();
/// let result = factory.wait_for_sync(Duration::from_secs(10)).await;
/// assert!(result.is_ok() && result.unsynced.is_empty());
/// assert_eq!(result.synced, [maps.name()]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct SyncResult {
    /// The names of the informers that are synced.
    pub synced: Vec<String>,
    /// The others, each with the reason.
    pub unsynced: Vec<NotSynced>,
}

/// The error that some informers are not synced.
///
/// ```
/// use std::time::Duration;
///
/// use dogwatch_informer::{InformerFactory, NotSynced};
/// use k8s_openapi::api::core::v1::ConfigMap;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = dogwatch_apiserver::ApiServer::in_process().await?;
/// # let url = server.url().parse()?;
/// # let client = dogwatch_client::Client::from_service(url, "default", server.service());
/// # let late = dogwatch_apiserver::faults::Rule::on("list").or("watch").delay(Duration::from_secs(60));
/// # server.faults().rule(late);
/// let factory = InformerFactory::new(client);
/// let maps = factory.get::<ConfigMap>();
/// factory.start();
/// let result = factory.wait_for_sync(Duration::ZERO).await;
/// let error = result.into_result().expect_err("no list arrives in no time");
/// assert!(matches!(&error.unsynced[..], [NotSynced::Late { .. }]));
/// assert!(error.to_string().contains(maps.name()));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{}", texts(.unsynced))]
pub struct SyncError {
    /// The informers that are not synced, each with the reason. Never empty.
    pub unsynced: Vec<NotSynced>,
}

fn texts(unsynced: &[NotSynced]) -> String {
    unsynced.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

impl SyncResult {
    /// Returns true if all informers are synced.
    pub fn is_ok(&self) -> bool {
        self.unsynced.is_empty()
    }

    /// Converts this into a `Result`.
    ///
    /// # Errors
    /// Returns an error if an informer is not synced.
    pub fn into_result(self) -> Result<(), SyncError> {
        if self.is_ok() { Ok(()) } else { Err(SyncError { unsynced: self.unsynced }) }
    }
}
