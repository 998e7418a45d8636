//! The storage of a lease: the three requests of an election.

use dogwatch_client::{Api, Error};
use dogwatch_core::WriteParams;
use futures_util::future::BoxFuture;
use k8s_openapi::api::coordination::v1::Lease;

/// A store of Leases. Implemented by `Api<Lease>`, on the server; tests have their own.
///
/// Any future may be dropped before it completes; its request may then still be carried out later.
///
/// ```
/// use dogwatch_client::{Api, Error};
/// use dogwatch_controller::leader::{LeaderElector, LeaseLock};
/// use futures_util::future::BoxFuture;
/// use k8s_openapi::api::coordination::v1::Lease;
///
/// /// Logs every write.
/// struct Logged(Api<Lease>);
///
/// impl LeaseLock for Logged {
///     fn get<'l>(&'l self, name: &'l str) -> BoxFuture<'l, Result<Option<Lease>, Error>> {
///         LeaseLock::get(&self.0, name)
///     }
///     fn create(&self, lease: Lease) -> BoxFuture<'_, Result<Lease, Error>> {
///         println!("create {:?}", lease.metadata.name);
///         LeaseLock::create(&self.0, lease)
///     }
///     fn update(&self, lease: Lease) -> BoxFuture<'_, Result<Lease, Error>> {
///         LeaseLock::update(&self.0, lease)
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = dogwatch_apiserver::ApiServer::in_process().await?;
/// # let url = server.url().parse()?;
/// # let client = dogwatch_client::Client::from_service(url, "default", server.service());
/// # let lock = Logged(Api::default_namespaced(client));
/// # let elector = LeaderElector::with_lock(lock, "my-controller").build()?;
/// # elector.run_while_leading(|_| async {}).await?;
/// # Ok(())
/// # }
/// ```
pub trait LeaseLock: Send + Sync + 'static {
    /// Returns the newest state of a lease, or `None` if it does not exist. It must not come from a
    /// cache.
    fn get<'l>(&'l self, name: &'l str) -> BoxFuture<'l, Result<Option<Lease>, Error>>;

    /// Creates a lease, unless there is one of that name.
    fn create(&self, lease: Lease) -> BoxFuture<'_, Result<Lease, Error>>;

    /// Replaces a lease, unless it has changed since the version that `lease` carries.
    fn update(&self, lease: Lease) -> BoxFuture<'_, Result<Lease, Error>>;
}

impl LeaseLock for Api<Lease> {
    fn get<'l>(&'l self, name: &'l str) -> BoxFuture<'l, Result<Option<Lease>, Error>> {
        Box::pin(self.get_opt(name))
    }

    fn create(&self, lease: Lease) -> BoxFuture<'_, Result<Lease, Error>> {
        Box::pin(async move { Api::create(self, &WriteParams::default(), &lease).await })
    }

    fn update(&self, lease: Lease) -> BoxFuture<'_, Result<Lease, Error>> {
        Box::pin(async move {
            let name = lease.metadata.name.clone().unwrap_or_default();
            self.replace(&name, &WriteParams::default(), &lease).await
        })
    }
}
