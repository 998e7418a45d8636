//! The settings of a channel. Every setting has a default that suits a service in a cluster, named
//! by its method.

use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use http::uri::{Authority, Scheme};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::sync::{Semaphore, oneshot, watch};

use super::balancer::{StopOnDrop, balance};
use super::channel_state::{ChannelState, Resolve, Settings};
use super::config_error::ChannelConfigError;
use super::kube_channel::KubeChannel;
use super::methods::Methods;
use super::retry::Retry;
use crate::connection::{
    Backoff, Connector, KeepAlive, LARGEST_WINDOW, Limits, Parts, PingComplaints, Timing, Tls,
};
use crate::endpoints::EndpointSet;
use crate::policy::{OutlierDetection, Policy, SlowStart, ZoneAware};
use crate::time::CENTURY;

/// The default drain deadline of endpoints that were terminating.
const DRAIN: Duration = Duration::from_secs(30);
/// The shortest keep-alive interval that gRPC permits (A8).
const MIN_PING_INTERVAL: Duration = Duration::from_secs(10);
/// The initial window of HTTP/2; a connection cannot ask for a smaller one (RFC 9113, section
/// 6.9.2).
const SMALLEST_WINDOW: u32 = 65_535;

/// Builds a [`KubeChannel`]. Times are capped at a century, which is practically infinite.
///
/// ```
/// use std::time::Duration;
///
/// use dogwatch_grpc::{KubeChannel, LeastRequest, Retry};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let channel = KubeChannel::to(["127.0.0.1:50051", "127.0.0.1:50052"])?
///     .policy(LeastRequest::default())
///     .timeout(Duration::from_secs(5))
///     .timeout_for("shop.Cart/Watch", None) // a stream
///     .retry_for("shop.Cart/Get", Retry::default())
///     .lazy()
///     .build()?;
/// assert_eq!(channel.ready_endpoints(), 0); // it connects with the first call
/// # Ok(())
/// # }
/// ```
pub struct ChannelBuilder {
    sets: watch::Receiver<Arc<EndpointSet>>,
    policy: Policy,
    zone: Option<ZoneAware>,
    outlier: Option<OutlierDetection>,
    slow_start: Option<SlowStart>,
    methods: Methods,
    health: Option<String>,
    subset: Option<usize>,
    panic_threshold: f64,
    hold: Option<Duration>,
    lazy: bool,
    ready_timeout: Duration,
    connect_timeout: Duration,
    connecting: usize,
    backoff: Backoff,
    drain: Option<Duration>,
    keep_alive: Option<KeepAlive>,
    limits: Limits,
    parts: Parts,
    #[cfg(test)]
    pipes: Option<crate::connection::TestPipes>,
    resolve: Option<Resolve>,
    replay_limit: usize,
    authority: Option<String>,
    tls: Option<Arc<ClientConfig>>,
    server_name: Option<String>,
    held: Vec<Box<dyn Any + Send + Sync>>,
}

impl fmt::Debug for ChannelBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChannelBuilder")
            .field("policy", &self.policy)
            .field("authority", &self.authority)
            .field("tls", &self.tls.is_some())
            .finish_non_exhaustive()
    }
}

impl KubeChannel {
    /// Creates a channel with all defaults that follows these sets.
    ///
    /// They are a receiver of tokio, so that any program can be their source: it keeps the sender,
    /// and publishes a set by sending it. [`Resolver::channel`](crate::Resolver::channel) is for
    /// those of a cluster.
    ///
    /// # Panics
    ///
    /// Panics if called outside of a tokio runtime.
    pub fn from_endpoints(sets: watch::Receiver<Arc<EndpointSet>>) -> Self {
        Self::builder(sets).build().expect("the defaults contain no name that could be invalid")
    }

    /// Starts building a channel that follows these sets. When their source ends, the last set
    /// stays. They are a receiver of tokio for the reason given at [`Self::from_endpoints`].
    pub fn builder(sets: watch::Receiver<Arc<EndpointSet>>) -> ChannelBuilder {
        ChannelBuilder::new(sets)
    }
}

impl ChannelBuilder {
    fn new(sets: watch::Receiver<Arc<EndpointSet>>) -> Self {
        Self {
            sets,
            policy: Policy::default(),
            zone: None,
            outlier: None,
            slow_start: None,
            methods: Methods::default(),
            health: None,
            subset: None,
            panic_threshold: 0.5,
            hold: None,
            lazy: false,
            ready_timeout: Duration::from_secs(10),
            connect_timeout: Duration::from_secs(20),
            connecting: 32,
            backoff: Backoff::default(),
            drain: None,
            keep_alive: Some(KeepAlive::default()),
            limits: Limits::default(),
            parts: Parts::default(),
            #[cfg(test)]
            pipes: None,
            resolve: None,
            replay_limit: 256 << 10,
            authority: None,
            tls: None,
            server_name: None,
            held: Vec::new(),
        }
    }

    /// Sets the load balancing policy. Defaults to round robin.
    #[must_use]
    pub fn policy(mut self, policy: impl Into<Policy>) -> Self {
        self.policy = policy.into();
        self
    }

    /// Prefers endpoints in the caller's zone. Off by default.
    #[must_use]
    pub fn zone_aware(mut self, zone: ZoneAware) -> Self {
        self.zone = Some(zone);
        self
    }

    /// Ejects endpoints that fail while others do not. Off by default.
    #[must_use]
    pub fn outlier(mut self, outlier: OutlierDetection) -> Self {
        self.outlier = Some(outlier);
        self
    }

    /// Ramps up the share of new endpoints gradually. Off by default.
    #[must_use]
    pub fn slow_start(mut self, slow_start: SlowStart) -> Self {
        self.slow_start = Some(slow_start);
        self
    }

    /// Retries calls that failed with certain codes, for every method without a policy of its own.
    /// Off by default: only calls that no server has processed are sent again.
    ///
    /// Exclude methods that must not be executed twice: `.retry_for("shop.Cart/Pay", None)`. If
    /// only some methods may be retried, name those with [`retry_for`](Self::retry_for) instead.
    #[must_use]
    pub fn retry(mut self, retry: Retry) -> Self {
        self.methods.retry(retry);
        self
    }

    /// Retries calls of one method (`package.Service/Method`), or of all methods of one service
    /// (`package.Service`), by this policy; never with `None`. A method takes precedence over its
    /// service, and both over [`retry`](Self::retry).
    #[must_use]
    pub fn retry_for(mut self, name: impl AsRef<str>, retry: impl Into<Option<Retry>>) -> Self {
        self.methods.retry_for(name.as_ref(), retry.into());
        self
    }

    /// Sets the timeout of calls, including retries and the whole response, for every method
    /// without a timeout of its own. The shorter one of this and the caller's deadline applies. Off
    /// by default.
    ///
    /// Applies to streams too: exclude methods that stream for long, as in
    /// `.timeout_for("shop.Cart/Watch", None)`.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.methods.timeout(timeout.min(CENTURY));
        self
    }

    /// Sets the timeout of calls of one method (`package.Service/Method`), or of all methods of one
    /// service (`package.Service`); no timeout with `None`. A method takes precedence over its
    /// service, and both over [`timeout`](Self::timeout).
    #[must_use]
    pub fn timeout_for(mut self, name: impl AsRef<str>, timeout: impl Into<Option<Duration>>) -> Self {
        self.methods.timeout_for(name.as_ref(), timeout.into().map(|it| it.min(CENTURY)));
        self
    }

    /// Watches the health of this service on every endpoint (`grpc.health.v1`), and calls only
    /// those that serve it; the empty name stands for the whole server. Off by default.
    #[must_use]
    pub fn health(mut self, service: impl Into<String>) -> Self {
        self.health = Some(service.into());
        self
    }

    /// Connects to only this many endpoints, a different subset for each channel. Defaults to all.
    #[must_use]
    pub fn subset(mut self, size: usize) -> Self {
        self.subset = Some(size.max(1));
        self
    }

    /// Uses all connected endpoints, including ejected and unhealthy ones, when less than this
    /// share of them is available. Defaults to 0.5.
    #[must_use]
    pub fn panic_threshold(mut self, share: f64) -> Self {
        self.panic_threshold = share.clamp(0.0, 1.0);
        self
    }

    /// When a change of the set leaves no usable endpoint, keeps calling the previous ones for this
    /// time, as far as they are connected: such a change may be a mistake of its writer. A set with
    /// usable endpoints is applied at once. Off by default.
    #[must_use]
    pub fn hold_when_emptied(mut self, hold: Duration) -> Self {
        self.hold = Some(hold.min(CENTURY));
        self
    }

    /// Connects with the first call. By default the channel connects at once.
    #[must_use]
    pub fn lazy(mut self) -> Self {
        self.lazy = true;
        self
    }

    /// Sets how long calls wait while no endpoint can be called. Once this state has lasted longer,
    /// calls fail at once with the reason. The deadline of a call applies too. Defaults to 10 s.
    ///
    /// While there has never been an endpoint, and waiting does not help, for example because the
    /// service does not exist ([`Unavailable::is_definite`](crate::Unavailable::is_definite)),
    /// calls wait for one second at most. A single call waits longer with
    /// [`WaitForReady`](crate::WaitForReady).
    #[must_use]
    pub fn ready_timeout(mut self, timeout: Duration) -> Self {
        self.ready_timeout = timeout.min(CENTURY);
        self
    }

    /// Sets the timeout for opening a connection, including TLS and the first response. Defaults to
    /// 20 s.
    #[must_use]
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout.min(CENTURY);
        self
    }

    /// Sets the maximum number of concurrent connection attempts. Defaults to 32.
    #[must_use]
    pub fn connecting(mut self, at_a_time: usize) -> Self {
        self.connecting = at_a_time.clamp(1, Semaphore::MAX_PERMITS);
        self
    }

    /// Sets the delays between connection attempts. Defaults to gRPC's schedule.
    #[must_use]
    pub fn backoff(mut self, backoff: Backoff) -> Self {
        let (initial, longest) = (backoff.initial.min(CENTURY), backoff.longest.min(CENTURY));
        self.backoff = Backoff { initial, longest, ..backoff };
        self
    }

    /// Sets how long calls may continue after their endpoint was removed from the set. Defaults to
    /// 30 s if the endpoint was terminating, since its pod is gone by then, and to no limit
    /// otherwise: a Service whose selector changes removes healthy pods. An endpoint that is
    /// terminating, and still in the set, has no limit.
    #[must_use]
    pub fn drain(mut self, limit: Duration) -> Self {
        self.drain = Some(limit.min(CENTURY));
        self
    }

    /// Pings connections with open calls on which nothing was read for `interval`, at least 10 s,
    /// and closes them after `timeout` without a response. If a server closes a connection because
    /// of too many pings, new connections of the channel are pinged half as often.
    ///
    /// Defaults to an interval of 30 s and a timeout of 10 s, without the pings that an official
    /// gRPC server would count as strikes with its default settings: those that follow another one
    /// within five minutes without a response to a call in between. The kernel also probes idle
    /// connections, which no server counts.
    #[must_use]
    pub fn keep_alive(mut self, interval: Duration, timeout: Duration) -> Self {
        let without_calls = self.keep_alive.is_some_and(|it| it.without_calls);
        let (interval, timeout) = (interval.clamp(MIN_PING_INTERVAL, CENTURY), timeout.min(CENTURY));
        self.keep_alive = Some(KeepAlive { interval, timeout, without_calls, ignore_ping_policy: true });
        self
    }

    /// Pings connections without calls too. Servers count such pings as strikes unless they permit
    /// them. Off by default.
    #[must_use]
    pub fn keep_alive_without_calls(mut self) -> Self {
        self.keep_alive = Some(KeepAlive { without_calls: true, ..self.keep_alive.unwrap_or_default() });
        self
    }

    /// Turns off both pings and TCP keep-alive: a pod that vanished silently is noticed only when
    /// the kernel gives up.
    #[must_use]
    pub fn no_keep_alive(mut self) -> Self {
        self.keep_alive = None;
        self
    }

    /// Sets how many bytes of a response may be in transit before the caller reads them, from 64
    /// KiB to 2 GiB. Defaults to 2 MiB.
    #[must_use]
    pub fn stream_window(mut self, bytes: u32) -> Self {
        self.limits.stream_window = bytes.clamp(SMALLEST_WINDOW, LARGEST_WINDOW);
        self
    }

    /// Sets the same limit for all calls of a connection together. Defaults to the maximum of
    /// HTTP/2, so that responses that are not read do not block other calls: a connection then
    /// buffers at most one stream window for each open call.
    #[must_use]
    pub fn connection_window(mut self, bytes: u32) -> Self {
        self.limits.connection_window = bytes.clamp(SMALLEST_WINDOW, LARGEST_WINDOW);
        self
    }

    /// Sets the maximum size of the headers of a response, and of its trailers; a call with larger
    /// ones fails. Defaults to 64 KiB.
    #[must_use]
    pub fn max_header_bytes(mut self, bytes: u32) -> Self {
        self.limits.header_bytes = bytes;
        self
    }

    /// Sets how many bytes of a streamed request are kept until its response begins, so that it can
    /// be sent again; a request of which more was sent is not. Defaults to 256 KiB. Data that is
    /// available when the call is made, like a unary request, can always be sent again.
    #[must_use]
    pub fn replay_limit(mut self, bytes: usize) -> Self {
        self.replay_limit = bytes;
        self
    }

    /// Sets the `:authority` of every call, and the default of [`server_name`](Self::server_name).
    /// Defaults to the endpoint's address.
    #[must_use]
    pub fn authority(mut self, authority: impl Into<String>) -> Self {
        self.authority = Some(authority.into());
        self
    }

    /// Uses TLS, with HTTP/2 negotiated whatever the ALPN protocols of the configuration. Defaults
    /// to plain text. The configuration is used for every new connection: to renew certificates,
    /// use a resolver and a verifier that reload them.
    #[must_use]
    pub fn tls(mut self, config: ClientConfig) -> Self {
        let mut config = config;
        config.alpn_protocols = vec![b"h2".to_vec()];
        self.tls = Some(Arc::new(config));
        self
    }

    /// Sets the name that certificates must be valid for. Defaults to the authority.
    #[must_use]
    pub fn server_name(mut self, name: impl Into<String>) -> Self {
        self.server_name = Some(name.into());
        self
    }

    /// Keeps a value alive as long as the channel, such as the source of its endpoints. May be
    /// called several times: all the values are kept.
    #[must_use]
    pub fn holding(mut self, held: impl Any + Send + Sync) -> Self {
        self.held.push(Box::new(held));
        self
    }

    /// Sets the function that asks the source of the endpoints for changes. It is called when no
    /// endpoint can be connected to, and by [`KubeChannel::resolve_now`]. It must return
    /// immediately. Replaces the function of a resolver's builder, and nothing else: the channel
    /// still follows the endpoints of its target.
    #[must_use]
    pub fn resolving(mut self, resolve: impl Fn() + Send + Sync + 'static) -> Self {
        self.resolve = Some(Arc::new(resolve));
        self
    }

    /// Turns off parts of connections, to measure their effect.
    #[doc(hidden)]
    #[must_use]
    pub fn parts(mut self, parts: Parts) -> Self {
        self.parts = parts;
        self
    }

    /// Connects to pipes in place of sockets.
    #[cfg(test)]
    pub(crate) fn pipes(mut self, pipes: crate::connection::TestPipes) -> Self {
        self.pipes = Some(pipes);
        self
    }

    /// Builds the channel and starts its task on the current runtime.
    ///
    /// # Errors
    /// Returns an error if the authority, the server name or the name of a method is invalid.
    pub fn build(self) -> Result<KubeChannel, ChannelConfigError> {
        if let Some(name) = self.methods.invalid_name() {
            return Err(ChannelConfigError::Method(name.to_owned()));
        }
        let authority = match &self.authority {
            None => None,
            Some(it) => {
                let failed = |error| ChannelConfigError::Authority(it.clone(), error);
                Some(it.parse::<Authority>().map_err(failed)?)
            }
        };
        // An IPv6 address has brackets in an authority, and none in certificates.
        let host = |it| Authority::host(it).trim_start_matches('[').trim_end_matches(']');
        let name = self.server_name.as_deref().or(authority.as_ref().map(host));
        let tls = match self.tls {
            None => None,
            Some(config) => {
                let name = name.ok_or(ChannelConfigError::Nameless)?;
                let failed = |error| ChannelConfigError::ServerName(name.to_owned(), error);
                Some(Tls { config, name: ServerName::try_from(name.to_owned()).map_err(failed)? })
            }
        };
        let scheme = if tls.is_some() { Scheme::HTTPS } else { Scheme::HTTP };
        let connector = Arc::new(Connector {
            tls,
            connect_timeout: self.connect_timeout,
            keep_alive: self.keep_alive,
            complaints: PingComplaints::default(),
            limits: self.limits,
            permits: Semaphore::new(self.connecting),
            health: self.health,
            authority: self.authority.clone(),
            parts: self.parts,
            #[cfg(test)]
            pipes: self.pipes,
        });
        let settings = Settings {
            policy: self.policy,
            zone: self.zone,
            outlier: self.outlier,
            slow_start: self.slow_start,
            methods: self.methods,
            subset: self.subset,
            panic_threshold: self.panic_threshold,
            hold: self.hold,
            lazy: self.lazy,
            ready_timeout: self.ready_timeout,
            replay_limit: self.replay_limit,
            scheme,
            authority,
            timing: Arc::new(Timing { backoff: self.backoff, drain: self.drain.unwrap_or(DRAIN) }),
            drain_all: self.drain.is_some(),
            connector,
        };
        let channel = Arc::new(ChannelState::new(settings, self.authority.as_deref().unwrap_or_default()));
        let (stop, stopped) = oneshot::channel();
        tokio::spawn(balance(StopOnDrop(Arc::clone(&channel)), self.sets, self.resolve.clone(), stopped));
        Ok(KubeChannel::new(channel, stop, self.resolve, self.held))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn builder() -> ChannelBuilder {
        ChannelBuilder::new(watch::channel(Arc::default()).1)
    }

    fn tls() -> ClientConfig {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config =
            ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        config.with_root_certificates(rustls::RootCertStore::empty()).with_no_client_auth()
    }

    #[tokio::test]
    async fn invalid_settings_are_rejected_at_once() {
        assert!(builder().build().is_ok());
        for authority in ["greeter.shop", "greeter.shop:443", "10.0.0.1:443", "[::1]:443"] {
            assert!(builder().authority(authority).tls(tls()).build().is_ok(), "{authority}");
        }
        let refused = |it: ChannelBuilder| it.build().unwrap_err();
        assert!(matches!(refused(builder().authority("a b")), ChannelConfigError::Authority(..)));
        assert!(matches!(refused(builder().tls(tls())), ChannelConfigError::Nameless));
        let odd = builder().authority("greeter.shop").server_name("no name").tls(tls());
        assert!(matches!(refused(odd), ChannelConfigError::ServerName(..)));
        let odd = builder().retry_for("shop/Cart/Add", None);
        assert!(matches!(refused(odd), ChannelConfigError::Method(it) if it == "shop/Cart/Add"));
    }
}
