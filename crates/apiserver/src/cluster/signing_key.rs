//! Keys that sign and verify JSON Web Tokens: read from PEM, published as JSON Web Keys.

use std::fmt;
use std::sync::Arc;

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use ring::rand::SystemRandom;
use ring::rsa::PublicKeyComponents;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P256_SHA256_FIXED_SIGNING, ED25519, EcdsaKeyPair, Ed25519KeyPair, KeyPair,
    RSA_PKCS1_2048_8192_SHA256, RSA_PKCS1_SHA256, RsaKeyPair, UnparsedPublicKey,
};
use rustls::pki_types::pem::{PemObject, SectionKind};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use x509_parser::prelude::{FromDer, X509Certificate};
use x509_parser::public_key::PublicKey;
use x509_parser::x509::SubjectPublicKeyInfo;

/// The DER prefix of an Ed25519 public key: the `SubjectPublicKeyInfo` of RFC 8410 without the key
/// itself.
const ED25519_PREFIX: [u8; 12] = [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];
/// The same for a point of the curve P-256 (RFC 5480).
const P256_PREFIX: [u8; 26] = [
    0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a, 0x86,
    0x48, 0xce, 0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00,
];
/// The algorithm of an RSA key in DER (RFC 3279).
const RSA_ALGORITHM: [u8; 15] =
    [0x30, 0x0d, 0x06, 0x09, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01, 0x05, 0x00];
/// The version and the algorithm of a private key of P-256 in PKCS #8 (RFC 5208).
const P256_PKCS8: [u8; 24] = [
    0x02, 0x01, 0x00, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a,
    0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07,
];

/// The keys for the tokens of service accounts: one that signs them, and those that verify them.
///
/// Keys are PEM: RSA keys of at least 2048 bits, P-256 keys and Ed25519 keys.
///
/// ```no_run
/// use dogwatch_apiserver::{ApiServer, ServiceAccountKeys};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let keys = ServiceAccountKeys::signing(&std::fs::read("sa.key")?)?.also_accepting(&std::fs::read("old.pub")?)?;
/// let server = ApiServer::builder().service_account_keys(keys).start().await?;
/// # server.stop().await;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct ServiceAccountKeys {
    pub(super) signer: Arc<SigningKey>,
    pub(super) verifiers: Vec<VerifyingKey>,
}

/// A text that has no key which can sign or verify tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub struct InvalidKey {
    why: &'static str,
}

impl ServiceAccountKeys {
    /// Reads a private key, which signs tokens and verifies them.
    ///
    /// # Errors
    /// Returns an error if there is no private key of a supported algorithm.
    pub fn signing(pem: &[u8]) -> Result<Self, InvalidKey> {
        let signer = private_keys(pem)?.next();
        let signer = signer.ok_or(InvalidKey { why: "there is no private key in it" })?;
        Ok(Self::of(signer))
    }

    /// Adds the keys of a text, public or private ones or certificates. They verify tokens only.
    ///
    /// # Errors
    /// Returns an error if there is no key of a supported algorithm.
    pub fn also_accepting(mut self, pem: &[u8]) -> Result<Self, InvalidKey> {
        let before = self.verifiers.len();
        self.verifiers.extend(private_keys(pem)?.map(|it| it.verifying()));
        for (kind, der) in sections(pem) {
            match kind {
                SectionKind::PublicKey => self.verifiers.push(VerifyingKey::from_spki(&der)?),
                SectionKind::Certificate => {
                    let (_, certificate) = X509Certificate::from_der(&der)
                        .map_err(|_| InvalidKey { why: "it has a malformed certificate" })?;
                    self.verifiers.push(VerifyingKey::from_spki(certificate.public_key().raw)?);
                }
                _ => {}
            }
        }
        if self.verifiers.len() == before {
            return Err(InvalidKey { why: "there is no key in it" });
        }
        Ok(self)
    }

    /// Returns the keys of a server that verifies the tokens that it signs.
    pub(super) fn of(signer: SigningKey) -> Self {
        Self { verifiers: vec![signer.verifying()], signer: Arc::new(signer) }
    }
}

/// Returns the sections of a PEM text, up to the first malformed one.
fn sections(pem: &[u8]) -> impl Iterator<Item = (SectionKind, Vec<u8>)> {
    <(SectionKind, Vec<u8>)>::pem_slice_iter(pem).map_while(Result::ok)
}

/// Returns the private keys of a PEM text.
fn private_keys(pem: &[u8]) -> Result<impl Iterator<Item = SigningKey>, InvalidKey> {
    let keys = sections(pem).filter_map(|(kind, der)| SigningKey::read(kind, &der));
    Ok(keys.collect::<Result<Vec<_>, _>>()?.into_iter())
}

/// A private key.
pub(super) enum SigningKey {
    Ed25519(Ed25519KeyPair),
    P256(EcdsaKeyPair),
    Rsa(RsaKeyPair),
}

/// Omits the key.
impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SigningKey").field(&self.algorithm()).finish()
    }
}

impl SigningKey {
    /// Reads a private key in DER; returns `None` for a section that has none.
    fn read(kind: SectionKind, der: &[u8]) -> Option<Result<Self, InvalidKey>> {
        const UNUSABLE: InvalidKey = InvalidKey {
            why: "its private key is not an RSA key of 2048 to 4096 bits, a P-256 key or an Ed25519 key",
        };
        let p256 = |der: &[u8]| {
            EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, der, &SystemRandom::new())
                .map(Self::P256)
        };
        match kind {
            SectionKind::RsaPrivateKey => {
                Some(RsaKeyPair::from_der(der).map(Self::Rsa).map_err(|_| UNUSABLE))
            }
            SectionKind::EcPrivateKey => Some(p256(&pkcs8_of_p256(der)).map_err(|_| UNUSABLE)),
            SectionKind::PrivateKey => Some(
                RsaKeyPair::from_pkcs8(der)
                    .map(Self::Rsa)
                    .or_else(|_| p256(der))
                    .or_else(|_| Ed25519KeyPair::from_pkcs8_maybe_unchecked(der).map(Self::Ed25519))
                    .map_err(|_| UNUSABLE),
            ),
            _ => None,
        }
    }

    /// Returns the name of the algorithm (RFC 7518, RFC 8037).
    pub(super) fn algorithm(&self) -> &'static str {
        match self {
            Self::Ed25519(_) => "EdDSA",
            Self::P256(_) => "ES256",
            Self::Rsa(_) => "RS256",
        }
    }

    /// Signs a text.
    ///
    /// # Panics
    /// Panics if the operating system has no randomness.
    pub(super) fn sign(&self, message: &[u8]) -> Vec<u8> {
        let random = SystemRandom::new();
        match self {
            Self::Ed25519(key) => key.sign(message).as_ref().to_vec(),
            Self::P256(key) => {
                key.sign(&random, message).expect("the operating system has randomness").as_ref().to_vec()
            }
            Self::Rsa(key) => {
                let mut signature = vec![0; key.public().modulus_len()];
                key.sign(&RSA_PKCS1_SHA256, &random, message, &mut signature)
                    .expect("the buffer has the length of the modulus");
                signature
            }
        }
    }

    /// Returns the public key.
    pub(super) fn verifying(&self) -> VerifyingKey {
        match self {
            Self::Ed25519(key) => VerifyingKey::Ed25519(key.public_key().as_ref().to_vec()),
            Self::P256(key) => VerifyingKey::P256(key.public_key().as_ref().to_vec()),
            Self::Rsa(key) => {
                let PublicKeyComponents { n, e } = PublicKeyComponents::<Vec<u8>>::from(key.public());
                VerifyingKey::Rsa { der: key.public().as_ref().to_vec(), modulus: n, exponent: e }
            }
        }
    }
}

/// A public key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum VerifyingKey {
    Ed25519(Vec<u8>),
    /// The uncompressed point.
    P256(Vec<u8>),
    Rsa {
        /// The key as PKCS #1.
        der: Vec<u8>,
        modulus: Vec<u8>,
        exponent: Vec<u8>,
    },
}

impl VerifyingKey {
    fn from_spki(der: &[u8]) -> Result<Self, InvalidKey> {
        const UNUSABLE: InvalidKey =
            InvalidKey { why: "its public key is not an RSA key, a P-256 key or an Ed25519 key" };
        let (_, info) = SubjectPublicKeyInfo::from_der(der).map_err(|_| UNUSABLE)?;
        let key = info.subject_public_key.data.to_vec();
        if der.starts_with(&ED25519_PREFIX) {
            return Ok(Self::Ed25519(key));
        }
        if der.starts_with(&P256_PREFIX) && key.len() == 65 {
            return Ok(Self::P256(key));
        }
        match info.parsed() {
            Ok(PublicKey::RSA(rsa)) => Ok(Self::Rsa {
                modulus: without_leading_zeros(rsa.modulus),
                exponent: without_leading_zeros(rsa.exponent),
                der: key,
            }),
            _ => Err(UNUSABLE),
        }
    }

    /// Returns true if the signature of a text is one by this key.
    pub(super) fn verifies(&self, message: &[u8], signature: &[u8]) -> bool {
        let verified = match self {
            Self::Ed25519(key) => UnparsedPublicKey::new(&ED25519, key).verify(message, signature),
            Self::P256(key) => {
                UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, key).verify(message, signature)
            }
            Self::Rsa { der, .. } => {
                UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, der).verify(message, signature)
            }
        };
        verified.is_ok()
    }

    /// Returns the name of the algorithm of its signatures.
    pub(super) fn algorithm(&self) -> &'static str {
        match self {
            Self::Ed25519(_) => "EdDSA",
            Self::P256(_) => "ES256",
            Self::Rsa { .. } => "RS256",
        }
    }

    /// Returns the id of the key, a digest of the public key, as kube-apiserver computes it
    /// (`keyIDFromPublicKey` in k8s.io/kubernetes v1.36.4 pkg/serviceaccount/jwt.go).
    pub(super) fn id(&self) -> String {
        let spki = match self {
            Self::Ed25519(key) => [&ED25519_PREFIX[..], key].concat(),
            Self::P256(key) => [&P256_PREFIX[..], key].concat(),
            Self::Rsa { der, .. } => {
                let bits = tagged(0x03, &[&[0][..], der].concat());
                tagged(0x30, &[&RSA_ALGORITHM[..], &bits].concat())
            }
        };
        encode(Sha256::digest(spki))
    }

    /// Returns the key as a JSON Web Key.
    pub(super) fn to_jwk(&self) -> Value {
        let mut key = match self {
            Self::Ed25519(key) => json!({ "kty": "OKP", "crv": "Ed25519", "x": encode(key) }),
            // The point begins with a byte that says that it is not compressed.
            Self::P256(key) => {
                json!({ "kty": "EC", "crv": "P-256", "x": encode(&key[1..33]), "y": encode(&key[33..]) })
            }
            Self::Rsa { modulus, exponent, .. } => {
                json!({ "kty": "RSA", "n": encode(modulus), "e": encode(exponent) })
            }
        };
        key["use"] = "sig".into();
        key["alg"] = self.algorithm().into();
        key["kid"] = self.id().into();
        key
    }
}

/// Returns the private key of an `EC PRIVATE KEY` (RFC 5915) as PKCS #8.
fn pkcs8_of_p256(der: &[u8]) -> Vec<u8> {
    tagged(0x30, &[&P256_PKCS8[..], &tagged(0x04, der)].concat())
}

/// Returns a DER value with its tag and its length.
fn tagged(tag: u8, value: &[u8]) -> Vec<u8> {
    let length = value.len().to_be_bytes();
    let significant: Vec<u8> = length.iter().copied().skip_while(|it| *it == 0).collect();
    let mut der = vec![tag];
    match (significant.as_slice(), u8::try_from(significant.len())) {
        ([], _) => der.push(0),
        (&[short], _) if short < 0x80 => der.push(short),
        (long, Ok(count)) => {
            der.push(0x80 | count);
            der.extend(long);
        }
        (_, Err(_)) => unreachable!("a length has at most eight bytes"),
    }
    der.extend(value);
    der
}

fn without_leading_zeros(number: &[u8]) -> Vec<u8> {
    number.iter().copied().skip_while(|it| *it == 0).collect()
}

/// Encodes bytes as the parts of a token are.
pub(super) fn encode(bytes: impl AsRef<[u8]>) -> String {
    BASE64_URL_SAFE_NO_PAD.encode(bytes)
}

#[cfg(test)]
mod tests {
    use rcgen::PKCS_ECDSA_P384_SHA384;

    use super::*;

    #[test]
    fn a_p256_key_signs_and_its_public_key_and_certificate_verify() {
        let pair = rcgen::KeyPair::generate().unwrap();
        let keys = ServiceAccountKeys::signing(pair.serialize_pem().as_bytes()).unwrap();
        let signature = keys.signer.sign(b"text");
        let other =
            ServiceAccountKeys::signing(rcgen::KeyPair::generate().unwrap().serialize_pem().as_bytes());
        let other = other.unwrap().also_accepting(pair.public_key_pem().as_bytes()).unwrap();
        assert_eq!(other.verifiers[1], keys.verifiers[0]);
        assert!(
            other.verifiers[1].verifies(b"text", &signature)
                && !other.verifiers[0].verifies(b"text", &signature)
        );
        assert!(!other.verifiers[1].verifies(b"next", &signature));
        let certificate = rcgen::CertificateParams::new([]).unwrap().self_signed(&pair).unwrap().pem();
        let other = other.also_accepting(certificate.as_bytes()).unwrap();
        assert_eq!(other.verifiers[2].to_jwk(), keys.verifiers[0].to_jwk());
    }

    #[test]
    fn texts_without_a_usable_key_are_rejected() {
        let large = rcgen::KeyPair::generate_for(&PKCS_ECDSA_P384_SHA384).unwrap();
        for (pem, why) in [
            (String::new(), "there is no private key in it"),
            (
                "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n".to_owned(),
                "is not an RSA key",
            ),
            (large.serialize_pem(), "is not an RSA key"),
            (large.public_key_pem(), "there is no private key in it"),
        ] {
            let error = ServiceAccountKeys::signing(pem.as_bytes()).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
        let keys =
            ServiceAccountKeys::signing(rcgen::KeyPair::generate().unwrap().serialize_pem().as_bytes());
        let error = keys.unwrap().also_accepting(large.public_key_pem().as_bytes()).unwrap_err().to_string();
        assert!(error.contains("its public key is not"), "{error}");
    }

    #[test]
    fn lengths_are_those_of_der() {
        for (length, head) in
            [(0, &[4, 0][..]), (127, &[4, 127]), (128, &[4, 0x81, 128]), (300, &[4, 0x82, 1, 44])]
        {
            assert!(tagged(4, &vec![7; length]).starts_with(head), "{length}");
        }
    }

    #[test]
    fn keys_are_not_shown() {
        let keys =
            ServiceAccountKeys::signing(rcgen::KeyPair::generate().unwrap().serialize_pem().as_bytes());
        assert!(format!("{keys:?}").contains("SigningKey(\"ES256\")"), "{keys:?}");
    }
}
