//! User name and password as HTTP basic authentication.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::HeaderValue;
use secrecy::ExposeSecret;

use crate::config::BasicAuth;

/// Returns the header for a user and a password; `None` if the name has a colon, which the scheme
/// cannot express.
pub(super) fn basic(auth: &BasicAuth) -> Option<HeaderValue> {
    if auth.username.contains(':') {
        return None;
    }
    let pair = format!("{}:{}", auth.username, auth.password.expose_secret());
    let mut value = HeaderValue::from_str(&format!("Basic {}", STANDARD.encode(pair))).ok()?;
    value.set_sensitive(true);
    Some(value)
}

#[cfg(test)]
mod tests {
    use secrecy::SecretString;

    use super::*;

    fn header(username: &str, password: &str) -> Option<HeaderValue> {
        basic(&BasicAuth { username: username.to_owned(), password: SecretString::from(password) })
    }

    #[test]
    fn user_and_password_are_encoded_as_base64() {
        assert_eq!(header("Aladdin", "open sesame").unwrap(), "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==");
        assert_eq!(header("a", "b:c\n").unwrap(), "Basic YTpiOmMK");
        assert_eq!(header("", "").unwrap(), "Basic Og==");
    }

    #[test]
    fn a_name_with_a_colon_would_change_the_password() {
        assert!(header("a:b", "c").is_none());
    }

    #[test]
    fn the_header_hides_its_value() {
        assert_eq!(format!("{:?}", header("a", "b").unwrap()), "Sensitive");
    }
}
