//! A gRPC server for each ready pod of the Deployment, and its EndpointSlice.
//!
//! The kubelets of the demo are simulated and run no containers. So this module follows the pods
//! through the informer: a pod that becomes ready gets a real server on loopback and a slice, a
//! terminating pod is marked in its slice, and the server of a deleted pod stops. A server can be
//! killed: its slice stays, as that of a program that crashed, until it is started again.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Context as _;
use dogwatch::api::{DeleteParams, PatchParams};
use dogwatch::informer::{Change, Changes};
use dogwatch::k8s_openapi::api::core::v1::{Pod, Service};
use dogwatch::k8s_openapi::api::discovery::v1::EndpointSlice;
use dogwatch::{Api, Client, Error};
use futures_util::StreamExt;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use super::backend::Backend;
use super::connect::{FIELD_MANAGER, NAMESPACE};
use super::kill_switch::KillSwitch;
use super::workload;

/// The Service that clients call.
const SERVICE: &str = "greeter";
/// The time after which a killed server is started again.
const RESTART_AFTER: Duration = Duration::from_secs(5);
/// The target of the calls.
pub(super) const TARGET: &str = "kubernetes:///greeter.demo:grpc";

/// The servers of the pods.
pub(super) struct PodServers {
    services: Api<Service>,
    slices: Api<EndpointSlice>,
    /// The servers by the names of their pods.
    running: BTreeMap<String, PodServer>,
    /// The servers that finish their calls.
    ending: JoinSet<anyhow::Result<()>>,
    /// The number of servers so far, which chooses their addresses.
    started: u8,
    kill: KillSwitch,
    /// The pod whose server was killed, and the time to start it again.
    killed: Option<(String, Instant)>,
}

struct PodServer {
    backend: Backend,
    is_terminating: bool,
}

impl PodServers {
    /// Creates the Service, without servers.
    ///
    /// # Errors
    /// Returns an error if the request fails.
    pub(super) async fn new(client: Client, kill: KillSwitch) -> anyhow::Result<Self> {
        let service =
            json!({ "spec": { "clusterIP": "None", "ports": [{ "name": "grpc", "port": 50051 }] } });
        let services = Api::<Service>::namespaced(client.clone(), NAMESPACE);
        services.apply(SERVICE, &apply(), &service).await?;
        let slices = Api::namespaced(client, NAMESPACE);
        let (running, ending) = (BTreeMap::new(), JoinSet::new());
        Ok(Self { services, slices, running, ending, started: 0, kill, killed: None })
    }

    /// Follows the pods until the informer ends.
    ///
    /// # Errors
    /// Returns an error if a request fails, or if a server cannot listen or panics.
    pub(super) async fn follow(&mut self, pods: &mut Changes<Pod>) -> anyhow::Result<()> {
        let mut kill_requests = self.kill.requests();
        loop {
            let restart_at = self.killed.as_ref().map(|it| it.1);
            let change = tokio::select! {
                biased;
                change = pods.next() => match change {
                    Some(change) => change,
                    None => return Ok(()),
                },
                Some(request) = kill_requests.recv() => {
                    // Fails if the page does not wait any more.
                    let _ = request.send(self.kill_one());
                    continue;
                }
                () = sleep_until(restart_at.unwrap_or_else(Instant::now)), if restart_at.is_some() => {
                    self.restart().await?;
                    continue;
                }
            };
            let name = workload::name_of(&**change.object());
            match &change {
                Change::Deleted(_) => self.end(name).await?,
                _ if workload::is_terminating(change.object()) => self.mark_terminating(name).await?,
                _ if workload::is_ready(change.object()) => self.start(name).await?,
                _ => {}
            }
            while let Some(ended) = self.ending.try_join_next() {
                ended??;
            }
        }
    }

    /// Kills a server with its connections, as a crash does. Returns a text that says which.
    ///
    /// # Errors
    /// Returns an error if there is no server, or if one is down already.
    fn kill_one(&mut self) -> anyhow::Result<String> {
        if let Some((pod, _)) = &self.killed {
            anyhow::bail!("the server of pod {pod} is down already, and starts again soon");
        }
        let pod = self.running.iter().find(|(_, it)| !it.is_terminating).map(|it| it.0.clone());
        let pod = pod.context("no pod has a gRPC server now")?;
        self.running.remove(&pod);
        let after = RESTART_AFTER.as_secs();
        let done = format!("the gRPC server of pod {pod} was killed, and starts again in {after} s");
        self.killed = Instant::now().checked_add(RESTART_AFTER).map(|at| (pod, at));
        Ok(done)
    }

    /// Starts the killed server again, as a kubelet does.
    async fn restart(&mut self) -> anyhow::Result<()> {
        match self.killed.take() {
            Some((pod, _)) => self.start(&pod).await,
            None => Ok(()),
        }
    }

    /// Deletes the Service and the slices, and stops the servers.
    ///
    /// # Errors
    /// Returns an error if a request fails, or if a server panicked.
    pub(super) async fn stop(mut self) -> anyhow::Result<()> {
        for name in self.running.keys().cloned().collect::<Vec<_>>() {
            self.end(&name).await?;
        }
        deleted(self.services.delete(SERVICE, &DeleteParams::default()).await)?;
        while let Some(ended) = self.ending.join_next().await {
            ended??;
        }
        Ok(())
    }

    async fn start(&mut self, pod: &str) -> anyhow::Result<()> {
        let is_killed = self.killed.as_ref().is_some_and(|it| it.0 == pod);
        if is_killed || self.running.contains_key(pod) {
            return Ok(());
        }
        self.started = self.started % 200 + 1;
        let backend = Backend::start(pod, self.started).await?;
        self.slices.apply(pod, &apply(), &slice(pod, backend.address, true)).await?;
        self.running.insert(pod.to_owned(), PodServer { backend, is_terminating: false });
        Ok(())
    }

    async fn mark_terminating(&mut self, pod: &str) -> anyhow::Result<()> {
        self.forget_killed(pod).await?;
        let Some(server) = self.running.get_mut(pod).filter(|it| !it.is_terminating) else { return Ok(()) };
        server.is_terminating = true;
        let address = server.backend.address;
        self.slices.apply(pod, &apply(), &slice(pod, address, false)).await?;
        Ok(())
    }

    /// Deletes the slice of a pod whose server was killed, instead of starting the server again.
    async fn forget_killed(&mut self, pod: &str) -> anyhow::Result<()> {
        if self.killed.take_if(|it| it.0 == pod).is_some() {
            self.delete_slice(pod).await?;
        }
        Ok(())
    }

    async fn delete_slice(&self, pod: &str) -> Result<(), Error> {
        deleted(self.slices.delete(pod, &DeleteParams::default()).await)
    }

    async fn end(&mut self, pod: &str) -> anyhow::Result<()> {
        self.forget_killed(pod).await?;
        let Some(server) = self.running.remove(pod) else { return Ok(()) };
        self.delete_slice(pod).await?;
        self.ending.spawn(server.backend.end());
        Ok(())
    }
}

/// Accepts a deletion of an object that a user has deleted before.
fn deleted<T>(outcome: Result<T, Error>) -> Result<(), Error> {
    match outcome {
        Err(error) if !error.is_not_found() => Err(error),
        _ => Ok(()),
    }
}

fn apply() -> PatchParams {
    PatchParams::apply(FIELD_MANAGER).force()
}

/// Returns the EndpointSlice of a server. Each has its own, because each has a port of its own.
fn slice(pod: &str, address: SocketAddr, ready: bool) -> Value {
    json!({
        "metadata": { "labels": { "kubernetes.io/service-name": SERVICE } },
        "addressType": "IPv4",
        "ports": [{ "name": "grpc", "port": address.port(), "protocol": "TCP" }],
        "endpoints": [{
            "addresses": [address.ip().to_string()],
            "conditions": { "ready": ready, "serving": true, "terminating": !ready },
            "targetRef": { "kind": "Pod", "name": pod, "uid": pod },
        }],
    })
}
