//! Authentication from a kubeconfig: token, client certificate, exec plugin, token file, and their
//! failures.
//!
//! Users are taken from the suite's kubeconfig by their kind of credential, not by name: one with a
//! token, one with a client certificate.

use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use dogwatch::config::{Cluster, ConfigError, ExecSection, Kubeconfig, NamedUser, Overrides, User};
use dogwatch::transport::TransportErrorKind;
use dogwatch::{Client, Config, Error};
use secrecy::{ExposeSecret, SecretString};

use crate::support::{chain, kubeconfig, refused, whoami};

/// Returns the cluster of the suite's context.
fn cluster() -> Cluster {
    let kubeconfig = kubeconfig();
    let context = kubeconfig.current_context.as_deref().and_then(|it| kubeconfig.context(it));
    let name = context.and_then(|it| it.cluster.as_deref()).expect("the context names a cluster");
    kubeconfig.cluster(name).expect("the context's cluster exists").clone()
}

/// Returns the user of the suite's context if it has this kind of credential, else the first user
/// that has.
fn user(kind: &str, is: impl Fn(&User) -> bool) -> User {
    let kubeconfig = kubeconfig();
    let context = kubeconfig.current_context.as_deref().and_then(|it| kubeconfig.context(it));
    let current = context.and_then(|it| kubeconfig.user(it.user.as_deref()?));
    let all = kubeconfig.users.iter().map(|NamedUser { user, .. }| user);
    let found = current.into_iter().chain(all).find(|it| is(it));
    found.unwrap_or_else(|| panic!("the kubeconfig of the suite has no user with {kind}")).clone()
}

fn token() -> SecretString {
    user("a token", |it| it.token.is_some()).token.expect("chosen for its token")
}

/// Creates a client from the YAML of a kubeconfig with one cluster and one user.
fn client(cluster: Cluster, user: User) -> Client {
    let text = Kubeconfig::single("suite", cluster, user).to_yaml().expect("a kubeconfig can be written");
    let config = Config::from_kubeconfig_str(&text, &Overrides::default()).expect("the kubeconfig is valid");
    Client::new(config).expect("the config is valid")
}

fn with_token(token: &str) -> User {
    User { token: Some(SecretString::from(token)), ..User::default() }
}

async fn assert_known(client: &Client) {
    let user = whoami(client).await.unwrap_or_else(|error| panic!("not authenticated: {}", chain(&error)));
    let name = user.username.unwrap_or_default();
    assert!(!name.is_empty() && name != "system:anonymous", "the server authenticated {name:?}");
}

#[tokio::test]
async fn a_token_logs_in() {
    assert_known(&client(cluster(), with_token(token().expose_secret()))).await;
}

#[tokio::test]
async fn a_client_certificate_logs_in() {
    let user = user("a client certificate", |it| it.client_certificate_data.is_some());
    let user = User {
        client_certificate_data: user.client_certificate_data,
        client_key_data: user.client_key_data,
        ..User::default()
    };
    assert_known(&client(cluster(), user)).await;
}

#[cfg(unix)]
fn plugin(directory: &Path, script: &str) -> User {
    let file = directory.join("plugin");
    std::fs::write(&file, script).expect("the directory is writable");
    let exec = ExecSection {
        api_version: Some("client.authentication.k8s.io/v1".to_owned()),
        // Handed to a shell instead of being executed: while another test forks, its child briefly
        // has the file open for writing, and executing such a file fails with ETXTBSY.
        command: Some("/bin/sh".to_owned()),
        args: vec![file.display().to_string()],
        interactive_mode: Some("Never".to_owned()),
        ..ExecSection::default()
    };
    User { exec: Some(exec), ..User::default() }
}

#[cfg(unix)]
#[tokio::test]
async fn a_credential_plugin_logs_in() {
    let directory = tempfile::tempdir().expect("a directory for the plugin");
    let credential = serde_json::json!({
        "apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential",
        "status": { "token": token().expose_secret() },
    });
    std::fs::write(directory.path().join("credential"), credential.to_string())
        .expect("the directory is writable");
    let script = "exec cat \"$(dirname \"$0\")/credential\"\n";
    assert_known(&client(cluster(), plugin(directory.path(), script))).await;
}

#[cfg(unix)]
#[tokio::test]
async fn a_failing_credential_plugin_is_reported_with_its_stderr() {
    let directory = tempfile::tempdir().expect("a directory for the plugin");
    let user = plugin(directory.path(), "echo 'the vault is shut' >&2\nexit 3\n");
    let error = whoami(&client(cluster(), user)).await.expect_err("the plugin fails");
    assert!(matches!(error, Error::Credentials(_)), "{}", chain(&error));
    assert!(
        chain(&error).contains("plugin") && chain(&error).contains("the vault is shut"),
        "{}",
        chain(&error)
    );
}

#[tokio::test]
async fn a_token_file_logs_in_and_is_read_again_when_its_token_is_rejected() {
    let directory = tempfile::tempdir().expect("a directory for the token");
    let file = directory.path().join("token");
    std::fs::write(&file, "not-a-token-of-this-server\n").expect("the directory is writable");
    let client = client(cluster(), User { token_file: Some(file.clone()), ..User::default() });
    assert!(refused(whoami(&client).await).is_unauthorized());
    std::fs::write(&file, token().expose_secret()).expect("the directory is writable");
    assert_known(&client).await;
}

#[tokio::test]
async fn a_wrong_token_is_unauthorized() {
    let client = client(cluster(), with_token("not-a-token-of-this-server"));
    let error = whoami(&client).await.expect_err("the token is invalid");
    assert!(error.is_unauthorized(), "{}", chain(&error));
    assert!(!chain(&error).contains("not-a-token-of-this-server"), "a message must not carry a token");
}

#[tokio::test]
async fn overrides_replace_the_token_of_the_kubeconfig() {
    let text = kubeconfig().to_yaml().expect("a kubeconfig can be written");
    let mut overrides = Overrides::default();
    overrides.user_info = with_token("not-a-token-of-this-server");
    let mut config = Config::from_kubeconfig_str(&text, &overrides).expect("the overrides fit");
    // A client certificate would authenticate us whatever the token.
    config.tls.identity = None;
    let client = Client::new(config).expect("the config is valid");
    assert!(refused(whoami(&client).await).is_unauthorized());
}

#[tokio::test]
async fn overrides_select_user_and_namespace() {
    let kubeconfig = kubeconfig();
    let text = kubeconfig.to_yaml().expect("a kubeconfig can be written");
    let by_token = kubeconfig.users.iter().find(|it| it.user.token.is_some()).expect("a user with a token");
    let mut overrides = Overrides::default();
    overrides.user = Some(by_token.name.clone());
    overrides.namespace = Some("elsewhere".to_owned());
    let client = Client::new(Config::from_kubeconfig_str(&text, &overrides).expect("both exist"));
    let client = client.expect("the config is valid");
    assert_eq!(client.default_namespace(), "elsewhere");
    assert_known(&client).await;
}

#[test]
fn an_unknown_context_is_reported_with_the_known_ones() {
    let mut overrides = Overrides::default();
    overrides.context = Some("no-such-context".to_owned());
    let text = kubeconfig().to_yaml().expect("a kubeconfig can be written");
    let error = Config::from_kubeconfig_str(&text, &overrides).expect_err("there is no such context");
    let ConfigError::NotFound { known, .. } = &error else { panic!("{error}") };
    assert!(error.is_context_not_found());
    assert_eq!(known.len(), kubeconfig().contexts.len());
}

#[tokio::test]
async fn a_server_certificate_of_another_authority_is_rejected() {
    let other = rcgen::generate_simple_self_signed(["another-authority".to_owned()]).expect("a certificate");
    let mut cluster = cluster();
    cluster.certificate_authority = None;
    cluster.insecure_skip_tls_verify = false;
    cluster.certificate_authority_data = Some(STANDARD.encode(other.cert.pem()));
    let client = client(cluster, with_token(token().expose_secret()));
    let error = whoami(&client).await.expect_err("the server cannot be trusted");
    assert_eq!(error.transport(), Some(TransportErrorKind::Tls), "{}", chain(&error));
    assert!(chain(&error).contains("certificate"), "{}", chain(&error));
}

#[tokio::test]
async fn a_server_certificate_for_another_name_is_rejected() {
    let mut cluster = cluster();
    cluster.insecure_skip_tls_verify = false;
    cluster.tls_server_name = Some("another-server.example".to_owned());
    let client = client(cluster, with_token(token().expose_secret()));
    let error = whoami(&client).await.expect_err("the name does not match");
    assert_eq!(error.transport(), Some(TransportErrorKind::Tls), "{}", chain(&error));
    assert!(chain(&error).contains("another-server.example"), "{}", chain(&error));
}

#[tokio::test]
async fn a_closed_port_is_a_refused_connection() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
    let address = listener.local_addr().expect("a bound socket has an address");
    drop(listener);
    let mut cluster = cluster();
    cluster.server = Some(format!("https://{address}"));
    let client = client(cluster, with_token("unused"));
    let error = whoami(&client).await.expect_err("the port is closed");
    assert_eq!(error.transport(), Some(TransportErrorKind::Refused), "{}", chain(&error));
    assert!(error.to_string().contains(&address.to_string()), "{error}");
}
