//! The configuration of a server before it starts.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use jiff::Timestamp;
use secrecy::{SecretSlice, SecretString};
use serde::Serialize;

use super::access::{BackendAccess, ServingCertificate};
use super::error::StartError;
use super::initial_objects::InitialObjects;
use crate::admission_plugin::AdmissionPlugin;
use crate::auth::Anonymous;
use crate::authorization::AuthorizationMode;
use crate::cluster::{Cluster, ServiceAccountKeys, ServiceNetwork, Source};
use crate::controllers::Controllers;
use crate::http::Settings;
use crate::serving::ConnectionParts;
use crate::upstream::{Dialer, Reach};
use crate::user::User;

/// The default start of a seeded server's clock: 1 January 2026.
const DEFAULT_CLOCK_START: Timestamp = Timestamp::constant(1_767_225_600, 0);

/// The default capacity of the request log: more than a test looks at.
const DEFAULT_LOG_CAPACITY: usize = 10_000;

/// Configures an [`ApiServer`](crate::ApiServer). Each method names its default.
///
/// ```
/// use dogwatch_apiserver::ApiServer;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let server = ApiServer::builder()
///     .in_process() // no socket
///     .seed(7) // the same uids, names and times in every run
///     .yaml("{apiVersion: v1, kind: Namespace, metadata: {name: shop}}")
///     .start()
///     .await?;
/// assert!(server.token().is_none()); // every client is the administrator
/// server.stop().await;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "the server does not run before `start` is called"]
pub struct ApiServerBuilder {
    pub(super) config: ServerConfig,
    pub(super) tls: bool,
    pub(super) anonymous: Option<Anonymous>,
    pub(super) authorization: AuthorizationMode,
    allow_exposure: bool,
    pub(super) tokens: Vec<(SecretString, User)>,
    seed: Option<u64>,
    clock: Option<Timestamp>,
    first_revision: Option<u64>,
    pub(super) objects: InitialObjects,
    /// The authorities of client certificates besides the server's own, as PEM.
    pub(super) client_authorities: Vec<Vec<u8>>,
    pub(super) serving_certificate: Option<ServingCertificate>,
    pub(super) backends: BackendAccess,
    service_network: ServiceNetwork,
    service_account_keys: Option<ServiceAccountKeys>,
    service_account_issuers: Vec<String>,
    plugins: Vec<(AdmissionPlugin, bool)>,
}

/// The part of the configuration that the running server keeps, for its forks.
#[derive(Clone, Debug)]
pub(super) struct ServerConfig {
    /// The address to listen on; `None` for a server without a socket.
    pub(super) bind: Option<SocketAddr>,
    pub(super) anonymous: Anonymous,
    pub(super) controllers: Controllers,
    pub(super) settings: Settings,
    /// The capacity of the request log.
    pub(super) log: usize,
    pub(super) connection_parts: ConnectionParts,
    /// Connects to kubelets, pods and services.
    pub(super) dialer: Dialer,
}

impl Default for ApiServerBuilder {
    fn default() -> Self {
        let config = ServerConfig {
            bind: Some(SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 0)),
            anonymous: Anonymous::Admin,
            controllers: Controllers::default(),
            settings: Settings::default(),
            log: DEFAULT_LOG_CAPACITY,
            connection_parts: ConnectionParts::default(),
            dialer: Dialer::default(),
        };
        Self {
            config,
            tls: false,
            anonymous: None,
            authorization: AuthorizationMode::default(),
            allow_exposure: false,
            tokens: Vec::new(),
            seed: None,
            clock: None,
            first_revision: None,
            objects: InitialObjects::default(),
            client_authorities: Vec::new(),
            serving_certificate: None,
            backends: BackendAccess::default(),
            service_network: ServiceNetwork::default(),
            service_account_keys: None,
            service_account_issuers: Vec::new(),
            plugins: Vec::new(),
        }
    }
}

impl ApiServerBuilder {
    /// Sets the address to listen on. Defaults to a free port of 127.0.0.1.
    ///
    /// An address outside the loopback also requires TLS, a token, and that requests without
    /// credentials are rejected; see [`Self::allow_exposure`].
    pub fn bind(mut self, address: SocketAddr) -> Self {
        self.config.bind = Some(address);
        self
    }

    /// Sets the hand-made parts of connections, for `cargo xtask bench apiserver --ablation`.
    #[doc(hidden)]
    pub fn connection_parts(mut self, parts: ConnectionParts) -> Self {
        self.config.connection_parts = parts;
        self
    }

    /// Opens no socket: the server is reachable only through
    /// [`connector`](crate::ApiServer::connector) and [`service`](crate::ApiServer::service).
    pub fn in_process(mut self) -> Self {
        self.config.bind = None;
        self
    }

    /// Enables TLS with certificates generated for this run, and with it client certificates.
    /// Defaults to off.
    ///
    /// If no token of the administrator is set, one is generated and put into the kubeconfig.
    pub fn tls(mut self, on: bool) -> Self {
        self.tls = on;
        self
    }

    /// Sets the name or address by which remote clients reach the server. It is used in the URL,
    /// the kubeconfig and the certificate, and accepted as the host of requests. Defaults to the
    /// listen address, or to 127.0.0.1 for a server that listens on all addresses.
    pub fn advertise(mut self, host: impl Into<String>) -> Self {
        self.config.settings.advertised = Some(host.into());
        self
    }

    /// Accepts this bearer token for the administrator. Requests without credentials are then
    /// rejected, unless [`Self::anonymous`] allows them.
    pub fn token(self, token: impl Into<SecretString>) -> Self {
        self.token_of(token, User::admin())
    }

    /// Accepts this bearer token for `user`. Requests without credentials are then rejected, unless
    /// [`Self::anonymous`] allows them.
    pub fn token_of(mut self, token: impl Into<SecretString>, user: User) -> Self {
        self.tokens.push((token.into(), user));
        self
    }

    /// Accepts client certificates of these authorities besides those of the server's own. `pem`
    /// has any number of certificates. Requires [TLS](Self::tls). The common name of a certificate
    /// is the user, and its organizations are the groups.
    pub fn client_authority(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.client_authorities.push(pem.into());
        self
    }

    /// Presents this certificate to clients instead of one that is generated. `chain` is the
    /// certificate with its intermediate ones and `key` its private key, both as PEM. Requires
    /// [TLS](Self::tls).
    ///
    /// [`ApiServer::kubeconfig`](crate::ApiServer::kubeconfig) still names the generated authority,
    /// which is not that of this certificate: clients need a kubeconfig of their own.
    pub fn serving_certificate(mut self, chain: impl Into<Vec<u8>>, key: impl Into<SecretSlice<u8>>) -> Self {
        self.serving_certificate = Some(ServingCertificate { chain: chain.into(), key: key.into() });
        self
    }

    /// Allows connections to other machines for logs, `exec`, `attach`, `portforward` and `proxy`:
    /// to the kubelets of nodes, to pods and to endpoints of services. Defaults to off: only
    /// loopback addresses are connected to.
    ///
    /// The addresses are those in the stored objects. With this, a client that may write them can
    /// reach every machine that this one can reach, except by link-local addresses.
    ///
    /// ```
    /// use dogwatch_apiserver::ApiServer;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// // The kubelets of real nodes can be reached.
    /// let server = ApiServer::builder().allow_remote_backends(true).start().await?;
    /// # server.stop().await;
    /// # Ok(())
    /// # }
    /// ```
    pub fn allow_remote_backends(mut self, on: bool) -> Self {
        self.backends.reach = if on { Reach::Anywhere } else { Reach::Loopback };
        self
    }

    /// Verifies the certificates of kubelets by these authorities. `pem` has any number of
    /// certificates. By default they are not verified, as in kube-apiserver without
    /// `--kubelet-certificate-authority`.
    ///
    /// With [TLS](Self::tls), this server presents a client certificate of its own authority to
    /// kubelets, for the user `kube-apiserver-kubelet-client` in the group `system:masters`.
    pub fn kubelet_authority(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.backends.kubelet_authorities.push(pem.into());
        self
    }

    /// Sets the network from which services get their addresses. Defaults to 10.96.0.0/16.
    pub fn service_network(mut self, network: ServiceNetwork) -> Self {
        self.service_network = network;
        self
    }

    /// Signs and verifies the tokens of service accounts with these keys, so that other programs
    /// can issue or verify them. Defaults to a key generated for this run.
    pub fn service_account_keys(mut self, keys: ServiceAccountKeys) -> Self {
        self.service_account_keys = Some(keys);
        self
    }

    /// Adds an issuer of tokens of service accounts, and an audience of this server. The first one
    /// is the issuer of new tokens; those of the others are accepted too. Defaults to
    /// `https://kubernetes.default.svc`.
    pub fn service_account_issuer(mut self, issuer: impl Into<String>) -> Self {
        self.service_account_issuers.push(issuer.into());
        self
    }

    /// Switches an admission plugin on or off. The defaults are those of kube-apiserver, but
    /// ServiceAccount is off.
    ///
    /// ```
    /// use dogwatch_apiserver::{AdmissionPlugin, ApiServer};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// // New pods get the token of their service account, which has to exist.
    /// let server = ApiServer::builder()
    ///     .in_process()
    ///     .admission_plugin(AdmissionPlugin::ServiceAccount, true)
    ///     .yaml("{apiVersion: v1, kind: ServiceAccount, metadata: {name: default}}")
    ///     .start()
    ///     .await?;
    /// # server.stop().await;
    /// # Ok(())
    /// # }
    /// ```
    pub fn admission_plugin(mut self, plugin: AdmissionPlugin, on: bool) -> Self {
        self.plugins.push((plugin, on));
        self
    }

    /// Sets the way in which the server decides what users may do. Defaults to
    /// [`AuthorizationMode::AlwaysAllow`].
    ///
    /// ```
    /// use dogwatch_apiserver::{ApiServer, AuthorizationMode, User};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// // Bob has no roles yet, so all but a few requests of his get 403.
    /// let server = ApiServer::builder()
    ///     .authorization(AuthorizationMode::Rbac)
    ///     .token("secret")
    ///     .token_of("token-of-bob", User::named("bob", &["developers"]))
    ///     .start()
    ///     .await?;
    /// # server.stop().await;
    /// # Ok(())
    /// # }
    /// ```
    pub fn authorization(mut self, mode: AuthorizationMode) -> Self {
        self.authorization = mode;
        self
    }

    /// Sets the treatment of requests without credentials. Without TLS and without a token they
    /// default to the administrator's. Otherwise they are rejected, or, if the server authorizes
    /// requests, treated as those of `system:anonymous`, as in kube-apiserver (k8s.io/apiserver
    /// v0.36.4 pkg/authentication/request/anonymous/anonymous.go).
    ///
    /// Without authorization, `system:anonymous` may do everything, too.
    pub fn anonymous(mut self, anonymous: Anonymous) -> Self {
        self.anonymous = Some(anonymous);
        self
    }

    /// Allows an address outside the loopback without TLS, without a token, or with requests that
    /// have no credentials. Everyone who can reach the address can then read and change every
    /// object, Secrets included. Defaults to off.
    pub fn allow_exposure(mut self, on: bool) -> Self {
        self.allow_exposure = on;
        self
    }

    /// Makes uids, generated names, the first resource version and the clock the same in every run.
    /// The clock then advances with tokio's. By default these are random, and the clock is the
    /// system's.
    ///
    /// Tokens of service accounts are the same in every run only for an
    /// [in-process](Self::in_process) server: a server that listens on a socket signs them with a
    /// random key.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Starts the clock at this time; it advances with tokio's. Defaults to 1 January 2026 for a
    /// seeded server, and to the system clock for others.
    pub fn clock(mut self, start: Timestamp) -> Self {
        self.clock = Some(start);
        self
    }

    /// Sets the first resource version, which should be 1 or more. Defaults to 1 for a server with
    /// a seed or a clock of its own, and otherwise to the microseconds since 1970, so that a
    /// restarted server's versions are above all that an earlier one handed out.
    ///
    /// Two servers can act as one that is restarted. If the second starts at a higher version, a
    /// client that resumes from a version of the first gets 410 and lists again. If it starts
    /// lower, as after restoring etcd from a backup, the client's version lies in the future: after
    /// the server has waited 3 s for it, a list that requires it gets 504, and a watch gets 410.
    ///
    /// ```
    /// # use dogwatch_apiserver::ApiServer;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let before = ApiServer::builder().in_process().seed(1).first_revision(5_000).start().await?;
    /// let restored = ApiServer::builder().in_process().seed(2).first_revision(1_000).start().await?;
    /// assert!(restored.revision() < before.revision());
    /// # Ok(())
    /// # }
    /// ```
    pub fn first_revision(mut self, revision: u64) -> Self {
        self.first_revision = Some(revision);
        self
    }

    /// Creates the objects of a YAML text at start, in this order. The text may have any number of
    /// documents, and lists among them. Namespaced objects that name no namespace are created in
    /// `default`. Their status is kept.
    pub fn yaml(mut self, text: &str) -> Self {
        self.objects.yaml(text);
        self
    }

    /// Creates this object at start: a typed one, or a JSON value. Otherwise as [`Self::yaml`].
    pub fn object(mut self, object: &impl Serialize) -> Self {
        self.objects.object(object);
        self
    }

    /// Selects the controllers to run. Defaults to all of them.
    pub fn controllers(mut self, controllers: Controllers) -> Self {
        self.config.controllers = controllers;
        self
    }

    /// Sets the interval of bookmarks for watches that allow them. Defaults to one minute.
    pub fn bookmark_period(mut self, period: Duration) -> Self {
        self.config.settings.bookmark_period = period;
        self
    }

    /// Sets the capacity of the request log, which keeps the newest requests; 0 turns it off.
    /// Defaults to 10,000.
    pub fn request_log(mut self, capacity: usize) -> Self {
        self.config.log = capacity;
        self
    }

    /// Exposes the fault-injection API under `/_dogwatch/faults`, to every user who may use that
    /// path. Defaults to off.
    pub fn fault_admin(mut self, on: bool) -> Self {
        self.config.settings.fault_admin = on;
        self
    }

    /// Honours the parameter `shardSelector` of lists and watches, which is alpha in Kubernetes
    /// 1.36 (feature gate `ShardedListAndWatch` in k8s.io/apiserver v0.36.4
    /// pkg/features/kube_features.go). Defaults to off: the parameter is ignored, as in
    /// kube-apiserver.
    pub fn sharding(mut self, on: bool) -> Self {
        self.config.settings.sharding = on;
        self
    }

    /// Rejects a server that other machines could use without credentials.
    pub(super) fn check_exposure(&self) -> Result<(), StartError> {
        let remote = |it: &SocketAddr| !it.ip().to_canonical().is_loopback();
        let Some(address) = self.config.bind.filter(remote).filter(|_| !self.allow_exposure) else {
            return Ok(());
        };
        if !self.tls || self.tokens.is_empty() {
            return Err(StartError::Exposed { address });
        }
        // Without an authorizer, a request of `system:anonymous` may do everything, like one of the
        // administrator.
        match (self.config.anonymous, self.authorization) {
            (Anonymous::Refused, _) | (Anonymous::Allowed, AuthorizationMode::Rbac) => Ok(()),
            _ => Err(StartError::ExposedToAnonymous { address }),
        }
    }

    /// Creates an empty cluster as configured.
    pub(super) fn cluster(&self) -> Cluster {
        let source = self.source();
        let first = self.first_revision.unwrap_or_else(|| source.first_revision());
        let mut cluster = Cluster::beginning_at(first, source)
            .with_authorization(self.authorization)
            .with_service_network(self.service_network);
        // A seed is not secret: only a server that no other program can reach has a key of it.
        if self.config.bind.is_some() {
            cluster = cluster.with_secret_token_key();
        }
        if let Some(keys) = &self.service_account_keys {
            cluster = cluster.with_token_keys(keys.clone());
        }
        if !self.service_account_issuers.is_empty() {
            cluster = cluster.with_token_issuers(self.service_account_issuers.clone());
        }
        self.plugins.iter().fold(cluster, |cluster, (plugin, on)| cluster.with_plugin(*plugin, *on))
    }

    fn source(&self) -> Source {
        match (self.seed, self.clock) {
            (None, None) => Source::real(),
            (seed, clock) => {
                Source::seeded(seed.unwrap_or_else(rand::random), clock.unwrap_or(DEFAULT_CLOCK_START))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_rejected(change: impl FnOnce(ApiServerBuilder) -> ApiServerBuilder, anonymous: Anonymous) -> bool {
        let mut builder = change(ApiServerBuilder::default());
        builder.config.anonymous = anonymous;
        builder.check_exposure().is_err()
    }

    #[test]
    fn an_address_off_loopback_needs_credentials_unless_exposure_is_allowed() {
        let remote: SocketAddr = "192.0.2.1:443".parse().expect("an address");
        let guarded = |it: ApiServerBuilder| it.bind(remote).tls(true).token("t");
        assert!(!is_rejected(guarded, Anonymous::Refused));
        assert!(is_rejected(guarded, Anonymous::Allowed) && is_rejected(guarded, Anonymous::Admin));
        assert!(is_rejected(|it| it.bind(remote), Anonymous::Refused));
        for anonymous in [Anonymous::Allowed, Anonymous::Admin] {
            assert!(!is_rejected(|it| guarded(it).allow_exposure(true), anonymous));
            assert!(!is_rejected(|it| it.bind(remote).allow_exposure(true), anonymous));
            assert!(!is_rejected(|it| it, anonymous), "the default is the loopback");
            assert!(!is_rejected(|it| it.in_process(), anonymous));
        }
    }
}
