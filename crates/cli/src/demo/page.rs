//! The live page of the demo, with buttons that let its cluster fail.

use std::net::Ipv4Addr;
use std::sync::{Arc, Weak};

use anyhow::Context as _;
use dogwatch::api::DeleteParams;
use dogwatch::diagnostics::{Diagnostics, ServeError, Served};
use dogwatch::k8s_openapi::api::core::v1::Pod;
use dogwatch::{Api, InformerFactory, Object as _, SharedInformer};
use dogwatch_apiserver::ApiServer;

use super::connect::NAMESPACE;
use super::kill_switch::KillSwitch;
use crate::advice::PagePortTaken;

/// The page, served until it is dropped.
pub(super) struct Page {
    pub(super) diagnostics: Diagnostics,
    /// Kills a gRPC server, at a button.
    pub(super) kill: KillSwitch,
    served: Served,
}

impl Page {
    /// Serves a page of these informers on a port of the loopback, by default on a free one.
    ///
    /// # Errors
    /// Returns an error if the port is taken.
    pub(super) async fn serve(
        server: &Arc<ApiServer>,
        informers: &InformerFactory,
        pods: &SharedInformer<Pod>,
        port: Option<u16>,
    ) -> anyhow::Result<Self> {
        let diagnostics = Diagnostics::new().program("demo");
        diagnostics.add_informer(pods);
        diagnostics.add_factory(informers);
        // The buttons stay as long as the page, and must not keep the server alive.
        let faults = Arc::downgrade(server);
        add_fault(&diagnostics, "Cut the watches", &faults, |it| {
            it.faults().cut_watches();
            "the connections of all open watches were cut".to_owned()
        });
        add_fault(&diagnostics, "Expire the history", &faults, |it| {
            let oldest = it.expire_history();
            format!("all watches were ended, and none can resume before version {oldest}")
        });
        let kill = KillSwitch::default();
        let of_button = kill.clone();
        diagnostics.add_action("Kill a gRPC server", move || {
            let kill = of_button.clone();
            async move { kill.kill().await }
        });
        let (client, cached) = (informers.client().clone(), pods.store());
        diagnostics.add_action("Delete a pod", move || {
            let pods = Api::<Pod>::namespaced(client.clone(), NAMESPACE);
            let cached = cached.snapshot();
            let pod = cached.iter().find(|it| it.metadata.deletion_timestamp.is_none()).cloned();
            async move {
                let pod = pod.context("there is no pod to delete")?;
                let name = pod.header().name;
                pods.delete(name, &DeleteParams::default()).await?;
                anyhow::Ok(format!("pod {name} is being deleted"))
            }
        });
        let address = (Ipv4Addr::LOCALHOST, port.unwrap_or_default());
        let served = diagnostics.serve(address).await.map_err(|error| match error {
            ServeError::Bind(source) => PagePortTaken { port: address.1, source }.into(),
            error => anyhow::Error::new(error),
        })?;
        Ok(Self { diagnostics, kill, served })
    }

    /// Returns its address, for a browser.
    pub(super) fn url(&self) -> String {
        self.served.url()
    }
}

/// Adds a button that does this to the server, while there is one, and returns what it did.
fn add_fault(
    page: &Diagnostics,
    name: &str,
    server: &Weak<ApiServer>,
    run: impl Fn(&ApiServer) -> String + Send + Sync + 'static,
) {
    let server = server.clone();
    page.add_action(name, move || {
        let done = server.upgrade().map(|it| run(&it)).context("the server has stopped");
        std::future::ready(done)
    });
}
