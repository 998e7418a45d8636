//! The controller manager, and the simulator of `serve --simulate` and the demo, next to the API
//! server of this process.

use std::sync::Arc;
use std::task::{Context, Poll};

use anyhow::Context as _;
use dogwatch::Client;
use dogwatch::client::RequestBody;
use dogwatch::http::Request;
use dogwatch::http::header::{AUTHORIZATION, HeaderValue};
use dogwatch_apiserver::ApiServer;
use dogwatch_simulator::{ControllerManager, Health, Settings, Simulator};
use secrecy::ExposeSecret;
use tower_service::Service;

/// Starts a simulator on a server. The readiness of the server includes its components.
pub(crate) fn start(
    server: &ApiServer,
    mut settings: Settings,
    seed: Option<u64>,
) -> anyhow::Result<Simulator> {
    settings.root_certificate = server.certificates().map(|it| it.authority());
    let mut builder = Simulator::builder(client(server)?).settings(settings).clock(server.clock());
    if let Some(seed) = seed {
        builder = builder.seed(seed);
    }
    let simulator = builder.start();
    add_ready_checks(server, "simulator", simulator.health());
    Ok(simulator)
}

/// Starts a controller manager on a server. The readiness of the server includes its controllers.
pub(crate) fn start_manager(server: &ApiServer, seed: Option<u64>) -> anyhow::Result<ControllerManager> {
    let url = server.url().parse().context("the URL of the server")?;
    let service = server.component_service("kube-controller-manager");
    let client = Client::from_service(url, "default", service);
    let mut builder = ControllerManager::builder(client).clock(server.clock());
    if let Some(seed) = seed {
        builder = builder.seed(seed);
    }
    let manager = builder.start();
    add_ready_checks(server, "controller-manager", manager.health());
    Ok(manager)
}

fn add_ready_checks(server: &ApiServer, program: &str, health: &Arc<Health>) {
    for name in health.components().into_keys() {
        let health = Arc::clone(health);
        let is_up = move || health.component(name).is_none_or(|it| it.down.is_none());
        server.ready_check(format!("{program}/{name}"), is_up);
    }
}

/// Returns a client without a connection. The address of the kubeconfig may be one that only other
/// machines can resolve.
fn client(server: &ApiServer) -> anyhow::Result<Client> {
    let (url, service) = (server.url().parse().context("the URL of the server")?, server.service());
    let Some(token) = server.token() else { return Ok(Client::from_service(url, "default", service)) };
    let header = format!("Bearer {}", token.expose_secret());
    let mut header: HeaderValue = header.parse().context("the token is not valid in a header")?;
    header.set_sensitive(true);
    Ok(Client::from_service(url, "default", Authorized { service, header }))
}

/// Adds credentials to requests.
#[derive(Clone)]
struct Authorized<S> {
    service: S,
    header: HeaderValue,
}

impl<S: Service<Request<RequestBody>>> Service<Request<RequestBody>> for Authorized<S> {
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.service.poll_ready(context)
    }

    fn call(&mut self, mut request: Request<RequestBody>) -> S::Future {
        request.headers_mut().insert(AUTHORIZATION, self.header.clone());
        self.service.call(request)
    }
}
