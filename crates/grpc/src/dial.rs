//! From a name to a channel: what is known of a target feeds the channel that calls it.

use std::time::Duration;

use dogwatch_client::Client;
use parking_lot::Mutex;
use tokio::runtime::{self, Handle};

use crate::channel::{ChannelBuilder, ConfigError, KubeChannel};
use crate::endpoints::EndpointSet;
use crate::source::{EndpointWatch, Resolver, ResolverOptions, WeakResolver};
use crate::target::{Destination, Target, TargetError};
use crate::topology::Topology;

/// How long [`channel`] waits for the first endpoints.
const FIRST: Duration = Duration::from_secs(10);

/// The resolvers behind [`channel`], one per runtime: its tasks end with the runtime they were started on.
static RESOLVERS: Mutex<Vec<(runtime::Id, WeakResolver)>> = Mutex::new(Vec::new());

/// Why there is no channel for a target.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DialError {
    /// The text is no target.
    #[error("cannot read the target")]
    Target(#[from] TargetError),
    /// It could not be found out which API server to ask.
    #[error("cannot find the API server")]
    Client(#[from] dogwatch_client::Error),
    /// The settings do not fit each other.
    #[error("cannot set up the channel")]
    Config(#[from] ConfigError),
}

/// Makes a channel to what a target names, with all defaults: each endpoint in turn.
///
/// | target | endpoints |
/// |---|---|
/// | `kubernetes:///greeter.shop:grpc` and the other forms of a [`Target`] | of a service, in the cluster this runs in or that of the kubeconfig |
/// | `dns:///greeter.example.com:50051`, `localhost:50051` | the addresses of a host, resolved every half minute |
/// | `static:///10.0.0.1:50051,10.0.0.2:50051`, `127.0.0.1:50051` | these addresses |
///
/// Only a service needs a cluster. `:authority` is `svc.ns` of a service, `host:port` of a host, and the address of an endpoint else.
///
/// Waits until something is known of the endpoints, at most ten seconds; if nothing is by then the channel is there all the same, and its
/// calls say why they fail. All channels that are made like this on one runtime share a [`Resolver`], and so their watches and their
/// connection to the API server. Where the pod's environment says where it runs ([`Topology::from_env`]), hints are followed.
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
/// For what is no target, and where no API server can be found for a service. A server that does not answer, or a service that is not
/// there, is no error here.
pub async fn channel(target: &str) -> Result<KubeChannel, DialError> {
    let (builder, mut watch) = open(target.parse()?).await?;
    let channel = builder.build()?;
    // What is still unknown after that is reported by the calls.
    let _ = tokio::time::timeout(FIRST, watch.known()).await;
    Ok(channel)
}

/// Begins a channel to what a target names, as [`channel`] does, with settings to choose.
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
/// As [`channel`] has them.
pub async fn channel_builder(target: &str) -> Result<ChannelBuilder, DialError> {
    Ok(open(target.parse()?).await?.0)
}

async fn open(destination: Destination) -> Result<(ChannelBuilder, EndpointWatch), DialError> {
    Ok(match destination {
        Destination::Service(target) => {
            let resolver = shared_resolver(Client::from_env()).await?;
            let watch = resolver.watch(&target);
            // Others find the resolver as long as a channel has it.
            let builder = resolver.channel(&target).holding((resolver, watch.clone()));
            (builder, watch)
        }
        Destination::Host { host, port } => {
            let watch = EndpointWatch::of_host(&host, port);
            (following(&watch).authority(format!("{host}:{port}")), watch)
        }
        Destination::Addresses(addresses) => {
            let watch = EndpointWatch::fixed(EndpointSet::at(addresses));
            (following(&watch), watch)
        }
    })
}

fn following(watch: &EndpointWatch) -> ChannelBuilder {
    // The closure keeps the watch, and so what feeds it, alive as long as the channel.
    let source = watch.clone();
    KubeChannel::builder(watch.receiver()).resolving(move || source.resolve_now())
}

/// The resolver that this runtime's channels share, made with this client if there is none.
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
    // Another call may have been as quick.
    if let Some(resolver) = known() {
        return Ok(resolver);
    }
    RESOLVERS.lock().push((runtime, resolver.downgrade()));
    Ok(resolver)
}

impl Resolver {
    /// A channel in the making whose endpoints are those of a target, as they change. Channels of a namespace share what is read of it;
    /// when the last of them is dropped, that ends. Its `:authority`, and the name in certificates, is `svc.ns` unless set.
    ///
    /// # Panics
    /// When it is called outside of a tokio runtime.
    pub fn channel(&self, target: &Target) -> ChannelBuilder {
        let watch = self.watch(target);
        let authority = target.clone().or_namespace(self.default_namespace()).authority();
        following(&watch).authority(authority)
    }
}

impl KubeChannel {
    /// Begins a channel to these addresses, such as servers of a test or of this machine. No cluster is asked.
    ///
    /// ```no_run
    /// # fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// use dogwatch_grpc::KubeChannel;
    ///
    /// let channel = KubeChannel::to(["127.0.0.1:50051", "[::1]:50051"])?.build()?;
    /// # drop(channel);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// For a text that is no address with a port.
    pub fn to(addresses: impl IntoIterator<Item = impl ToString>) -> Result<ChannelBuilder, TargetError> {
        let addresses = Destination::addresses(addresses)?;
        Ok(following(&EndpointWatch::fixed(EndpointSet::at(addresses))))
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use dogwatch_client::ResponseBody;
    use http::Response;

    use super::*;

    /// A client whose server never answers.
    async fn client() -> Result<Client, Infallible> {
        tokio::task::yield_now().await;
        let silent =
            tower::service_fn(|_| std::future::pending::<Result<Response<ResponseBody>, Infallible>>());
        Ok(Client::from_service("http://127.0.0.1".parse().unwrap(), "default", silent))
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn channels_of_a_runtime_share_a_resolver_as_long_as_one_has_it() {
        let first = shared_resolver(client()).await.unwrap();
        let others: Vec<_> = (0..50).map(|_| tokio::spawn(shared_resolver(client()))).collect();
        for other in others {
            assert!(other.await.unwrap().unwrap().is(&first));
        }
        let elsewhere = tokio::task::spawn_blocking(|| {
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            runtime.block_on(shared_resolver(client())).unwrap()
        });
        assert!(!elsewhere.await.unwrap().is(&first), "tasks of another runtime end with it");
        let (weak, id) = (first.downgrade(), Handle::current().id());
        drop(first);
        assert!(weak.upgrade().is_none(), "nothing is kept for channels that are gone");
        let _next = shared_resolver(client()).await.unwrap();
        assert_eq!(RESOLVERS.lock().iter().filter(|it| it.0 == id).count(), 1);
    }
}
