//! Calls of webhooks, whose address is a URL or a service of this cluster.
//!
//! Used for admission and for conversion. What a review contains, and what its answer means, is
//! decided by the callers.

use std::time::Duration;

use bytes::Bytes;
use dogwatch_core::ObjectKey;
use serde_json::Value;

use super::{Cluster, Source};
use crate::kinds::json_access::{items, number, text};
use crate::store::Store;
use crate::webhook::call;
use crate::webhook::connections::Connections;
use crate::webhook::target::Target;

/// The means to call webhooks.
#[derive(Clone, Copy, Debug)]
pub(super) struct WebhookCalls<'a> {
    connections: &'a Connections,
    /// Has the services that webhooks are reached through.
    store: &'a Store,
    source: &'a Source,
}

impl<'a> WebhookCalls<'a> {
    /// Returns the calls of the webhooks of a cluster.
    pub(super) fn of(cluster: &'a Cluster) -> Self {
        Self { connections: &cluster.connections, store: cluster.store(), source: &cluster.source }
    }

    /// Returns the uid of a new review.
    pub(super) fn uid(&self) -> String {
        self.source.request_id()
    }

    /// Resolves the `clientConfig` of a webhook.
    ///
    /// # Errors
    /// The reason why the webhook cannot be located.
    pub(super) fn target(&self, config: &Value) -> Result<Target, String> {
        Target::read(config, |namespace, name, port| service_address(self.store, namespace, name, port))
    }

    /// Sends a review and returns the answer.
    ///
    /// # Errors
    /// The reason why there is no answer.
    pub(super) async fn post(
        &self,
        target: &Target,
        question: Bytes,
        limit: Duration,
    ) -> Result<Value, String> {
        call::post(self.connections, target, question, limit).await
    }
}

/// Returns the address of a service port. No proxy routes cluster IPs here, so it is the address of
/// a ready endpoint.
fn service_address(store: &Store, namespace: &str, name: &str, port: u16) -> Result<(String, u16), String> {
    let missing = || format!("service {name:?} not found");
    let key = ObjectKey::from_parts(Some(namespace), name).map_err(|_| missing())?;
    let service = store.get(&"/services".into(), &key).ok_or_else(missing)?.to_value();
    if text(&service, "/spec/type") == "ExternalName" {
        return Ok((text(&service, "/spec/externalName").to_owned(), port));
    }
    let wanted = items(&service, "/spec/ports")
        .iter()
        .find(|it| number(it, "/port") == Some(i64::from(port)))
        .ok_or_else(|| format!("no service port {port} found for service {name:?}"))?;
    let slices = store.list(&"discovery.k8s.io/endpointslices".into(), Some(namespace));
    let slices = slices.iter().map(|it| it.to_value());
    let of_service = |it: &Value| it["metadata"]["labels"]["kubernetes.io/service-name"] == name;
    let found = slices.filter(of_service).find_map(|slice| {
        let port = items(&slice, "/ports").iter().find(|it| text(it, "/name") == text(wanted, "/name"))?;
        let port = u16::try_from(number(port, "/port")?).ok()?;
        let ready = |it: &&Value| it["conditions"]["ready"] != false;
        let address = items(&slice, "/endpoints").iter().find(ready)?;
        Some((text(address, "/addresses/0").to_owned(), port))
    });
    found.ok_or_else(|| format!("no endpoints available for service {name:?}"))
}
