//! The proxy as the service account of its manifest, on a server that enforces roles: it answers
//! from memory for callers who may read, and does nothing that its role does not permit. Its role
//! for users of certificates, and the kubeconfig of a caller.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use dogwatch::api::ListParams;
use dogwatch::config::{AuthSettings, Impersonation, Overrides};
use dogwatch::k8s_openapi::api::core::v1::Pod;
use dogwatch::testing::{ApiServer, AuthorizationMode};
use dogwatch::{Api, Client, Config};
use dogwatch_proxy::{Proxy, ProxyOptions};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const MANIFEST: &str = include_str!("../../../docs/book/manifests/proxy.yaml");
const IMPERSONATE: &str = include_str!("../../../docs/book/manifests/impersonate.yaml");
const KUBECONFIG: &str = include_str!("../../../docs/book/manifests/caller-kubeconfig.yaml");

/// A caller who may read pods, one who may not, and a pod.
const CALLERS: &str = "
{apiVersion: v1, kind: ServiceAccount, metadata: {name: reader, namespace: default}}
---
{apiVersion: v1, kind: ServiceAccount, metadata: {name: stranger, namespace: default}}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {name: reader},
 roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: view},
 subjects: [{kind: ServiceAccount, name: reader, namespace: default}]}
---
{apiVersion: v1, kind: Pod, metadata: {name: web, namespace: default}, spec: {containers: [{name: app, image: app}]}}";

/// The limit for the whole test. Only a failing test takes this long.
const TIMEOUT: Duration = Duration::from_secs(60);

#[tokio::test(flavor = "multi_thread")]
async fn the_role_of_the_proxy_permits_everything_that_it_does() -> anyhow::Result<()> {
    tokio::time::timeout(TIMEOUT, exercise()).await?
}

async fn exercise() -> anyhow::Result<()> {
    let builder = ApiServer::builder().tls(true).token("admin").authorization(AuthorizationMode::Rbac);
    let server = builder.yaml(MANIFEST).yaml(CALLERS).start().await?;
    let admin = Client::new(parsed(&server.kubeconfig())?)?;

    let mut config = parsed(&server.kubeconfig())?;
    config.auth = AuthSettings::default();
    config.auth.token = Some(token(&admin, "dogwatch-proxy", "dogwatch-proxy").await?.into());
    let mut options = ProxyOptions::default();
    options.resources = vec!["pods".to_owned()];
    options.metrics_bind = Some((Ipv4Addr::LOCALHOST, 0).into());
    let proxy = Proxy::start(config, options).await?;
    let status = proxy.status_address().expect("the endpoint is bound");
    // The limit of the test bounds this.
    while !get(status, "/readyz").await?.starts_with("HTTP/1.1 200 ") {
        tokio::task::yield_now().await;
    }

    // The second caller has the kubeconfig of the book.
    let reader = token(&admin, "default", "reader").await?;
    for client in [caller(&proxy, reader.clone())?, with_kubeconfig(&proxy, &reader)?] {
        let pods = Api::<Pod>::all(client).list(&ListParams::default()).await?.items;
        assert_eq!(pods.len(), 1);
    }
    let metrics = get(status, "/metrics").await?;
    let counts =
        metrics.lines().find(|it| it.starts_with("dogwatch_proxy_objects{") && it.contains("\"pods\""));
    assert!(counts.is_some_and(|it| it.ends_with(" 1")), "{metrics}");
    let upstream = server.requests().resource("pods");
    let users: Vec<_> = upstream.iter().map(|it| it.user.clone()).collect();
    assert!(!users.is_empty() && users.iter().all(|it| it.ends_with(":dogwatch-proxy")), "{users:?}");
    let forbidden = server.requests().forbidden();
    assert_eq!(forbidden.count(), 0, "{:?}", forbidden.last());

    let stranger = caller(&proxy, token(&admin, "default", "stranger").await?)?;
    let error = Api::<Pod>::all(stranger).list(&ListParams::default()).await.expect_err("no role permits it");
    assert!(error.is_forbidden(), "{error}");
    proxy.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_role_for_users_of_certificates_permits_those_that_it_names() -> anyhow::Result<()> {
    tokio::time::timeout(TIMEOUT, impersonate()).await?
}

async fn impersonate() -> anyhow::Result<()> {
    let builder = ApiServer::builder().tls(true).token("admin").authorization(AuthorizationMode::Rbac);
    let devs = CALLERS.replace("{kind: ServiceAccount, name: reader, namespace: default}]", "DEVS]");
    let devs = devs.replace("DEVS", "{kind: Group, name: devs, apiGroup: rbac.authorization.k8s.io}");
    // Both manifests are applied: one does not replace a role of the other.
    let server = builder.yaml(MANIFEST).yaml(IMPERSONATE).yaml(&devs).start().await?;
    let admin = Client::new(parsed(&server.kubeconfig())?)?;
    let mut config = parsed(&server.kubeconfig())?;
    config.auth = AuthSettings::default();
    config.auth.token = Some(token(&admin, "dogwatch-proxy", "dogwatch-proxy").await?.into());
    let proxy = Client::new(config)?;
    assert_eq!(Api::<Pod>::all(proxy.clone()).list(&ListParams::default()).await?.items.len(), 1);
    for (user, group, is_permitted) in
        [("jane", "devs", true), ("joe", "devs", false), ("jane", "system:masters", false)]
    {
        let (user, groups) = (Some(user.to_owned()), vec![group.to_owned()]);
        let caller = proxy.acting_as(Impersonation { user, groups, ..Impersonation::default() });
        let pods = Api::<Pod>::all(caller).list(&ListParams::default()).await;
        assert_eq!(pods.is_ok(), is_permitted, "{group}: {pods:?}");
        if let Err(error) = pods {
            assert!(error.is_forbidden() && error.to_string().contains("impersonate"), "{error}");
        }
    }
    Ok(())
}

fn parsed(kubeconfig: &str) -> anyhow::Result<Config> {
    Ok(Config::from_kubeconfig_str(kubeconfig, &Overrides::default())?)
}

/// Returns a client of the proxy with this token.
fn caller(proxy: &Proxy, token: String) -> anyhow::Result<Client> {
    let mut config = parsed(&proxy.kubeconfig(&proxy.url()))?;
    config.auth.token = Some(token.into());
    Ok(Client::new(config)?)
}

/// Returns a client with the kubeconfig of the book, with the files and the address of this test.
fn with_kubeconfig(proxy: &Proxy, token: &str) -> anyhow::Result<Client> {
    let file = format!("{}/token-{}", env!("CARGO_TARGET_TMPDIR"), std::process::id());
    std::fs::write(&file, token)?;
    let generated: Value = serde_saphyr::from_str(&proxy.kubeconfig(&proxy.url()))?;
    let authority = &generated["clusters"][0]["cluster"]["certificate-authority-data"];
    let authority = format!("certificate-authority-data: {}", authority.as_str().expect("an authority"));
    let mut text = KUBECONFIG.to_owned();
    for (part, replacement) in [
        ("https://dogwatch-proxy.dogwatch-proxy.svc", proxy.url().as_str()),
        ("certificate-authority: /etc/dogwatch-proxy/ca.crt", &authority),
        ("/var/run/secrets/kubernetes.io/serviceaccount/token", &file),
    ] {
        assert!(text.contains(part), "no {part} in {text}");
        text = text.replace(part, replacement);
    }
    Ok(Client::new(parsed(&text)?)?)
}

/// Requests a token of a service account.
async fn token(admin: &Client, namespace: &str, name: &str) -> anyhow::Result<String> {
    let request = json!({ "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {} });
    let path = ["api", "v1", "namespaces", namespace, "serviceaccounts", name, "token"];
    let answer: Value = admin.post().path(&path).json(&request).send().await?;
    Ok(answer["status"]["token"].as_str().expect("a token").to_owned())
}

/// Returns the response of the endpoint for operators.
async fn get(address: SocketAddr, path: &str) -> anyhow::Result<String> {
    let mut stream = TcpStream::connect(address).await?;
    let request = format!("GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut response = String::new();
    stream.read_to_string(&mut response).await?;
    Ok(response)
}
