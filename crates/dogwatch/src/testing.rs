//! A cluster for tests: our API server and a controller manager in the process of the test, with a
//! client for it.
//!
//! ```
//! use dogwatch::k8s_openapi::api::core::v1::ConfigMap;
//! use dogwatch::{Api, testing};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let cluster = testing::cluster().await?;
//! let mut map = ConfigMap::default();
//! map.metadata.name = Some("greeting".to_owned());
//! cluster.create(&map).await?;
//!
//! let maps = Api::<ConfigMap>::namespaced(cluster.client(), "default");
//! assert!(maps.get("greeting").await?.metadata.uid.is_some());
//! # Ok(())
//! # }
//! ```
//!
//! Every cluster is separate and starts in milliseconds, so each test can have its own. Namespaces
//! and objects whose owners are gone disappear, as in any cluster. Requests do not pass through a
//! socket, which makes `#[tokio::test(start_paused = true)]` exact. [`ApiServer`] has everything
//! else: forks, fault injection, a request log, YAML to begin with.

use std::fmt;

use dogwatch_client::api::StaticScope;
use dogwatch_client::{Api, Client, Config, Error, UntilError, conditions};
use dogwatch_core::{Object, ResourceType, WriteParams};
use dogwatch_simulator::{ControllerManager, Simulator, SimulatorBuilder};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube_core::{CustomResourceExt, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;

pub use dogwatch_apiserver::{ApiServer, ApiServerBuilder, StartError, faults, log};

/// ```
/// use dogwatch::k8s_openapi::api::core::v1::Secret;
/// use dogwatch::testing::{Anonymous, ApiServer, TestCluster};
/// use dogwatch::{Api, Client, Config};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let builder = ApiServer::builder().token("secret").anonymous(Anonymous::Refused);
/// let cluster = TestCluster::start(builder).await?;
/// // The client of the cluster has the token; this one has no credentials.
/// let stranger = Client::new(Config::new(cluster.server().url().parse()?))?;
/// let secrets = Api::<Secret>::default_namespaced(stranger);
/// let error = secrets.get("any").await.unwrap_err();
/// assert!(error.is_unauthorized());
/// # Ok(())
/// # }
/// ```
#[doc(inline)]
pub use dogwatch_apiserver::Anonymous;

/// ```
/// use dogwatch::config::Impersonation;
/// use dogwatch::k8s_openapi::api::core::v1::ConfigMap;
/// use dogwatch::testing::{Anonymous, ApiServer, AuthorizationMode, TestCluster};
/// use dogwatch::{Api, Error};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let builder = ApiServer::builder().in_process().authorization(AuthorizationMode::Rbac);
/// // Requests of the test itself are the administrator's, which may impersonate others.
/// let cluster = TestCluster::start(builder.anonymous(Anonymous::Admin)).await?;
/// let bob = Impersonation { user: Some("bob".to_owned()), ..Default::default() };
/// let maps = Api::<ConfigMap>::default_namespaced(cluster.client().acting_as(bob));
/// let error: Error = maps.get("settings").await.unwrap_err();
/// assert!(error.is_forbidden(), "no role permits it");
/// # Ok(())
/// # }
/// ```
#[doc(inline)]
pub use dogwatch_apiserver::AuthorizationMode;

/// ```
/// use dogwatch::testing::{AdmissionPlugin, ApiServer, TestCluster};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// // Pods of any sort, whatever the labels of their namespace say.
/// let builder = ApiServer::builder().in_process();
/// let cluster = TestCluster::start(builder.admission_plugin(AdmissionPlugin::PodSecurity, false)).await?;
/// # drop(cluster);
/// # Ok(())
/// # }
/// ```
#[doc(inline)]
pub use dogwatch_apiserver::AdmissionPlugin;

/// ```
/// use dogwatch::k8s_openapi::api::core::v1::ConfigMap;
/// use dogwatch::testing::{ApiServer, AuthorizationMode, TestCluster, User};
/// use dogwatch::{Api, Client, Config};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let bob = User::named("bob", &["developers"]);
/// let builder = ApiServer::builder().token("admin").token_of("token-of-bob", bob);
/// let cluster = TestCluster::start(builder.authorization(AuthorizationMode::Rbac)).await?;
/// let mut config = Config::new(cluster.server().url().parse()?);
/// config.auth.token = Some("token-of-bob".into());
/// let maps = Api::<ConfigMap>::default_namespaced(Client::new(config)?);
/// let error = maps.get("settings").await.unwrap_err();
/// assert!(error.to_string().contains("bob"), "{error}");
/// # Ok(())
/// # }
/// ```
#[doc(inline)]
pub use dogwatch_apiserver::User;
pub use dogwatch_simulator as simulator;

/// A server in this process with a [controller manager](ControllerManager), and a client for it.
///
/// Dropping it ends the server and every request to it. Fault rules do not apply to the manager,
/// and the request log omits it.
///
/// ```
/// use dogwatch::k8s_openapi::api::core::v1::ConfigMap;
/// use dogwatch::{Api, testing};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let cluster = testing::cluster().await?;
/// let mut map = ConfigMap::default();
/// map.metadata.name = Some("settings".to_owned());
/// cluster.create(&map).await?;
///
/// let fork = cluster.fork().await?; // for the next case of the test
/// let maps = Api::<ConfigMap>::default_namespaced(fork.client());
/// assert!(maps.get("settings").await.is_ok());
/// fork.stop().await;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct TestCluster {
    /// Dropped before the server. `None` if the cluster was started without controllers.
    manager: Option<ControllerManager>,
    server: ApiServer,
    client: Client,
}

/// A failure to set up a [`TestCluster`].
///
/// ```
/// use dogwatch::testing::{ApiServer, StartError, TestCluster, TestClusterError};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let builder = ApiServer::builder().in_process().yaml("{apiVersion: v1, kind: Unknown}");
/// match TestCluster::start(builder).await {
///     Ok(cluster) => println!("{cluster:?}"),
///     Err(TestClusterError::Start(StartError::Refused { object, .. })) => println!("{object}"),
///     Err(error) => return Err(error.into()),
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum TestClusterError {
    /// The server did not start.
    Start(StartError),
    /// The client cannot be made from the server's kubeconfig.
    Client(Error),
}

/// Starts an empty cluster without simulated nodes and pods.
///
/// Use [`TestCluster::start`] for other settings, and [`TestCluster::simulator`] for nodes on which
/// pods become ready.
///
/// # Errors
/// If the server does not start.
pub async fn cluster() -> Result<TestCluster, TestClusterError> {
    TestCluster::start(ApiServer::builder().in_process()).await
}

impl TestCluster {
    /// Starts a cluster with settings of your choice.
    ///
    /// ```
    /// use dogwatch::testing::{ApiServer, TestCluster};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let builder = ApiServer::builder().in_process().seed(7);
    /// let cluster = TestCluster::start(builder.yaml("{apiVersion: v1, kind: Namespace, metadata: {name: shop}}")).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// If the server does not start, or if it requires credentials and has no socket: such a server
    /// needs an address.
    pub async fn start(builder: ApiServerBuilder) -> Result<Self, TestClusterError> {
        Self::start_without_controllers(builder).await.map(Self::managed)
    }

    /// Starts a cluster without a controller manager, for tests of controllers that would compete
    /// with it: namespaces that are deleted stay, and so do objects whose owners are gone.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub async fn start_without_controllers(builder: ApiServerBuilder) -> Result<Self, TestClusterError> {
        let server = builder.start().await.map_err(TestClusterError::Start)?;
        Self::new(server).map_err(TestClusterError::Client)
    }

    /// Starts a controller manager. It need not be ready for the cluster to be used: it also
    /// handles what happened before.
    fn managed(mut self) -> Self {
        let service = self.server.component_service("kube-controller-manager");
        let client = Client::from_service(self.client.server().clone(), "default", service);
        // The seed is for the names of events, which are then the same in every run.
        self.manager = Some(ControllerManager::builder(client).clock(self.server.clock()).seed(1).start());
        self
    }

    fn new(server: ApiServer) -> Result<Self, Error> {
        // Only a server that requires credentials is reached through its socket: the kubeconfig has
        // the token and the CA.
        let client = if server.token().is_some() {
            Client::new(Config::from_kubeconfig_str(&server.kubeconfig(), &Default::default())?)?
        } else {
            let url = server.url().parse().expect("a server's own URL is valid");
            Client::from_service(url, "default", server.service())
        };
        Ok(Self { manager: None, server, client })
    }

    /// Returns a client with all permissions, whose default namespace is `default`.
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// Returns the server, for faults, the request log and the kubeconfig.
    pub fn server(&self) -> &ApiServer {
        &self.server
    }

    /// Returns the builder of a simulator of nodes and workloads, on the clock of the server.
    ///
    /// ```
    /// use dogwatch::k8s_openapi::api::core::v1::Node;
    /// use dogwatch::{Api, testing};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let cluster = testing::cluster().await?;
    /// let simulator = cluster.simulator().nodes(1).start(); // until it is dropped
    /// let nodes = Api::<Node>::all(cluster.client());
    /// nodes.wait_for("node-1", |node: Option<&Node>| node.is_some()).await?;
    /// # simulator.stop().await;
    /// # Ok(())
    /// # }
    /// ```
    pub fn simulator(&self) -> SimulatorBuilder {
        Simulator::builder(self.client()).clock(self.server.clock())
    }

    /// Creates an object in its own namespace, or in `default` if it names none. Returns it as
    /// stored.
    ///
    /// # Errors
    /// If the server rejects it.
    pub async fn create<K>(&self, object: &K) -> Result<K, Error>
    where
        K: Resource<DynamicType = ()> + Object + Serialize + DeserializeOwned + 'static,
        K::Scope: StaticScope,
    {
        let scope = <K::Scope as StaticScope>::SCOPE;
        let api = Api::<K>::dynamic(self.client(), ResourceType::of::<K>(&(), scope));
        let api = api.in_namespace(object.meta().namespace.as_deref().unwrap_or("default"));
        api.create(&WriteParams::default(), object).await
    }

    /// Creates the definition of a custom resource and waits until its objects can be created.
    ///
    /// # Errors
    /// If the server rejects the definition.
    pub async fn define<K: CustomResourceExt>(&self) -> Result<(), UntilError> {
        let definitions = Api::<CustomResourceDefinition>::all(self.client());
        definitions.create(&WriteParams::default(), &K::crd()).await?;
        definitions.wait_for(K::crd_name(), conditions::is_crd_established).await?;
        Ok(())
    }

    /// Starts another cluster with a copy of all objects and their versions. The two do not affect
    /// each other afterwards.
    ///
    /// # Errors
    /// If the server does not start.
    pub async fn fork(&self) -> Result<Self, TestClusterError> {
        let server = self.server.fork().await.map_err(TestClusterError::Start)?;
        let fork = Self::new(server).map_err(TestClusterError::Client)?;
        Ok(if self.manager.is_some() { fork.managed() } else { fork })
    }

    /// Stops the server and waits until its connections are closed. Watches end.
    pub async fn stop(self) {
        if let Some(manager) = self.manager {
            manager.stop().await;
        }
        self.server.stop().await;
    }
}

impl fmt::Display for TestClusterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Start(_) => "cannot start the test cluster",
            Self::Client(_) => "cannot make a client for the test cluster",
        })
    }
}

impl std::error::Error for TestClusterError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Start(error) => Some(error),
            Self::Client(error) => Some(error),
        }
    }
}
