//! TLS with the service's name, although pods are dialled by address.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use dogwatch_grpc::{ConnectionState, KubeChannel};
use rcgen::{CertificateParams, KeyPair};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use tonic::Code;
use tonic::transport::{Identity, ServerTlsConfig};

use crate::echo::EchoClient;
use crate::manual_clock::{ManualClock, in_time};
use crate::pods::{Pod, Service, calls_begun, connected, endpoint, until};
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

async fn pod_with_tls(tls: ServerTlsConfig) -> Pod {
    Pod::with(|it| it.tls_config(tls).unwrap(), |it| it).await
}

#[tokio::test]
async fn a_certificate_for_the_service_is_valid_for_its_pods() {
    let Certified { server, client } = certified("echo.test");
    let pods = [pod_with_tls(server).await];
    let service = Service::of(&pods);
    let channel =
        KubeChannel::builder(service.receiver()).authority("echo.test").tls(client).build().unwrap();
    assert_eq!(EchoClient::new(&channel).one("hello").await.unwrap().text, "hello");
    assert_eq!(*pods[0].seen.authority.lock().unwrap(), "echo.test");
}

#[tokio::test]
async fn a_certificate_for_another_name_is_rejected_with_the_reason() {
    let Certified { server, client } = certified("other.test");
    let pods = [pod_with_tls(server).await];
    let service = Service::of(&pods);
    let builder = KubeChannel::builder(service.receiver()).authority("echo.test").tls(client);
    let channel = builder.ready_timeout(Duration::ZERO).build().unwrap();
    until(&channel, |it| it.endpoints().first().is_some_and(|it| it.error.is_some())).await;
    let status = EchoClient::new(&channel).one("hello").await.unwrap_err();
    assert_eq!(status.code(), Code::Unavailable);
    assert!(status.message().contains("TLS with 127.0.0.1"), "{}", status.message());
    assert!(status.message().contains("certificate"), "{}", status.message());
}

/// Sends frames of several calls, and messages of many frames, on connections whose TLS records are
/// independent of both.
async fn messages_of_all_sizes_at_once() {
    let Certified { server, client } = certified("echo.test");
    let pods = [pod_with_tls(server.clone()).await, pod_with_tls(server).await];
    let service = Service::of(&pods);
    let channel =
        KubeChannel::builder(service.receiver()).authority("echo.test").tls(client).build().unwrap();
    connected(&channel, 2).await;
    let sizes = [0, 1, 1_000, 8_191, 8_192, 16_383, 16_384, 16_385, 70_000, 300_000, 3 << 20];
    let calls: Vec<_> = (0..6 * sizes.len())
        .map(|number| {
            let (client, size) = (EchoClient::new(&channel), sizes[number % sizes.len()]);
            tokio::spawn(async move {
                for round in 0..3 {
                    let letter = char::from(b'a' + ((number + round) % 26) as u8);
                    let text = letter.to_string().repeat(size);
                    let answer =
                        in_time(client.one(&text), || format!("{size} bytes under TLS")).await.unwrap();
                    assert!(answer.text == text, "{} of {size} bytes", answer.text.len());
                }
            })
        })
        .collect();
    for call in calls {
        call.await.unwrap();
    }
    assert!(channel.endpoints().iter().all(|it| it.failures == 0));
    until(&channel, |it| it.endpoints().iter().all(|it| it.in_flight == 0)).await;
}

#[tokio::test]
async fn concurrent_messages_of_all_sizes_arrive_unchanged() {
    messages_of_all_sizes_at_once().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_messages_of_all_sizes_arrive_unchanged_on_many_threads() {
    messages_of_all_sizes_at_once().await;
}

/// A certificate verifier that panics the first time, and rejects every certificate after that.
#[derive(Debug)]
struct Panicking(AtomicUsize, CryptoProvider);

impl ServerCertVerifier for Panicking {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        assert!(self.0.fetch_add(1, Ordering::SeqCst) > 0, "the first verification panics");
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signature, &self.1.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signature, &self.1.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.1.signature_verification_algorithms.supported_schemes()
    }
}

/// User code runs in the task of an endpoint. A panic is one failed attempt, and not the end of the
/// endpoint.
#[tokio::test]
async fn an_endpoint_whose_task_panics_is_connected_again() {
    let clock = ManualClock::begin();
    let Certified { server, mut client } = certified("echo.test");
    let provider = rustls::crypto::ring::default_provider();
    let verifier = Arc::new(Panicking(AtomicUsize::new(0), provider));
    client.dangerous().set_certificate_verifier(Arc::clone(&verifier) as Arc<dyn ServerCertVerifier>);
    let pods = [pod_with_tls(server).await];
    let service = Service::of(&pods);
    let channel =
        KubeChannel::builder(service.receiver()).authority("echo.test").tls(client).build().unwrap();
    until(&channel, |it| it.endpoints().first().is_some_and(|it| it.error.is_some())).await;
    assert_eq!(channel.endpoints()[0].error.as_deref(), Some("the endpoint's task panicked"));
    assert_eq!(channel.endpoints()[0].state, ConnectionState::Backoff);
    clock.until(|| channel.ready_endpoints() == 1).await;
    assert_eq!(EchoClient::new(&channel).one("hello").await.unwrap().text, "hello");
    assert_eq!(verifier.0.load(Ordering::SeqCst), 2);
}

/// Sent streams are tracked under TLS too: calls queued behind the lost one go elsewhere.
#[tokio::test]
async fn queued_calls_on_a_tls_connection_that_breaks_go_elsewhere() {
    let Certified { server, client } = certified("echo.test");
    let (limited, other) = (server.clone(), pod_with_tls(server).await);
    let tls = |it: tonic::transport::Server| it.tls_config(limited).unwrap().max_concurrent_streams(1);
    let mut pods = [Pod::with(tls, |it| it).await];
    let service = Service::of(&pods);
    let channel =
        KubeChannel::builder(service.receiver()).authority("echo.test").tls(client).build().unwrap();
    connected(&channel, 1).await;
    let traffic = Traffic::new(EchoClient::new(&channel), "wait");
    traffic.issue(6);
    until(&channel, |it| it.endpoints()[0].in_flight == 6).await;
    calls_begun(&pods, 1).await;
    pods[0].seen.gate.add_permits(1);
    traffic.reaches(1).await;
    calls_begun(&pods, 2).await;
    service.add(endpoint("other", other.address));
    connected(&channel, 2).await;
    other.seen.gate.add_permits(4);
    pods[0].kill().await;
    traffic.settled().await;
    assert_eq!(traffic.failures().len(), 1, "{:?}", traffic.failures());
    assert_eq!((pods[0].seen.calls(), other.seen.calls()), (2, 4));
}
