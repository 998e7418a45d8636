//! Bearer tokens: a fixed one, or a file that is read again (rule AU-2).

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use http::HeaderValue;
use secrecy::{ExposeSecret, SecretString};
use tokio::time::Instant;

use super::error::AuthError;
use super::issued::{Issued, Lifetime};
use super::renew::{Renewing, Source};

/// The time that a token from a file is used before the file is read again. client-go caches it for
/// 60 s with a leeway of 10 s (v0.36.4 `transport/token_source.go`). A kubelet rotates tokens well
/// before they expire.
const READ_AGAIN_AFTER: Duration = Duration::from_secs(50);

/// A file with a bearer token.
pub(super) struct TokenFile {
    path: PathBuf,
}

/// Returns the header for a token; `None` if the token has characters that are not valid in a
/// header.
pub(super) fn bearer(token: &SecretString) -> Option<HeaderValue> {
    let mut value = HeaderValue::from_str(&format!("Bearer {}", token.expose_secret())).ok()?;
    value.set_sensitive(true);
    Some(value)
}

impl TokenFile {
    /// Creates a credential that reads `path` when the first request needs it, and then about once
    /// a minute. `first` is used while the file cannot be read.
    pub(super) fn follow(path: PathBuf, first: Option<HeaderValue>) -> Renewing<Self> {
        let first = first.map(|header| Issued {
            header: Some(header),
            identity: None,
            lifetime: Lifetime::ReloadAfter { time: Instant::now() },
        });
        Renewing::new(Self { path }, first)
    }

    async fn read(&self) -> io::Result<HeaderValue> {
        let unusable = |why| io::Error::new(io::ErrorKind::InvalidData, why);
        let text = SecretString::from(tokio::fs::read_to_string(&self.path).await?);
        let token = SecretString::from(text.expose_secret().trim());
        if token.expose_secret().is_empty() {
            return Err(unusable("the file is empty"));
        }
        bearer(&token).ok_or_else(|| unusable("the token has characters that are not valid in a header"))
    }
}

impl Source for TokenFile {
    const NAME: &'static str = "token file";

    /// The rotated file may arrive late, and the old token may still be accepted.
    const KEEPS_REJECTED: bool = true;

    async fn renew(&self) -> Result<Issued, AuthError> {
        let header = self
            .read()
            .await
            .map_err(|source| AuthError::TokenFile { path: self.path.clone(), source: Arc::new(source) })?;
        let lifetime = Lifetime::ReloadAfter { time: Instant::now() + READ_AGAIN_AFTER };
        Ok(Issued { header: Some(header), identity: None, lifetime })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bearer_header_hides_its_value() {
        let header = bearer(&SecretString::from("s3cret")).unwrap();
        assert_eq!(header, "Bearer s3cret");
        assert_eq!(format!("{header:?}"), "Sensitive");
    }

    #[test]
    fn a_token_that_would_break_the_header_is_rejected() {
        for token in ["a\nb", "a\r\nX-Evil: 1", "a\0b", "a\x7f"] {
            assert!(bearer(&SecretString::from(token)).is_none(), "{token:?}");
        }
    }
}
