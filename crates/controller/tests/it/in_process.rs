//! An in-process server, and a client of it.

use dogwatch_apiserver::ApiServer;
use dogwatch_client::Client;
use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::json;

pub(crate) async fn server() -> (ApiServer, Client) {
    let server = ApiServer::in_process().await.expect("an in-process server starts");
    let client = Client::from_service(server.url().parse().expect("a URL"), "default", server.service());
    (server, client)
}

pub(crate) fn config_map(name: &str) -> ConfigMap {
    serde_json::from_value(json!({ "metadata": { "name": name } })).expect("a config map")
}
