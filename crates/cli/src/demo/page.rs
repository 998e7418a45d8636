//! The live page of the demo, with buttons that let its cluster fail.

use std::net::Ipv4Addr;
use std::sync::{Arc, Weak};

use anyhow::Context as _;
use dogwatch::api::DeleteParams;
use dogwatch::diagnostics::{Diagnostics, Served};
use dogwatch::k8s_openapi::api::core::v1::Pod;
use dogwatch::{Api, InformerFactory, Object as _, SharedInformer};
use dogwatch_apiserver::ApiServer;
use tokio::sync::Notify;

use super::connect::NAMESPACE;

/// The page, served until it is dropped.
pub(super) struct Page {
    pub(super) diagnostics: Diagnostics,
    /// Notified by a button: one gRPC server is to be killed.
    pub(super) kill: Arc<Notify>,
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
        add_fault(&diagnostics, "Cut the watches", &faults, |it| it.faults().cut_watches());
        add_fault(&diagnostics, "Expire the history", &faults, |it| {
            it.expire_history();
        });
        let kill = Arc::new(Notify::new());
        let asked = Arc::clone(&kill);
        diagnostics.add_action("Kill a gRPC server", move || {
            asked.notify_one();
            std::future::ready(())
        });
        let (client, cached) = (informers.client().clone(), pods.store());
        diagnostics.add_action("Delete a pod", move || {
            let pods = Api::<Pod>::namespaced(client.clone(), NAMESPACE);
            let cached = cached.snapshot();
            let pod = cached.iter().find(|it| it.metadata.deletion_timestamp.is_none()).cloned();
            async move {
                let pod = pod.context("there is no pod to delete")?;
                pods.delete(pod.header().name, &DeleteParams::default()).await?;
                anyhow::Ok(())
            }
        });
        let served = diagnostics.serve((Ipv4Addr::LOCALHOST, port.unwrap_or_default())).await?;
        Ok(Self { diagnostics, kill, served })
    }

    /// Returns its address, for a browser.
    pub(super) fn url(&self) -> String {
        self.served.url()
    }
}

/// Adds a button that does this to the server, while there is one.
fn add_fault(
    page: &Diagnostics,
    name: &str,
    server: &Weak<ApiServer>,
    run: impl Fn(&ApiServer) + Send + Sync + 'static,
) {
    let server = server.clone();
    page.add_action(name, move || {
        if let Some(server) = server.upgrade() {
            run(&server);
        }
        std::future::ready(())
    });
}
