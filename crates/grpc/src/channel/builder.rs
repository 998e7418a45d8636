//! How a channel is set up. Every setting has a default that suits a service in a cluster; each method names it.

use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use http::uri::{Authority, Scheme};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::sync::{Semaphore, oneshot, watch};

use super::balancer::balance;
use super::core::{Core, Resolve, Settings};
use super::kube_channel::KubeChannel;
use super::methods::Methods;
use super::retry::Retry;
use crate::connection::{
    Backoff, Complaints, Dialler, KeepAlive, LARGEST_WINDOW, Limits, Parts, Timing, Tls,
};
use crate::endpoints::EndpointSet;
use crate::policy::{Outlier, Policy, SlowStart, ZoneAware};
use crate::time::CENTURY;

/// The drain deadline of endpoints that were terminating, unless one is chosen.
const DRAIN: Duration = Duration::from_secs(30);
/// The shortest keep-alive interval that gRPC permits (A8).
const OFTENEST_PING: Duration = Duration::from_secs(10);
/// The window that HTTP/2 begins with; a smaller one for a connection cannot be asked for (RFC 9113, section 6.9.2).
const SMALLEST_WINDOW: u32 = 65_535;

/// Why a channel cannot be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// It cannot be the `:authority` of a request.
    #[error("{0:?} is no authority")]
    Authority(String, #[source] http::uri::InvalidUri),
    /// No certificate can be for it.
    #[error("{0:?} is no name for TLS")]
    ServerName(String, #[source] rustls::pki_types::InvalidDnsNameError),
    /// TLS needs a name to check the certificate against.
    #[error("TLS needs an authority or a server name")]
    Nameless,
    /// A setting is for a method, and this is the name of none.
    #[error("{0:?} is neither `package.Service` nor `package.Service/Method`")]
    Method(String),
}

/// A channel in the making. Times are taken up to a century; a longer one is as good as for ever.
pub struct ChannelBuilder {
    sets: watch::Receiver<Arc<EndpointSet>>,
    policy: Policy,
    zone: Option<ZoneAware>,
    outlier: Option<Outlier>,
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
    pipes: Option<crate::connection::Pipes>,
    resolve: Option<Resolve>,
    replay_limit: usize,
    authority: Option<String>,
    tls: Option<Arc<ClientConfig>>,
    server_name: Option<String>,
    held: Option<Box<dyn Any + Send + Sync>>,
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
    /// A channel with all defaults that follows these sets. It must be called on a tokio runtime.
    pub fn from_endpoints(sets: watch::Receiver<Arc<EndpointSet>>) -> Self {
        Self::builder(sets).build().expect("the defaults have no name that could be refused")
    }

    /// A channel in the making that follows these sets. When their source ends, the last one stays.
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
            held: None,
        }
    }

    /// Which endpoint takes the next call. Each in turn, unless called.
    #[must_use]
    pub fn policy(mut self, policy: impl Into<Policy>) -> Self {
        self.policy = policy.into();
        self
    }

    /// Prefers endpoints of our zone. Off unless called.
    #[must_use]
    pub fn zone_aware(mut self, zone: ZoneAware) -> Self {
        self.zone = Some(zone);
        self
    }

    /// Leaves out endpoints that fail where others do not. Off unless called.
    #[must_use]
    pub fn outlier(mut self, outlier: Outlier) -> Self {
        self.outlier = Some(outlier);
        self
    }

    /// Lets new endpoints take up their share little by little. Off unless called.
    #[must_use]
    pub fn slow_start(mut self, slow_start: SlowStart) -> Self {
        self.slow_start = Some(slow_start);
        self
    }

    /// Repeats calls that failed with certain codes, of every method that has no policy of its own. Off unless called: only calls that
    /// no server has processed are repeated.
    ///
    /// A method that must not be carried out twice is to be named: `.retry_for("shop.Cart/Pay", None)`. Where only some methods may
    /// be repeated, name those with [`retry_for`](Self::retry_for) instead.
    #[must_use]
    pub fn retry(mut self, retry: Retry) -> Self {
        self.methods.retry(retry);
        self
    }

    /// Repeats calls of one method (`package.Service/Method`), or of all methods of one service (`package.Service`), by this policy;
    /// never with `None`. A method goes before its service, and both before [`retry`](Self::retry).
    #[must_use]
    pub fn retry_for(mut self, name: impl AsRef<str>, retry: impl Into<Option<Retry>>) -> Self {
        self.methods.retry_for(name.as_ref(), retry.into());
        self
    }

    /// Sets how long calls may take, retries and the whole answer included, of every method that has no timeout of its own. The shorter
    /// one of this and the caller's own deadline holds. Off unless called.
    ///
    /// It holds for streams too: methods that stream for long are to be named, as in `.timeout_for("shop.Cart/Watch", None)`.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.methods.timeout(timeout.min(CENTURY));
        self
    }

    /// Sets how long calls of one method (`package.Service/Method`), or of all methods of one service (`package.Service`), may take;
    /// without a limit with `None`. A method goes before its service, and both before [`timeout`](Self::timeout).
    #[must_use]
    pub fn timeout_for(mut self, name: impl AsRef<str>, timeout: impl Into<Option<Duration>>) -> Self {
        self.methods.timeout_for(name.as_ref(), timeout.into().map(|it| it.min(CENTURY)));
        self
    }

    /// Asks endpoints for the health of this service (`grpc.health.v1`), and calls only those that serve it; the empty name
    /// is the server as a whole. Off unless called.
    #[must_use]
    pub fn health(mut self, service: impl Into<String>) -> Self {
        self.health = Some(service.into());
        self
    }

    /// Connects to this many endpoints only, others for every channel. To all, unless called.
    #[must_use]
    pub fn subset(mut self, size: usize) -> Self {
        self.subset = Some(size.max(1));
        self
    }

    /// Uses all connected endpoints, ejected and unhealthy ones too, when less than this share of them is fit. Half, unless called.
    #[must_use]
    pub fn panic_threshold(mut self, share: f64) -> Self {
        self.panic_threshold = share.clamp(0.0, 1.0);
        self
    }

    /// When a change of the set leaves nobody to call, goes on calling those it had for so long, as far as they are connected: such a
    /// change may be a mistake of whoever writes the set. One that has somebody to call counts at once, as ever. Off unless called.
    #[must_use]
    pub fn hold_when_emptied(mut self, hold: Duration) -> Self {
        self.hold = Some(hold.min(CENTURY));
        self
    }

    /// Connects with the first call. At once, unless called.
    #[must_use]
    pub fn lazy(mut self) -> Self {
        self.lazy = true;
        self
    }

    /// How long calls wait while nobody can be called. Once that has been so for longer, calls fail at once with the reason. 10 s
    /// unless called; the deadline of a call holds too.
    ///
    /// While there has never been an endpoint, and the reason is one that waiting does not help against, such as a service that does not
    /// exist ([`Unavailable::is_definite`](crate::Unavailable::is_definite)), calls wait for a second at most. A single call waits longer
    /// with [`WaitForReady`](crate::WaitForReady).
    #[must_use]
    pub fn ready_timeout(mut self, timeout: Duration) -> Self {
        self.ready_timeout = timeout.min(CENTURY);
        self
    }

    /// How long making a connection may take, TLS and the first answer included. 20 s unless called.
    #[must_use]
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout.min(CENTURY);
        self
    }

    /// How many connections are made at a time. 32 unless called.
    #[must_use]
    pub fn connecting(mut self, at_a_time: usize) -> Self {
        self.connecting = at_a_time.clamp(1, Semaphore::MAX_PERMITS);
        self
    }

    /// How long to wait between attempts to connect. gRPC's schedule unless called.
    #[must_use]
    pub fn backoff(mut self, backoff: Backoff) -> Self {
        let (initial, longest) = (backoff.initial.min(CENTURY), backoff.longest.min(CENTURY));
        self.backoff = Backoff { initial, longest, ..backoff };
        self
    }

    /// How long calls may go on after their endpoint was removed from the set. Unless called, 30 s where the endpoint was terminating,
    /// since its pod is gone by then, and without a limit where it was not: a Service whose selector moves removes healthy pods.
    /// One that is terminating, and still in the set, has no limit.
    #[must_use]
    pub fn drain(mut self, limit: Duration) -> Self {
        self.drain = Some(limit.min(CENTURY));
        self
    }

    /// Pings connections with open calls on which nothing was read for `interval`, at least 10 s, and gives them up after `timeout`
    /// without an answer. A server that finds this too often closes the connection; new ones of the channel are pinged half as often then.
    ///
    /// Unless called, the interval is 30 s and the timeout 10 s, and pings are left out that an official gRPC server would count against
    /// us with its default settings: those that follow another one within five minutes without an answer to a call between them.
    /// The kernel probes idle connections too, which no server counts.
    #[must_use]
    pub fn keep_alive(mut self, interval: Duration, timeout: Duration) -> Self {
        let without_calls = self.keep_alive.is_some_and(|it| it.without_calls);
        let (interval, timeout) = (interval.clamp(OFTENEST_PING, CENTURY), timeout.min(CENTURY));
        self.keep_alive = Some(KeepAlive { interval, timeout, without_calls, counted: true });
        self
    }

    /// Pings connections without calls too. Servers count such pings unless they permit them. Off unless called.
    #[must_use]
    pub fn keep_alive_without_calls(mut self) -> Self {
        self.keep_alive = Some(KeepAlive { without_calls: true, ..self.keep_alive.unwrap_or_default() });
        self
    }

    /// Neither pings nor probes of the kernel: a pod that vanished without a word is noticed only when the kernel gives up.
    #[must_use]
    pub fn no_keep_alive(mut self) -> Self {
        self.keep_alive = None;
        self
    }

    /// How many bytes of an answer may be on their way before the caller reads them. 2 MiB unless called; from 64 KiB to 2 GiB.
    #[must_use]
    pub fn stream_window(mut self, bytes: u32) -> Self {
        self.limits.stream_window = bytes.clamp(SMALLEST_WINDOW, LARGEST_WINDOW);
        self
    }

    /// The same for all calls of a connection together. Unless called it is as large as HTTP/2 allows, so that answers that are not read
    /// take nothing from other calls: a connection then holds at most a stream window for each open call.
    #[must_use]
    pub fn connection_window(mut self, bytes: u32) -> Self {
        self.limits.connection_window = bytes.clamp(SMALLEST_WINDOW, LARGEST_WINDOW);
        self
    }

    /// How large the headers of an answer, or its trailers, may be; a call with larger ones fails. 64 KiB unless called.
    #[must_use]
    pub fn max_header_bytes(mut self, bytes: u32) -> Self {
        self.limits.header_bytes = bytes;
        self
    }

    /// How many bytes of a request that is sent little by little are kept until its answer begins, so that it can be sent again; one of
    /// which more was sent is not. 256 KiB unless called. What is at hand when the call is made, as a unary request is, can always be sent again.
    #[must_use]
    pub fn replay_limit(mut self, bytes: usize) -> Self {
        self.replay_limit = bytes;
        self
    }

    /// `:authority` of every call, and the name in the certificate unless [`server_name`](Self::server_name) says otherwise. The
    /// endpoint's address unless called.
    #[must_use]
    pub fn authority(mut self, authority: impl Into<String>) -> Self {
        self.authority = Some(authority.into());
        self
    }

    /// Speaks TLS, with HTTP/2 negotiated whatever the configuration says about that. Plain text unless called. The configuration is asked
    /// for every new connection: certificates that are renewed belong into a resolver and a verifier of it that read them anew.
    #[must_use]
    pub fn tls(mut self, config: ClientConfig) -> Self {
        let mut config = config;
        config.alpn_protocols = vec![b"h2".to_vec()];
        self.tls = Some(Arc::new(config));
        self
    }

    /// The name that certificates must be for. The authority unless called.
    #[must_use]
    pub fn server_name(mut self, name: impl Into<String>) -> Self {
        self.server_name = Some(name.into());
        self
    }

    /// Keeps something alive as long as the channel, such as what feeds it.
    #[must_use]
    pub fn holding(mut self, held: impl Any + Send + Sync) -> Self {
        self.held = Some(Box::new(held));
        self
    }

    /// Sets what asks the source of the endpoints to look again: the channel does when no endpoint can be connected to, and so does
    /// [`KubeChannel::resolve_now`]. It must return at once.
    #[must_use]
    pub fn resolving(mut self, resolve: impl Fn() + Send + Sync + 'static) -> Self {
        self.resolve = Some(Arc::new(resolve));
        self
    }

    /// Switches parts of connections off, to measure what they bring.
    #[doc(hidden)]
    #[must_use]
    pub fn parts(mut self, parts: Parts) -> Self {
        self.parts = parts;
        self
    }

    /// Connects to the ends of pipes in place of sockets.
    #[cfg(test)]
    pub(crate) fn pipes(mut self, pipes: crate::connection::Pipes) -> Self {
        self.pipes = Some(pipes);
        self
    }

    /// Makes the channel and starts its task, on the runtime that this is called on.
    ///
    /// # Errors
    /// When the authority, the server name or the name of a method is not one.
    pub fn build(self) -> Result<KubeChannel, ConfigError> {
        if let Some(name) = self.methods.misnamed() {
            return Err(ConfigError::Method(name.to_owned()));
        }
        let authority = match &self.authority {
            None => None,
            Some(it) => {
                let failed = |error| ConfigError::Authority(it.clone(), error);
                Some(it.parse::<Authority>().map_err(failed)?)
            }
        };
        // An address of IPv6 stands in brackets there, and without them in certificates.
        let host = |it| Authority::host(it).trim_start_matches('[').trim_end_matches(']');
        let name = self.server_name.as_deref().or(authority.as_ref().map(host));
        let tls = match self.tls {
            None => None,
            Some(config) => {
                let name = name.ok_or(ConfigError::Nameless)?;
                let failed = |error| ConfigError::ServerName(name.to_owned(), error);
                Some(Tls { config, name: ServerName::try_from(name.to_owned()).map_err(failed)? })
            }
        };
        let scheme = if tls.is_some() { Scheme::HTTPS } else { Scheme::HTTP };
        let dialler = Arc::new(Dialler {
            tls,
            connect_timeout: self.connect_timeout,
            keep_alive: self.keep_alive,
            complaints: Complaints::default(),
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
            dialler,
        };
        let core = Arc::new(Core::new(settings, self.authority.as_deref().unwrap_or_default()));
        let (stop, stopped) = oneshot::channel();
        tokio::spawn(balance(Arc::clone(&core), self.sets, self.resolve.clone(), stopped));
        Ok(KubeChannel::new(core, stop, self.resolve, self.held))
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
    async fn what_cannot_work_is_refused_at_once() {
        assert!(builder().build().is_ok());
        for authority in ["greeter.shop", "greeter.shop:443", "10.0.0.1:443", "[::1]:443"] {
            assert!(builder().authority(authority).tls(tls()).build().is_ok(), "{authority}");
        }
        let refused = |it: ChannelBuilder| it.build().unwrap_err();
        assert!(matches!(refused(builder().authority("a b")), ConfigError::Authority(..)));
        assert!(matches!(refused(builder().tls(tls())), ConfigError::Nameless));
        let odd = builder().authority("greeter.shop").server_name("no name").tls(tls());
        assert!(matches!(refused(odd), ConfigError::ServerName(..)));
        let odd = builder().retry_for("shop/Cart/Add", None);
        assert!(matches!(refused(odd), ConfigError::Method(it) if it == "shop/Cart/Add"));
    }
}
