//! TLS by the service's name, although pods are dialled by address.

use std::sync::Arc;
use std::time::Duration;

use dogwatch_grpc::KubeChannel;
use rcgen::{CertificateParams, KeyPair};
use rustls::{ClientConfig, RootCertStore};
use tonic::Code;
use tonic::transport::{Identity, ServerTlsConfig};

use crate::echo::EchoClient;
use crate::pods::{Pod, Service, until};

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
