//! The two claims of a JWT that the client reads: its expiry and its subject. Only the server
//! verifies signatures.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::Timestamp;
use serde::Deserialize;
use serde::de::DeserializeOwned;

/// The expiry of an id-token.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Expiry {
    /// The token expires at this time.
    At(Timestamp),
    /// The token has no `exp` claim.
    Unstated,
}

/// Reads the `exp` claim; `None` if the text is not a JWT.
pub(super) fn expiry(token: &str) -> Option<Expiry> {
    #[derive(Deserialize)]
    struct Claims {
        exp: Option<f64>,
    }
    match claims::<Claims>(token)?.exp {
        None => Some(Expiry::Unstated),
        // Saturates: a time beyond the range of `Timestamp` becomes its limit.
        Some(exp) => Some(Expiry::At(Timestamp::from_second(exp as i64).unwrap_or(if exp > 0.0 {
            Timestamp::MAX
        } else {
            Timestamp::MIN
        }))),
    }
}

/// Reads the `sub` claim. `None` if the text is not a JWT, or has no such claim.
pub(super) fn subject(token: &str) -> Option<String> {
    #[derive(Deserialize)]
    struct Claims {
        sub: Option<String>,
    }
    claims::<Claims>(token)?.sub
}

fn claims<T: DeserializeOwned>(token: &str) -> Option<T> {
    let mut parts = token.split('.');
    let (_header, claims, _signature) = (parts.next()?, parts.next()?, parts.next()?);
    if parts.next().is_some() {
        return None;
    }
    let claims = URL_SAFE_NO_PAD.decode(claims.trim_end_matches('=')).ok()?;
    serde_json::from_slice(&claims).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(claims: &str) -> String {
        format!("e30.{}.c2ln", URL_SAFE_NO_PAD.encode(claims))
    }

    #[test]
    fn the_expiry_is_read_from_the_middle_part() {
        let second = |second| Some(Expiry::At(Timestamp::from_second(second).unwrap()));
        assert_eq!(expiry(&token(r#"{"exp":1700000000,"sub":"jane"}"#)), second(1_700_000_000));
        assert_eq!(expiry(&token(r#"{"exp":1700000000.9}"#)), second(1_700_000_000));
        assert_eq!(expiry(&token(r#"{"exp":1e300}"#)), Some(Expiry::At(Timestamp::MAX)));
        assert_eq!(expiry(&token(r#"{"exp":-1e300}"#)), Some(Expiry::At(Timestamp::MIN)));
        assert_eq!(expiry(&token(r#"{"sub":"jane"}"#)), Some(Expiry::Unstated));
        assert_eq!(subject(&token(r#"{"sub":"jane","exp":1}"#)).as_deref(), Some("jane"));
        assert_eq!(subject(&token(r#"{"exp":1}"#)), None);
    }

    #[test]
    fn text_that_is_not_a_jwt_has_no_expiry() {
        let cases = ["", "opaque", "a.b", "a.b.c.d", "e30.!!.c2ln"].map(str::to_owned);
        for text in cases.into_iter().chain([token("[]"), token(r#"{"exp":"soon"}"#), token("{")]) {
            assert_eq!(expiry(&text), None, "{text}");
        }
    }
}
