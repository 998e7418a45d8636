//! What every test stands on: the server of the environment or else our own, a namespace of its own, and waiting with an end.

use std::error::Error as _;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::Duration;

use dogwatch::config::{Environment, Kubeconfig, Overrides};
use dogwatch::k8s_openapi::api::authentication::v1::{SelfSubjectReview, UserInfo};
use dogwatch::k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use dogwatch::{Api, Client, Config, DeleteParams, Error, EventKind, WatchEvent, WriteParams};
use dogwatch_apiserver::ApiServer;
use futures_util::{Stream, StreamExt};
use serde_json::json;

use crate::fixtures::object;

const KUBECONFIG: &str = "DOGWATCH_CONFORMANCE_KUBECONFIG";
const CONTEXT: &str = "DOGWATCH_CONFORMANCE_CONTEXT";

/// How long anything may take. Only a failing test waits this long.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// The kubeconfig of the server, its paths absolute, and the context to use.
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
                Kubeconfig::from_yaml(&own_server()).expect("our server writes kubeconfigs that can be read")
            }
        };
        if let Ok(context) = std::env::var(CONTEXT) {
            kubeconfig.current_context = Some(context);
        }
        kubeconfig
    })
}

/// Starts an API server of our own that lives as long as the suite, on a runtime that no test ends with. Gives its
/// kubeconfig.
fn own_server() -> String {
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
        runtime.expect("a runtime can be made").block_on(async {
            let server = ApiServer::builder().tls(true).start().await.expect("there is a free port");
            sender.send(server.kubeconfig()).expect("the suite waits for it");
            std::future::pending::<()>().await;
        });
    });
    receiver.recv().expect("the server starts")
}

/// The settings of the suite's own client.
pub(crate) fn config() -> Config {
    Config::resolve(kubeconfig(), &Overrides::default(), &Environment::from_process())
        .expect("the kubeconfig of the suite is complete")
}

/// A client of the suite's own. Connections belong to the runtime of a test, so every test makes its own.
pub(crate) fn client() -> Client {
    Client::new(config()).expect("the kubeconfig of the suite can be used")
}

/// A client that takes the first answer for the last.
pub(crate) fn client_without_retries() -> Client {
    Client::builder(config()).max_retries(0).build().expect("the kubeconfig of the suite can be used")
}

/// A namespace that is there as long as the test.
#[derive(Debug)]
pub(crate) struct Space {
    pub(crate) name: String,
}

impl Space {
    /// A new namespace with the service account that pods need, which elsewhere a controller makes in its own time.
    pub(crate) async fn new(client: &Client) -> Self {
        let made = Api::<Namespace>::all(client.clone())
            .create(
                &WriteParams::default(),
                &object(json!({ "metadata": { "generateName": "conformance-" } })),
            )
            .await
            .expect("a namespace can be made");
        let space = Self { name: made.metadata.name.expect("the server names what it stores") };
        let account = object(json!({ "metadata": { "name": "default" } }));
        match space.api::<ServiceAccount>(client).create(&WriteParams::default(), &account).await {
            Err(error) if !error.is_already_exists() => panic!("no service account: {}", chain(&error)),
            _ => space,
        }
    }

    /// A typed handle on one kind in it.
    pub(crate) fn api<K>(&self, client: &Client) -> Api<K>
    where
        K: dogwatch::View,
        K::Of: dogwatch::Resource<Scope = dogwatch::k8s_openapi::NamespaceResourceScope>,
    {
        Api::namespaced(client.clone(), &self.name)
    }
}

impl Drop for Space {
    /// Asks for the namespace to be deleted, whether the test went well or not. Its end is not waited for.
    fn drop(&mut self) {
        let name = self.name.clone();
        finally(async move |client| {
            let _ = Api::<Namespace>::all(client).delete(&name, &DeleteParams::background()).await;
        });
    }
}

/// Does something on a thread of its own and waits for it: a test's own runtime cannot be blocked on, least of all while
/// it unwinds.
pub(crate) fn finally<F: Future<Output = ()>>(work: impl FnOnce(Client) -> F + Send + 'static) {
    let on_a_runtime = move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.expect("a runtime can be made").block_on(async { work(client()).await });
    };
    let _ = std::thread::spawn(on_a_runtime).join();
}

/// Waits for something that must happen, and says what did not.
pub(crate) async fn within<T>(what: &str, happens: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, happens)
        .await
        .unwrap_or_else(|_| panic!("{what} did not happen within {PATIENCE:?}"))
}

/// Asks again and again until there is an answer.
pub(crate) async fn until<T>(what: &str, mut ask: impl AsyncFnMut() -> Option<T>) -> T {
    let asking = async {
        loop {
            if let Some(answer) = ask().await {
                return answer;
            }
        }
    };
    within(what, asking).await
}

/// The next event of a watch that must not have ended.
pub(crate) async fn next_event<K>(
    watch: &mut (impl Stream<Item = Result<WatchEvent<K>, Error>> + Unpin),
) -> WatchEvent<K> {
    let event = within("the next event of the watch", watch.next()).await.expect("the watch goes on");
    event.unwrap_or_else(|error| panic!("the watch broke: {}", chain(&error)))
}

/// The next change of an object, past bookmarks.
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

/// Who the server takes us for.
pub(crate) async fn whoami(client: &Client) -> Result<UserInfo, Error> {
    let reviews = Api::<SelfSubjectReview>::all(client.clone());
    let review = reviews.create(&WriteParams::default(), &SelfSubjectReview::default()).await?;
    Ok(review.status.and_then(|it| it.user_info).expect("a review says who"))
}

/// An error and all its causes on one line.
pub(crate) fn chain(error: &Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

/// The outcome must be a refusal of the server; this is it.
#[track_caller]
pub(crate) fn refused<T>(outcome: Result<T, Error>) -> dogwatch::Status {
    match outcome {
        Ok(_) => panic!("the server must refuse this"),
        Err(error) => match error.status() {
            Some(status) => status.clone(),
            None => panic!("not a refusal: {}", chain(&error)),
        },
    }
}
