//! The server as a whole: starting, reaching, forking and ending it.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use super::access::{Access, random_token};
use super::background::Background;
use super::builder::{ApiServerBuilder, Plan};
use super::error::StartError;
use super::kubeconfig;
use crate::auth::{Anonymous, Authenticator};
use crate::cluster::{Cluster, User};
use crate::faults::Lab;
use crate::http::Service;
use crate::log::{RequestLog, Requests};
use crate::serving::{Certificates, Connector, InProcess, Serving};
use secrecy::{ExposeSecret, SecretString};

/// What the address is called where there is no socket; no name server knows it.
const IN_PROCESS: &str = "http://in-process.invalid";

/// A Kubernetes API server in this process. Dropping it closes its port at once and ends everything it runs.
///
/// ```
/// use dogwatch_apiserver::ApiServer;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let server = ApiServer::builder()
///     .yaml("{ apiVersion: v1, kind: ConfigMap, metadata: { name: settings }, data: { colour: red } }")
///     .start()
///     .await?;
/// println!("kubectl --server {} get configmaps", server.url());
///
/// // Goes its own way: what happens there does not happen here.
/// let fork = server.fork().await?;
/// assert_ne!(fork.url(), server.url());
/// # Ok(())
/// # }
/// ```
pub struct ApiServer {
    serving: Serving<Service>,
    background: Background,
    url: String,
    access: Arc<Access>,
    plan: Plan,
}

impl ApiServer {
    /// A server on a free port of the loopback, without TLS, where everybody is the administrator.
    ///
    /// # Errors
    /// When there is no port.
    pub async fn start() -> Result<Self, StartError> {
        Self::builder().start().await
    }

    /// A server without a socket: [`Self::connector`] and [`Self::service`] lead to it, and a paused clock stays exact.
    pub async fn in_process() -> Result<Self, StartError> {
        Self::builder().in_process().start().await
    }

    /// Lets everything be chosen.
    pub fn builder() -> ApiServerBuilder {
        ApiServerBuilder::default()
    }

    /// A server with a copy of everything that is stored, which goes its own way from here. It is reached as this one is,
    /// on a port of its own if this one has one, with the same credentials; rules of the lab and the request log begin
    /// empty. Takes next to no time, whatever the size of the cluster.
    ///
    /// # Errors
    /// When there is no port.
    pub async fn fork(&self) -> Result<Self, StartError> {
        let cluster = Arc::new(self.cluster().fork());
        let plan = Plan { bind: self.plan.bind.map(|it| SocketAddr::new(it.ip(), 0)), ..self.plan.clone() };
        Self::assemble(cluster, plan, Arc::clone(&self.access)).await
    }

    /// Serves a cluster that is ready.
    async fn assemble(cluster: Arc<Cluster>, plan: Plan, access: Arc<Access>) -> Result<Self, StartError> {
        let log = if plan.log == 0 { RequestLog::default() } else { RequestLog::keeping(plan.log) };
        let authenticator = Authenticator::new().anonymous(plan.anonymous);
        let service =
            Service::new(Arc::clone(&cluster), authenticator).log(log).settings(plan.settings.clone());
        let serving = match plan.bind {
            None => Serving::in_process(service),
            Some(address) => Serving::bind(service, address, access.tls().cloned())
                .await
                .map_err(|source| StartError::Listen { address, source })?,
        };
        let url = serving.address().map_or_else(|| IN_PROCESS.to_owned(), |it| access.url(it));
        let background = Background::start(&cluster, plan.controllers, plan.simulators.clone());
        Ok(Self { serving, background, url, access, plan })
    }

    /// The address, such as `http://127.0.0.1:34567`, without a slash at the end. Without a socket it is a name that leads
    /// nowhere, for clients that want one.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// A kubeconfig for this server, with everything in it. Its context `token` is the current one; with TLS there is one
    /// called `certificate` too, which logs in by a certificate. It holds secrets.
    pub fn kubeconfig(&self) -> String {
        kubeconfig::write(&self.url, &self.access)
    }

    /// The token of the administrator, if one is needed.
    pub fn token(&self) -> Option<&SecretString> {
        self.access.token()
    }

    /// The certificates, with TLS: more can be made for clients.
    pub fn certificates(&self) -> Option<&Certificates> {
        self.access.certificates()
    }

    /// What is served. Objects can be read and written here without a request.
    pub fn cluster(&self) -> &Arc<Cluster> {
        self.serving.handler().cluster()
    }

    /// What goes wrong on purpose.
    pub fn faults(&self) -> &Lab {
        self.serving.handler().faults()
    }

    /// What the server was asked so far, as far as its log goes back.
    pub fn requests(&self) -> Requests {
        self.request_log().requests()
    }

    /// The log of requests itself, to wait for one or to begin anew.
    pub fn request_log(&self) -> &RequestLog {
        self.serving.handler().requests()
    }

    /// Makes connections without a socket, for clients of hyper and whatever else speaks HTTP over a stream.
    pub fn connector(&self) -> Connector {
        self.serving.connector()
    }

    /// Takes requests without a connection: what `Client::from_service` wants, of our client as of kube's.
    pub fn service(&self) -> InProcess<Service> {
        self.serving.service()
    }

    /// Ends it, and returns when nothing of it runs any more. Requests under way get half a second.
    pub async fn stop(self) {
        self.serving.stop().await;
        self.background.stop().await;
    }
}

impl ApiServerBuilder {
    /// Starts the server. It answers when this returns.
    ///
    /// # Errors
    /// When it cannot listen there, or should not; when an object to begin with is no good.
    pub async fn start(mut self) -> Result<ApiServer, StartError> {
        let needs_credentials = self.tls || !self.tokens.is_empty();
        let by_default = if needs_credentials { Anonymous::Refused } else { Anonymous::Admin };
        self.plan.anonymous = self.anonymous.unwrap_or(by_default);
        self.check_exposure()?;
        if self.tls && self.tokens.is_empty() {
            self.tokens.push((random_token(), User::admin()));
        }
        let address = self.plan.bind.map_or(IpAddr::V4(Ipv4Addr::LOCALHOST), |it| it.ip());
        let admin = self.tokens.iter().find(|(_, user)| *user == User::admin());
        let access = Access::new(
            admin.map(|(token, _)| token.clone()),
            self.tls.then_some(address),
            self.plan.settings.advertised.clone(),
        )?;

        if let (Some(simulators), Some(certificates)) = (&mut self.plan.simulators, access.certificates()) {
            simulators.root_certificate.get_or_insert_with(|| certificates.authority());
        }

        let mut cluster = self.cluster();
        if self.plan.bind.is_some() {
            cluster = cluster.with_secret_token_key();
        }
        cluster.establish_definitions(self.plan.controllers.definitions);
        for (token, user) in &self.tokens {
            cluster.know_token(token.expose_secret(), user.clone());
        }
        cluster.bootstrap().await;
        self.objects.create(&cluster).await?;
        ApiServer::assemble(Arc::new(cluster), self.plan, Arc::new(access)).await
    }
}

/// Shows where it is, and nothing of what it holds.
impl fmt::Debug for ApiServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ApiServer").field("url", &self.url).finish_non_exhaustive()
    }
}
