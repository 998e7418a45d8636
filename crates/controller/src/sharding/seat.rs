//! The storage of the members' Leases: the requests that sharding makes.

use dogwatch_client::{Api, Error};
use dogwatch_core::{DeleteParams, LabelSelector, ListParams, Preconditions, WriteParams};
use futures_util::future::BoxFuture;
use k8s_openapi::api::coordination::v1::Lease;

/// The label on the Lease of every member that names its group.
pub(super) const GROUP: &str = "sharding.dogwatch.dev/group";

/// A store of the Leases of one group. Implemented for a server; tests have their own.
///
/// Any future may be dropped before it completes; its request may then still be carried out later.
///
/// ```
/// # use dogwatch_client::{Api, Error};
/// # use dogwatch_core::{DeleteParams, ListParams, Preconditions, WriteParams};
/// # use futures_util::future::{BoxFuture, FutureExt};
/// # use k8s_openapi::api::coordination::v1::Lease;
/// use dogwatch_controller::sharding::{MemberLeaseStore, ShardMember};
///
/// /// All Leases of a namespace that contains nothing else.
/// struct Namespace(Api<Lease>);
///
/// impl MemberLeaseStore for Namespace {
///     fn list(&self) -> BoxFuture<'_, Result<Vec<Lease>, Error>> {
///         async { Ok(self.0.list_all(&ListParams::default()).await?.items) }.boxed()
///     }
///     fn create(&self, lease: Lease) -> BoxFuture<'_, Result<Lease, Error>> {
///         async move { self.0.create(&WriteParams::default(), &lease).await }.boxed()
///     }
///     // `update` and `delete` do the same, for the version that the caller names.
/// #   fn update(&self, lease: Lease) -> BoxFuture<'_, Result<Lease, Error>> {
/// #       let name = lease.metadata.name.clone().unwrap_or_default();
/// #       async move { self.0.replace(&name, &WriteParams::default(), &lease).await }.boxed()
/// #   }
/// #   fn delete<'s>(
/// #       &'s self, name: &'s str, version: &'s str,
/// #   ) -> BoxFuture<'s, Result<(), Error>> {
/// #       let resource_version = Some(version.to_owned());
/// #       let preconditions = Preconditions { resource_version, ..Preconditions::default() };
/// #       let mut params = DeleteParams::default();
/// #       params.preconditions = Some(preconditions);
/// #       async move { self.0.delete(name, &params).await.map(drop) }.boxed()
/// #   }
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = dogwatch_apiserver::ApiServer::in_process().await?;
/// # let url = server.url().parse()?;
/// # let client = dogwatch_client::Client::from_service(url, "default", server.service());
/// # let seats = Namespace(Api::namespaced(client, "default"));
/// let member = ShardMember::over(seats, "my-controller").build()?;
/// # drop(member);
/// # Ok(())
/// # }
/// ```
pub trait MemberLeaseStore: Send + Sync + 'static {
    /// Returns the newest state of all Leases of the group. It must not come from a cache.
    fn list(&self) -> BoxFuture<'_, Result<Vec<Lease>, Error>>;

    /// Creates a Lease, unless there is one of that name.
    fn create(&self, lease: Lease) -> BoxFuture<'_, Result<Lease, Error>>;

    /// Replaces a Lease, unless it has changed since the version that `lease` carries.
    fn update(&self, lease: Lease) -> BoxFuture<'_, Result<Lease, Error>>;

    /// Deletes a Lease, unless it has changed since this version.
    fn delete<'s>(&'s self, name: &'s str, version: &'s str) -> BoxFuture<'s, Result<(), Error>>;
}

/// The Leases of a group on a server.
#[derive(Clone, Debug)]
pub(super) struct ServedSeats {
    pub(super) api: Api<Lease>,
    pub(super) group: LabelSelector,
}

impl MemberLeaseStore for ServedSeats {
    fn list(&self) -> BoxFuture<'_, Result<Vec<Lease>, Error>> {
        Box::pin(async {
            let list = self.api.list(&ListParams::default().labels(self.group.clone())).await?;
            match list.bad.into_iter().next() {
                // A member whose Lease cannot be decoded might be live.
                Some(bad) => Err(bad.into()),
                None => Ok(list.items),
            }
        })
    }

    fn create(&self, lease: Lease) -> BoxFuture<'_, Result<Lease, Error>> {
        Box::pin(async move { self.api.create(&WriteParams::default(), &lease).await })
    }

    fn update(&self, lease: Lease) -> BoxFuture<'_, Result<Lease, Error>> {
        Box::pin(async move {
            let name = lease.metadata.name.clone().unwrap_or_default();
            self.api.replace(&name, &WriteParams::default(), &lease).await
        })
    }

    fn delete<'s>(&'s self, name: &'s str, version: &'s str) -> BoxFuture<'s, Result<(), Error>> {
        Box::pin(async move {
            let mut params = DeleteParams::default();
            params.preconditions = Some(Preconditions {
                resource_version: Some(version.to_owned()),
                ..Preconditions::default()
            });
            self.api.delete(name, &params).await.map(|_| ())
        })
    }
}
