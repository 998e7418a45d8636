//! TLS of the endpoint: the certificate that the proxy presents, and the client certificates that
//! it accepts. Files are read again while the proxy runs.
//!
//! A handshake uses the certificates that were read last. Files that cannot be used are reported,
//! and the previous certificates stay.

use std::fmt;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use dogwatch_apiserver::Certificates;
use parking_lot::Mutex;
use rustls::crypto::ring;
use rustls::pki_types::UnixTime;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::{RootCertStore, ServerConfig};
use sha2::{Digest, Sha256};
use tokio_rustls::TlsAcceptor;

use crate::error::StartError;

/// The application protocols (ALPN), in order of preference.
const PROTOCOLS: [&[u8]; 2] = [b"h2", b"http/1.1"];

/// The interval at which files are read again.
pub(crate) const RELOAD_INTERVAL: Duration = Duration::from_secs(10);

/// The certificate that the proxy presents.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ServerCertificate {
    /// One that the proxy generates, with an authority of its own, for its address and this name.
    Generated {
        /// A further name or address of the proxy.
        name: Option<String>,
    },
    /// One in files, which are read again when they change.
    Files {
        /// The file with the certificate and those of intermediate authorities.
        certificate: PathBuf,
        /// The file with the private key.
        key: PathBuf,
    },
}

/// The TLS configuration of the endpoint, which changes with its files.
pub(crate) struct Tls {
    source: Source,
    client_authority: Option<PathBuf>,
    current: ArcSwap<Current>,
    /// The digest of the files that `current` was made of.
    digest: Mutex<[u8; 32]>,
}

/// The settings of the next handshake.
struct Current {
    config: Arc<ServerConfig>,
    /// Verifies the certificates of clients; `None` if none are accepted.
    clients: Option<Arc<dyn ClientCertVerifier>>,
}

enum Source {
    Generated(Box<Certificates>),
    Files { certificate: PathBuf, key: PathBuf },
}

/// The text of all files.
struct Files {
    certificate: Vec<u8>,
    key: Vec<u8>,
    client_authority: Vec<u8>,
}

impl Tls {
    /// Generates or reads the certificates.
    pub(crate) fn new(
        certificate: &ServerCertificate,
        address: IpAddr,
        client_authority: Option<PathBuf>,
    ) -> Result<Self, StartError> {
        let source = match certificate {
            ServerCertificate::Generated { name } => {
                let made = Certificates::throwaway_for(address, name.as_deref());
                Source::Generated(Box::new(made.map_err(|error| StartError::Certificate(error.to_string()))?))
            }
            ServerCertificate::Files { certificate, key } => {
                Source::Files { certificate: certificate.clone(), key: key.clone() }
            }
        };
        let files = source.read(client_authority.as_deref())?;
        let config = source.config(&files, client_authority.is_some())?;
        Ok(Self {
            source,
            client_authority,
            current: ArcSwap::from_pointee(config),
            digest: Mutex::new(files.digest()),
        })
    }

    /// Returns the acceptor for the next handshake.
    pub(crate) fn acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::from(Arc::clone(&self.current.load().config))
    }

    /// Returns true if a client's certificates are valid now, by the authority that was read last.
    /// The handshake was at another time, and may have resumed an older session.
    pub(crate) fn is_valid(&self, chain: &[CertificateDer<'_>]) -> bool {
        let current = self.current.load();
        let (Some(clients), Some((own, others))) = (&current.clients, chain.split_first()) else {
            return false;
        };
        clients.verify_client_cert(own, others, UnixTime::now()).is_ok()
    }

    /// Returns the certificate of the generated authority, as PEM.
    pub(crate) fn authority(&self) -> Option<String> {
        match &self.source {
            Source::Generated(certificates) => Some(certificates.authority()),
            Source::Files { .. } => None,
        }
    }

    /// Returns true if there are files that may change.
    pub(crate) fn has_files(&self) -> bool {
        self.client_authority.is_some() || matches!(self.source, Source::Files { .. })
    }

    /// Reads the files again; returns true if the next handshake uses others.
    pub(crate) fn reload(&self) -> Result<bool, StartError> {
        let files = self.source.read(self.client_authority.as_deref())?;
        let digest = files.digest();
        if *self.digest.lock() == digest {
            return Ok(false);
        }
        let config = self.source.config(&files, self.client_authority.is_some())?;
        self.current.store(Arc::new(config));
        *self.digest.lock() = digest;
        Ok(true)
    }

    /// Reads the files again from time to time.
    pub(crate) async fn follow_files(self: Arc<Self>) {
        loop {
            tokio::time::sleep(RELOAD_INTERVAL).await;
            let this = Arc::clone(&self);
            match tokio::task::spawn_blocking(move || this.reload()).await {
                Ok(Ok(true)) => tracing::info!("certificates were read again"),
                Ok(Ok(false)) | Err(_) => {}
                Ok(Err(error)) => {
                    let cause: &dyn std::error::Error = &error;
                    tracing::warn!(error = cause, "the previous certificates stay in use");
                }
            }
        }
    }
}

impl Source {
    fn read(&self, client_authority: Option<&Path>) -> Result<Files, StartError> {
        let (certificate, key) = match self {
            Self::Generated(_) => Default::default(),
            Self::Files { certificate, key } => (read(certificate)?, read(key)?),
        };
        let client_authority = client_authority.map(read).transpose()?.unwrap_or_default();
        Ok(Files { certificate, key, client_authority })
    }

    fn config(&self, files: &Files, has_clients: bool) -> Result<Current, StartError> {
        let provider = Arc::new(ring::default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|error| StartError::Certificate(error.to_string()))?;
        let mut clients = None;
        let builder = if has_clients {
            let mut roots = RootCertStore::empty();
            for root in certificates(&files.client_authority, "the file of the client authority")? {
                roots.add(root).map_err(|error| StartError::Certificate(error.to_string()))?;
            }
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
            // Callers with tokens have no certificate.
            let verifier = verifier.allow_unauthenticated().build();
            let verifier = verifier.map_err(|error| StartError::Certificate(error.to_string()))?;
            clients = Some(Arc::clone(&verifier));
            builder.with_client_cert_verifier(verifier)
        } else {
            builder.with_no_client_auth()
        };
        let (chain, key) = match self {
            Self::Generated(certificates) => certificates.server_der(),
            Self::Files { certificate, key } => {
                let of_key =
                    |_| StartError::Certificate(format!("{} has no private key in PEM", key.display()));
                let private = PrivateKeyDer::from_pem_slice(&files.key).map_err(of_key)?;
                (certificates(&files.certificate, &certificate.display().to_string())?, private)
            }
        };
        let mut config = builder
            .with_single_cert(chain, key)
            .map_err(|error| StartError::Certificate(format!("certificate and key do not fit: {error}")))?;
        config.alpn_protocols = PROTOCOLS.map(<[u8]>::to_vec).to_vec();
        Ok(Current { config: Arc::new(config), clients })
    }
}

impl Files {
    fn digest(&self) -> [u8; 32] {
        let mut hash = Sha256::new();
        for text in [&self.certificate, &self.key, &self.client_authority] {
            hash.update((text.len() as u64).to_le_bytes());
            hash.update(text);
        }
        hash.finalize().into()
    }
}

fn read(path: &Path) -> Result<Vec<u8>, StartError> {
    std::fs::read(path).map_err(|source| StartError::File { path: path.to_owned(), source })
}

fn certificates(pem: &[u8], name: &str) -> Result<Vec<CertificateDer<'static>>, StartError> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match found {
        Ok(found) if !found.is_empty() => Ok(found),
        _ => Err(StartError::Certificate(format!("{name} has no certificate in PEM"))),
    }
}

/// Omits the keys.
impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").field("client_authority", &self.client_authority).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, KeyPair};

    use super::*;

    fn write_pair(folder: &Path) -> ServerCertificate {
        let key = KeyPair::generate().unwrap();
        let certificate =
            CertificateParams::new(["localhost".to_owned()]).unwrap().self_signed(&key).unwrap();
        std::fs::write(folder.join("tls.crt"), certificate.pem()).unwrap();
        std::fs::write(folder.join("tls.key"), key.serialize_pem()).unwrap();
        ServerCertificate::Files { certificate: folder.join("tls.crt"), key: folder.join("tls.key") }
    }

    #[test]
    fn changed_files_are_used_and_unusable_ones_are_not() {
        let folder = tempfile::tempdir().unwrap();
        let files = write_pair(folder.path());
        let tls = Tls::new(&files, [127, 0, 0, 1].into(), None).unwrap();
        let first = Arc::as_ptr(&tls.current.load_full());
        assert!(!tls.reload().unwrap(), "nothing has changed");
        std::fs::write(folder.path().join("tls.crt"), "half a fi").unwrap();
        let error = tls.reload().unwrap_err().to_string();
        assert!(error.contains("tls.crt has no certificate"), "{error}");
        assert_eq!(Arc::as_ptr(&tls.current.load_full()), first);
        write_pair(folder.path());
        assert!(tls.reload().unwrap());
        assert_ne!(Arc::as_ptr(&tls.current.load_full()), first);
    }

    #[test]
    fn a_client_certificate_is_valid_until_it_expires_or_its_authority_is_gone() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("clients.crt");
        let (authority, other) = (Authority::new(), Authority::new());
        std::fs::write(&file, authority.pem()).unwrap();
        let generated = ServerCertificate::Generated { name: None };
        let tls = Tls::new(&generated, [127, 0, 0, 1].into(), Some(file.clone())).unwrap();
        let (valid, expired) = (authority.client(2100), authority.client(2001));
        assert!(tls.is_valid(std::slice::from_ref(&valid)));
        assert!(!tls.is_valid(&[expired]) && !tls.is_valid(&[other.client(2100)]) && !tls.is_valid(&[]));
        std::fs::write(&file, other.pem()).unwrap();
        assert!(tls.reload().unwrap());
        assert!(!tls.is_valid(&[valid]));
    }

    /// An authority of client certificates.
    struct Authority(rcgen::CertifiedIssuer<'static, KeyPair>);

    impl Authority {
        fn new() -> Self {
            let mut params = CertificateParams::default();
            params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
            Self(rcgen::CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
        }

        fn pem(&self) -> String {
            self.0.pem()
        }

        /// Returns a certificate that is valid until a year begins.
        fn client(&self, until: i32) -> CertificateDer<'static> {
            let mut params = CertificateParams::default();
            params.not_before = rcgen::date_time_ymd(2000, 1, 1);
            params.not_after = rcgen::date_time_ymd(until, 1, 1);
            params.extended_key_usages = vec![rcgen::ExtendedKeyUsagePurpose::ClientAuth];
            params.signed_by(&KeyPair::generate().unwrap(), &self.0).unwrap().der().clone()
        }
    }

    #[test]
    fn a_missing_file_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let authority = Some(folder.path().join("clients.crt"));
        let generated = ServerCertificate::Generated { name: None };
        let error = Tls::new(&generated, [127, 0, 0, 1].into(), authority).unwrap_err();
        assert!(error.to_string().contains("clients.crt"), "{error}");
    }
}
