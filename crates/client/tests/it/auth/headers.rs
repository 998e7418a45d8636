//! The headers of a request: the order of credentials (KC-8), plaintext (KC-7), impersonation and
//! user agent (AU-1).

use std::collections::BTreeMap;

use dogwatch_client::auth::{
    AuthError, AuthLayer, Credentials, ImpersonateLayer, UserAgentLayer, default_user_agent,
};
use dogwatch_client::config::{
    AuthProvider, BasicAuth, ExecConfig, Identity, Impersonation, InteractiveMode, Pem,
};
use dogwatch_client::{Config, RequestBody};
use http::{Request, StatusCode};
use http_body_util::Full;
use tower::ServiceExt;
use tower_layer::Layer;

use super::{Server, authorize, config};

fn user() -> BasicAuth {
    BasicAuth { username: "jane".to_owned(), password: "pass".into() }
}

fn provider(name: &str) -> AuthProvider {
    AuthProvider { name: name.to_owned(), config: BTreeMap::new(), origin: None }
}

fn exec() -> ExecConfig {
    ExecConfig {
        api_version: "client.authentication.k8s.io/v1".to_owned(),
        command: "/nonexistent/plugin".to_owned(),
        interactive_mode: Some(InteractiveMode::Never),
        ..ExecConfig::default()
    }
}

fn problem(config: &Config) -> String {
    Credentials::new(config, None).expect_err("settings that cannot work").to_string()
}

#[tokio::test]
async fn kc_8_a_token_comes_before_a_plugin_and_no_credentials_means_no_header() {
    let mut config = config();
    assert_eq!(authorize(&Credentials::new(&config, None).unwrap()).await.unwrap().0, "");

    config.auth.exec = Some(exec());
    config.auth.token = Some("t".into());
    assert_eq!(authorize(&Credentials::new(&config, None).unwrap()).await.unwrap().0, "Bearer t");

    config.auth.token = None;
    config.auth.basic = Some(user());
    let basic = Credentials::new(&config, None).unwrap();
    assert_eq!(authorize(&basic).await.unwrap().0, "Basic amFuZTpwYXNz");

    config.auth.basic = None;
    let plugin = Credentials::new(&config, None).unwrap();
    assert!(matches!(authorize(&plugin).await, Err(AuthError::Plugin(_))));
}

#[tokio::test]
async fn au_3_a_plugin_is_not_run_if_there_is_a_certificate() {
    let mut config = config();
    config.auth.exec = Some(exec());
    let file = |name: &str| Pem::File(name.into());
    config.tls.identity = Some(Identity { certificate: file("/a"), key: file("/b") });
    assert_eq!(authorize(&Credentials::new(&config, None).unwrap()).await.unwrap().0, "");
}

#[test]
fn kc_8_conflicting_credentials_are_rejected() {
    let mut both = config();
    both.auth.token = Some("t".into());
    both.auth.basic = Some(user());
    assert!(problem(&both).contains("both a token and a password"));

    let mut both = config();
    both.auth.provider = Some(provider("oidc"));
    both.auth.exec = Some(exec());
    assert!(problem(&both).contains("both an auth-provider and an exec section"));
}

#[test]
fn au_4_the_errors_of_removed_providers_name_the_replacement() {
    for (name, expected) in
        [("gcp", "gke-gcloud-auth-plugin"), ("azure", "kubelogin"), ("openstack", "use oidc")]
    {
        let mut config = config();
        config.auth.provider = Some(provider(name));
        let problem = problem(&config);
        assert!(problem.contains(name) && problem.contains(expected), "{problem}");
    }
}

#[test]
fn kc_7_credentials_are_not_sent_in_clear_text_to_another_machine() {
    let remote: url::Url = "http://admin:hunter2@cluster.example:8080/x".parse().unwrap();
    let mut config = Config::new(remote);
    assert!(Credentials::new(&config, None).is_ok(), "nothing to protect");

    config.auth.token = Some("t".into());
    assert_eq!(
        problem(&config),
        "refusing to send credentials in clear text to http://cluster.example:8080: use an https address, or set \
         allow_plaintext_credentials if you trust every hop to it"
    );
    config.allow_plaintext_credentials = true;
    assert!(Credentials::new(&config, None).is_ok());

    let mut local = Config::new("http://127.0.0.1:8080".parse().unwrap());
    local.auth.token = Some("t".into());
    assert!(Credentials::new(&local, None).is_ok());
}

#[tokio::test]
async fn au_1_a_request_with_its_own_authorization_is_unchanged() {
    let mut config = config();
    config.auth.exec = Some(exec());
    let credentials = Credentials::new(&config, None).unwrap();
    let server = Server::answering(&[StatusCode::UNAUTHORIZED]);
    let service = AuthLayer::new(credentials).layer(server.clone());
    let request = Request::get("/").header("authorization", "Bearer own").body(Full::default()).unwrap();
    let response = service.oneshot(request).await.unwrap();
    assert_eq!(response.status(), StatusCode::UNAUTHORIZED);
    assert_eq!(server.authorizations(), ["Bearer own"]);
}

#[tokio::test]
async fn a_fixed_token_is_not_sent_twice() {
    let mut config = config();
    config.auth.token = Some("t".into());
    let server = Server::answering(&[StatusCode::UNAUTHORIZED]);
    let credentials = Credentials::new(&config, None).unwrap();
    assert_eq!(server.send(&credentials).await.unwrap(), StatusCode::UNAUTHORIZED);
    assert_eq!(server.authorizations(), ["Bearer t"]);
}

/// Sends a request through impersonation and returns its `impersonate-*` headers.
async fn impersonated(layer: &ImpersonateLayer, request: Request<RequestBody>) -> Vec<(String, String)> {
    let server = Server::default();
    layer.layer(server.clone()).oneshot(request).await.unwrap();
    let headers = &server.seen()[0].headers;
    let of_interest = headers.iter().filter(|(name, _)| name.as_str().starts_with("impersonate-"));
    of_interest
        .map(|(name, value)| (name.to_string(), String::from_utf8(value.as_bytes().to_vec()).unwrap()))
        .collect()
}

fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
    expected.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

fn jane() -> Impersonation {
    Impersonation {
        user: Some("jane".to_owned()),
        uid: Some("42".to_owned()),
        groups: vec!["dev".to_owned(), "größe".to_owned()],
        extra: BTreeMap::from([("example.com/Scopes".to_owned(), vec!["a".to_owned(), "b".to_owned()])]),
    }
}

#[tokio::test]
async fn au_1_impersonation_writes_user_uid_groups_and_extras() {
    let layer = ImpersonateLayer::new(&jane()).unwrap();
    assert_eq!(
        impersonated(&layer, Request::default()).await,
        pairs(&[
            ("impersonate-user", "jane"),
            ("impersonate-uid", "42"),
            ("impersonate-group", "dev"),
            ("impersonate-group", "größe"),
            ("impersonate-extra-example.com%2fscopes", "a"),
            ("impersonate-extra-example.com%2fscopes", "b"),
        ])
    );
}

#[tokio::test]
async fn impersonation_can_be_set_per_request() {
    let layer = ImpersonateLayer::new(&jane()).unwrap();
    let with = |who| Request::builder().extension::<Impersonation>(who).body(Full::default()).unwrap();

    let joe = Impersonation { user: Some("joe".to_owned()), ..Impersonation::default() };
    assert_eq!(impersonated(&layer, with(joe)).await, pairs(&[("impersonate-user", "joe")]));
    assert_eq!(impersonated(&layer, with(Impersonation::default())).await, []);

    let by_hand = Request::builder().header("Impersonate-User", "eve").body(Full::default()).unwrap();
    assert_eq!(impersonated(&layer, by_hand).await, pairs(&[("impersonate-user", "eve")]));

    let lost = Impersonation { groups: vec!["dev".to_owned()], ..Impersonation::default() };
    let server = Server::default();
    assert!(layer.layer(server.clone()).oneshot(with(lost)).await.is_err());
    assert!(server.seen().is_empty());
}

#[tokio::test]
async fn au_1_all_three_layers_write_their_own_headers_and_a_retry_keeps_them() {
    let mut config = config();
    config.auth.token = Some("t".into());
    config.user_agent = Some("tool/1".to_owned());
    let server = Server::default();
    let auth = AuthLayer::new(Credentials::new(&config, None).unwrap());
    let agent = UserAgentLayer::new(config.user_agent.as_deref()).unwrap();
    let impersonate = ImpersonateLayer::new(&jane()).unwrap();
    let stack = impersonate.layer(agent.layer(auth.layer(server.clone())));
    stack.clone().oneshot(Request::default()).await.unwrap();
    let own = Request::builder().header("user-agent", "own/2").body(Full::default()).unwrap();
    stack.oneshot(own).await.unwrap();

    let seen = server.seen();
    assert_eq!(seen[0].headers["user-agent"], "tool/1");
    assert_eq!(seen[0].headers["impersonate-user"], "jane");
    assert_eq!(seen[0].headers["authorization"], "Bearer t");
    assert_eq!(seen[1].headers["user-agent"], "own/2", "rule RQ-16");
}

#[test]
fn rq_16_the_default_user_agent_names_this_program() {
    let agent = default_user_agent();
    assert!(agent.starts_with("it-") && agent.contains(" dogwatch/"), "{agent}");
}
