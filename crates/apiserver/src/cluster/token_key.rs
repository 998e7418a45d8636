//! What signs the tokens of service accounts, and reads what it has signed.

use std::sync::{Mutex, PoisonError};

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use ring::hmac;
use serde_json::{Value, json};

use super::source::Source;
use super::user::User;

/// What signs tokens, and the tokens that are known by heart.
pub struct TokenKey {
    key: hmac::Key,
    known: Mutex<Vec<(String, User)>>,
}

impl std::fmt::Debug for TokenKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TokenKey").finish_non_exhaustive()
    }
}

impl Clone for TokenKey {
    fn clone(&self) -> Self {
        Self { key: self.key.clone(), known: Mutex::new(self.known().clone()) }
    }
}

impl TokenKey {
    pub(super) fn new(source: &Source) -> Self {
        let secret = source.uid() + &source.uid();
        Self { key: hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes()), known: Mutex::default() }
    }

    pub(super) fn known(&self) -> std::sync::MutexGuard<'_, Vec<(String, User)>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn sign(&self, claims: &Value) -> String {
        let header = BASE64_URL_SAFE_NO_PAD.encode(json!({ "alg": "HS256", "typ": "JWT" }).to_string());
        let signed = format!("{header}.{}", BASE64_URL_SAFE_NO_PAD.encode(claims.to_string()));
        let signature = BASE64_URL_SAFE_NO_PAD.encode(hmac::sign(&self.key, signed.as_bytes()));
        format!("{signed}.{signature}")
    }

    /// What a token says, if this server signed it.
    pub(super) fn claims(&self, token: &str) -> Option<Value> {
        let (signed, signature) = token.rsplit_once('.')?;
        let signature = BASE64_URL_SAFE_NO_PAD.decode(signature).ok()?;
        hmac::verify(&self.key, signed.as_bytes(), &signature).ok()?;
        let claims = BASE64_URL_SAFE_NO_PAD.decode(signed.split_once('.')?.1).ok()?;
        serde_json::from_slice(&claims).ok()
    }
}
