//! The kubeconfig of a server.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use secrecy::ExposeSecret;
use serde_json::{Value, json};

use super::access::Access;

/// The name of the cluster in the kubeconfig.
const CLUSTER: &str = "dogwatch";

/// Writes a self-contained kubeconfig: certificates and keys are inline.
pub(super) fn write(url: &str, access: &Access) -> String {
    let mut cluster = json!({ "server": url });
    let mut user = json!({});
    if let Some(certificates) = access.certificates() {
        cluster["certificate-authority-data"] = encoded(&certificates.authority());
    }
    if let Some(token) = access.token() {
        user["token"] = token.expose_secret().into();
    }
    let mut users = vec![json!({ "name": "token", "user": user })];
    if let Some(admin) = access.admin_certificate() {
        let user = json!({
            "client-certificate-data": encoded(&admin.certificate),
            "client-key-data": encoded(admin.key.expose_secret()),
        });
        users.push(json!({ "name": "certificate", "user": user }));
    }
    let context = |user: &Value| json!({ "name": user["name"], "context": { "cluster": CLUSTER, "user": user["name"] } });
    let kubeconfig = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{ "name": CLUSTER, "cluster": cluster }],
        "contexts": users.iter().map(context).collect::<Vec<_>>(),
        "users": users,
        "current-context": "token",
    });
    let options = serde_saphyr::ser_options! { prefer_block_scalars: false };
    serde_saphyr::to_string_with_options(&kubeconfig, options)
        .expect("strings in maps and lists serialize to YAML")
}

fn encoded(pem: &str) -> Value {
    BASE64_STANDARD.encode(pem).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(access: &Access) -> Value {
        serde_saphyr::from_str(&write("https://127.0.0.1:1", access)).unwrap()
    }

    #[test]
    fn with_tls_there_is_a_token_user_and_a_certificate_user() {
        let access =
            Access::new(Some("hunter2".into()), Some([127, 0, 0, 1].into()), None, &[], None).unwrap();
        let kubeconfig = read(&access);
        assert_eq!(kubeconfig["current-context"], "token");
        assert_eq!(kubeconfig["users"][0]["user"]["token"], "hunter2");
        let (context, user) = (&kubeconfig["contexts"][1], &kubeconfig["users"][1]);
        assert_eq!((&context["name"], &context["context"]["user"]), (&user["name"], &user["name"]));
        for data in [
            &kubeconfig["clusters"][0]["cluster"]["certificate-authority-data"],
            &user["user"]["client-certificate-data"],
            &user["user"]["client-key-data"],
        ] {
            let pem = BASE64_STANDARD.decode(data.as_str().unwrap()).unwrap();
            assert!(pem.starts_with(b"-----BEGIN "), "{data}");
        }
    }

    #[test]
    fn without_tls_there_is_only_a_token_user() {
        let kubeconfig = read(&Access::new(None, None, None, &[], None).unwrap());
        assert_eq!(kubeconfig["contexts"].as_array().unwrap().len(), 1);
        assert_eq!(kubeconfig["users"][0]["user"], json!({}));
    }
}
