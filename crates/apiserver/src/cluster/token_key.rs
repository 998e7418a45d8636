//! The key that signs and verifies the tokens of service accounts, and its published form.

use parking_lot::Mutex;
use std::sync::Arc;

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use ring::rand::{SecureRandom, SystemRandom};
use ring::signature::{ED25519, Ed25519KeyPair, KeyPair, UnparsedPublicKey};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::source::Source;
use crate::user::User;

/// The DER prefix of an Ed25519 public key: the `SubjectPublicKeyInfo` of RFC 8410 without the key
/// itself.
const SPKI_PREFIX: [u8; 12] = [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];

/// The key that signs tokens, and the static tokens.
///
/// Without a listener the key is derived from the source of names, so that servers of the same seed
/// issue the same tokens. A server that listens always has a random key: a seed is not secret, and
/// with the key any client could sign tokens.
pub(crate) struct TokenKey {
    key: Arc<Ed25519KeyPair>,
    known: Mutex<Vec<(String, User)>>,
}

impl std::fmt::Debug for TokenKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TokenKey").finish_non_exhaustive()
    }
}

impl Clone for TokenKey {
    fn clone(&self) -> Self {
        Self { key: Arc::clone(&self.key), known: Mutex::new(self.known().clone()) }
    }
}

impl TokenKey {
    pub(super) fn new(source: &Source) -> Self {
        let seed = Sha256::digest(source.uid() + &source.uid());
        let key = Ed25519KeyPair::from_seed_unchecked(&seed).expect("a digest is as long as a seed");
        Self { key: Arc::new(key), known: Mutex::default() }
    }

    /// Creates a key from the randomness of the operating system, independent of any seed.
    pub(super) fn random() -> Self {
        let mut seed = [0; 32];
        SystemRandom::new().fill(&mut seed).expect("the operating system has randomness");
        let key = Ed25519KeyPair::from_seed_unchecked(&seed).expect("a seed has 32 bytes");
        Self { key: Arc::new(key), known: Mutex::default() }
    }

    pub(super) fn known(&self) -> parking_lot::MutexGuard<'_, Vec<(String, User)>> {
        self.known.lock()
    }

    pub(super) fn sign(&self, claims: &Value) -> String {
        let header = json!({ "alg": "EdDSA", "kid": self.id() }).to_string();
        let signed = format!("{}.{}", encode(header), encode(claims.to_string()));
        format!("{signed}.{}", encode(self.key.sign(signed.as_bytes())))
    }

    /// Returns the claims of a token if this server signed it.
    pub(super) fn claims(&self, token: &str) -> Option<Value> {
        let (signed, signature) = token.rsplit_once('.')?;
        let signature = BASE64_URL_SAFE_NO_PAD.decode(signature).ok()?;
        let public = UnparsedPublicKey::new(&ED25519, self.key.public_key());
        public.verify(signed.as_bytes(), &signature).ok()?;
        let claims = BASE64_URL_SAFE_NO_PAD.decode(signed.split_once('.')?.1).ok()?;
        serde_json::from_slice(&claims).ok()
    }

    /// Returns the public keys that verify tokens, as a JSON Web Key Set.
    pub(super) fn public_keys(&self) -> Value {
        let own = json!({
            "use": "sig", "kty": "OKP", "crv": "Ed25519", "alg": "EdDSA",
            "kid": self.id(), "x": encode(self.key.public_key()),
        });
        json!({ "keys": [own] })
    }

    /// Returns the id of the key, a digest of the public key, as kube-apiserver computes it
    /// (`keyIDFromPublicKey` in k8s.io/kubernetes v1.36.4 pkg/serviceaccount/jwt.go).
    fn id(&self) -> String {
        let digest = Sha256::new().chain_update(SPKI_PREFIX).chain_update(self.key.public_key());
        encode(digest.finalize())
    }
}

fn encode(bytes: impl AsRef<[u8]>) -> String {
    BASE64_URL_SAFE_NO_PAD.encode(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_key_verifies_a_token() {
        let key = TokenKey::new(&Source::real());
        let token = key.sign(&json!({ "sub": "a" }));
        assert_eq!(key.claims(&token), Some(json!({ "sub": "a" })));
        let published = &key.public_keys()["keys"][0];
        let decode = |text: &str| BASE64_URL_SAFE_NO_PAD.decode(text).unwrap();
        let (signed, signature) = token.rsplit_once('.').unwrap();
        let public = UnparsedPublicKey::new(&ED25519, decode(published["x"].as_str().unwrap()));
        public.verify(signed.as_bytes(), &decode(signature)).unwrap();
        let header: Value = serde_json::from_slice(&decode(token.split('.').next().unwrap())).unwrap();
        assert_eq!((&header["kid"], &header["alg"]), (&published["kid"], &published["alg"]));
        // Another server does not accept it.
        assert_eq!(TokenKey::new(&Source::real()).claims(&token), None);
        assert_eq!(key.claims(&token.replace('.', ".e")), None);
    }
}
