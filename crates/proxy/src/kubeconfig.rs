//! The kubeconfig for clients of the proxy: its address and its authority, and no credentials.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::json;

/// The name of cluster, user and context.
const NAME: &str = "dogwatch-proxy";

/// Returns the kubeconfig as YAML. The user in it is empty: the proxy passes on the credentials of
/// its callers, and gives none of them its own.
pub(crate) fn kubeconfig(url: &str, authority: Option<&str>) -> String {
    let mut cluster = json!({ "server": url });
    if let Some(authority) = authority {
        cluster["certificate-authority-data"] = BASE64_STANDARD.encode(authority).into();
    }
    let kubeconfig = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{ "name": NAME, "cluster": cluster }],
        "contexts": [{ "name": NAME, "context": { "cluster": NAME, "user": NAME } }],
        "users": [{ "name": NAME, "user": {} }],
        "current-context": NAME,
    });
    let options = serde_saphyr::ser_options! { prefer_block_scalars: false };
    serde_saphyr::to_string_with_options(&kubeconfig, options)
        .expect("strings in maps and lists serialize to YAML")
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn it_has_the_authority_and_no_credentials() {
        let read: Value =
            serde_saphyr::from_str(&kubeconfig("https://127.0.0.1:1", Some("-----BEGIN"))).unwrap();
        let cluster = &read["clusters"][0]["cluster"];
        let pem = BASE64_STANDARD.decode(cluster["certificate-authority-data"].as_str().unwrap()).unwrap();
        assert_eq!((cluster["server"].as_str().unwrap(), &*pem), ("https://127.0.0.1:1", &b"-----BEGIN"[..]));
        assert_eq!(read["users"][0]["user"], json!({}));
        assert_eq!(read["contexts"][0]["context"]["user"], read["users"][0]["name"]);
    }
}
