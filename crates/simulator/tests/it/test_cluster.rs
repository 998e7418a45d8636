//! Clusters for tests that wait for the effects of a simulator or a controller manager.

use std::ops::Deref;
use std::time::Duration;

use dogwatch_apiserver::ApiServer;
use dogwatch_client::{Api, Client};
use dogwatch_core::{DeleteParams, Gvk, ObjectKey, ResourceType, WriteParams};
use dogwatch_simulator::{ControllerManager, Settings, Simulator};
use serde_json::Value;

/// Longer than anything that completes at all. The clock is paused, so waiting costs nothing.
const TIMEOUT: Duration = Duration::from_secs(20 * 60);
/// The interval at which waiting tests look at the objects.
const STEP: Duration = Duration::from_millis(1);

/// The kinds of a cluster, by API version and name.
pub(crate) type Kind = (&'static str, &'static str);

/// A server and a client of it.
pub(crate) struct TestServer {
    pub(crate) server: ApiServer,
    pub(crate) client: Client,
}

/// A server with a controller manager, and the simulator that runs on it.
pub(crate) struct TestCluster {
    pub(crate) simulator: Simulator,
    pub(crate) manager: ControllerManager,
    pub(crate) at: TestServer,
}

impl TestCluster {
    /// Starts a new server with its controllers, and a simulator with these settings.
    pub(crate) async fn with(settings: Settings) -> Self {
        let at = TestServer::start().await;
        let builder = Simulator::builder(at.client.clone()).settings(settings).seed(1);
        let simulator = builder.clock(at.server.clock()).start();
        Self { simulator, manager: at.manager(), at }
    }
}

impl Deref for TestCluster {
    type Target = TestServer;

    fn deref(&self) -> &TestServer {
        &self.at
    }
}

impl TestServer {
    /// Starts a new server.
    pub(crate) async fn start() -> Self {
        let builder = ApiServer::builder().in_process().seed(1);
        let server = builder.clock("2026-01-02T03:04:05Z".parse().expect("a time")).start().await.unwrap();
        let client = client(&server);
        Self { server, client }
    }

    /// Starts a controller manager. Fault rules do not apply to it, and it is not in the log.
    pub(crate) fn manager(&self) -> ControllerManager {
        let service = self.server.component_service("kube-controller-manager");
        let client = Client::from_service(self.server.url().parse().expect("a URL"), "default", service);
        ControllerManager::builder(client).clock(self.server.clock()).seed(1).start()
    }

    /// Creates an object and returns it as stored.
    pub(crate) async fn add(&self, object: Value) -> Value {
        add(&self.client, object).await
    }

    /// Returns an object by its key, if it exists.
    pub(crate) fn get(&self, of: Kind, key: &str) -> Option<Value> {
        self.all(of).into_iter().find(|it| key_of(it) == key)
    }

    /// Returns all objects of a kind.
    pub(crate) fn all(&self, of: Kind) -> Vec<Value> {
        self.all_at(of, self.server.revision())
    }

    /// Returns all objects of a kind at a revision.
    pub(crate) fn all_at(&self, of: Kind, revision: u64) -> Vec<Value> {
        self.server.objects_at(of.0, &plural(of.1), revision).expect("served and kept")
    }

    /// Changes an object.
    pub(crate) async fn change(&self, of: Kind, key: &str, mut change: impl FnMut(&mut Value)) {
        let key: ObjectKey = key.parse().unwrap();
        let api = api(&self.client, of).at(&key);
        loop {
            let mut object = api.get(key.name()).await.expect("the object exists");
            change(&mut object);
            match api.replace(key.name(), &WriteParams::default(), &object).await {
                Ok(_) => return,
                Err(error) => assert!(error.is_conflict(), "{error}"),
            }
        }
    }

    /// Changes the status of an object.
    pub(crate) async fn change_status(&self, of: Kind, key: &str, mut change: impl FnMut(&mut Value)) {
        self.change_part(of, key, "status", |it| change(&mut it["status"])).await;
    }

    /// Changes a subresource of an object.
    pub(crate) async fn change_part(
        &self,
        of: Kind,
        key: &str,
        part: &str,
        mut change: impl FnMut(&mut Value),
    ) {
        let key: ObjectKey = key.parse().unwrap();
        let api = api(&self.client, of).at(&key);
        loop {
            let mut object = api.get(key.name()).await.expect("the object exists");
            change(&mut object);
            let params = WriteParams::default();
            match api.replace_subresource::<Value>(key.name(), part, &params, &object).await {
                Ok(_) => return,
                Err(error) => assert!(error.is_conflict(), "{error}"),
            }
        }
    }

    pub(crate) async fn delete(&self, of: Kind, key: &str, params: DeleteParams) {
        let key: ObjectKey = key.parse().unwrap();
        api(&self.client, of).at(&key).delete(key.name(), &params).await.expect("deleted");
    }

    /// Waits until the objects of a kind are as expected; panics if that never happens.
    pub(crate) async fn until(&self, of: Kind, mut expected: impl FnMut(&[Value]) -> bool) -> Vec<Value> {
        let waited = tokio::time::timeout(TIMEOUT, async {
            let mut seen = None;
            loop {
                let revision = self.server.revision();
                if seen.replace(revision) != Some(revision) {
                    let all = self.all_at(of, revision);
                    if expected(&all) {
                        return all;
                    }
                }
                tokio::time::sleep(STEP).await;
            }
        });
        match waited.await {
            Ok(all) => all,
            Err(_) => panic!("never as expected: {:#?}", self.all(of)),
        }
    }

    /// Waits until an object is as expected, and returns it.
    pub(crate) async fn until_one(
        &self,
        of: Kind,
        key: &str,
        mut expected: impl FnMut(&Value) -> bool,
    ) -> Value {
        let is_it = |it: &Value| key_of(it) == key;
        let all = self.until(of, |all| all.iter().any(|it| is_it(it) && expected(it))).await;
        all.into_iter().find(is_it).expect("the object exists")
    }

    /// Waits until an object no longer exists.
    pub(crate) async fn until_gone(&self, of: Kind, key: &str) {
        self.until(of, |all| !all.iter().any(|it| key_of(it) == key)).await;
    }

    /// Lets this much time pass, with everything that happens in it.
    pub(crate) async fn advance(&self, time: Duration) {
        tokio::time::sleep(time).await;
    }
}

/// Creates an object and returns it as stored.
pub(crate) async fn add(client: &Client, object: Value) -> Value {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
    let resource = resource(&text("/apiVersion"), &text("/kind"));
    let api = Api::<Value>::dynamic(client.clone(), resource).in_namespace(&text("/metadata/namespace"));
    api.create(&WriteParams::default(), &object).await.expect("created")
}

fn api(client: &Client, of: Kind) -> Api<Value> {
    Api::dynamic(client.clone(), resource(of.0, of.1))
}

fn resource(api_version: &str, kind: &str) -> ResourceType {
    let gvk = Gvk::from_api_version(api_version, kind);
    match kind {
        "Node"
        | "Namespace"
        | "PriorityClass"
        | "PersistentVolume"
        | "StorageClass"
        | "VolumeAttributesClass"
        | "CustomResourceDefinition"
        | "ValidatingWebhookConfiguration" => ResourceType::cluster(gvk, &plural(kind)),
        _ => ResourceType::namespaced(gvk, &plural(kind)),
    }
}

/// Returns the resource of a kind.
fn plural(kind: &str) -> String {
    let kind = kind.to_lowercase();
    match kind.as_str() {
        "endpoints" => kind,
        _ if kind.ends_with('s') => format!("{kind}es"),
        _ => format!("{kind}s"),
    }
}

/// Returns the key of an object.
pub(crate) fn key_of(object: &Value) -> String {
    let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
    match text("namespace") {
        "" => text("name").to_owned(),
        namespace => format!("{namespace}/{}", text("name")),
    }
}

/// Returns a client of a server, with all permissions.
pub(crate) fn client(server: &ApiServer) -> Client {
    Client::from_service(server.url().parse().expect("a URL"), "default", server.service())
}
