//! Certificates for one run of the server: a certificate authority, the server's own certificate,
//! and any number of client certificates.

use std::fmt;
use std::net::IpAddr;

use jiff::{Span, Timestamp, Zoned, tz::TimeZone};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose, date_time_ymd,
};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use secrecy::SecretString;

/// The names and addresses in every server certificate.
const NAMES: [&str; 7] = [
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
    "127.0.0.1",
    "::1",
];

/// A certificate authority and the server's own certificate, generated for one run and never
/// written to disk.
pub struct Certificates {
    authority: CertifiedIssuer<'static, KeyPair>,
    server: CertificateDer<'static>,
    server_key: PrivatePkcs8KeyDer<'static>,
}

/// A client certificate with its private key, as PEM.
#[derive(Clone, Debug)]
pub struct ClientCertificate {
    /// The certificate.
    pub certificate: String,
    /// The private key.
    pub key: SecretString,
}

impl Certificates {
    /// Generates them. `address` is put into the server's certificate, besides the loopback
    /// addresses.
    ///
    /// # Errors
    ///
    /// Returns an error if the system has no randomness for keys.
    pub fn throwaway(address: IpAddr) -> Result<Self, rcgen::Error> {
        Self::throwaway_for(address, None)
    }

    /// Generates them for one more name or address.
    ///
    /// # Errors
    ///
    /// Returns an error if the system has no randomness for keys, or if the name is not valid in a
    /// certificate.
    pub fn throwaway_for(address: IpAddr, name: Option<&str>) -> Result<Self, rcgen::Error> {
        let mut params = params(&[], "dogwatch")?;
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let authority = CertifiedIssuer::self_signed(params, KeyPair::generate()?)?;

        let mut names: Vec<String> = NAMES.map(str::to_owned).to_vec();
        let address = address.to_canonical();
        if !address.is_unspecified() && !address.is_loopback() {
            names.push(address.to_string());
        }
        names.extend(name.filter(|it| !NAMES.contains(it)).map(str::to_owned));
        let mut params = params_of_leaf(&names, "kubernetes", ExtendedKeyUsagePurpose::ServerAuth)?;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        let key = KeyPair::generate()?;
        let server = params.signed_by(&key, &authority)?.der().clone();
        Ok(Self { authority, server, server_key: PrivatePkcs8KeyDer::from(key.serialize_der()) })
    }

    /// Returns the certificate of the authority, as PEM.
    pub fn authority(&self) -> String {
        self.authority.pem()
    }

    /// Issues a certificate for a user in one group, or in none if `group` is empty.
    ///
    /// # Errors
    ///
    /// Returns an error if the system has no randomness for a key, or if a name is not valid in a
    /// certificate.
    pub fn client(&self, user: &str, group: &str) -> Result<ClientCertificate, rcgen::Error> {
        let mut params = params_of_leaf(&[], user, ExtendedKeyUsagePurpose::ClientAuth)?;
        if !group.is_empty() {
            params.distinguished_name.push(DnType::OrganizationName, group);
        }
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &self.authority)?.pem();
        Ok(ClientCertificate { certificate, key: key.serialize_pem().into() })
    }

    pub(crate) fn authority_der(&self) -> CertificateDer<'static> {
        self.authority.der().clone()
    }

    /// Returns the server's certificate and its private key.
    pub fn server_der(&self) -> (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>) {
        (vec![self.server.clone()], PrivateKeyDer::Pkcs8(self.server_key.clone_key()))
    }
}

/// Omits the keys.
impl fmt::Debug for Certificates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Certificates").finish_non_exhaustive()
    }
}

fn params_of_leaf(
    names: &[String],
    common_name: &str,
    usage: ExtendedKeyUsagePurpose,
) -> Result<CertificateParams, rcgen::Error> {
    let mut params = params(names, common_name)?;
    params.extended_key_usages = vec![usage];
    Ok(params)
}

/// Returns parameters valid from yesterday, because clocks differ, for a year.
fn params(names: &[String], common_name: &str) -> Result<CertificateParams, rcgen::Error> {
    let mut params = CertificateParams::new(names)?;
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, common_name);
    let now = Timestamp::now().to_zoned(TimeZone::UTC);
    let date = |from_now: Span| {
        let date: Zoned = now.saturating_add(from_now);
        date_time_ymd(i32::from(date.year()), date.month().unsigned_abs(), date.day().unsigned_abs())
    };
    params.not_before = date(Span::new().days(-1));
    params.not_after = date(Span::new().years(1));
    Ok(params)
}

#[cfg(test)]
mod tests {
    use x509_parser::prelude::{FromDer, X509Certificate};

    use super::*;
    use crate::auth::PeerIdentity;

    #[test]
    fn a_client_certificate_names_its_user_and_group() {
        let certificates = Certificates::throwaway([192, 0, 2, 1].into()).unwrap();
        let made = certificates.client("jane", "devs").unwrap();
        let der = <CertificateDer<'_> as rustls::pki_types::pem::PemObject>::from_pem_slice(
            made.certificate.as_bytes(),
        );
        let peer = PeerIdentity::from_der(&der.unwrap()).unwrap();
        assert_eq!(
            (peer.common_name.as_str(), peer.organizations.as_slice()),
            ("jane", &["devs".to_owned()][..])
        );
    }

    #[test]
    fn the_server_certificate_has_the_advertised_name() {
        for (advertised, expected) in
            [("box.lan", "DNSName(\"box.lan\")"), ("192.0.2.9", "IPAddress([192, 0, 2, 9])")]
        {
            let certificates = Certificates::throwaway_for([0, 0, 0, 0].into(), Some(advertised)).unwrap();
            let (chain, _) = certificates.server_der();
            let (_, certificate) = X509Certificate::from_der(&chain[0]).unwrap();
            let names = certificate.subject_alternative_name().unwrap().unwrap();
            let names = format!("{:?}", names.value.general_names);
            assert!(names.contains(expected) && names.contains("\"localhost\""), "{names}");
        }
    }

    #[test]
    fn keys_are_not_shown() {
        let certificates = Certificates::throwaway([127, 0, 0, 1].into()).unwrap();
        let made = certificates.client("jane", "").unwrap();
        assert!(!format!("{made:?} {certificates:?}").contains("PRIVATE"));
    }
}
