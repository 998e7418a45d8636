//! Certificate authorities for one test, and the certificates they issue.

use dogwatch_client::config::{Identity, Pem};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose, date_time_ymd,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// A certificate authority with a fresh key.
pub(crate) struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
}

/// A certificate with its key, as PEM.
#[derive(Clone)]
pub(crate) struct Leaf {
    pub(crate) certificate: String,
    pub(crate) key: String,
}

impl Authority {
    pub(crate) fn new(name: &str) -> Self {
        let mut params = CertificateParams::new(vec![]).expect("no names");
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let key = KeyPair::generate().expect("a key");
        Self { issuer: CertifiedIssuer::self_signed(params, key).expect("a root certificate") }
    }

    /// Returns the root certificate, as in a kubeconfig.
    pub(crate) fn pem(&self) -> String {
        self.issuer.pem()
    }

    /// Issues a certificate for a server with these DNS names or IP addresses.
    pub(crate) fn server(&self, names: &[&str]) -> Leaf {
        self.issue(names, "server", ExtendedKeyUsagePurpose::ServerAuth, |_| {})
    }

    /// Issues a server certificate that expired on 1 February 2001.
    pub(crate) fn expired_server(&self, names: &[&str]) -> Leaf {
        self.issue(names, "server", ExtendedKeyUsagePurpose::ServerAuth, |params| {
            params.not_before = date_time_ymd(2001, 1, 1);
            params.not_after = date_time_ymd(2001, 2, 1);
        })
    }

    /// Issues a certificate for a client.
    pub(crate) fn client(&self, user: &str) -> Leaf {
        self.issue(&[], user, ExtendedKeyUsagePurpose::ClientAuth, |_| {})
    }

    fn issue(
        &self,
        names: &[&str],
        user: &str,
        usage: ExtendedKeyUsagePurpose,
        change: impl FnOnce(&mut CertificateParams),
    ) -> Leaf {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names).expect("valid names");
        params.distinguished_name.push(DnType::CommonName, user);
        params.extended_key_usages = vec![usage];
        change(&mut params);
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, &self.issuer).expect("a certificate");
        Leaf { certificate: certificate.pem(), key: key.serialize_pem() }
    }
}

impl Leaf {
    /// Returns it as in the settings of a client.
    pub(crate) fn identity(&self) -> Identity {
        Identity {
            certificate: Pem::Data(self.certificate.clone().into()),
            key: Pem::Data(self.key.clone().into()),
        }
    }

    pub(crate) fn certificate_der(&self) -> CertificateDer<'static> {
        CertificateDer::from_pem_slice(self.certificate.as_bytes()).expect("our own PEM")
    }

    pub(crate) fn key_der(&self) -> PrivateKeyDer<'static> {
        PrivateKeyDer::from_pem_slice(self.key.as_bytes()).expect("our own PEM")
    }
}
