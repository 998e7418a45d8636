//! The base of every test: the server of the environment or our own, a namespace per test, and
//! waiting with a timeout.

use std::error::Error as _;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::Duration;

use dogwatch::api::{DeleteParams, EventKind, WatchEvent, WriteParams};
use dogwatch::config::{Environment, Kubeconfig, Overrides};
use dogwatch::k8s_openapi::api::authentication::v1::{SelfSubjectReview, UserInfo};
use dogwatch::k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use dogwatch::{Api, Client, Config, Error};
use dogwatch_apiserver::ApiServer;
use dogwatch_simulator::ControllerManager;
use futures_util::{Stream, StreamExt};
use serde_json::json;

use crate::fixtures::object;

const KUBECONFIG: &str = "DOGWATCH_CONFORMANCE_KUBECONFIG";
const CONTEXT: &str = "DOGWATCH_CONFORMANCE_CONTEXT";

/// The limit for any wait. Only a failing test waits this long.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(60);

/// Returns the kubeconfig of the server with absolute paths and the selected context.
pub(crate) fn kubeconfig() -> &'static Kubeconfig {
    static READ: OnceLock<Kubeconfig> = OnceLock::new();
    READ.get_or_init(|| {
        let mut kubeconfig = match std::env::var_os(KUBECONFIG) {
            Some(file) => {
                let mut read =
                    Kubeconfig::read(PathBuf::from(file)).expect("the kubeconfig of the suite is readable");
                read.resolve_paths();
                read
            }
            None => {
                Kubeconfig::from_yaml(&start_own_server()).expect("the kubeconfig of our server is valid")
            }
        };
        if let Ok(context) = std::env::var(CONTEXT) {
            kubeconfig.current_context = Some(context);
        }
        kubeconfig
    })
}

/// Starts our own API server on a runtime that outlives every test, and returns its kubeconfig. The
/// server runs until the process exits.
fn start_own_server() -> String {
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
        runtime.expect("the runtime starts").block_on(async {
            let server = ApiServer::builder().tls(true).start().await.expect("there is a free port");
            let service = server.component_service("kube-controller-manager");
            let url = server.url().parse().expect("a server's own URL is valid");
            let client = Client::from_service(url, "default", service);
            let _manager = ControllerManager::builder(client).start();
            sender.send(server.kubeconfig()).expect("the suite waits for it");
            std::future::pending::<()>().await;
        });
    });
    receiver.recv().expect("the server starts")
}

/// Returns the config of the suite's clients.
pub(crate) fn config() -> Config {
    Config::resolve(kubeconfig(), &Overrides::default(), &Environment::from_process())
        .expect("the kubeconfig of the suite is complete")
}

/// Creates a client. Connections belong to the runtime of a test, so every test creates its own.
pub(crate) fn client() -> Client {
    Client::new(config()).expect("the kubeconfig of the suite is valid")
}

/// Creates a client that returns the first response, without retries.
pub(crate) fn client_without_retries() -> Client {
    Client::builder(config()).max_retries(0).build().expect("the kubeconfig of the suite is valid")
}

/// A namespace that exists until the end of the test.
#[derive(Debug)]
pub(crate) struct TestNamespace {
    pub(crate) name: String,
}

impl TestNamespace {
    /// Creates a namespace with the service account that pods need, so that the test need not wait
    /// for the controller that usually creates it.
    pub(crate) async fn new(client: &Client) -> Self {
        let made = Api::<Namespace>::all(client.clone())
            .create(
                &WriteParams::default(),
                &object(json!({ "metadata": { "generateName": "conformance-" } })),
            )
            .await
            .expect("namespace created");
        let space = Self { name: made.metadata.name.expect("the server names what it stores") };
        let account = object(json!({ "metadata": { "name": "default" } }));
        match space.api::<ServiceAccount>(client).create(&WriteParams::default(), &account).await {
            Err(error) if !error.is_already_exists() => panic!("no service account: {}", chain(&error)),
            _ => space,
        }
    }

    /// Returns a typed handle on one kind in the namespace.
    pub(crate) fn api<K>(&self, client: &Client) -> Api<K>
    where
        K: dogwatch::View,
        K::Of: dogwatch::api::Resource<Scope = dogwatch::k8s_openapi::NamespaceResourceScope>,
    {
        Api::namespaced(client.clone(), &self.name)
    }
}

impl Drop for TestNamespace {
    /// Requests the deletion of the namespace, also after a failed test, without waiting for its
    /// end.
    fn drop(&mut self) {
        let name = self.name.clone();
        run_cleanup(async move |client| {
            let _ = Api::<Namespace>::all(client).delete(&name, &DeleteParams::background()).await;
        });
    }
}

/// Runs cleanup on a thread of its own and waits for it: a test's own runtime cannot be blocked on,
/// least of all while it unwinds.
pub(crate) fn run_cleanup<F: Future<Output = ()>>(work: impl FnOnce(Client) -> F + Send + 'static) {
    let on_a_runtime = move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.expect("the runtime starts").block_on(async { work(client()).await });
    };
    let _ = std::thread::spawn(on_a_runtime).join();
}

/// Waits for a future, and panics with `what` if it does not complete in time.
pub(crate) async fn within<T>(what: &str, happens: impl Future<Output = T>) -> T {
    tokio::time::timeout(TIMEOUT, happens)
        .await
        .unwrap_or_else(|_| panic!("{what} did not happen within {TIMEOUT:?}"))
}

/// Calls `ask` again and again until it returns a value.
pub(crate) async fn until<T>(what: &str, mut ask: impl AsyncFnMut() -> Option<T>) -> T {
    let asking = async {
        loop {
            if let Some(response) = ask().await {
                return response;
            }
        }
    };
    within(what, asking).await
}

/// Returns the next event of a watch that must not end.
pub(crate) async fn next_event<K>(
    watch: &mut (impl Stream<Item = Result<WatchEvent<K>, Error>> + Unpin),
) -> WatchEvent<K> {
    let event = within("the next event of the watch", watch.next()).await.expect("the watch continues");
    event.unwrap_or_else(|error| panic!("the watch broke: {}", chain(&error)))
}

/// Returns the next change of an object, skipping bookmarks.
pub(crate) async fn next_change<K>(
    watch: &mut (impl Stream<Item = Result<WatchEvent<K>, Error>> + Unpin),
) -> (EventKind, K) {
    loop {
        let event = next_event(watch).await;
        let kind = event.kind();
        match event {
            WatchEvent::Added(object) | WatchEvent::Modified(object) | WatchEvent::Deleted(object) => {
                return (kind, object);
            }
            WatchEvent::Error(status) => panic!("the server ended the watch: {status}"),
            _ => {}
        }
    }
}

/// Returns the user that the server authenticated.
pub(crate) async fn whoami(client: &Client) -> Result<UserInfo, Error> {
    let reviews = Api::<SelfSubjectReview>::all(client.clone());
    let review = reviews.create(&WriteParams::default(), &SelfSubjectReview::default()).await?;
    Ok(review.status.and_then(|it| it.user_info).expect("a review names the user"))
}

/// Returns the error and all its causes on one line.
pub(crate) fn chain(error: &Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

/// Returns the status of an outcome that must be an error of the server.
#[track_caller]
pub(crate) fn refused<T>(outcome: Result<T, Error>) -> dogwatch::api::Status {
    match outcome {
        Ok(_) => panic!("the server must reject this"),
        Err(error) => match error.status() {
            Some(status) => status.clone(),
            None => panic!("not an error of the server: {}", chain(&error)),
        },
    }
}
