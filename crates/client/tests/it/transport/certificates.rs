//! Trust of the transport, its messages about certificates, and rotation.

use std::path::Path;
use std::time::Duration;

use dogwatch_client::transport::TransportErrorKind;
use metrics_util::debugging::{DebugValue, DebuggingRecorder};

use super::*;
use crate::support::{Body, Leaf, Peer, ServerSetup, streamed, text};

async fn hello(_: Request<hyper::body::Incoming>, _: Peer) -> Response<Body> {
    text("hello")
}

/// Responds with the client certificate, so that a test can compare it; `/watch` stays open.
async fn client_certificate(request: Request<hyper::body::Incoming>, peer: Peer) -> Response<Body> {
    if request.uri().path() == "/watch" {
        let (sender, response) = streamed();
        tokio::spawn(async move { sender.closed().await });
        return response;
    }
    text(peer.certificate.map(|it| it.to_vec()).unwrap_or_default())
}

async fn presented(transport: &Transport, server: &Server) -> Vec<u8> {
    let response = send(transport, get(&server.url())).await.unwrap();
    response.into_body().collect().await.unwrap().to_bytes().to_vec()
}

fn der(leaf: &Leaf) -> Vec<u8> {
    leaf.certificate_der().to_vec()
}

/// Options with which files are read again on every occasion.
fn eager() -> TransportOptions {
    let mut options = TransportOptions::default();
    options.reload_interval = Duration::ZERO;
    options.handshake_reload_interval = Duration::ZERO;
    options
}

#[tokio::test]
async fn each_wrong_certificate_has_its_own_message() {
    let (right, wrong) = (Authority::new("right"), Authority::new("wrong"));
    let cases = [
        (
            wrong.server(&["127.0.0.1"]),
            "not signed by the certificate authority in certificate-authority-data",
        ),
        (right.expired_server(&["127.0.0.1"]), "expired on 2001-02-01T00:00:00Z"),
        (right.server(&["elsewhere.test"]), "not for 127.0.0.1; set tls-server-name to one of its names"),
    ];
    for (leaf, expected) in cases {
        let server = ServerSetup::tls(leaf).start(hello).await;
        let transport = transport(&trusting(&server.url(), &right));
        let error = send(&transport, get(&server.url())).await.unwrap_err();
        assert!(error.to_string().ends_with(expected), "{error}");
        assert!(error.to_string().contains("127.0.0.1"), "{error}");
        assert_eq!(error.kind(), TransportErrorKind::Tls);
        assert!(error.is_permanent() && !error.request_was_sent());
    }
}

#[tokio::test]
async fn without_a_system_root_the_error_says_to_set_the_ca() {
    let (server, _) = secure_server(hello).await;
    let config = Config::new(server.url().parse().unwrap());
    // A machine without any root fails when the transport is created; either way the advice is the
    // same.
    let error = match Transport::with_options(&config, no_plugin(), TransportOptions::default()) {
        Ok(transport) => send(&transport, get(&server.url())).await.unwrap_err(),
        Err(error) => error,
    };
    assert!(chain(&error).contains("set the cluster's certificate authority"), "{}", chain(&error));
}

#[tokio::test]
async fn the_name_in_the_certificate_can_be_set_and_verification_can_be_skipped() {
    let authority = Authority::new("cluster");
    let server = ServerSetup::tls(authority.server(&["elsewhere.test"])).start(hello).await;
    let mut named = trusting(&server.url(), &authority);
    named.tls.server_name = Some("elsewhere.test".to_owned());
    let mut insecure = Config::new(server.url().parse().unwrap());
    insecure.tls.insecure_skip_verify = true;
    for config in [named, insecure] {
        assert_eq!(fetch(&transport(&config), &server.url()).await, "hello");
    }
}

#[tokio::test]
async fn tr_5_an_empty_ca_file_trusts_no_server() {
    let (server, _) = secure_server(hello).await;
    let file = tempfile::NamedTempFile::new().unwrap();
    let mut config = Config::new(server.url().parse().unwrap());
    config.tls.ca = Some(Pem::File(file.path().to_owned()));
    let error = send(&transport(&config), get(&server.url())).await.unwrap_err();
    assert!(error.to_string().ends_with("which is empty"), "{error}");
    assert!(error.to_string().contains(&file.path().display().to_string()), "{error}");
}

#[tokio::test]
async fn the_error_of_invalid_settings_names_the_field_or_the_file() {
    let mut config = Config::new("https://127.0.0.1:1".parse().unwrap());
    config.tls.insecure_skip_verify = true;
    let refused = |config: &Config| {
        let error = Transport::with_options(config, no_plugin(), TransportOptions::default()).unwrap_err();
        assert_eq!(error.kind(), TransportErrorKind::Config);
        chain(&error)
    };
    let mut identity = Authority::new("users").client("me").identity();
    identity.key = Pem::Data("s3cret".into());
    config.tls.identity = Some(identity.clone());
    let message = refused(&config);
    assert!(message.contains("client-key-data is malformed"), "{message}");
    assert!(!message.contains("s3cret"), "{message}");

    identity.key = Pem::File("/nonexistent/tls.key".into());
    config.tls.identity = Some(identity);
    assert!(refused(&config).contains("cannot read /nonexistent/tls.key"));
}

async fn server_with_users() -> (Server, Authority, Authority) {
    let (authority, users) = (Authority::new("cluster"), Authority::new("users"));
    let setup = ServerSetup::tls(authority.server(&["127.0.0.1"])).ask_for_certificates(&users, false);
    (setup.start(client_certificate).await, authority, users)
}

#[tokio::test]
async fn a_client_certificate_is_presented() {
    let (server, authority, users) = server_with_users().await;
    let (mut config, me) = (trusting(&server.url(), &authority), users.client("me"));
    assert!(presented(&transport(&config), &server).await.is_empty());
    config.tls.identity = Some(me.identity());
    assert_eq!(presented(&transport(&config), &server).await, der(&me));
}

/// In TLS 1.3 a server checks the client's certificate after the client considers the handshake
/// complete.
#[tokio::test]
async fn a_rejected_client_certificate_is_a_tls_error_in_both_protocols() {
    let (authority, users) = (Authority::new("cluster"), Authority::new("users"));
    let leaf = authority.server(&["127.0.0.1"]);
    for setup in [ServerSetup::tls(leaf.clone()), ServerSetup::tls(leaf.clone()).http1_only()] {
        let server = setup.ask_for_certificates(&users, true).start(client_certificate).await;
        let error =
            send(&transport(&trusting(&server.url(), &authority)), get(&server.url())).await.unwrap_err();
        assert_eq!(error.kind(), TransportErrorKind::Tls, "{}", chain(&error));
    }
}

fn write(folder: &Path, leaf: &Leaf) -> Identity {
    let (certificate, key) = (folder.join("tls.crt"), folder.join("tls.key"));
    std::fs::write(&certificate, &leaf.certificate).unwrap();
    std::fs::write(&key, &leaf.key).unwrap();
    Identity { certificate: Pem::File(certificate), key: Pem::File(key) }
}

#[tokio::test]
async fn tr_4_a_rotated_certificate_file_replaces_idle_connections_and_spares_busy_ones() {
    let (server, authority, users) = server_with_users().await;
    let (first, second) = (users.client("first"), users.client("second"));
    let folder = tempfile::tempdir().unwrap();
    let mut config = trusting(&server.url(), &authority);
    config.tls.identity = Some(write(folder.path(), &first));
    let transport = Transport::with_options(&config, no_plugin(), eager()).unwrap();
    assert_eq!(presented(&transport, &server).await, der(&first));
    assert_eq!(presented(&transport, &server).await, der(&first));
    assert_eq!(server.accepted(), 1, "nothing changed, nothing reconnects");

    let watching = send(&transport, get(&format!("{}/watch", server.url()))).await.unwrap();
    write(folder.path(), &second);
    assert_eq!(presented(&transport, &server).await, der(&second));
    assert_eq!((server.accepted(), server.open()), (2, 2), "the watch keeps its connection");
    drop(watching);
    server.wait_for_open(1).await;

    write(folder.path(), &first);
    assert_eq!(presented(&transport, &server).await, der(&first));
    server.wait_for_open(1).await;
    assert_eq!(server.accepted(), 3);
}

#[tokio::test]
async fn tr_4_half_a_rotation_keeps_the_certificate() {
    let (server, authority, users) = server_with_users().await;
    let (first, second) = (users.client("first"), users.client("second"));
    let folder = tempfile::tempdir().unwrap();
    let mut config = trusting(&server.url(), &authority);
    config.tls.identity = Some(write(folder.path(), &first));
    let transport = Transport::with_options(&config, no_plugin(), eager()).unwrap();
    std::fs::write(folder.path().join("tls.crt"), &second.certificate).unwrap();
    assert_eq!(presented(&transport, &server).await, der(&first));
    std::fs::write(folder.path().join("tls.key"), &second.key).unwrap();
    assert_eq!(presented(&transport, &server).await, der(&second));
}

#[tokio::test]
async fn a_plugins_certificate_is_presented_from_the_next_request_on() {
    let (server, authority, users) = server_with_users().await;
    let (first, second) = (users.client("first"), users.client("second"));
    let (plugin, identity) = watch::channel(None);
    let config = trusting(&server.url(), &authority);
    let transport = Transport::with_options(&config, identity, TransportOptions::default()).unwrap();
    assert!(presented(&transport, &server).await.is_empty());
    for (connections, leaf) in [(2, &first), (3, &second)] {
        plugin.send_replace(Some(leaf.identity()));
        assert_eq!(presented(&transport, &server).await, der(leaf));
        assert_eq!(presented(&transport, &server).await, der(leaf));
        server.wait_for_open(1).await;
        assert_eq!(server.accepted(), connections);
    }
    drop(plugin);
    assert_eq!(
        presented(&transport, &server).await,
        der(&second),
        "the last certificate of a dropped plugin stays"
    );
}

#[tokio::test]
async fn a_certificate_of_the_settings_takes_precedence_over_a_plugins() {
    let (server, authority, users) = server_with_users().await;
    let (own, foreign) = (users.client("own"), users.client("plugin"));
    let mut config = trusting(&server.url(), &authority);
    config.tls.identity = Some(own.identity());
    let (_plugin, identity) = watch::channel(Some(foreign.identity()));
    let transport = Transport::with_options(&config, identity, TransportOptions::default()).unwrap();
    assert_eq!(presented(&transport, &server).await, der(&own));
}

#[tokio::test]
async fn tr_5_a_rotated_ca_file_is_followed_and_counted() {
    let recorder = DebuggingRecorder::new();
    let _guard = metrics::set_default_local_recorder(&recorder);
    let (old, new) = (Authority::new("cluster"), Authority::new("cluster"));
    let server = ServerSetup::tls(new.server(&["127.0.0.1"])).start(hello).await;
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), old.pem()).unwrap();
    let mut config = Config::new(server.url().parse().unwrap());
    config.tls.ca = Some(Pem::File(file.path().to_owned()));
    let transport = Transport::with_options(&config, no_plugin(), eager()).unwrap();

    let error = send(&transport, get(&server.url())).await.unwrap_err();
    assert!(error.to_string().contains("not signed by"), "{error}");
    std::fs::write(file.path(), "garbage").unwrap();
    send(&transport, get(&server.url())).await.unwrap_err();
    std::fs::write(file.path(), new.pem()).unwrap();
    assert_eq!(fetch(&transport, &server.url()).await, "hello");

    let mut reloads = Vec::new();
    for (key, _, _, value) in recorder.snapshotter().snapshot().into_vec() {
        if key.key().name() == "rest_client_transport_ca_reload_total" {
            let labels: Vec<_> = key.key().labels().map(|it| it.value()).collect();
            reloads.push((labels.join(" "), value));
        }
    }
    reloads.sort_by(|a, b| a.0.cmp(&b.0));
    let expected = [("failure ca_parse_error", 1), ("success unchanged", 1), ("success updated", 1)]
        .map(|(name, n)| (name.to_owned(), DebugValue::Counter(n)));
    assert_eq!(reloads, expected);
}

/// While an authority rotates, a client may get its certificate some minutes later than the server:
/// no one has to act, and a watch waits.
#[tokio::test]
async fn only_certificates_that_cannot_change_are_permanent_errors() {
    let (right, wrong) = (Authority::new("right"), Authority::new("wrong"));
    let server = ServerSetup::tls(right.server(&["127.0.0.1"])).start(hello).await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("ca.crt");
    std::fs::write(&file, wrong.pem()).unwrap();
    let mut config = trusting(&server.url(), &wrong);
    let error = send(&transport(&config), get(&server.url())).await.unwrap_err();
    assert!(error.kind() == TransportErrorKind::Tls && error.is_permanent(), "{}", chain(&error));

    config.tls.ca = Some(Pem::File(file.clone()));
    let transport = Transport::with_options(&config, no_plugin(), eager()).unwrap();
    let error = send(&transport, get(&server.url())).await.unwrap_err();
    assert!(error.kind() == TransportErrorKind::Tls && !error.is_permanent(), "{}", chain(&error));
    std::fs::write(&file, right.pem()).unwrap();
    assert_eq!(fetch(&transport, &server.url()).await, "hello");
}

#[tokio::test]
async fn a_resuming_watch_waits_for_the_new_authority() {
    use dogwatch_client::{Api, Client};
    use futures_util::StreamExt;
    let (right, wrong) = (Authority::new("right"), Authority::new("wrong"));
    const EVENT: &str = r#"{"type":"ADDED","object":{"metadata":{"name":"a","resourceVersion":"6"}}}"#;
    let setup = ServerSetup::tls(right.server(&["127.0.0.1"]));
    let server = setup.start(|_, _| async { text(EVENT) }).await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("ca.crt");
    std::fs::write(&file, wrong.pem()).unwrap();
    let mut config = Config::new(server.url().parse().unwrap());
    config.tls.ca = Some(Pem::File(file.clone()));
    let client = Client::builder(config).transport_options(eager()).build().unwrap();
    let maps = Api::<k8s_openapi::api::core::v1::ConfigMap>::namespaced(client, "a");
    let mut events = maps.watch_from(dogwatch_core::WatchParams::after("5")).unwrap();
    tokio::time::timeout(Duration::from_millis(300), events.next()).await.expect_err("it waits");
    std::fs::write(&file, right.pem()).unwrap();
    assert!(soon(events.next()).await.expect("an event").is_ok());
}

/// Old clusters have them, and their users set `insecure-skip-tls-verify`.
#[tokio::test]
async fn a_server_certificate_of_version_1_is_accepted_without_verification() {
    use rustls::sign::{CertifiedKey, SingleCertAndKey};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let leaf = Authority::new("old").server(&["127.0.0.1"]);
    let mut certificate = leaf.certificate_der().to_vec();
    let version = certificate.windows(5).position(|it| it == [0xa0, 3, 2, 1, 2]).expect("version 3");
    certificate[version + 4] = 0;
    let provider = rustls::crypto::ring::default_provider();
    let key = provider.key_provider.load_private_key(leaf.key_der()).expect("our own key");
    let shown = SingleCertAndKey::from(CertifiedKey::new(vec![certificate.into()], key));
    let server = rustls::ServerConfig::builder_with_provider(provider.into())
        .with_safe_default_protocol_versions()
        .expect("ring speaks TLS")
        .with_no_client_auth()
        .with_cert_resolver(std::sync::Arc::new(shown));
    let acceptor = tokio_rustls::TlsAcceptor::from(std::sync::Arc::new(server));
    let (address, _running) = crate::support::listen(move |stream| {
        let acceptor = acceptor.clone();
        async move {
            let Ok(mut stream) = acceptor.accept(stream).await else { return };
            let mut request = [0; 1024];
            while stream.read(&mut request).await.is_ok_and(|it| it > 0) {
                let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello";
                stream.write_all(answer).await.expect("an open connection");
            }
        }
    })
    .await;
    let url = format!("https://{address}");
    let mut config = Config::new(url.parse().unwrap());
    config.tls.insecure_skip_verify = true;
    assert_eq!(fetch(&transport(&config), &url).await, "hello");
}
