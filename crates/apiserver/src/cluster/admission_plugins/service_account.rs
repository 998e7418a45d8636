//! ServiceAccount: the account of a pod, which has to exist.

use std::sync::Arc;
use std::time::Duration;

use dogwatch_core::ObjectKey;
use serde_json::Value;

use crate::ApiError;
use crate::admission::service_account;
use crate::admission_plugin::AdmissionPlugin;
use crate::cluster::policies::forbidden;
use crate::cluster::write::Write;
use crate::kinds::POD;
use crate::kinds::json_access::text;
use crate::store::{CollectionName, Encoded};

/// The time for which a pod waits for the account `default` of its namespace, which a controller
/// creates: kube-apiserver looks ten times, 100 to 200 ms apart.
const PATIENCE: Duration = Duration::from_millis(1_500);

/// Waits until the account `default` exists, if a new pod needs it.
pub(super) async fn wait(write: &Write<'_>) {
    let is_on = write.cluster.plugins.has(AdmissionPlugin::ServiceAccount);
    if !is_on || !write.is_creation() || !write.place.kind.is(&POD) {
        return;
    }
    let named = text(&write.new, "/spec/serviceAccountName");
    if !matches!(named, "" | "default") || service_account::is_mirror(&write.new) {
        return;
    }
    let accounts: CollectionName = "/serviceaccounts".into();
    let store = write.cluster.store();
    let appears = async {
        while account(write, "default").is_none() {
            // Follows from here on: an account that was created since the check is in the events.
            let Ok(mut cursor) = store.watch(&accounts, store.revision()) else { return };
            if account(write, "default").is_some() || cursor.next().await.is_err() {
                return;
            }
        }
    };
    // The pod is rejected without it.
    let _ = tokio::time::timeout(PATIENCE, appears).await;
}

/// Gives a new pod its account, the token of the account, and its image pull secrets.
pub(super) fn fill(write: &mut Write<'_>) -> Result<(), ApiError> {
    if !write.is_creation() || !write.place.kind.is(&POD) {
        return Ok(());
    }
    if service_account::is_mirror(&write.new) {
        return check(write);
    }
    let name = service_account::name(&mut write.new);
    let account = existing(write, &name)?;
    let source = &write.cluster.source;
    service_account::fill(&mut write.new, &account, || source.suffix());
    Ok(())
}

/// Rejects pods without an existing account, and those that use secrets that it does not list.
pub(super) fn check(write: &mut Write<'_>) -> Result<(), ApiError> {
    let is_ephemeral = write.base.is_some() && write.place.part == "ephemeralcontainers";
    if !write.place.kind.is(&POD) || !(write.is_creation() || is_ephemeral) {
        return Ok(());
    }
    let (place, pod) = (write.place, &write.new);
    if !is_ephemeral && service_account::is_mirror(pod) {
        return match service_account::refuse_mirror(pod) {
            Some(why) => Err(forbidden(place, pod, why)),
            None => Ok(()),
        };
    }
    let name = text(pod, "/spec/serviceAccountName");
    if name.is_empty() {
        let namespace = place.namespace.unwrap_or_default();
        let why = format!("no service account specified for pod {namespace}/{}", text(pod, "/metadata/name"));
        return Err(forbidden(place, pod, &why));
    }
    match service_account::refuse(pod, &existing(write, name)?, place.part) {
        // In kube-apiserver, this error is not an admission error.
        Some(why) if is_ephemeral => Err(ApiError::unexplained(why)),
        Some(why) => Err(forbidden(place, pod, &why)),
        None => Ok(()),
    }
}

/// Returns the account of this name.
fn existing(write: &Write<'_>, name: &str) -> Result<Value, ApiError> {
    let missing = || {
        let namespace = write.place.namespace.unwrap_or_default();
        let why =
            format!("error looking up service account {namespace}/{name}: serviceaccount {name:?} not found");
        forbidden(write.place, &write.new, &why)
    };
    account(write, name).map(|it| it.to_value()).ok_or_else(missing)
}

fn account(write: &Write<'_>, name: &str) -> Option<Arc<Encoded>> {
    let key = ObjectKey::from_parts(write.place.namespace, name).ok()?;
    write.cluster.store().get(&"/serviceaccounts".into(), &key)
}
