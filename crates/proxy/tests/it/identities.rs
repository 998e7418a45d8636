//! Callers with client certificates: by impersonation, and by the headers of a front proxy.

use dogwatch_apiserver::{ApiServer, AuthorizationMode, Certificates, User};
use dogwatch_client::config::{Identity, Impersonation, Pem};
use dogwatch_client::{Client, Config};
use dogwatch_core::ListParams;
use dogwatch_proxy::{Proxy, ProxyOptions};
use serde_json::{Value, json};

use crate::support::{config, maps, proxy_of, warm, within};
use crate::upstream_double::recording;

/// The authority of client certificates, in a file.
struct Authority {
    certificates: Certificates,
    file: tempfile::NamedTempFile,
}

impl Authority {
    fn new() -> Self {
        let certificates = Certificates::throwaway([127, 0, 0, 1].into()).unwrap();
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), certificates.authority()).unwrap();
        Self { certificates, file }
    }

    fn identity(&self, user: &str, group: &str) -> Identity {
        let made = self.certificates.client(user, group).unwrap();
        Identity { certificate: Pem::Data(made.certificate.into()), key: Pem::Data(made.key) }
    }

    fn options(&self) -> ProxyOptions {
        let mut options = ProxyOptions::default();
        options.client_authority = Some(self.file.path().to_owned());
        options
    }
}

/// Returns the settings of a caller with a certificate.
fn with_certificate(proxy: &Proxy, identity: Identity) -> Config {
    let mut config = config(&proxy.kubeconfig(&proxy.url()));
    config.tls.identity = Some(identity);
    config
}

async fn whoami(client: &Client) -> Result<(String, Vec<String>), dogwatch_client::Error> {
    let review = json!({ "apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview" });
    let path = ["apis", "authentication.k8s.io", "v1", "selfsubjectreviews"];
    let answer: Value = client.post().path(&path).json(&review).send().await?;
    let user = &answer["status"]["userInfo"];
    let groups =
        user["groups"].as_array().into_iter().flatten().filter_map(|it| it.as_str().map(str::to_owned));
    Ok((user["username"].as_str().unwrap_or_default().to_owned(), groups.collect()))
}

#[tokio::test]
async fn the_user_of_a_certificate_is_impersonated_upstream() {
    let builder = ApiServer::builder().tls(true).token("admin").authorization(AuthorizationMode::Rbac);
    let server = builder.start().await.unwrap();
    let authority = Authority::new();
    let proxy = proxy_of(&server, authority.options()).await;
    let jane = Client::new(with_certificate(&proxy, authority.identity("jane", "devs"))).unwrap();
    let (name, groups) = within("an answer", whoami(&jane)).await.unwrap();
    assert_eq!(name, "jane");
    assert!(
        groups.contains(&"devs".to_owned()) && !groups.contains(&"system:masters".to_owned()),
        "{groups:?}"
    );
    let error = jane.get().path(&["api", "v1", "namespaces"]).bytes().await.unwrap_err();
    assert!(error.is_forbidden(), "{error}");
}

#[tokio::test]
async fn a_caller_with_a_certificate_cannot_use_the_proxys_right_to_impersonate() {
    let server = ApiServer::builder().tls(true).token("admin").start().await.unwrap();
    let authority = Authority::new();
    let proxy = proxy_of(&server, authority.options()).await;
    let jane = Client::new(with_certificate(&proxy, authority.identity("jane", "devs"))).unwrap();
    let (user, groups) = (Some("root".to_owned()), vec!["system:masters".to_owned()]);
    let root = jane.acting_as(Impersonation { user, groups, ..Impersonation::default() });
    let error = whoami(&root).await.unwrap_err();
    assert!(error.is_forbidden(), "{error}");
}

#[tokio::test]
async fn a_certificate_of_another_authority_fails_the_handshake() {
    let server = ApiServer::builder().tls(true).token("admin").start().await.unwrap();
    let (authority, other) = (Authority::new(), Authority::new());
    let proxy = proxy_of(&server, authority.options()).await;
    let stranger = Client::new(with_certificate(&proxy, other.identity("jane", "system:masters"))).unwrap();
    let asking = stranger.get().path(&["version"]).max_retries(0).bytes();
    assert!(within("an error", asking).await.is_err());
}

#[tokio::test]
async fn a_front_proxy_names_the_user_in_headers_and_nothing_else_does() {
    let (upstream, mut seen) = recording().await;
    let authority = Authority::new();
    let mut options = authority.options();
    options.front_proxy = Some(authority.identity("front-proxy", ""));
    options.front_proxy_strips = vec!["X-Forwarded-User".to_owned()];
    let proxy = Proxy::start(upstream, options).await.unwrap();

    let jane = Client::new(with_certificate(&proxy, authority.identity("jane", "devs"))).unwrap();
    let smuggled = |client: &Client| {
        let request = client.get().path(&["version"]);
        let request = request.header("x-remote-user".parse().unwrap(), "root");
        let request = request.header("x-remote-extra-a".parse().unwrap(), "b");
        let request = request.header("x-forwarded-user".parse().unwrap(), "root");
        request.header("x-remote-group".parse().unwrap(), "system:masters").bytes()
    };
    within("an answer", smuggled(&jane)).await.unwrap();
    let headers = seen.recv().await.unwrap();
    assert_eq!(
        (&headers["x-remote-user"], &headers["x-remote-group"]),
        (&"jane".parse().unwrap(), &"devs".parse().unwrap())
    );
    assert_eq!(headers.get_all("x-remote-group").iter().count(), 1);
    for removed in ["x-remote-extra-a", "x-forwarded-user", "authorization"] {
        assert!(!headers.contains_key(removed), "{removed}");
    }

    let bob = crate::support::caller(&proxy, "token-of-bob");
    within("an answer", smuggled(&bob)).await.unwrap();
    let headers = seen.recv().await.unwrap();
    assert_eq!(headers["authorization"], "Bearer token-of-bob");
    assert!(!headers.keys().any(|it| it.as_str().starts_with("x-remote-")), "{headers:?}");
}

#[tokio::test]
async fn callers_without_a_certificate_do_not_get_the_rights_of_the_proxy() {
    let server = ApiServer::builder().tls(true).token("admin").start().await.unwrap();
    // The proxy's own certificate must not be on connections of others.
    let mut own = config(&server.kubeconfig());
    own.auth.token = None;
    let made = server.certificates().unwrap().client("kubernetes-admin", "system:masters").unwrap();
    own.tls.identity =
        Some(Identity { certificate: Pem::Data(made.certificate.into()), key: Pem::Data(made.key) });
    let proxy = Proxy::start(own, ProxyOptions::default()).await.unwrap();
    let stranger = Client::new(config(&proxy.kubeconfig(&proxy.url()))).unwrap();
    let error = whoami(&stranger).await.unwrap_err();
    assert!(error.is_unauthorized() || error.is_forbidden(), "{error}");
}

/// The proxy's user may do what it needs for shared reads, and act as Jane of the group `devs`.
const PROXY_OF_JANE: &str = "\
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: proxy}
rules:
- {apiGroups: [''], resources: [configmaps], verbs: [list, watch]}
- {apiGroups: [authentication.k8s.io], resources: [tokenreviews], verbs: [create]}
- {apiGroups: [authorization.k8s.io], resources: [subjectaccessreviews], verbs: [create]}
- {apiGroups: [''], resources: [users], resourceNames: [jane, 'system:anonymous'], verbs: [impersonate]}
- {apiGroups: [''], resources: [groups], resourceNames: [devs], verbs: [impersonate]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: proxy}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: proxy}
subjects:
- {apiGroup: rbac.authorization.k8s.io, kind: User, name: proxy}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: readers}
rules:
- {apiGroups: [''], resources: [configmaps], verbs: [get, list, watch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: readers}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: readers}
subjects:
- {apiGroup: rbac.authorization.k8s.io, kind: Group, name: 'system:authenticated'}
";

#[tokio::test]
async fn a_cached_read_needs_the_right_to_act_as_the_user_of_the_certificate() {
    let server = ApiServer::builder()
        .tls(true)
        .token("admin")
        .token_of("proxy-token", User::named("proxy", &[]))
        .authorization(AuthorizationMode::Rbac)
        .yaml(PROXY_OF_JANE)
        .start()
        .await
        .unwrap();
    let mut own = config(&server.kubeconfig());
    own.auth.token = Some("proxy-token".into());
    let authority = Authority::new();
    let mut options = authority.options();
    options.resources = vec!["configmaps".to_owned()];
    let proxy = Proxy::start(own, options).await.unwrap();
    warm(&server, &proxy).await;
    let list = async |user: &str, group: &str, version: &str| {
        let client = Client::new(with_certificate(&proxy, authority.identity(user, group))).unwrap();
        maps(client).list(&ListParams::default().at(version)).await.map(drop)
    };
    let before = server.requests().verb("list").resource("configmaps").count();
    within("Jane's list", list("jane", "devs", "0")).await.unwrap();
    assert_eq!(server.requests().verb("list").resource("configmaps").count(), before, "from memory");
    for (user, group) in [("jane", "system:masters"), ("root", "devs"), ("system:anonymous", "devs")] {
        let error = within("a refusal", list(user, group, "0")).await.unwrap_err();
        assert!(error.is_forbidden(), "{user} of {group}: {error}");
    }
}
