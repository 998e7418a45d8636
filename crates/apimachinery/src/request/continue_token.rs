//! The continue token between two pages of a list, in kube-apiserver's format (k8s.io/apiserver
//! v0.36.4 pkg/storage/continue.go).

use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use base64::{DecodeError, Engine};
use dogwatch_core::ObjectKey;
use serde::{Deserialize, Serialize};

use crate::api_error::ApiError;

/// The position at which a list continues, and its version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContinueToken {
    /// The version of the list; `None` continues with the current state.
    pub version: Option<u64>,
    /// The last object of the previous page.
    pub after: ObjectKey,
    /// True for the token of a copy of another server. kube-apiserver ignores the mark.
    pub is_of_copy: bool,
}

#[derive(Serialize, Deserialize)]
struct WireToken {
    v: String,
    #[serde(default)]
    rv: i64,
    #[serde(default)]
    start: String,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    copy: bool,
}

const FORMAT: &str = "meta.k8s.io/v1";
/// The version in a token that continues with the current state.
const INCONSISTENT: i64 = -1;

impl ContinueToken {
    /// Encodes the token for clients.
    pub fn encode(&self) -> String {
        let rv = self.version.map_or(INCONSISTENT, |it| i64::try_from(it).unwrap_or(i64::MAX));
        // The key followed by NUL is the next larger key.
        let wire = WireToken {
            v: FORMAT.to_owned(),
            rv,
            start: format!("/{}\u{0}", self.after),
            copy: self.is_of_copy,
        };
        URL_SAFE_NO_PAD.encode(serde_json::to_vec(&wire).expect("strings and a number serialize to JSON"))
    }

    /// Decodes the token of a client.
    ///
    /// # Errors
    ///
    /// Returns 400, with kube-apiserver's messages, for any token that this server did not write.
    pub fn decode(token: &str) -> Result<Self, ApiError> {
        let refuse = |why: &str| ApiError::bad_request(format!("invalid continue token: {why}"));
        let json = URL_SAFE_NO_PAD.decode(token).map_err(|why| {
            refuse(&format!(
                "continue key is not valid: illegal base64 data at input byte {}",
                error_position(why)
            ))
        })?;
        let wire: WireToken =
            serde_json::from_slice(&json).map_err(|_| refuse("continue key is not valid: not JSON"))?;
        if wire.v != FORMAT {
            return Err(refuse(&format!(
                "continue key is not valid: server does not recognize this encoded version {:?}",
                wire.v
            )));
        }
        if wire.rv == 0 {
            return Err(refuse(
                "continue key is not valid: incorrect encoded start resourceVersion (version meta.k8s.io/v1)",
            ));
        }
        let start = wire.start.trim_start_matches('/').trim_end_matches('\u{0}');
        let after = start.parse().map_err(|_| {
            refuse("continue key is not valid: encoded start key empty (version meta.k8s.io/v1)")
        })?;
        Ok(Self { version: u64::try_from(wire.rv).ok(), after, is_of_copy: wire.copy })
    }
}

/// Returns the position at which a text stops being base64, as Go's `encoding/base64` counts it.
fn error_position(error: DecodeError) -> usize {
    match error {
        DecodeError::InvalidByte(at, _) => at,
        DecodeError::InvalidLastSymbol { offset, .. } => offset,
        DecodeError::InvalidLength(length) => length.saturating_sub(length % 4),
        DecodeError::InvalidPadding => 0,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_token_has_the_format_of_kube_apiserver() {
        let token =
            ContinueToken { version: Some(7), after: ObjectKey::namespaced("a", "b"), is_of_copy: false };
        let json = URL_SAFE_NO_PAD.decode(token.encode()).expect("base64");
        assert_eq!(String::from_utf8_lossy(&json), r#"{"v":"meta.k8s.io/v1","rv":7,"start":"/a/b\u0000"}"#);
    }

    #[test]
    fn foreign_tokens_are_rejected() {
        let encode = |text: &str| URL_SAFE_NO_PAD.encode(text);
        for token in [
            "!".to_owned(),
            encode("nonsense"),
            encode(r#"{"v":"other","rv":1,"start":"/a"}"#),
            encode(r#"{"v":"meta.k8s.io/v1","rv":0,"start":"/a"}"#),
            encode(r#"{"v":"meta.k8s.io/v1","rv":1,"start":""}"#),
        ] {
            let refusal = ContinueToken::decode(&token).expect_err("a foreign token");
            assert!(
                refusal.0.code == 400 && refusal.0.message.starts_with("invalid continue token: "),
                "{refusal}"
            );
        }
    }

    proptest! {
        #[test]
        fn decode_after_encode_is_identity(
            version in proptest::option::of(1..u64::MAX >> 1),
            name in "[a-z0-9.-]{1,20}",
            is_of_copy: bool,
        ) {
            let token = ContinueToken { version, after: ObjectKey::namespaced("ns", &name), is_of_copy };
            prop_assert_eq!(ContinueToken::decode(&token.encode()), Ok(token));
        }

        #[test]
        fn decoding_never_panics(text in ".{0,60}") {
            let _ = ContinueToken::decode(&text);
        }
    }
}
