//! Impersonation: the `Impersonate-*` headers (rule AU-1).

use std::fmt::Write;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::future::{Either, Ready, ready};
use http::{HeaderMap, HeaderName, HeaderValue, Request};
use tower_layer::Layer;
use tower_service::Service;

use super::error::AuthError;
use crate::body::BoxError;
use crate::config::Impersonation;

const USER: HeaderName = HeaderName::from_static("impersonate-user");
const UID: HeaderName = HeaderName::from_static("impersonate-uid");
const GROUP: HeaderName = HeaderName::from_static("impersonate-group");
const EXTRA: &str = "impersonate-extra-";

/// A layer that adds the impersonation headers to requests.
///
/// An [`Impersonation`] among the extensions of a request replaces the layer's own completely; an
/// empty one turns impersonation off. A request that already has `Impersonate-User` is passed on
/// unchanged.
///
/// ```
/// use dogwatch_client::auth::ImpersonateLayer;
/// use dogwatch_client::config::Impersonation;
///
/// let jane = Impersonation { user: Some("jane".to_owned()), ..Impersonation::default() };
/// let layer = ImpersonateLayer::new(&jane)?;
/// # let _ = layer;
/// let groups = Impersonation { groups: vec!["admins".to_owned()], ..Impersonation::default() };
/// assert!(ImpersonateLayer::new(&groups).is_err()); // groups of no user
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct ImpersonateLayer {
    headers: Arc<[(HeaderName, HeaderValue)]>,
}

/// A service that adds the impersonation headers to its requests.
///
/// ```
/// use dogwatch_client::BoxError;
/// use dogwatch_client::auth::ImpersonateLayer;
/// use dogwatch_client::config::Impersonation;
/// use http::{HeaderMap, Request};
/// use tower::{Layer, ServiceExt};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let echo = tower::service_fn(|it: Request<()>| async move {
///     Ok::<HeaderMap, BoxError>(it.headers().clone())
/// });
/// let jane = Impersonation { user: Some("jane".to_owned()), ..Impersonation::default() };
/// let service = ImpersonateLayer::new(&jane)?.layer(echo);
/// let headers = service.oneshot(Request::new(())).await.expect("the echo does not fail");
/// assert_eq!(headers["impersonate-user"], "jane");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct ImpersonateService<S> {
    inner: S,
    headers: Arc<[(HeaderName, HeaderValue)]>,
}

impl ImpersonateLayer {
    /// Creates a layer that impersonates `default` unless a request overrides it. Returns an error
    /// if `default` has attributes without a user, or characters that are not valid in a header.
    pub fn new(default: &Impersonation) -> Result<Self, AuthError> {
        Ok(Self { headers: headers(default)?.into() })
    }
}

impl<S> Layer<S> for ImpersonateLayer {
    type Service = ImpersonateService<S>;

    fn layer(&self, inner: S) -> Self::Service {
        ImpersonateService { inner, headers: self.headers.clone() }
    }
}

impl<S, B> Service<Request<B>> for ImpersonateService<S>
where
    S: Service<Request<B>, Error = BoxError>,
{
    type Response = S::Response;
    type Error = BoxError;
    type Future = Either<S::Future, Ready<Result<S::Response, BoxError>>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        if !request.headers().contains_key(USER) {
            match request.extensions().get::<Impersonation>().map(headers) {
                None => add(request.headers_mut(), &self.headers),
                Some(Ok(own)) => add(request.headers_mut(), &own),
                Some(Err(error)) => return Either::Right(ready(Err(error.into()))),
            }
        }
        Either::Left(self.inner.call(request))
    }
}

fn add(target: &mut HeaderMap, headers: &[(HeaderName, HeaderValue)]) {
    for (name, value) in headers {
        target.append(name, value.clone());
    }
}

/// Returns the headers of an impersonation, in a fixed order; none for an empty one.
fn headers(who: &Impersonation) -> Result<Vec<(HeaderName, HeaderValue)>, AuthError> {
    let misconfigured = |what: &str| AuthError::Misconfigured(format!("cannot impersonate: {what}"));
    let value = |text: &str| {
        HeaderValue::from_bytes(text.as_bytes())
            .map_err(|_| misconfigured("a name or value has characters that are not valid in a header"))
    };
    let Some(user) = who.user.as_deref().filter(|user| !user.is_empty()) else {
        if who.uid.is_some() || !who.groups.is_empty() || !who.extra.is_empty() {
            return Err(misconfigured("a uid, groups or extra attributes need a user"));
        }
        return Ok(Vec::new());
    };
    let mut headers = vec![(USER, value(user)?)];
    if let Some(uid) = who.uid.as_deref().filter(|uid| !uid.is_empty()) {
        headers.push((UID, value(uid)?));
    }
    for group in &who.groups {
        headers.push((GROUP, value(group)?));
    }
    for (key, values) in &who.extra {
        let name = HeaderName::try_from(format!("{EXTRA}{}", escape(key)))
            .map_err(|_| misconfigured("the key of an extra attribute is too long"))?;
        for text in values {
            headers.push((name.clone(), value(text)?));
        }
    }
    Ok(headers)
}

/// Percent-encodes every byte that is not valid in a header name, and `%` itself. The server
/// decodes it, and lowercases the key, like any header name. `headerKeyEscape` in client-go v0.36.4
/// `transport/round_trippers.go`.
fn escape(key: &str) -> String {
    let mut escaped = String::with_capacity(key.len());
    for byte in key.bytes() {
        if byte.is_ascii_alphanumeric() || b"!#$&'*+-.^_`|~".contains(&byte) {
            escaped.push(char::from(byte));
        } else {
            write!(escaped, "%{byte:02X}").expect("writing to a String cannot fail");
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use percent_encoding::percent_decode_str;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn au_1_keys_of_extra_attributes_are_percent_escaped() {
        let cases = [
            ("scopes", "scopes"),
            ("example.com/project", "example.com%2Fproject"),
            ("100%", "100%25"),
            ("a b", "a%20b"),
            ("schlüssel", "schl%C3%BCssel"),
            ("a:b=c", "a%3Ab%3Dc"),
            ("!#$&'*+-.^_`|~", "!#$&'*+-.^_`|~"),
        ];
        for (key, expected) in cases {
            assert_eq!(escape(key), expected);
        }
    }

    proptest! {
        #[test]
        fn every_key_becomes_a_header_name_that_the_server_can_decode(key in ".{0,40}") {
            let escaped = escape(&key);
            let name = HeaderName::try_from(format!("{EXTRA}{escaped}"));
            prop_assert!(name.is_ok());
            prop_assert_eq!(percent_decode_str(&escaped).decode_utf8().unwrap(), key);
        }
    }

    #[test]
    fn kc_8_attributes_without_a_user_are_an_error() {
        let groups = Impersonation { groups: vec!["a".to_owned()], ..Impersonation::default() };
        let uid = Impersonation { uid: Some("1".to_owned()), ..Impersonation::default() };
        assert!(headers(&groups).is_err());
        assert!(headers(&uid).is_err());
        assert_eq!(headers(&Impersonation::default()).unwrap(), []);
    }

    #[test]
    fn a_name_that_would_add_a_header_is_rejected() {
        let user = Impersonation { user: Some("jane\r\nX-Evil: 1".to_owned()), ..Impersonation::default() };
        assert!(headers(&user).is_err());
    }
}
