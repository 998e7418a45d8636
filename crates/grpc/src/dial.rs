//! From a name to a channel: what the resolver knows of a target feeds the channel that calls it.

use std::time::Duration;

use dogwatch_client::Client;

use crate::channel::{ChannelBuilder, ConfigError, KubeChannel};
use crate::source::Resolver;
use crate::target::{Target, TargetError};

/// How long [`channel`] waits for the first endpoints.
const FIRST: Duration = Duration::from_secs(10);

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

/// A channel to the service that a target names, with all defaults: in the cluster this runs in or that of the kubeconfig, each endpoint in
/// turn, `svc.ns` as `:authority`.
///
/// Waits until something is known of the endpoints, at most ten seconds; if nothing is by then the channel is there all the same, and its calls tell
/// why they fail. Each call of this function has a watch of its own: where there are several targets, make one [`Resolver`] and
/// ask it for [channels](Resolver::channel).
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let channel = dogwatch_grpc::channel("kubernetes:///greeter.shop:grpc").await?;
/// // let mut client = GreeterClient::new(channel);
/// # drop(channel);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// For what is no target, and where no API server can be found. A server that does not answer, or a service that is not there, is no error here.
pub async fn channel(target: &str) -> Result<KubeChannel, DialError> {
    let target: Target = target.parse()?;
    let resolver = Resolver::new(Client::from_env().await?);
    let mut watch = resolver.watch(&target);
    let channel = resolver.channel(&target).build()?;
    // What is still unknown after that is told by the calls.
    let _ = tokio::time::timeout(FIRST, watch.known()).await;
    Ok(channel)
}

impl Resolver {
    /// A channel in the making whose endpoints are those of a target, as they change. All channels of a namespace share one watch; when the
    /// last of them is dropped, it ends. Its `:authority`, and the name in certificates, is `svc.ns` unless set.
    ///
    /// # Panics
    /// When it is called outside of a tokio runtime.
    pub fn channel(&self, target: &Target) -> ChannelBuilder {
        let watch = self.watch(target);
        let authority = target.clone().or_namespace(self.default_namespace()).authority();
        let builder = KubeChannel::builder(watch.receiver()).authority(authority);
        builder.resolving(move || watch.resolve_now())
    }
}
