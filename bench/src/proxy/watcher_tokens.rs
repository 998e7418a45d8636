//! A token for each watcher, as pods of a service account have: for the API server, and for a proxy
//! that reviews its callers, each is another caller.

use anyhow::{Context, Result};
use dogwatch::api::WriteParams;
use dogwatch::{Api, Client};
use futures_util::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::server_pods::NAMESPACE;

/// The service account of the watchers, and its role.
const NAME: &str = "watcher";
/// The number of concurrent requests.
const IN_FLIGHT: usize = 16;
/// The time for which the tokens are valid: longer than the measurements take.
const SECONDS: u32 = 6 * 3600;

/// Requests this many tokens of a service account that may read the pods.
///
/// # Errors
/// If the server does not issue them.
pub(super) async fn issue(client: &Client, count: usize) -> Result<Vec<String>> {
    let accounts = Api::<ServiceAccount>::namespaced(client.clone(), NAMESPACE);
    let metadata = json!({ "name": NAME });
    create(&accounts, json!({ "metadata": metadata })).await?;
    let rule = json!({ "apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch"] });
    let roles = Api::<Role>::namespaced(client.clone(), NAMESPACE);
    create(&roles, json!({ "metadata": metadata, "rules": [rule] })).await?;
    let bindings = Api::<RoleBinding>::namespaced(client.clone(), NAMESPACE);
    let role = json!({ "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": NAME });
    let subject = json!({ "kind": "ServiceAccount", "name": NAME, "namespace": NAMESPACE });
    create(&bindings, json!({ "metadata": metadata, "roleRef": role, "subjects": [subject] })).await?;

    let request = json!({
        "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
        "spec": { "expirationSeconds": SECONDS },
    });
    let issued = stream::iter(0..count).map(|_| issue_one(&accounts, &request));
    issued.buffer_unordered(IN_FLIGHT).try_collect().await
}

async fn issue_one(accounts: &Api<ServiceAccount>, request: &Value) -> Result<String> {
    let params = WriteParams::default();
    let issued: Value = accounts
        .create_subresource(NAME, "token", &params, request)
        .await
        .context("cannot request a token for a watcher")?;
    let token = issued["status"]["token"].as_str().context("the server issued no token")?;
    Ok(token.to_owned())
}

/// Creates an object, unless an earlier run has created it.
async fn create<K>(api: &Api<K>, object: Value) -> Result<()>
where
    K: dogwatch::api::Resource + serde::Serialize + DeserializeOwned,
{
    match api.create(&WriteParams::default(), &serde_json::from_value(object)?).await {
        Err(error) if !error.is_already_exists() => Err(error).context("cannot permit the watchers to read"),
        _ => Ok(()),
    }
}
