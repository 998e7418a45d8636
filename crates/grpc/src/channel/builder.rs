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
use super::core::{Core, Settings};
use super::kube_channel::KubeChannel;
use super::retry::Retry;
use crate::connection::{Backoff, Dialler, Timing, Tls};
use crate::endpoints::EndpointSet;
use crate::policy::{Outlier, Policy, SlowStart, ZoneAware};

/// As good as for ever, and a moment that clocks can still name.
const EVER: Duration = Duration::from_secs(100 * 365 * 24 * 3_600);

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
}

/// A channel in the making. Times are taken up to a century; a longer one is as good as for ever.
pub struct ChannelBuilder {
    sets: watch::Receiver<Arc<EndpointSet>>,
    policy: Policy,
    zone: Option<ZoneAware>,
    outlier: Option<Outlier>,
    slow_start: Option<SlowStart>,
    retry: Option<Retry>,
    health: Option<String>,
    subset: Option<usize>,
    panic_threshold: f64,
    hold: Option<Duration>,
    lazy: bool,
    ready_timeout: Duration,
    connect_timeout: Duration,
    connecting: usize,
    backoff: Backoff,
    drain: Duration,
    keep_alive: Option<(Duration, Duration)>,
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
            retry: None,
            health: None,
            subset: None,
            panic_threshold: 0.5,
            hold: None,
            lazy: false,
            ready_timeout: Duration::from_secs(10),
            connect_timeout: Duration::from_secs(20),
            connecting: 32,
            backoff: Backoff::default(),
            drain: Duration::from_secs(30),
            keep_alive: Some((Duration::from_secs(30), Duration::from_secs(10))),
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

    /// Repeats calls that failed with certain codes. Off unless called: only calls that no server has processed are repeated.
    #[must_use]
    pub fn retry(mut self, retry: Retry) -> Self {
        self.retry = Some(retry);
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
        self.hold = Some(hold.min(EVER));
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
        self.ready_timeout = timeout.min(EVER);
        self
    }

    /// How long making a connection may take, TLS and the first answer included. 20 s unless called.
    #[must_use]
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout.min(EVER);
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
        let (initial, longest) = (backoff.initial.min(EVER), backoff.longest.min(EVER));
        self.backoff = Backoff { initial, longest, ..backoff };
        self
    }

    /// How long calls may go on after their endpoint was removed from the set. 30 s unless called. One that is only
    /// terminating has no limit.
    #[must_use]
    pub fn drain(mut self, limit: Duration) -> Self {
        self.drain = limit.min(EVER);
        self
    }

    /// How often connections are pinged, and how long an answer may take. Every 30 s, within 10 s, unless called. A server that
    /// finds this too often is pinged half as often.
    #[must_use]
    pub fn keep_alive(mut self, interval: Duration, timeout: Duration) -> Self {
        self.keep_alive = Some((interval.min(EVER), timeout.min(EVER)));
        self
    }

    /// No pings: a pod that vanished without a word is noticed only when the kernel gives up.
    #[must_use]
    pub fn no_keep_alive(mut self) -> Self {
        self.keep_alive = None;
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

    /// Makes the channel and starts its task, on the runtime that this is called on.
    ///
    /// # Errors
    /// When the authority or the server name is not one.
    pub fn build(self) -> Result<KubeChannel, ConfigError> {
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
            permits: Semaphore::new(self.connecting),
            health: self.health,
            authority: self.authority.clone(),
        });
        let settings = Settings {
            policy: self.policy,
            zone: self.zone,
            outlier: self.outlier,
            slow_start: self.slow_start,
            retry: self.retry,
            subset: self.subset,
            panic_threshold: self.panic_threshold,
            hold: self.hold,
            lazy: self.lazy,
            ready_timeout: self.ready_timeout,
            replay_limit: self.replay_limit,
            scheme,
            authority,
            timing: Arc::new(Timing { backoff: self.backoff, drain: self.drain }),
            dialler,
        };
        let core = Arc::new(Core::new(settings, self.authority.as_deref().unwrap_or_default()));
        let (stop, stopped) = oneshot::channel();
        tokio::spawn(balance(Arc::clone(&core), self.sets, stopped));
        Ok(KubeChannel::new(core, stop, self.held))
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
    }
}
