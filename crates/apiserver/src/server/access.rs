//! Client access: TLS certificates and the administrator's token. Forks of a server share them.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use rand::Rng;
use rand::distr::Alphanumeric;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use secrecy::{ExposeSecret, SecretSlice, SecretString};

use super::error::StartError;
use crate::serving::{BoxError, Certificates, ClientCertificate, Tls};
use crate::upstream::{Dialer, KubeletTls, Reach};

/// The user of the server at kubelets, as kubeadm names it.
const KUBELET_CLIENT: &str = "kube-apiserver-kubelet-client";

/// The credentials and addresses by which clients reach the server.
pub(super) struct Access {
    token: Option<SecretString>,
    /// The name or address by which remote clients reach the server, if it differs from the listen
    /// address.
    advertised: Option<String>,
    tls: Option<TlsSetup>,
    /// The authorities of client certificates, as PEM.
    client_authorities: Option<String>,
}

/// The settings of connections to kubelets, pods and services.
#[derive(Clone, Debug, Default)]
pub(super) struct BackendAccess {
    pub(super) reach: Reach,
    /// The authorities that issue the certificates of kubelets, as PEM.
    pub(super) kubelet_authorities: Vec<Vec<u8>>,
}

/// A certificate for the server with its intermediate ones, and its private key, as PEM.
#[derive(Clone)]
pub(super) struct ServingCertificate {
    pub(super) chain: Vec<u8>,
    pub(super) key: SecretSlice<u8>,
}

impl ServingCertificate {
    fn read(&self) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), BoxError> {
        let chain: Vec<_> = CertificateDer::pem_slice_iter(&self.chain).collect::<Result<_, _>>()?;
        if chain.is_empty() {
            return Err("there is no certificate in it".into());
        }
        Ok((chain, PrivateKeyDer::from_pem_slice(self.key.expose_secret())?))
    }
}

/// Omits the key.
impl fmt::Debug for ServingCertificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServingCertificate").finish_non_exhaustive()
    }
}

/// The certificates and the TLS configuration.
struct TlsSetup {
    tls: Tls,
    certificates: Certificates,
    admin: ClientCertificate,
    /// The certificate that the server presents to kubelets.
    kubelet_client: ClientCertificate,
}

impl Access {
    pub(super) fn new(
        token: Option<SecretString>,
        tls_address: Option<IpAddr>,
        advertised: Option<String>,
        client_authorities: &[Vec<u8>],
        serving: Option<&ServingCertificate>,
    ) -> Result<Self, StartError> {
        if tls_address.is_none() && serving.is_some() {
            return Err(StartError::ServingCertificateWithoutTls);
        }
        let presented = serving.map(ServingCertificate::read).transpose();
        let presented = presented.map_err(StartError::ServingCertificate)?;
        if tls_address.is_none() && !client_authorities.is_empty() {
            return Err(StartError::ClientAuthorityWithoutTls);
        }
        let roots = roots(client_authorities).map_err(StartError::ClientAuthority)?;
        // Not the files themselves, which may have private keys too.
        let given: String = roots.iter().map(pem).collect();
        let secured = |address| -> Result<TlsSetup, BoxError> {
            let certificates = Certificates::throwaway_for(address, advertised.as_deref())?;
            let admin = certificates.client("admin", "system:masters")?;
            let kubelet_client = certificates.client(KUBELET_CLIENT, "system:masters")?;
            let server = presented.unwrap_or_else(|| certificates.server_der());
            Ok(TlsSetup { tls: Tls::new(server, &certificates, roots)?, certificates, admin, kubelet_client })
        };
        let tls = tls_address.map(secured).transpose().map_err(StartError::Tls)?;
        let client_authorities = tls.as_ref().map(|it| it.certificates.authority() + &given);
        Ok(Self { token, advertised, tls, client_authorities })
    }

    pub(super) fn token(&self) -> Option<&SecretString> {
        self.token.as_ref()
    }

    /// Returns the authorities whose client certificates are accepted, as PEM.
    pub(super) fn client_authorities(&self) -> Option<&str> {
        self.client_authorities.as_deref()
    }

    pub(super) fn tls(&self) -> Option<&Tls> {
        self.tls.as_ref().map(|it| &it.tls)
    }

    pub(super) fn certificates(&self) -> Option<&Certificates> {
        self.tls.as_ref().map(|it| &it.certificates)
    }

    pub(super) fn admin_certificate(&self) -> Option<&ClientCertificate> {
        self.tls.as_ref().map(|it| &it.admin)
    }

    /// Returns the dialer for kubelets, pods and services. Without TLS there is no authority that
    /// could issue a client certificate for kubelets.
    pub(super) fn dialer(&self, backends: &BackendAccess) -> Result<Dialer, StartError> {
        let authorities = roots(&backends.kubelet_authorities).map_err(StartError::KubeletAuthority)?;
        let read = |it: &TlsSetup| -> Result<_, BoxError> {
            let client = &it.kubelet_client;
            let certificate = CertificateDer::from_pem_slice(client.certificate.as_bytes())?;
            let key = PrivateKeyDer::from_pem_slice(client.key.expose_secret().as_bytes())?;
            Ok((vec![certificate], key))
        };
        let identity = self.tls.as_ref().map(read).transpose().map_err(StartError::Tls)?;
        let tls = KubeletTls { identity, authorities };
        Dialer::new(backends.reach, &tls).map_err(StartError::KubeletAuthority)
    }

    /// Returns the URL for clients of a server that listens on `address`: the advertised name, or
    /// else the address itself. For a server that listens on all addresses and advertises no name,
    /// this is the loopback address.
    pub(super) fn url(&self, address: SocketAddr) -> String {
        let ip = match address.ip() {
            IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
            IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
            ip => ip,
        };
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        let port = address.port();
        match &self.advertised {
            Some(host) if host.parse::<Ipv6Addr>().is_ok() => format!("{scheme}://[{host}]:{port}"),
            Some(host) => format!("{scheme}://{host}:{port}"),
            None => format!("{scheme}://{}", SocketAddr::new(ip, port)),
        }
    }
}

/// Reads the certificates of authorities.
fn roots(authorities: &[Vec<u8>]) -> Result<Vec<CertificateDer<'static>>, BoxError> {
    let mut roots = Vec::new();
    for pem in authorities {
        let before = roots.len();
        for certificate in CertificateDer::pem_slice_iter(pem) {
            roots.push(certificate?);
        }
        if roots.len() == before {
            return Err("there is no certificate in it".into());
        }
    }
    Ok(roots)
}

/// Returns a certificate as PEM.
fn pem(certificate: &CertificateDer<'_>) -> String {
    let encoded = BASE64_STANDARD.encode(certificate);
    let lines: Vec<&str> = (0..encoded.len())
        .step_by(64)
        .filter_map(|at| encoded.get(at..encoded.len().min(at.saturating_add(64))))
        .collect();
    format!("-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n", lines.join("\n"))
}

/// Generates a random token of 32 characters.
pub(super) fn random_token() -> SecretString {
    let token: String = rand::rng().sample_iter(Alphanumeric).take(32).map(char::from).collect();
    token.into()
}

/// Omits secrets.
impl fmt::Debug for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Access").field("tls", &self.tls.is_some()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_url_of_an_unspecified_address_is_the_loopback() {
        let plain = Access::new(None, None, None, &[], None).unwrap();
        let secured = Access::new(None, Some(Ipv4Addr::LOCALHOST.into()), None, &[], None).unwrap();
        for (address, url) in [
            ("127.0.0.1:80", "http://127.0.0.1:80"),
            ("0.0.0.0:80", "http://127.0.0.1:80"),
            ("[::]:80", "http://[::1]:80"),
            ("192.0.2.1:80", "http://192.0.2.1:80"),
        ] {
            let address = address.parse().unwrap();
            assert_eq!(plain.url(address), url);
            assert_eq!(secured.url(address), url.replace("http", "https"));
        }
    }

    #[test]
    fn the_advertised_name_is_in_the_url_and_must_fit_a_certificate() {
        let listens = "0.0.0.0:80".parse().unwrap();
        for (advertised, url) in [
            ("box.lan", "https://box.lan:80"),
            ("192.0.2.1", "https://192.0.2.1:80"),
            ("2001:db8::1", "https://[2001:db8::1]:80"),
        ] {
            let access =
                Access::new(None, Some(Ipv4Addr::UNSPECIFIED.into()), Some(advertised.into()), &[], None);
            assert_eq!(access.unwrap().url(listens), url);
        }
        let no_name =
            Access::new(None, Some(Ipv4Addr::UNSPECIFIED.into()), Some("b\u{f6}x".into()), &[], None);
        assert!(matches!(no_name, Err(StartError::Tls(_))));
    }

    #[test]
    fn authorities_of_clients_are_published_and_must_be_certificates() {
        let loopback = Some(Ipv4Addr::LOCALHOST.into());
        let other = Certificates::throwaway(Ipv4Addr::LOCALHOST.into()).unwrap().authority();
        let key = "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n";
        let file = format!("{key}{other}").into_bytes();
        let access = Access::new(None, loopback, None, &[file], None).unwrap();
        let published = access.client_authorities().unwrap();
        assert!(published.ends_with(&other) && published.matches("BEGIN CERTIFICATE").count() == 2);
        assert!(!published.contains("PRIVATE"));
        let plain = Access::new(None, None, None, &[other.into_bytes()], None);
        assert!(matches!(plain, Err(StartError::ClientAuthorityWithoutTls)));
        for pem in ["", "-----BEGIN CERTIFICATE-----\n"] {
            let broken = Access::new(None, loopback, None, &[pem.as_bytes().to_vec()], None);
            assert!(matches!(broken, Err(StartError::ClientAuthority(_))), "{pem:?}");
        }
    }

    #[test]
    fn the_authority_of_kubelets_must_be_a_certificate() {
        let access = Access::new(None, None, None, &[], None).unwrap();
        let with = |pem: &[u8]| {
            let backends =
                BackendAccess { kubelet_authorities: vec![pem.to_vec()], ..BackendAccess::default() };
            access.dialer(&backends)
        };
        let other = Certificates::throwaway(Ipv4Addr::LOCALHOST.into()).unwrap().authority();
        assert!(with(other.as_bytes()).is_ok());
        for pem in ["", "-----BEGIN CERTIFICATE-----\n"] {
            assert!(matches!(with(pem.as_bytes()), Err(StartError::KubeletAuthority(_))), "{pem:?}");
        }
    }

    #[test]
    fn a_given_certificate_needs_tls_a_certificate_and_a_key() {
        let loopback = Some(Ipv4Addr::LOCALHOST.into());
        let other = Certificates::throwaway(Ipv4Addr::LOCALHOST.into()).unwrap();
        let pair = other.client("server", "").unwrap();
        let given = |chain: &str, key: &str| ServingCertificate {
            chain: chain.as_bytes().to_vec(),
            key: key.as_bytes().to_vec().into(),
        };
        let good = given(&pair.certificate, pair.key.expose_secret());
        assert!(Access::new(None, loopback, None, &[], Some(&good)).is_ok());
        assert!(!format!("{good:?}").contains("PRIVATE"));
        let plain = Access::new(None, None, None, &[], Some(&good));
        assert!(matches!(plain, Err(StartError::ServingCertificateWithoutTls)));
        for (chain, key) in [("", pair.key.expose_secret()), (&*pair.certificate, ""), ("x", "y")] {
            let broken = Access::new(None, loopback, None, &[], Some(&given(chain, key)));
            assert!(matches!(broken, Err(StartError::ServingCertificate(_))), "{chain:?}");
        }
    }
}
