//! The identity in a client certificate.

use sha2::{Digest, Sha256};
use x509_parser::prelude::{FromDer, X509Certificate};
use x509_parser::x509::AttributeTypeAndValue;

use crate::distinguished_name;
use crate::user::User;

/// The key of the credential id in a user's extra fields.
const CREDENTIAL: &str = "authentication.kubernetes.io/credential-id";

/// The identity in a verified client certificate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PeerIdentity {
    /// The user name. A certificate with an empty one authenticates no user.
    pub common_name: String,
    /// The groups of the user.
    pub organizations: Vec<String>,
    /// The id of the certificate, such as `X509SHA256=8d05…`; empty if it is unknown.
    pub credential: String,
    /// Set if the certificate is not of a trusted authority.
    stranger: bool,
}

impl PeerIdentity {
    /// Creates the identity of a user, without a certificate.
    pub(crate) fn new(common_name: &str, organizations: &[&str]) -> Self {
        let organizations = organizations.iter().map(|&it| it.to_owned()).collect();
        Self { common_name: common_name.to_owned(), organizations, ..Self::default() }
    }

    /// Creates the identity of a client whose certificate is not trusted. It authenticates no user,
    /// and counts as an invalid credential.
    pub(crate) fn stranger() -> Self {
        Self { stranger: true, ..Self::default() }
    }

    pub(super) fn is_stranger(&self) -> bool {
        self.stranger
    }

    /// Reads the identity from a certificate, which must already be verified.
    ///
    /// Returns `None` if it is not a certificate.
    pub(crate) fn from_der(certificate: &[u8]) -> Option<Self> {
        let (_, parsed) = X509Certificate::from_der(certificate).ok()?;
        let text = |it: &AttributeTypeAndValue<'_>| distinguished_name::text(it).unwrap_or_default();
        let digest = Sha256::digest(certificate);
        let hex: String = digest.iter().map(|it| format!("{it:02x}")).collect();
        Some(Self {
            // The last one counts: `FillFromRDNSequence` in Go 1.26 crypto/x509/pkix/pkix.go.
            common_name: parsed.subject().iter_common_name().last().map(text).unwrap_or_default(),
            organizations: parsed.subject().iter_organization().map(text).collect(),
            credential: format!("X509SHA256={hex}"),
            stranger: false,
        })
    }

    /// Returns the user, if the certificate names one.
    pub(super) fn user(&self) -> Option<User> {
        if self.common_name.is_empty() {
            return None;
        }
        let groups: Vec<&str> = self.organizations.iter().map(String::as_str).collect();
        let mut user = User::named(&self.common_name, &groups);
        if !self.credential.is_empty() {
            user.extra.insert(CREDENTIAL.to_owned(), vec![self.credential.clone()]);
        }
        Some(user)
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, DnType, KeyPair};

    use super::*;

    fn certificate(names: &[(DnType, &str)]) -> Vec<u8> {
        let mut params = CertificateParams::default();
        params.distinguished_name = rcgen::DistinguishedName::new();
        for (kind, name) in names {
            params.distinguished_name.push(kind.clone(), *name);
        }
        params.self_signed(&KeyPair::generate().unwrap()).unwrap().der().to_vec()
    }

    #[test]
    fn the_common_name_is_the_user_and_the_organization_a_group() {
        let der = certificate(&[(DnType::OrganizationName, "system:masters"), (DnType::CommonName, "jane")]);
        let peer = PeerIdentity::from_der(&der).unwrap();
        assert_eq!(
            (peer.common_name.as_str(), peer.organizations.as_slice()),
            ("jane", &["system:masters".to_owned()][..])
        );
        let user = peer.user().unwrap();
        assert_eq!(user.groups, ["system:masters", "system:authenticated"]);
        assert!(user.extra[CREDENTIAL][0].starts_with("X509SHA256="), "{user:?}");
    }

    #[test]
    fn a_certificate_without_a_common_name_authenticates_no_user() {
        let peer =
            PeerIdentity::from_der(&certificate(&[(DnType::OrganizationName, "system:masters")])).unwrap();
        assert_eq!(peer.user(), None);
        assert_eq!(PeerIdentity::from_der(b"no certificate"), None);
    }
}
