//! Channels from target strings: connects the resolver's endpoints of a target to a channel.

use std::time::Duration;

use dogwatch_client::Client;
use parking_lot::Mutex;
use tokio::runtime::{self, Handle};

use crate::channel::{ChannelBuilder, ChannelConfigError, KubeChannel};
use crate::endpoints::EndpointSet;
use crate::resolver::{EndpointWatch, Resolver, ResolverOptions, WeakResolver};
use crate::target::{Destination, Target, TargetError};
use crate::topology::Topology;

/// The time [`channel`] waits for the first endpoints.
const FIRST_SET_TIMEOUT: Duration = Duration::from_secs(10);

/// The resolvers behind [`channel`], one per runtime, because a resolver's tasks end with the
/// runtime they were started on.
static RESOLVERS: Mutex<Vec<(runtime::Id, WeakResolver)>> = Mutex::new(Vec::new());

/// An error that prevents a channel from being created for a target.
///
/// ```
/// use dogwatch_grpc::{DialError, channel};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// match channel("kubernetes:///Greeter.shop").await {
///     Ok(channel) => println!("{channel:?}"),
///     Err(DialError::Target(error)) => println!("correct the target: {error}"),
///     Err(DialError::Client(error)) => println!("no cluster is configured: {error}"),
///     Err(error) => return Err(error.into()),
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DialError {
    /// The text is not a target.
    #[error("cannot parse the target")]
    Target(#[from] TargetError),
    /// No API server to ask was found.
    #[error("cannot find the API server")]
    Client(#[from] dogwatch_client::Error),
    /// The settings contradict each other.
    #[error("cannot set up the channel")]
    Config(#[from] ChannelConfigError),
}

/// Creates a channel to a target with all defaults: calls go to the endpoints in turn (round
/// robin).
///
/// | target | endpoints |
/// |---|---|
/// | `kubernetes:///greeter.shop:grpc` and the other forms of a [`Target`] | those of a service, in the cluster of the pod or of the kubeconfig |
/// | `dns:///greeter.example.com:50051`, `localhost:50051` | the addresses of a host, resolved every half minute |
/// | `static:///10.0.0.1:50051,10.0.0.2:50051`, `127.0.0.1:50051` | these addresses |
///
/// Only a service needs a cluster. `:authority` is `svc.ns` for a service, `host:port` for a host,
/// and the endpoint's address otherwise.
///
/// Waits at most ten seconds until the endpoints, or the reason for their absence, are known. If
/// they are still unknown then, the channel is returned all the same, and its calls report why they
/// fail. All channels created this way on one runtime share a [`Resolver`], and with it their
/// watches and their connection to the API server. Topology hints are followed if the pod's
/// environment names its node or zone ([`Topology::from_env`]).
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let target = std::env::var("GREETER").unwrap_or("localhost:50051".to_owned());
/// let channel = dogwatch_grpc::channel(&target).await?;
/// // let mut client = GreeterClient::new(channel);
/// # drop(channel);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// Returns an error if the text is not a target, or if no API server can be found for a service. An
/// API server that does not answer, or a service that does not exist, is not an error here.
pub async fn channel(target: &str) -> Result<KubeChannel, DialError> {
    let (builder, mut watch) = open(target.parse()?).await?;
    let channel = builder.build()?;
    // If they are still unknown after that, the calls report it.
    let _ = tokio::time::timeout(FIRST_SET_TIMEOUT, watch.known()).await;
    Ok(channel)
}

/// Starts building a channel to a target as [`channel`] does, with settings to choose.
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use dogwatch_grpc::LeastRequest;
///
/// let builder = dogwatch_grpc::channel_builder("dns:///greeter.example.com:50051").await?;
/// let channel = builder.policy(LeastRequest::default()).build()?;
/// # drop(channel);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// The same as those of [`channel`].
pub async fn channel_builder(target: &str) -> Result<ChannelBuilder, DialError> {
    Ok(open(target.parse()?).await?.0)
}

async fn open(destination: Destination) -> Result<(ChannelBuilder, EndpointWatch), DialError> {
    Ok(match destination {
        Destination::Service(target) => {
            let resolver = shared_resolver(Client::from_env()).await?;
            let watch = resolver.watch(&target);
            // Other calls find the shared resolver as long as one channel holds it.
            let builder = resolver.channel(&target).holding(resolver);
            (builder, watch)
        }
        Destination::Host { host, port } => {
            let watch = EndpointWatch::of_host(&host, port);
            (channel_following(&watch).authority(format!("{host}:{port}")), watch)
        }
        Destination::Addresses(addresses) => {
            let watch = EndpointWatch::fixed(EndpointSet::at(addresses));
            (channel_following(&watch), watch)
        }
    })
}

fn channel_following(watch: &EndpointWatch) -> ChannelBuilder {
    let source = watch.clone();
    // The watch, and with it its source, is held apart from the closure, which the caller may
    // replace.
    KubeChannel::builder(watch.receiver()).holding(watch.clone()).resolving(move || source.resolve_now())
}

/// Returns the resolver that the channels of this runtime share. Creates it with this client if
/// there is none.
async fn shared_resolver<E>(client: impl Future<Output = Result<Client, E>>) -> Result<Resolver, E> {
    let runtime = Handle::current().id();
    let known = || {
        let mut resolvers = RESOLVERS.lock();
        resolvers.retain(|it| it.1.upgrade().is_some());
        resolvers.iter().find(|it| it.0 == runtime).and_then(|it| it.1.upgrade())
    };
    if let Some(resolver) = known() {
        return Ok(resolver);
    }
    let options = ResolverOptions::default().topology(Topology::from_env());
    let resolver = Resolver::with_options(client.await?, options);
    // A concurrent call may have created one in the meantime.
    if let Some(resolver) = known() {
        return Ok(resolver);
    }
    RESOLVERS.lock().push((runtime, resolver.downgrade()));
    Ok(resolver)
}

impl Resolver {
    /// Starts building a channel that follows the endpoints of a target.
    ///
    /// Channels of one namespace share their watches, which end when the last of these channels is
    /// dropped. `:authority`, and the name that certificates are checked against, default to
    /// `svc.ns`.
    ///
    /// # Panics
    /// Panics if called outside of a tokio runtime.
    pub fn channel(&self, target: &Target) -> ChannelBuilder {
        let watch = self.watch(target);
        let authority = target.clone().or_namespace(self.default_namespace()).authority();
        channel_following(&watch).authority(authority)
    }
}

impl KubeChannel {
    /// Starts building a channel to these addresses, for example servers of a test or on this
    /// machine. Needs no cluster.
    ///
    /// ```
    /// use dogwatch_grpc::KubeChannel;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let channel = KubeChannel::to(["127.0.0.1:50051", "[::1]:50051"])?.build()?;
    /// assert_eq!(channel.ready_endpoints(), 0); // it connects in the background
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Returns an error if a text is not an address with a port.
    pub fn to(addresses: impl IntoIterator<Item = impl ToString>) -> Result<ChannelBuilder, TargetError> {
        let addresses = Destination::addresses(addresses)?;
        Ok(channel_following(&EndpointWatch::fixed(EndpointSet::at(addresses))))
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use dogwatch_client::ResponseBody;
    use http::Response;

    use super::*;

    /// Returns a client whose server never answers.
    async fn client() -> Result<Client, Infallible> {
        tokio::task::yield_now().await;
        let silent =
            tower::service_fn(|_| std::future::pending::<Result<Response<ResponseBody>, Infallible>>());
        Ok(Client::from_service("http://127.0.0.1".parse().unwrap(), "default", silent))
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn channels_of_a_runtime_share_a_resolver_while_one_holds_it() {
        let first = shared_resolver(client()).await.unwrap();
        let others: Vec<_> = (0..50).map(|_| tokio::spawn(shared_resolver(client()))).collect();
        for other in others {
            assert!(other.await.unwrap().unwrap().is(&first));
        }
        let elsewhere = tokio::task::spawn_blocking(|| {
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            runtime.block_on(shared_resolver(client())).unwrap()
        });
        assert!(!elsewhere.await.unwrap().is(&first), "another runtime has its own resolver");
        let (weak, id) = (first.downgrade(), Handle::current().id());
        drop(first);
        assert!(weak.upgrade().is_none(), "the resolver outlives its channels");
        let _next = shared_resolver(client()).await.unwrap();
        assert_eq!(RESOLVERS.lock().iter().filter(|it| it.0 == id).count(), 1);
    }
}
