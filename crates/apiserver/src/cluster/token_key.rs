//! The keys that sign and verify the tokens of service accounts, the issuers of the tokens, and the
//! static tokens.

use parking_lot::Mutex;
use std::sync::Arc;

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use ring::rand::{SecureRandom, SystemRandom};
use ring::signature::Ed25519KeyPair;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::signing_key::{ServiceAccountKeys, SigningKey, encode};
use super::source::Source;
use crate::user::User;

/// The issuer of tokens by default.
const ISSUER: &str = "https://kubernetes.default.svc";

/// The keys of tokens, and the static tokens.
///
/// Without a listener the key is derived from the source of names, so that servers of the same seed
/// issue the same tokens. A server that listens always has a random key, unless it is given one: a
/// seed is not secret, and with the key any client could sign tokens.
pub(crate) struct TokenKey {
    keys: Arc<ServiceAccountKeys>,
    /// The issuers whose tokens are accepted; the first one issues them.
    issuers: Arc<Vec<String>>,
    known: Mutex<Vec<(String, User)>>,
}

impl std::fmt::Debug for TokenKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TokenKey").finish_non_exhaustive()
    }
}

impl Clone for TokenKey {
    fn clone(&self) -> Self {
        let known = Mutex::new(self.known().clone());
        Self { keys: Arc::clone(&self.keys), issuers: Arc::clone(&self.issuers), known }
    }
}

impl TokenKey {
    pub(super) fn new(source: &Source) -> Self {
        let seed = Sha256::digest(source.uid() + &source.uid());
        Self::of(Ed25519KeyPair::from_seed_unchecked(&seed).expect("a digest is as long as a seed"))
    }

    /// Creates a key from the randomness of the operating system, independent of any seed.
    pub(super) fn random() -> Self {
        let mut seed = [0; 32];
        SystemRandom::new().fill(&mut seed).expect("the operating system has randomness");
        Self::of(Ed25519KeyPair::from_seed_unchecked(&seed).expect("a seed has 32 bytes"))
    }

    fn of(key: Ed25519KeyPair) -> Self {
        Self {
            keys: Arc::new(ServiceAccountKeys::of(SigningKey::Ed25519(key))),
            issuers: Arc::new(vec![ISSUER.to_owned()]),
            known: Mutex::default(),
        }
    }

    /// Replaces the keys.
    pub(super) fn with_keys(self, keys: ServiceAccountKeys) -> Self {
        Self { keys: Arc::new(keys), ..self }
    }

    /// Replaces the issuers.
    pub(super) fn with_issuers(self, issuers: Vec<String>) -> Self {
        Self { issuers: Arc::new(issuers), ..self }
    }

    pub(super) fn known(&self) -> parking_lot::MutexGuard<'_, Vec<(String, User)>> {
        self.known.lock()
    }

    /// Returns the issuers whose tokens are accepted.
    pub(super) fn issuers(&self) -> &[String] {
        &self.issuers
    }

    /// Returns the issuer of new tokens.
    pub(super) fn issuer(&self) -> &str {
        self.issuers.first().map_or(ISSUER, String::as_str)
    }

    pub(super) fn sign(&self, claims: &Value) -> String {
        let signer = &self.keys.signer;
        let header = json!({ "alg": signer.algorithm(), "kid": signer.verifying().id() }).to_string();
        let signed = format!("{}.{}", encode(header), encode(claims.to_string()));
        format!("{signed}.{}", encode(signer.sign(signed.as_bytes())))
    }

    /// Returns the claims of a token if one of the keys signed it.
    pub(super) fn claims(&self, token: &str) -> Option<Value> {
        let (signed, signature) = token.rsplit_once('.')?;
        let signature = BASE64_URL_SAFE_NO_PAD.decode(signature).ok()?;
        let is_ours = |it: &super::signing_key::VerifyingKey| it.verifies(signed.as_bytes(), &signature);
        if !self.keys.verifiers.iter().any(is_ours) {
            return None;
        }
        let claims = BASE64_URL_SAFE_NO_PAD.decode(signed.split_once('.')?.1).ok()?;
        serde_json::from_slice(&claims).ok()
    }

    /// Returns the public keys that verify tokens, as a JSON Web Key Set.
    pub(super) fn public_keys(&self) -> Value {
        let mut keys: Vec<Value> = Vec::new();
        for key in self.keys.verifiers.iter().map(|it| it.to_jwk()) {
            // The key that signs is often also among those that verify.
            if !keys.contains(&key) {
                keys.push(key);
            }
        }
        json!({ "keys": keys })
    }

    /// Returns the names of the algorithms of the keys.
    pub(super) fn algorithms(&self) -> Vec<&'static str> {
        let mut names: Vec<_> = self.keys.verifiers.iter().map(|it| it.algorithm()).collect();
        names.sort_unstable();
        names.dedup();
        names
    }
}

#[cfg(test)]
mod tests {
    use ring::signature::{ED25519, UnparsedPublicKey};

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

    #[test]
    fn a_server_that_has_the_key_of_another_accepts_its_tokens() {
        let pem = rcgen::KeyPair::generate().unwrap().serialize_pem();
        let keys = ServiceAccountKeys::signing(pem.as_bytes()).unwrap();
        let first = TokenKey::new(&Source::real()).with_keys(keys.clone());
        let accepting = keys.also_accepting(pem.as_bytes()).unwrap();
        let second =
            TokenKey::new(&Source::real()).with_keys(accepting).with_issuers(vec!["https://a".to_owned()]);
        let token = first.sign(&json!({ "sub": "a" }));
        assert_eq!(second.claims(&token), Some(json!({ "sub": "a" })));
        assert_eq!(second.public_keys()["keys"].as_array().unwrap().len(), 1);
        assert_eq!((second.algorithms(), second.issuer()), (vec!["ES256"], "https://a"));
    }
}
