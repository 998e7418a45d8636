//! TLS by the service's name, although pods are dialled by address.

use std::sync::Arc;
use std::time::Duration;

use dogwatch_grpc::KubeChannel;
use rcgen::{CertificateParams, KeyPair};
use rustls::{ClientConfig, RootCertStore};
use tonic::Code;
use tonic::transport::{Identity, ServerTlsConfig};

use crate::echo::EchoClient;
use crate::pods::{Pod, Service, endpoint, until};
use crate::still::breath;
use crate::traffic::Traffic;

struct Certified {
    server: ServerTlsConfig,
    client: ClientConfig,
}

fn certified(name: &str) -> Certified {
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::new(vec![name.to_owned()]).unwrap().self_signed(&key).unwrap();
    let identity = Identity::from_pem(certificate.pem(), key.serialize_pem());
    let mut roots = RootCertStore::empty();
    roots.add(certificate.der().clone()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let client = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let client = client.with_root_certificates(roots).with_no_client_auth();
    Certified { server: ServerTlsConfig::new().identity(identity), client }
}

#[tokio::test]
async fn a_certificate_for_the_service_is_good_for_its_pods() {
    let Certified { server, client } = certified("echo.test");
    let pods = [Pod::with_tls(server).await];
    let service = Service::of(&pods);
    let channel =
        KubeChannel::builder(service.receiver()).authority("echo.test").tls(client).build().unwrap();
    assert_eq!(EchoClient::new(&channel).one("hello").await.unwrap().text, "hello");
    assert_eq!(*pods[0].seen.authority.lock().unwrap(), "echo.test");
}

#[tokio::test]
async fn a_certificate_for_another_name_is_refused_with_the_reason() {
    let Certified { server, client } = certified("other.test");
    let pods = [Pod::with_tls(server).await];
    let service = Service::of(&pods);
    let builder = KubeChannel::builder(service.receiver()).authority("echo.test").tls(client);
    let channel = builder.ready_timeout(Duration::ZERO).build().unwrap();
    until(&channel, |it| it.endpoints().first().is_some_and(|it| it.error.is_some())).await;
    let status = EchoClient::new(&channel).one("hello").await.unwrap_err();
    assert_eq!(status.code(), Code::Unavailable);
    assert!(status.message().contains("TLS with 127.0.0.1"), "{}", status.message());
    assert!(status.message().contains("certificate"), "{}", status.message());
}

/// What was begun on a connection is known under TLS too: calls in line behind the one that is lost go elsewhere.
#[tokio::test]
async fn calls_in_line_on_a_connection_under_tls_that_dies_go_elsewhere() {
    let Certified { server, client } = certified("echo.test");
    let (narrow, other) = (server.clone(), Pod::with_tls(server).await);
    let tls = |it: tonic::transport::Server| it.tls_config(narrow).unwrap().max_concurrent_streams(1);
    let mut pods = [Pod::with(tls, |it| it).await];
    let service = Service::of(&pods);
    let channel =
        KubeChannel::builder(service.receiver()).authority("echo.test").tls(client).build().unwrap();
    channel.connected(1).await;
    let traffic = Traffic::new(EchoClient::new(&channel), "wait");
    traffic.issue(6);
    until(&channel, |it| it.endpoints()[0].in_flight == 6).await;
    while pods[0].seen.calls() < 1 {
        breath().await;
    }
    pods[0].seen.gate.add_permits(1);
    traffic.reaches(1).await;
    while pods[0].seen.calls() < 2 {
        breath().await;
    }
    service.add(endpoint("other", other.address));
    channel.connected(2).await;
    other.seen.gate.add_permits(4);
    pods[0].kill().await;
    traffic.settled().await;
    assert_eq!(traffic.failures().len(), 1, "{:?}", traffic.failures());
    assert_eq!((pods[0].seen.calls(), other.seen.calls()), (2, 4));
}
